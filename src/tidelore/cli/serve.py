"""Serve the web page: `lore serve`.

Imports the web server inside the command, so that no other command loads it.
"""

from __future__ import annotations

import click

from tidelore.app.pages.home import WebSummary
from tidelore.cli.command import Invocation, lore_command
from tidelore.cli.output.render import Output
from tidelore.core.extras import require

TOKEN_VARIABLE = "TIDELORE_WEB_TOKEN"  # noqa: S105 - the name of a variable


@lore_command("serve", example="lore serve --port 8765 --open", answer=WebSummary)
@click.option("--port", type=click.IntRange(0, 65535), help="Port; default: service.web_port. 0 takes any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need --token.")
@click.option(
    "--token",
    "with_token",
    is_flag=True,
    help=f"Require an access token: the one in {TOKEN_VARIABLE}, else a new one. It is part of the printed address.",
)
@click.option("--allow-writes", is_flag=True, help="Offer forms to reply and to resolve threads.")
@click.option("--open", "in_browser", is_flag=True, help="Open the page in the browser.")
def serve_command(
    invocation: Invocation,
    port: int | None,
    host: str,
    with_token: bool,  # noqa: FBT001
    allow_writes: bool,  # noqa: FBT001
    in_browser: bool,  # noqa: FBT001
) -> Output:
    """Serve a web page to read and search the local copy.

    Only this machine can open it. To listen on another address, add --token; the printed address contains the token.
    Pages answer with JSON to `Accept: application/json`. The page reads the local copy; its Refresh button fetches one
    item from its host. With --allow-writes it also posts replies and resolves threads, exactly once, as you. SIGINT and
    SIGTERM stop the server with exit code 0.
    """
    require("web", "`lore serve`")
    from tidelore.web.server import ServeWeb, WebServer, new_token

    app = invocation.logged_app()
    given = app.environ.get(TOKEN_VARIABLE) or None
    token = (given or new_token()) if with_token else None
    chosen = app.config.service.web_port if port is None else port
    server = WebServer(app, ServeWeb(host=host, port=chosen, token=token, allow_writes=allow_writes))
    server.open()
    address = server.address
    began = app.clock.monotonic()
    click.echo(f"Serving {address} (Ctrl+C stops)", err=True)
    if in_browser:
        click.launch(address)
    server.run()
    return Output(WebSummary(address=server.plain_address, seconds=round(app.clock.monotonic() - began, 3)))
