"""Text that becomes HTML without Markdown: posts, and our own messages."""

from __future__ import annotations

import pytest

from tidelore.web.rendering import ago, breakable, highlighted, linked, passage, sentence, with_code

NOW = 1_700_000_000_000  # 2023-11-14 22:13 UTC
DAY = 86_400_000


def test_addresses_in_plain_text_become_links_and_nothing_else_becomes_html() -> None:
    html = linked('See https://a.example/x?y=1&z=2, <b>not</b> javascript:alert(1) "https://b.example/"')
    assert html.count("<a ") == 2
    assert '<a href="https://a.example/x?y=1&amp;z=2" rel="noopener noreferrer nofollow">' in html
    assert "</a>, &lt;b&gt;not&lt;/b&gt; javascript:alert(1) &#34;<a " in html


def test_invisible_characters_are_removed_from_plain_text() -> None:
    assert linked("a\u202eb\u200bc") == "abc"


def test_backticks_of_a_message_mark_code_and_a_single_one_is_kept() -> None:
    assert with_code('set `login = "<you>"` here') == "set <code>login = &#34;&lt;you&gt;&#34;</code> here"
    assert with_code("a ` b") == "a ` b"
    assert with_code("no '<b>\u202eissue'") == "no &#39;&lt;b&gt;issue&#39;"
    assert with_code(None) == ""


def test_a_message_starts_with_a_capital_letter_and_a_quoted_path_keeps_its_own() -> None:
    assert sentence("invalid value") == sentence("invalid value.") == "Invalid value."
    assert sentence("'src/a.py' matches 3 files") == "'src/a.py' matches 3 files."
    assert sentence("") == sentence(None) == ""


def test_a_passage_loses_its_markdown_and_its_matches_stay_marked() -> None:
    text = "> **Decision:** keep `the rope`, see [the plan](https://a.example/plan)"
    at = text.index("rope")
    assert highlighted(text, [(at, at + 4)]) == "Decision: keep the <mark>rope</mark>, see the plan"
    assert passage("**Decision:** moor\n\n- [ ] rope: @noor\n", 100) == "Decision: moor ☐ rope: @noor"
    assert highlighted("- [x] moor the ship", [(6, 10)]) == "☑ <mark>moor</mark> the ship"
    assert passage("A sentence that ends here. And more", 27) == "A sentence that ends…"


@pytest.mark.parametrize(
    ("before_now", "text"),
    [
        (0, "just now"),
        (1_999, "just now"),
        (-1_000, "now"),
        (2_000, "2 seconds ago"),
        (-5_000, "in 5 seconds"),
        (29 * DAY, "4 weeks ago"),
        (30 * DAY, "2023-10-15"),
        (-400 * DAY, "2024-12-18"),
    ],
)
def test_an_instant_is_shown_as_its_age_and_one_long_ago_as_its_date(before_now: int, text: str) -> None:
    shown = ago(NOW - before_now, NOW)
    assert f">{text}</time>" in shown
    assert "UTC" in shown


def test_a_path_can_be_broken_after_a_slash_and_stays_text() -> None:
    assert breakable("src/<b>/a.py") == "src/<wbr>&lt;b&gt;/<wbr>a.py"
