"""Text that becomes HTML without Markdown: posts, and our own messages."""

from __future__ import annotations

from tidelore.web.rendering import linked, with_code


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
    assert with_code(None) == ""
