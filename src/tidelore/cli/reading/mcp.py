"""Serve agents over the Model Context Protocol: `lore mcp`."""

from __future__ import annotations

import os
from typing import Annotated

import click
from msgspec import Struct

from tidelore.app.answers import means
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.options import lockdown_option
from tidelore.cli.output.render import Output
from tidelore.core.errors import UserError
from tidelore.core.extras import require

TOKEN_VARIABLE = "LORE_MCP_TOKEN"  # noqa: S105 - the name of a variable, not a token
_SHORTEST_TOKEN = 16


class McpServed(Struct, frozen=True):
    """The answer of `lore mcp` after the last client is gone."""

    transport: Annotated[str, means("stdio or http")]
    address: Annotated[str | None, means("the URL that was served, or null for stdio")]


@lore_command("mcp", example="lore mcp --http --port 8766", answer=McpServed)
@click.option("--http", is_flag=True, help="Serve HTTP on 127.0.0.1 instead of stdin and stdout.")
@click.option("--port", type=click.IntRange(0, 65535), default=8766, help="With --http: port; 0 chooses a free one.")
@click.option("--allow-writes", is_flag=True, help="Offer the tool `reply`, which posts replies and resolves threads.")
@lockdown_option
def mcp_command(invocation: Invocation, /, *, http: bool, port: int, allow_writes: bool) -> Output:
    """Serve agents over the Model Context Protocol (MCP).

    Tools: search, show, threads, changes and refresh, with --allow-writes also reply, and lore://thread/REF as
    resources. An agent starts `lore mcp` itself and talks to it over stdin and stdout. With --http, clients send the
    token in LORE_MCP_TOKEN as `Authorization: Bearer TOKEN`; without that variable a token is made and printed to
    stderr.
    """
    require("mcp", "`lore mcp`")
    from tidelore.mcp.server import serve_http, serve_stdio

    app = invocation.app()
    if not http:
        serve_stdio(app, allow_writes=allow_writes)
        return Output(McpServed("stdio", None))
    token = _token()
    served: list[str] = []

    def ready(address: str) -> None:
        served.append(address)
        click.echo(f"Serving MCP on {address}", err=True)

    serve_http(app, port, token, ready, allow_writes=allow_writes)
    return Output(McpServed("http", served[0]))


def _token() -> str:
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        import secrets

        made = secrets.token_urlsafe(32)
        click.echo(f"Token: {made}", err=True)
        return made
    if len(given) < _SHORTEST_TOKEN or not given.isascii() or not given.isprintable() or " " in given:
        raise UserError(
            f"the token in {TOKEN_VARIABLE} is not usable",
            fix=f"use at least {_SHORTEST_TOKEN} printable ASCII characters without spaces",
        )
    return given
