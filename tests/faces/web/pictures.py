"""Make the picture of the web page in the README: `python -m tests.faces.web.pictures`; needs Chromium.

The page shows a simulated world, mirrored by the real commands' code, as `lore demo --web` does.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

from tests.faces.web.browser import browsing, find_chromium

from tidelore.app.listing import ListRequest, list_merge_requests
from tidelore.web.server import ServeWeb, WebServer
from tidelore_world.demo.living import staged

FOLDER = Path(__file__).parents[3] / "docs" / "pictures"
WIDTH, HEIGHT = 1000, 680


def main() -> int:
    """Write docs/pictures/web.png; return 1 where Chromium is missing."""
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
                # Shorten the description, so that a review thread with its lines of the diff is in the picture.
                browser.evaluate(
                    "document.querySelectorAll('.description .prose > *').forEach((e, i) => { if (i > 1) e.remove() });"
                    "document.querySelectorAll('.timeline > li').forEach((e) => { if (e.nextElementSibling"
                    " && !e.querySelector('.hunk')) e.remove() })"
                )
                browser.picture(FOLDER / "web.png")
        finally:
            server.stop()
            thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
