"""Addresses of pages, and the section of the navigation that a page belongs to."""

from __future__ import annotations

from tidelore.web.addresses import account_address, item_address, note_address, post_address, section_of


def test_a_page_belongs_to_the_section_of_its_list() -> None:
    sections = {
        item_address("issue", "group/sub/project", 7): "/issues",
        item_address("mr", "p", 12): "/mrs",
        item_address("topic", "owner/repo", 3): "/topics",
        item_address("mr", "p", 12) + "/reply": "/mrs",
        account_address("alice.example"): "/accounts",
        post_address("at://did/x/1").partition("?")[0]: "/posts",
        "/search": "/search",
        "/": "/",
        "*": "/*",
    }
    for address, section in sections.items():
        assert section_of(address) == section


def test_the_address_of_a_note_on_its_host_leads_to_the_note_on_its_page() -> None:
    page = "/p/port/harbour/mrs/3"
    for url in ("https://x.test/a/-/issues/1#note_21", "https://x.test/pull/3#discussion_r21"):
        assert note_address(page, url) == f"{page}?note=21#note_21"
    assert note_address(f"{page}?at=x", "https://x.test/issues/3#issuecomment-21") == f"{page}?at=x&note=21#note_21"
    for other in (None, "", "https://x.test/1", "#note_x", '#note_1"onload'):
        assert note_address(page, other) is None
