"""What the panes of the console show of a search result and of a row: text without marks, names instead of ids."""

from __future__ import annotations

from tidelore.app.answers import instant
from tidelore.app.console import ReadingRow
from tidelore.app.searching import FoundThread
from tidelore.console.inbox import _line, _opening
from tidelore.console.search import result_text


def test_a_result_is_shown_without_the_marks_of_markdown_and_its_match_stays_marked() -> None:
    snippet = "**Decision:** keep `the rope`"
    at = snippet.index("rope")
    found = FoundThread(
        reference="port/harbour!3", type="mr", project="port/harbour", iid=3, title="Ropes", state="opened", labels=(),
        found_in="discussion", author="noor", updated_at=instant(0), web_url=None, snippet=snippet,
        highlights=((at, at + 4),), further=0, score=1.0, ranks={},
    )  # fmt: skip
    text = result_text(found)
    assert "Decision: keep the rope" in text.plain
    assert [text.plain[span.start : span.end] for span in text.spans if span.style == "bold reverse"] == ["rope"]


def test_the_last_note_of_a_row_is_rendered_as_markdown() -> None:
    row = ReadingRow(key="1", reference="a/b!3", title="Ropes", state="unresolved", by="noor", at=0, text="**Why** 40?")
    assert "Why 40?" in _opening(row, 60).plain


def test_a_post_is_headed_by_its_author_and_leaves_room_for_its_text() -> None:
    author = "aoife-brannigan.harborline.example"
    row = ReadingRow(
        key="1", reference="at://did:plc:x/app.bsky.feed.post/a", title="Tide", state="post", by=author, at=0
    )
    assert _opening(row, 60).plain.startswith(f"@{author}\n")
    assert len(_line(row, "", 0, False).cells[0].text) <= 24
