"""Opening a page for a person. Owns the one way to the browser; refuses addresses that are not web pages."""

from __future__ import annotations

import click

from tidelore.errors import NotFound, UserError


def open_page(address: str | None) -> None:
    """Open the address of something mirrored; it comes from a remote system, so only the web is opened."""
    if address is None:
        raise NotFound("there is nothing to open", fix="leave out --open, or loosen the filters")
    if not address.startswith(("https://", "http://")):
        raise UserError(f"{address!r} is no web address", fix="leave out --open", address=address)
    click.launch(address)
