"""Replying and resolving from the page of an item: with forms, without a script, once, and only where it is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.faces.web.copies import client_of
from tests.faces.web.reading import read
from tests.faces.writing import HUB, LAB, TOKENS, Writer, writing

from tidelore.app.wiring import App
from tidelore.core.config_file import load_config
from tidelore.web.guard import make_access


@pytest.fixture(params=["gitlab", "github"])
def desk(
    request: pytest.FixtureRequest, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Writer]:
    for name, token in TOKENS.items():
        monkeypatch.setenv(name, token)
    with writing(tmp_path, capfd.readouterr, request.param) as made:
        yield made


def browser(desk: Writer, *, allow_writes: bool = True) -> TestClient:
    app = App(load_config(str(desk.config), {}), desk.environ, db=str(desk.db))
    return client_of(app, make_access("127.0.0.1", 8765, None, allow_writes=allow_writes))


def page_of(desk: Writer) -> str:
    return f"/p/{LAB if desk.forge == 'gitlab' else HUB}/mrs/1"


def fields(html: str, thread: str = "") -> dict[str, str]:
    """The hidden fields of the form for a thread, or of the last form, which is for the item."""
    forms = [part.partition("</form>")[0] for part in html.split("<form ")[1:] if "<textarea" in part]
    chosen = next(form for form in forms if f'name="thread" value="{thread}"' in form) if thread else forms[-1]
    names = ("csrf", "key", "thread") if thread else ("csrf", "key")
    return {name: chosen.partition(f'name="{name}" value="')[2].partition('"')[0] for name in names}


def test_a_form_that_is_sent_twice_posts_one_reply_and_the_page_shows_it(desk: Writer) -> None:
    client, address = browser(desk), page_of(desk)
    form = fields(client.get(address).text, desk.thread)
    for _ in range(2):
        sent = client.post(f"{address}/reply", data=form | {"action": "reply-resolve", "body": "Fixed.\r\n\r\nThanks."})
        assert sent.status_code == 200
        page = read(sent.text)
        assert sent.url.fragment in page.ids, "the browser goes to the new comment"
        assert sent.url.fragment.startswith("note_")
        shown = page.text
        assert "Fixed." in shown
        assert "Posted, and the thread is resolved." in shown
    assert (desk.ours(), desk.is_resolved) == (["Fixed."], True)
    ((body,),) = desk.query("SELECT body FROM outbox WHERE source = 'reply'")
    assert body.startswith("Fixed.\n\nThanks.\n")
    form = fields(client.get(address).text, desk.thread)
    sent = client.post(f"{address}/reply", data=form | {"action": "unresolve", "body": ""})
    assert "The thread is open again." in sent.text
    assert sent.url.fragment in read(sent.text).ids, "the browser goes to the thread"
    assert not desk.is_resolved
    form = fields(client.get(address).text)
    client.post(f"{address}/reply", data=form | {"action": "reply", "body": "Seen."})
    assert sorted(desk.ours()) == ["Fixed.", "Seen."]
    assert desk.in_thread() == ["Why 40?", "Fixed."]


@pytest.mark.parametrize("desk", ["gitlab"], indirect=True)
def test_without_permission_there_is_no_form_and_a_wrong_form_writes_nothing(desk: Writer) -> None:
    closed, address = browser(desk, allow_writes=False), page_of(desk)
    assert "<textarea" not in closed.get(address).text
    assert closed.post(f"{address}/reply", data={"body": "x"}).status_code in (404, 405)
    client = browser(desk)
    form = fields(client.get(address).text, desk.thread)
    for wrong in (
        {"csrf": "0" * 64, "body": "x"},
        {"body": " "},
        {"body": "x", "action": "delete"},
        {"body": "/close"},
    ):
        page = read(client.post(f"{address}/reply", data=form | wrong).text)
        assert "That did not work" in page.text
        assert address in page.links
        assert wrong.get("body", "") in page.text, "the reader's text is not lost"
    assert desk.query("SELECT 1 FROM outbox") == []
    refused = client.post(f"{address}/reply", data=form | {"body": "/close <b>", "action": "reply"}).text
    assert "/close &lt;b&gt;</textarea>" in refused
    again = fields(refused, desk.thread) | {"action": "reply", "body": "close it"}
    assert "Posted." in client.post(f"{address}/reply", data=again).text, "the page of the error sends a corrected text"
    assert desk.in_thread() == ["Why 40?", "close it"]
