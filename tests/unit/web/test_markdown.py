"""Markdown of others: what is kept, what becomes a link, and what is removed."""

from __future__ import annotations

from tidelore.web.markdown import LONGEST, count_images, render_markdown

REL = 'rel="noopener noreferrer nofollow"'


def test_ordinary_markdown_is_kept() -> None:
    html = render_markdown("# Head\n\n**bold** ~~gone~~ `code`\n\n- one\n- two\n\n> quote\n\n```py\nx < 1\n```")
    for part in ("<h1>Head</h1>", "<strong>bold</strong>", "<s>gone</s>", "<code>code</code>", "<li>one</li>"):
        assert part in html
    assert "<blockquote dir=" in html
    assert "x &lt; 1" in html


def test_lists_and_quotes_take_their_direction_from_their_text() -> None:
    html = render_markdown('- אחת\n\n1. שתיים\n\n> ציטוט\n\n<ul dir="rtl" id="x"><li>three</li></ul>')
    assert html.count('<ul dir="auto">') == 2
    assert '<ol dir="auto">' in html
    assert '<blockquote dir="auto">' in html
    assert "rtl" not in html


def test_a_suggestion_is_named_as_one() -> None:
    for info in ("suggestion", "suggestion:-0+1"):
        html = render_markdown(f"```{info}\nreturn None\n```")
        assert '<span class="suggested">Suggested change</span><code>return None' in html
    assert "Suggested" not in render_markdown("```py\nreturn None\n```")


def test_tables_keep_their_alignment_without_a_style() -> None:
    html = render_markdown("| a | b |\n|---|--:|\n| 1 | 2 |")
    assert '<td class="right">2</td>' in html
    assert "style" not in html


def test_html_that_forges_allow_is_kept_and_other_html_is_removed() -> None:
    html = render_markdown("<details><summary>More</summary>\n\ntext\n\n</details>\n\n<blink>x</blink> <sub>2</sub>")
    assert "<details><summary>More</summary>" in html
    assert "<sub>2</sub>" in html
    assert "blink" not in html


def test_task_lists_are_shown_as_boxes_that_cannot_be_changed() -> None:
    html = render_markdown("- [x] done\n- [ ] open\n- not [x] a task")
    assert html.count('<input type="checkbox"') == 2
    assert html.count('disabled="disabled"') == 2
    assert html.count("checked") == 1
    assert "not [x] a task" in html


def test_an_input_of_others_is_removed() -> None:
    assert "input" not in render_markdown('<input type="password" name="p">')


def test_bare_addresses_and_references_become_links_outside_code() -> None:
    html = render_markdown("see https://a.test/x. and #12, g/p!3, `#4`", project="g/q")
    assert f'<a href="https://a.test/x" {REL}>https://a.test/x</a>.' in html
    assert 'href="/go?ref=%2312&amp;project=g%2Fq"' in html
    assert 'href="/go?ref=g%2Fp%213&amp;project=g%2Fq"' in html
    assert "<code>#4</code>" in html


def test_a_reference_inside_a_word_or_an_address_is_not_a_link() -> None:
    html = render_markdown("c#12 a/b.c#x &#35;7x https://a.test/#12")
    assert html.count("<a ") == 1


def test_relative_links_lead_to_the_item_s_host_and_without_one_nowhere() -> None:
    text = "[a](../x) [b](#top) [c](/y)"
    html = render_markdown(text, base="https://forge.test/g/p/-/issues/1")
    assert 'href="https://forge.test/g/p/-/x"' in html
    assert 'href="https://forge.test/y"' in html
    assert "#top" not in html
    assert "href" not in render_markdown(text)


def test_images_become_links_and_inside_a_link_their_name() -> None:
    html = render_markdown("![a](https://x.test/a.png) [![b](https://x.test/b.png)](https://x.test/) <img src=x>")
    assert f'<a href="https://x.test/a.png" class="remote-image" {REL}>a</a>' in html
    assert '<span class="image-name">[b]</span>' in html
    assert '<span class="image-name">[image]</span>' in html
    assert "<img" not in html


def test_images_are_shown_when_asked_for_without_a_referrer() -> None:
    html = render_markdown('![a](https://x.test/a.png) <img src="data:image/png;base64,AA">', images=True)
    assert html.count("<img") == 1
    assert 'src="https://x.test/a.png"' in html
    assert 'referrerpolicy="no-referrer"' in html


def test_invisible_characters_are_removed() -> None:
    assert "\u202e" not in render_markdown("a\u202eb\u200bc")
    assert "abc" in render_markdown("a\u202eb\u200bc")


def test_a_very_long_text_is_cut_and_a_deeply_nested_one_is_rendered() -> None:
    assert len(render_markdown("word " * LONGEST)) < LONGEST * 1.2
    assert "<blockquote dir=" in render_markdown("> " * 5000 + "x")
    assert "x" in render_markdown("[" * 5000 + "x")


def test_images_are_counted_for_the_button_that_loads_them() -> None:
    assert count_images("![a](b) <img src=c> [d](e)") == 2
    assert count_images(None) == 0
