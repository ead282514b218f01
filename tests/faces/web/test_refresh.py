"""The refresh of an item from its page: it asks the item's host, stores the answer and shows what came of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.faces.desk import LEDGER, Desk
from tests.faces.web.copies import client_of
from tests.faces.web.reading import read

from tidelore.app.wiring import App
from tidelore.core.config_file import load_config

ISSUE = f"/p/{LEDGER}/issues/2"


@pytest.fixture
def mirrored(desk: Desk) -> TestClient:
    """The site of a mirrored project whose server runs."""
    desk.ingested()
    environ = {"GITLAB_TOKEN": "unused"}
    return client_of(App(load_config(str(desk.config), environ), environ, db=str(desk.db)))


def press(client: TestClient, address: str = ISSUE) -> str:
    """Press the button of a page, and return the page that follows."""
    html = client.get(address).text
    token = html.partition('name="csrf" value="')[2].partition('"')[0]
    response = client.post(f"{address}/refresh", data={"csrf": token})
    return response.text


def test_a_refresh_fetches_the_item_and_its_conversation(desk: Desk, mirrored: TestClient) -> None:
    with desk.world.lock:
        found = desk.world.gitlab.issue(LEDGER, 2)
        desk.world.gitlab.add_note(found, "The new bollard is here.")
    assert "new bollard" not in mirrored.get(ISSUE).text
    text = read(press(mirrored)).text
    assert "The new bollard is here." in text
    assert "Refresh succeeded" in text


def test_a_refresh_that_fails_says_why_and_leaves_the_copy(desk: Desk, mirrored: TestClient, tmp_path: Path) -> None:
    before = desk.query("SELECT title FROM issues WHERE iid = 2")
    desk.configure(LEDGER, url="http://127.0.0.1:9")
    environ = {"GITLAB_TOKEN": "unused"}
    client = client_of(App(load_config(str(desk.config), environ), environ, db=str(desk.db)))
    html = press(client)
    assert "That did not work" in html
    assert "try again later" in html.partition('class="fix"')[2]
    assert ISSUE in read(html).links
    assert desk.query("SELECT title FROM issues WHERE iid = 2") == before
