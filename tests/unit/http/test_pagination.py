"""Where the next page is: the Link header first, then x-next-page, then a full page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelore.http.pagination import Link, NextPage, next_page, parse_link, same_origin

URL = "https://gitlab.example.com/api/v4/projects/1/issues?per_page=100&page=2"


def _next(link: str, *, url: str = URL, count: int = 0, **more: str) -> NextPage | None:
    return next_page({"link": link, **more}, url, count, 100)


def _targets(header: str, relation: str = "next") -> list[str]:
    return [link.target for link in parse_link(header) if relation in link.relations]


def test_commas_and_semicolons_inside_a_link_target_are_kept() -> None:
    header = '<https://h/x?a=1,2;b=3>; rel="prev", <https://h/x?a=4,5;b=6>; rel="next"'
    assert _targets(header) == ["https://h/x?a=4,5;b=6"]


def test_commas_semicolons_and_escapes_inside_a_quoted_parameter_are_kept() -> None:
    header = r'<https://h/1>; title="a, <https://evil/>; rel=\"next\"; \\"; rel="last", <https://h/2>; rel=next'
    assert _targets(header) == ["https://h/2"]
    assert _targets(header, "last") == ["https://h/1"]


@pytest.mark.parametrize(
    "parameters",
    ['rel="next last"', 'rel="LAST Next"', "REL=NEXT", 'rel = "next"', 'x;rel="next"', "x=;rel=next"],
)
def test_link_relations_are_parsed_in_every_spelling(parameters: str) -> None:
    assert _targets(f"<https://h/2>; {parameters}") == ["https://h/2"]


def test_the_first_of_two_rel_parameters_counts() -> None:
    assert parse_link('<https://h/2>; rel="prev"; rel="next"') == [Link("https://h/2", frozenset({"prev"}))]


@pytest.mark.parametrize(
    "header",
    [
        "",
        ",",
        "<",
        "<https://h/2",
        "https://h/2; rel=next",
        ";;;,,,",
        '"<https://h/2>; rel=next',
        "<>rel=next",
    ],
)
def test_malformed_link_headers_give_no_link(header: str) -> None:
    assert _targets(header) == []


def test_a_link_after_a_malformed_entry_is_still_found() -> None:
    assert _targets('garbage "a,b", ,, <https://h/2> ; rel="next"') == ["https://h/2"]


def test_several_headers_joined_by_a_comma_are_one_list() -> None:
    assert _targets('<https://h/1>; rel=first, <https://h/3>; rel="next"') == ["https://h/3"]


def test_an_unterminated_quote_ends_with_the_header() -> None:
    assert _targets('<https://h/2>; rel="next') == ["https://h/2"]


@given(st.text(alphabet=st.sampled_from('<>;,="\\ \tnextrl:/?h[]2é\r\n'), max_size=80))
def test_the_link_parser_never_raises(header: str) -> None:
    for link in parse_link(header):
        assert ">" not in link.target
    next_page({"link": header, "x-next-page": header}, URL, 100, 100)


@given(st.text(max_size=200), st.text(max_size=30))
def test_the_next_page_decision_never_raises(header: str, told: str) -> None:
    decided = next_page({"link": header, "x-next-page": told}, URL, 0, 100)
    assert decided is None or decided.url != URL


_TEXT = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=20)


@given(
    st.lists(
        st.tuples(_TEXT.map(lambda t: t.replace(">", "").strip()), _TEXT, st.sampled_from(["next", "prev", "last"]))
    )
)
def test_a_well_formed_link_header_round_trips(links: list[tuple[str, str, str]]) -> None:
    def quote(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    header = ", ".join(f"<{target}>; title={quote(title)}; rel={quote(rel)}" for target, title, rel in links)
    assert [(link.target, set(link.relations)) for link in parse_link(header)] == [(t, {r}) for t, _, r in links]


def test_the_next_link_takes_precedence_over_all_other_headers() -> None:
    decided = _next(
        '<https://gitlab.example.com/repositories/9/issues?page=3>; rel="next"',
        count=100,
        **{"x-next-page": "7"},
    )
    assert decided == NextPage("https://gitlab.example.com/repositories/9/issues?page=3", "link")


@pytest.mark.parametrize(
    ("reference", "resolved"),
    [
        ("?page=3", "https://gitlab.example.com/api/v4/projects/1/issues?page=3"),
        ("/api/v4/x?page=3", "https://gitlab.example.com/api/v4/x?page=3"),
        ("events?page=3", "https://gitlab.example.com/api/v4/projects/1/events?page=3"),
    ],
)
def test_a_relative_link_is_resolved_against_the_request(reference: str, resolved: str) -> None:
    assert _next(f"<{reference}>; rel=next") == NextPage(resolved, "link")


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/x?page=3",
        "//evil.example/x?page=3",
        "http://gitlab.example.com/x",
        "https://gitlab.example.com:8443/x",
    ],
)
def test_a_link_to_another_origin_is_reported(target: str) -> None:
    decided = _next(f"<{target}>; rel=next")
    assert decided is not None
    assert decided.foreign


@pytest.mark.parametrize(
    "same", [URL, URL + "#top", URL.replace("example.com", "EXAMPLE.com:443"), "?per_page=100&page=2"]
)
def test_a_next_link_to_the_same_page_is_refused(same: str) -> None:
    assert _next(f"<{same}>; rel=next", count=3) is None


def test_after_a_refused_link_the_next_rule_decides() -> None:
    loop = f"<{URL}>; rel=next, <{URL}>; rel=first"
    assert _next(loop, count=3, **{"x-next-page": "3"}) == NextPage(URL.replace("page=2", "page=3"), "x-next-page")
    assert _next(loop, count=100) == NextPage(URL.replace("page=2", "page=3"), "full-page")


def test_a_link_about_another_resource_is_not_followed() -> None:
    assert _next('<https://gitlab.example.com/y>; rel=next; anchor="https://gitlab.example.com/other"') is None
    assert _next('<https://gitlab.example.com/y>; rel=next; anchor=""') is not None


def test_x_next_page_replaces_only_the_page_parameter() -> None:
    url = "https://h/x?page=2&labels%5B%5D=a+b&q=%2F"
    assert next_page({"x-next-page": "3"}, url, 0, 100) == NextPage(
        "https://h/x?labels%5B%5D=a+b&q=%2F&page=3", "x-next-page"
    )


def test_an_empty_x_next_page_is_the_end_even_after_a_full_page() -> None:
    assert next_page({"x-next-page": ""}, URL, 100, 100) is None


def test_a_link_header_without_next_is_the_end_even_after_a_full_page() -> None:
    assert _next('<https://gitlab.example.com/x?page=1>; rel="first"', count=100) is None


@pytest.mark.parametrize("told", ["2", "1", "-3", "three", "３", "9.5"])
def test_an_invalid_x_next_page_is_ignored(told: str) -> None:
    assert next_page({"x-next-page": told}, URL, 99, 100) is None
    decided = next_page({"x-next-page": told}, URL, 100, 100)
    assert decided is not None
    assert decided.rule == "full-page"


def test_without_headers_a_full_page_means_more_and_a_short_one_the_end() -> None:
    assert next_page({}, "https://h/x", 100, 100) == NextPage("https://h/x?page=2", "full-page")
    assert next_page({}, "https://h/x?page=2", 101, 100) == NextPage("https://h/x?page=3", "full-page")
    assert next_page({}, "https://h/x", 99, 100) is None


def test_an_unreadable_link_header_does_not_end_a_walk() -> None:
    assert _next("<<<", count=100) == NextPage(URL.replace("page=2", "page=3"), "full-page")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://h/a", "https://H:443/b?c"),
        ("HTTP://h", "http://h:80/"),
        ("http://h:8080/", "http://h:8080/x"),
        ("https://[::1]:8443/", "https://[::1]:8443/x"),
    ],
)
def test_equivalent_spellings_of_an_origin_are_equal(first: str, second: str) -> None:
    assert same_origin(first, second)


@pytest.mark.parametrize(
    "other",
    [
        "http://h/",
        "https://h:444/",
        "https://h.evil/",
        "https://h@evil/",
        "https://h\\@evil/",
        "https://evil\\@h/",
        "https://h\t.evil/",
        "//h/",
        "/x",
        "",
        "https://",
        "https://h:port/",
        "https://[h/",
    ],
)
def test_disguised_foreign_origins_are_not_equal(other: str) -> None:
    assert not same_origin("https://h/", other)
    assert not same_origin(other, "https://h/")


def test_two_urls_without_an_origin_are_not_the_same_origin() -> None:
    assert not same_origin("/x", "/x")
