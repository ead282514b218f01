"""Replying in an editor and resolving, in the inbox and the thread beside it: asked first, sent once, outcome shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.faces.console.stage import Seat, watch
from tests.faces.console.test_terminal import QUIET, Terminal
from tests.faces.writing import LAB, TOKENS, Writer, writing
from tests.support.deep import deep

from tidelore.app.console import QuotedNote
from tidelore.app.wiring import App
from tidelore.console.app import ConsoleApp
from tidelore.console.replying import editable_text, editor_command, written_reply
from tidelore.core.config_file import load_config
from tidelore.core.errors import UserError

UNRESOLVED = ("right", "right")


@pytest.fixture(params=["gitlab", deep("github")])
def desk(
    request: pytest.FixtureRequest, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Writer]:
    for name, token in TOKENS.items():
        monkeypatch.setenv(name, token)
    monkeypatch.delenv("VISUAL", raising=False)
    # A test has no terminal to give away; the real one is below.
    monkeypatch.setattr(ConsoleApp, "suspend", lambda _app: nullcontext())
    with writing(tmp_path, capfd.readouterr, request.param) as made:
        yield made


def _app(desk: Writer) -> App:
    return App(load_config(str(desk.config), {}), dict(os.environ), db=str(desk.db))


def _editor(folder: Path, lines: str) -> str:
    """Return an editor: a script whose `$1` is the file; each file it was given is kept as `seen-N`."""
    script = folder / "editor"
    script.write_text(f'#!/bin/sh\ncp "$1" "{folder}/seen-$(ls "{folder}" | grep -c seen-)"\n{lines}\n')
    script.chmod(0o755)
    return str(script)


async def _select(seat: Seat, desk: Writer) -> None:
    await seat.press(*UNRESOLVED)
    rows = [line.record.reference for line in seat.table("rows")._shown]
    await seat.press(*["down"] * rows.index(desk.item))


@pytest.mark.deep
def test_a_reply_is_written_in_the_editor_confirmed_and_posted_once(
    desk: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'printf "# Forty\\n\\nmore.\\n" | cat - "$1" > "$1.new"; mv "$1.new" "$1"'
    monkeypatch.setenv("EDITOR", _editor(tmp_path, script))

    async def look(seat: Seat) -> None:
        await _select(seat, desk)
        # Twice, before the first key is handled: one editor.
        await seat.press("enter", "a", "a")
        assert f"Post this reply to {desk.item}?" in seat.text
        assert "# Forty" in seat.text
        assert desk.ours() == []
        await seat.press("n")
        assert desk.ours() == []
        await seat.press("a")
        await seat.press("y", "y")
        assert f"{desk.item}: the reply is posted" in seat.told
        assert "more." in seat.detail

    watch(_app(desk), look, hands=True, first="inbox")
    assert len(desk.ours()) == 1
    first, second = ((tmp_path / f"seen-{at}").read_text() for at in (0, 1))
    assert "#> Why 40?" in first
    # A text that was not sent is offered again.
    assert second.startswith("# Forty\n\nmore.\n")


@pytest.mark.deep
def test_an_empty_text_or_a_failing_editor_sends_nothing(
    desk: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(seat: Seat) -> None:
        await _select(seat, desk)
        monkeypatch.setenv("EDITOR", _editor(tmp_path, ":"))
        await seat.press("a")
        monkeypatch.setenv("EDITOR", _editor(tmp_path, 'echo "Half a" > "$1"; exit 3'))
        await seat.press("a")
        monkeypatch.setenv("EDITOR", str(tmp_path / "missing"))
        await seat.press("a")
        assert [line.partition("\n")[0].partition(" '")[0] for line in seat.told] == [
            "The text was empty; nothing was sent.",
            "the editor",
            "could not run the editor",
        ]
        assert "ended with code 3" in seat.told[1]

    watch(_app(desk), look, hands=True, first="inbox")
    assert desk.ours() == []
    assert desk.query("SELECT 1 FROM outbox") == []


def test_a_thread_is_resolved_after_a_confirmation_and_the_outcome_is_shown(desk: Writer) -> None:
    async def look(seat: Seat) -> None:
        await _select(seat, desk)
        await seat.press("e", "e", "n")
        assert not desk.is_resolved
        await seat.press("e")
        assert f"Resolve this thread of {desk.item}?" in seat.text
        await seat.press("y")
        assert seat.told == [f"{desk.item}: the thread is resolved"]
        assert desk.item not in [line.record.reference for line in seat.table("rows")._shown]

    watch(_app(desk), look, hands=True, first="inbox")
    assert desk.is_resolved
    assert desk.query("SELECT source, attempts FROM outbox") == [("resolve", 1)]


@pytest.mark.deep
def test_a_resolved_thread_is_reopened_and_what_has_no_thread_is_refused(desk: Writer) -> None:
    assert desk.run("resolve", desk.thread).code == 0
    desk.config.write_text(desk.config.read_text().replace("write_interval", 'login = "robin"\nwrite_interval'))

    async def look(seat: Seat) -> None:
        await seat.press("right")
        rows = [line.record.reference for line in seat.table("rows")._shown]
        await seat.press(*["down"] * rows.index(desk.item), "e")
        assert f"Reopen this thread of {desk.item}?" in seat.text
        await seat.press("y")
        assert seat.told == [f"{desk.item}: the thread is unresolved"]
        await seat.press("right", "right", "e")
        assert seat.told[1:] == ["Only review threads can be resolved: see the list Unresolved."]

    watch(_app(desk), look, hands=True, first="inbox")
    assert not desk.is_resolved


@pytest.mark.deep
@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_a_refused_reply_shows_the_reason_and_keeps_the_text(
    desk: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", _editor(tmp_path, 'grep -q Done "$1" || echo Done. > "$1"'))
    desk.world.faults.add("status", "POST /projects/:id/merge_requests", status=403)

    async def look(seat: Seat) -> None:
        await _select(seat, desk)
        await seat.press("a", "y")
        assert "refused" in seat.told[0]
        assert desk.ours() == []
        desk.world.faults.clear()
        await seat.press("a")
        await seat.press("y")
        assert seat.told[1:] == [f"{desk.item}: the reply is posted"]

    watch(_app(desk), look, hands=True, first="inbox")
    assert desk.ours() == ["Done."]
    assert (tmp_path / "seen-1").read_text().startswith("Done.\n")


@pytest.mark.deep
@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_a_search_result_is_answered_from_its_thread_and_not_in_a_read_only_console(
    desk: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", _editor(tmp_path, 'echo "Seen." > "$1"'))

    async def look(seat: Seat) -> None:
        await seat.press("2", *"crane", "enter", "enter")
        await seat.press("a")
        if seat.console.backend.actions is None:
            assert "Reply" not in seat.footer
            return
        assert f"Post this reply to {LAB}!1?" in seat.text
        await seat.press("y")
        assert seat.told == [f"{LAB}!1: the reply is posted"]

    watch(_app(desk), look, first="inbox")
    assert desk.ours() == []
    watch(_app(desk), look, hands=True, first="inbox")
    assert desk.ours() == ["Seen."]


@pytest.mark.deep
@pytest.mark.parametrize("desk", ["github"], indirect=True)
def test_a_discussion_found_by_search_is_answered_with_a_comment(
    desk: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", _editor(tmp_path, 'echo "Once is enough." > "$1"'))

    async def look(seat: Seat) -> None:
        await seat.press("2", *"twice", "enter")
        results = [line.record.reference for line in seat.table("results")._shown]
        await seat.press(*["down"] * results.index(desk.topic), "a", "y")
        assert seat.told == [f"{desk.topic}: the reply is posted"]

    watch(_app(desk), look, hands=True, first="inbox")
    assert desk.in_topic()[-1] == (None, "Once is enough.")


@pytest.mark.deep
@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_refresh_fetches_the_selected_item_and_shows_what_is_new(desk: Writer) -> None:
    async def look(seat: Seat) -> None:
        await _select(seat, desk)
        await seat.press("r")
        assert seat.told == [f"Fetching {desk.item} …", f"{desk.item}: refreshed"]
        desk.world.gitlab.add_note(desk.request, "Forty is the draught.", author="robin", discussion=desk.home)
        desk.world.advance(5)
        assert "Forty is the draught." not in seat.detail
        await seat.press("r")
        assert seat.told[-1] == f"{desk.item}: refreshed"
        assert "Forty is the draught." in seat.detail
        desk.world.faults.add("status", "GET /projects/:id/merge_requests", status=500)
        await seat.press("r")
        assert desk.item in seat.told[-1]
        assert "failed to fetch" in seat.told[-1]

    watch(_app(desk), look, hands=True, first="inbox")


def test_lines_with_the_mark_are_removed_and_headings_are_kept() -> None:
    hostile = "x\x1b]0;y\x07\n vim: set modeline:\n  Local Variables:\n# A heading"
    text = editable_text("a/b!1", [QuotedNote("noor", 0, hostile)], "# Mine\n\nbody")
    assert written_reply(text) == "# Mine\n\nbody"
    assert "\x1b" not in text
    assert "vim:" not in text
    assert "Variables:" not in text
    assert "#> # A heading" in text
    assert written_reply(editable_text("a/b!1", [QuotedNote(None, 0, "y")])) == ""


def test_visual_is_preferred_to_editor_and_a_missing_editor_is_an_error(tmp_path: Path) -> None:
    assert editor_command({"VISUAL": "code --wait", "EDITOR": "nano"}) == ["code", "--wait"]
    assert editor_command({"VISUAL": " ", "EDITOR": "nano"}) == ["nano"]
    with pytest.raises(UserError, match="no editor was found"):
        editor_command({"PATH": str(tmp_path)})
    with pytest.raises(UserError, match="could not parse EDITOR"):
        editor_command({"EDITOR": "'nano"})


@pytest.mark.deep
@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_in_a_terminal_the_editor_has_the_screen_and_the_console_comes_back(desk: Writer, tmp_path: Path) -> None:
    editor = _editor(tmp_path, 'echo EDITOR-HAS-THE-TERMINAL; read line < /dev/tty; echo "$line" > "$1"')
    terminal = Terminal(
        tmp_path, str(desk.db), "console", settings=f"{desk.config.read_text()}\n{QUIET}", EDITOR=editor, **TOKENS
    )
    terminal.wait_for("service here")
    terminal.press("\x1b[C\x1b[C")
    terminal.wait_for("Why 40?")
    terminal.press("aa")
    terminal.wait_for("EDITOR-HAS-THE-TERMINAL")
    # Ctrl+C is for the editor, not for the console.
    terminal.press("\x03")
    terminal.wait_for("ended with code")
    terminal.seen = b""
    terminal.press("a")
    terminal.wait_for("EDITOR-HAS-THE-TERMINAL")
    # The main screen belongs to the editor.
    assert b"\x1b[?1049h" not in terminal.seen
    assert b"\x1b[?1049l" in terminal.seen
    terminal.press("Because of the draught.\n")
    terminal.wait_for("Post this reply to")
    assert terminal.seen.rindex(b"\x1b[?1049h") > terminal.seen.rindex(b"\x1b[?1049l")
    terminal.press("y")
    terminal.wait_for("the reply is posted")
    terminal.press("q")
    assert terminal.end() == 0
    assert b"Traceback" not in terminal.seen
    assert desk.in_thread()[-1] == "Because of the draught."
    assert len(desk.ours()) == 1
