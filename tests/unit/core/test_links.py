"""Web addresses: which two are one, and where one ends in a sentence."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.properties.effort import examples

from tidelore.core.links import MAX_LENGTH, find_urls, normalise


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://Example.COM/Path", "https://example.com/Path"),
        ("https://example.com", "https://example.com/"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://example.com:443/x", "https://example.com/x"),
        ("https://example.com:8443/x", "https://example.com:8443/x"),
        ("http://example.com:443/x", "http://example.com:443/x"),
        ("https://example.com:/x", "https://example.com/x"),
        ("https://example.com./x", "https://example.com/x"),
        ("https://user:word@example.com/", "https://example.com/"),
        ("  https://example.com/x  ", "https://example.com/x"),
        ("www.example.com/x", "https://www.example.com/x"),
        ("https://münchen.example/straße", "https://xn--mnchen-3ya.example/stra%C3%9Fe"),
        ("https://xn--mnchen-3ya.example/", "https://xn--mnchen-3ya.example/"),
        ("https://faß.example/", "https://xn--fa-hia.example/"),
        ("https://%65xample.com/", "https://example.com/"),
        ("http://[::0001]:8080/", "http://[::1]:8080/"),
        ("http://127.0.0.1/x", "http://127.0.0.1/x"),
    ],
)
def test_scheme_host_and_port_are_normalised(url: str, expected: str) -> None:
    assert normalise(url) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example/x#part", "https://a.example/x"),
        ("https://a.example/x#", "https://a.example/x"),
        ("https://a.example/x?", "https://a.example/x"),
        ("https://a.example/x?&&", "https://a.example/x"),
        ("https://a.example/x?a=1&&b=", "https://a.example/x?a=1&b="),
        ("https://a.example/x?b=2&a=1", "https://a.example/x?b=2&a=1"),
        ("https://a.example/x?utm_source=s&UTM_Medium=m", "https://a.example/x"),
        ("https://a.example/x?id=7&fbclid=abc&gclid=d&igsh=e", "https://a.example/x?id=7"),
        ("https://a.example/x?%75tm_source=s", "https://a.example/x"),
        ("https://a.example/x?utm=1", "https://a.example/x?utm=1"),
        ("https://a.example/x?q=fbclid", "https://a.example/x?q=fbclid"),
        ("https://a.example/%7euser/%e4", "https://a.example/~user/%E4"),
        ("https://a.example/a%2fb%zz%", "https://a.example/a%2Fb%25zz%25"),
        ("https://a.example/a b", None),
        ("https://a.example/{a}|b", "https://a.example/%7Ba%7D%7Cb"),
        ("https://a.example/a/./b/../c", "https://a.example/a/c"),
        ("https://a.example/a/%2e%2e/c/..", "https://a.example/"),
        ("https://a.example/../..", "https://a.example/"),
        ("https://a.example//a", "https://a.example//a"),
        ("https://a.example?x=1/../2", "https://a.example/?x=1/../2"),
    ],
)
def test_path_query_and_fragment_are_normalised(url: str, expected: str | None) -> None:
    assert normalise(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "mailto:a@example.com",
        "at://did:plc:abc/app.bsky.feed.post/1",
        "javascript:alert(1)",
        "https://",
        "https:///x",
        "https://[bad/",
        "https://a.example:99999/",
        "https://a.example:x/",
        "https://-bad.example/",
        "https://a..example/",
        "https://a.example/\x00",
        "https://a.example/\u200b",
        "https://" + "a" * 64 + ".example/",
        "https://%ff.example/",
        "https://a.example/" + "x" * MAX_LENGTH,
        "https://a.example/\ud800",
        "https://\u2603\ufe0f\u200d.example/",
    ],
)
def test_an_unusable_web_address_is_not_normalised(url: str) -> None:
    assert normalise(url) is None


_PIECES = st.sampled_from(
    [*"aZ0-._~!$&'()*+,;=:@/?#%[]{}| ü\u00df\u4e2d", "%", "%2", "%2e", "%2E", "%41", "%zz", "%25", "..", ".", "//"]  # noqa: RUF005 - three lines are easier to read
    + ["utm_x=1", "&", "fbclid=", "xn--", "www.", ":80", ":443", "@", "\u0131", "\u2024", "\uff0e"]
)


@examples(400, 20_000)
@given(st.sampled_from(["http://", "https://", "HTTPS://", "www."]), st.lists(_PIECES, max_size=14).map("".join))
@example("https://", "a.example/%2%35")
@example("https://", "a.example/%252e%252e/")
@example("https://", "a\u2024example/")
def test_normalising_is_idempotent_and_gives_ascii(scheme: str, rest: str) -> None:
    for host in ("", "a.example/"):
        once = normalise(f"{scheme}{host}{rest}")
        if once is not None:
            assert normalise(once) == once
            assert once.isascii()
            assert len(once) <= MAX_LENGTH


@examples(200, 5_000)
@given(st.lists(st.sampled_from(["a=1", "b", "c=%20", "d=x/y"]), max_size=4), st.data())
def test_tracking_parameters_are_removed_from_links(pairs: list[str], data: st.DataObject) -> None:
    crediting = data.draw(st.lists(st.sampled_from(["utm_source=q", "fbclid=1", "gclid=2", "mc_eid=3"]), max_size=3))
    mixed = data.draw(st.permutations(range(len(pairs) + len(crediting))))
    everything = [*pairs, *crediting]
    kept = [everything[index] for index in mixed if everything[index] in pairs]
    shown = "&".join(everything[index] for index in mixed)
    assert normalise(f"https://a.example/x?{shown}") == normalise(f"https://a.example/x?{'&'.join(kept)}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing here", ()),
        ("see https://a.example/x.", ("https://a.example/x",)),
        ("(see https://a.example/x)", ("https://a.example/x",)),
        ("https://a.example/x_(y) and so on", ("https://a.example/x_(y)",)),
        ("[https://a.example/x], https://b.example!", ("https://a.example/x", "https://b.example")),
        ("“https://a.example/x”", ("https://a.example/x",)),
        ('<a href="https://a.example/x">', ("https://a.example/x",)),
        ("HTTPS://A.example", ("HTTPS://A.example",)),
        ("at www.a.example/x, or www. and www.x", ("www.a.example/x",)),
        ("https://a.example/x https://a.example/x", ("https://a.example/x",)),
        ("cut: https://a.example/a-long-pa…", ()),
        ("and so on: https://a.example/x...", ("https://a.example/x",)),
        ("größer 🚢https://a.example/ü?q=ö 🚢", ("https://a.example/ü?q=ö",)),
        ("nohttps://a.example", ()),
        ("example.com", ()),
    ],
)
def test_a_url_is_found_without_surrounding_punctuation(text: str, expected: tuple[str, ...]) -> None:
    assert find_urls(text) == expected
