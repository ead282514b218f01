"""Make the pictures of the web page and the console in the README: `python -m tests.faces.web.pictures`.

Needs Chromium. They show a simulated world, mirrored by the real commands' code, as `lore demo --web` does.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

from tests.faces.web.browser import browsing, find_chromium

from tidelore.app.console import ConsoleActions
from tidelore.app.listing import ListRequest, list_merge_requests
from tidelore.app.wiring import App
from tidelore.console.app import ConsoleApp
from tidelore.console.backend import Backend
from tidelore.console.log import Logbook
from tidelore.web.server import ServeWeb, WebServer
from tidelore_world.demo.living import staged

FOLDER = Path(__file__).parents[3] / "docs" / "pictures"
WIDTH, HEIGHT = 1000, 680
COLUMNS, ROWS = 110, 32


def main() -> int:
    """Write docs/pictures/{web,console}.png; return 1 where Chromium is missing."""
    program = find_chromium()
    if program is None:
        sys.stderr.write("Chromium is not installed: apt-get install chromium\n")
        return 1
    FOLDER.mkdir(exist_ok=True)
    with staged(7, 0.5) as stage:
        asyncio.run(stage.fill())
        found = list_merge_requests(stage.app, ListRequest(limit=200, with_talk=True)).items
        # The one with the most to show: a pull request, whose threads have their lines of the diff.
        shown = max(found, key=lambda item: ("#" in item.reference, bool(item.unresolved), item.discussions))
        server = WebServer(stage.app, ServeWeb(port=0))
        server.open()
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            with browsing(program) as browser:
                browser.show(WIDTH, HEIGHT)
                browser.open(f"{server.address}p/{shown.project}/mrs/{shown.iid}")
                # Shorten the description, so that a review thread with its lines of the diff is in the picture; name
                # the simulated host as a real one would be named.
                browser.evaluate(
                    "document.querySelectorAll('.actions a').forEach((e) => {"
                    " e.textContent = e.textContent.replace('127.0.0.1', 'github.example') });"
                    "document.querySelectorAll('.description .prose > *').forEach((e, i) => { if (i > 1) e.remove() });"
                    "document.querySelectorAll('.timeline > li').forEach((e) => { if (e.nextElementSibling"
                    " && !e.querySelector('.hunk')) e.remove() })"
                )
                browser.picture(FOLDER / "web.png")
                drawn = Path(stage.config_file).with_name("console.svg")
                drawn.write_text(asyncio.run(_draw_console(stage.app)), encoding="utf-8")
                browser.show(WIDTH, 640)
                browser.open(drawn.as_uri())
                browser.picture(FOLDER / "console.png")
        finally:
            server.stop()
            thread.join()
    return 0


async def _draw_console(app: App) -> str:
    """Return the console as SVG, on its list of unresolved threads."""
    backend = Backend(app, Logbook(), None, ConsoleActions(app))
    console = ConsoleApp(backend)
    try:
        async with console.run_test(size=(COLUMNS, ROWS)) as pilot:
            for key in ("right", "right"):
                await pilot.press(key)
                await console.workers.wait_for_complete()
                await pilot.pause()
            return console.export_screenshot(title="lore console")
    finally:
        backend.close()


if __name__ == "__main__":
    sys.exit(main())
