"""Addresses of pages, and the section of the navigation that a page belongs to."""

from __future__ import annotations

from tidelore.web.addresses import account_address, item_address, post_address, section_of


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
