"""Opens web pages in the browser. Refuses addresses that are not http(s)."""

from __future__ import annotations

import click

from tidelore.core.errors import NotFound, UserError


def open_page(address: str | None) -> None:
    """Open the URL of an item. URLs come from remote systems, so only http(s) is allowed."""
    if address is None:
        raise NotFound("no item to open", fix="remove --open, or use a wider filter")
    if not address.startswith(("https://", "http://")):
        raise UserError(f"cannot open {address!r}: not a web address", fix="remove --open", address=address)
    click.launch(address)
