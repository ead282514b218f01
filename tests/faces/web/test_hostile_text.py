"""Texts of others that attack the page: in every field they are shown as text, and nothing of them acts."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from tests.faces.web.copies import PATH, client_of, hostile, with_login
from tests.faces.web.corpus import CORPUS
from tests.faces.web.reading import PageReader, read

_HIDDEN = frozenset("\u202e\u202c\u200b\u2066\u2069\x1b\x00\x07")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """The site of a copy in which every text of others is an attack."""
    return client_of(with_login(hostile(tmp_path_factory.mktemp("hostile") / "lore.db", CORPUS), "dana"))


def page_of(client: TestClient, address: str) -> PageReader:
    response = client.get(address)
    assert response.status_code == 200, (address, response.text[-300:])
    return read(response.text)


def test_the_corpus_has_at_least_sixty_texts() -> None:
    assert len(set(CORPUS)) >= 60


def test_no_text_of_the_corpus_acts_on_the_page_of_its_item(attacked: TestClient) -> None:
    found = {}
    for number, text in enumerate(CORPUS, 1):
        # Each text on one of the pages; `test_chromium.py` shows all of them on all.
        part = ("issues", "mrs", "topics")[number % 3]
        page = page_of(attacked, f"/p/{PATH}/{part}/{number}")
        dangers = [*page.dangers, *(f"hidden {mark!r}" for mark in _HIDDEN & set(page.text))]
        if dangers:
            found[part, text] = dangers
        assert page.title.count("Tidelore") == 1
    assert found == {}


@pytest.mark.deep
def test_no_text_of_the_corpus_acts_in_lists_search_files_posts_and_accounts(attacked: TestClient) -> None:
    addresses = ["/", "/issues?limit=100", "/mrs?limit=100", "/topics?limit=100", "/posts?limit=100", "/accounts"]
    addresses += [
        "/trending?hours=100000",
        "/status",
        "/waiting",
        "/coverage",
        "/search?q=alert&limit=100",
        "/search?q=evil.example",
    ]
    pages = {address: page_of(attacked, address) for address in addresses}
    assert pages["/waiting"].text.count("review thread") >= 60
    for page in (pages["/mrs?limit=100"], pages["/posts?limit=100"]):
        for link in page.links:
            if link.startswith(("/post?", "/files?")):
                pages[link] = page_of(attacked, link)
    for link in page_of(attacked, f"/p/{PATH}/mrs/1").links:
        if link.startswith("/files?"):
            pages[link] = page_of(attacked, link)
    assert sum(address.startswith("/post?") for address in pages) >= 60
    assert {address: page.dangers for address, page in pages.items() if page.dangers} == {}


@pytest.mark.deep
def test_no_text_of_the_corpus_acts_when_it_is_what_the_reader_asks_for(attacked: TestClient) -> None:
    found = {}
    places = (("/search", "q"), ("/issues", "author"), ("/issues", "label"), ("/files", "path"), ("/mrs", "project"))
    for number, text in enumerate(CORPUS):
        path, name = places[number % len(places)]
        response = attacked.get(path, params={name: text})
        assert response.status_code in {200, 400, 404}, (path, text)
        dangers = read(response.text).dangers
        if dangers:
            found[path, name, text] = dangers
    assert found == {}


def test_a_title_with_markup_is_shown_as_it_was_written(attacked: TestClient) -> None:
    page = page_of(attacked, f"/p/{PATH}/issues/1")
    assert CORPUS[0] in page.text
    assert page.title.startswith(CORPUS[0])


def test_images_that_the_reader_asked_for_are_the_only_thing_that_loads(attacked: TestClient) -> None:
    for number in range(1, len(CORPUS) + 1, 3):
        page = page_of(attacked, f"/p/{PATH}/issues/{number}?images=yes")
        assert [danger for danger in page.dangers if not danger.startswith("img src='http")] == []
