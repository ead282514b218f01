"""The pages in a real Chromium: every page at three widths, dark and light, by keyboard, live, and for everyone.

`make test-web` runs these. Chromium comes from the system's packages; without it they are skipped with that message.
Pictures of every page are written to the folder TIDELORE_PICTURES names.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faces.desk import LEDGER, Desk
from tests.faces.web.axe import find_axe
from tests.faces.web.browser import Browser, browsing, find_chromium
from tests.faces.web.copies import MIRA, PATH, hostile, open_app, ordinary, with_login
from tests.faces.web.corpus import CORPUS

from tidelore.app.syncing import generate_documents
from tidelore.app.wiring import App
from tidelore.core.config_file import load_config
from tidelore.core.progress import silent
from tidelore.web.server import ServeWeb, WebServer

pytestmark = pytest.mark.deep

WIDTHS = (400, 900, 1400)
MOST_PIXELS = 3_000
"""The height of the longest picture."""
LOADED = """[...document.querySelectorAll("[hx-trigger='load']")].every(e => !e.classList.contains('htmx-request')
  && performance.getEntriesByType('resource').some(r => r.name.endsWith(e.getAttribute('hx-get'))))"""
THEMES = ("light", "dark")
PAGES = {
    "home": "",
    "search": "search?q=crane",
    "issues": "issues",
    "merge-requests": "mrs?state=opened",
    "topics": "topics",
    "posts": "posts",
    "file": "files?path=src/moor.py",
    "accounts": "accounts",
    "account": f"accounts/{MIRA}",
    "trending": "trending",
    "status": "status",
    "waiting": "waiting",
    "coverage": "coverage",
    "issue": f"p/{PATH}/issues/1",
    "merge-request": f"p/{PATH}/mrs/3",
    "topic": f"p/{PATH}/topics/7",
    "post": f"post?uri=at://{MIRA}/app.bsky.feed.post/a",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("Chromium is not installed: `apt-get install chromium`")
    with browsing(program) as found:
        yield found


def served(app: App) -> Iterator[str]:
    """Serve a copy on a free port."""
    server = WebServer(app, ServeWeb(port=0))
    server.open()
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site of an ordinary copy."""
    yield from served(with_login(ordinary(tmp_path_factory.mktemp("ordinary") / "lore.db"), "mira"))


@pytest.fixture(autouse=True)
def clean(browser: Browser) -> Iterator[None]:
    """A tab at its usual size; at the end of a test nothing went wrong in it and no other host was asked."""
    browser.show(1200, 800)
    browser.asked.clear()
    browser.problems.clear()
    yield
    assert browser.problems == []
    outside = [url for url in browser.asked if not url.startswith(("http://127.0.0.1:", "data:", "about:"))]
    assert outside == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_its_width_in_both_themes(browser: Browser, site: str, width: int, theme: str) -> None:
    browser.show(width, 800, theme)
    pictures = os.environ.get("TIDELORE_PICTURES")
    for name, path in PAGES.items():
        browser.open(site + path)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, name
        light = browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert light == (theme == "light"), name
        if pictures:
            Path(pictures).mkdir(parents=True, exist_ok=True)
            browser.until(LOADED, f"the parts of {name} are loaded")
            browser.show(width, min(browser.evaluate("document.documentElement.scrollHeight"), MOST_PIXELS), theme)
            browser.picture(Path(pictures) / f"{name}-{width}-{theme}.png")
            browser.show(width, 800, theme)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [400, 1400])
def test_no_page_has_a_serious_accessibility_problem(browser: Browser, site: str, width: int, theme: str) -> None:
    script = find_axe()
    if script is None:
        pytest.skip("axe-core could not be fetched from the npm registry")
    source = script.read_text(encoding="utf-8")
    browser.show(width, 900, theme)
    found = {}
    for name, path in PAGES.items():
        browser.open(site + path)
        # The page's own policy forbids foreign scripts; DevTools may evaluate one all the same.
        browser.evaluate(f"{source}\n;void 0")
        serious = browser.evaluate(
            "axe.run().then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
            ".map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).slice(0, 3).join(' | ')))"
        )
        if serious:
            found[name] = serious
    assert found == {}


def test_home_and_status_load_what_waits_and_the_coverage(browser: Browser, site: str) -> None:
    for path, selector, text in (("", "[hx-get='/waiting']", "Why None?"), ("status", "[hx-get='/coverage']", "Never")):
        browser.open(site + path)
        browser.until(f"document.querySelector(\"{selector}\").textContent.includes('{text}')", f"{text} is shown")


def test_the_keyboard_walks_through_a_list_opens_a_row_and_searches(browser: Browser, site: str) -> None:
    browser.open(site + "issues")
    browser.press("j")
    first = browser.evaluate("document.activeElement.textContent")
    browser.press("j")
    second = browser.evaluate("document.activeElement.textContent")
    browser.press("k")
    assert browser.evaluate("document.activeElement.textContent") == first != second
    address = browser.evaluate("document.activeElement.href")
    browser.press("Enter")
    browser.until(f"location.href === {address!r} && document.readyState === 'complete'", "the row is open")
    browser.press("?")
    browser.until("document.getElementById('keys').open", "the keys are listed")
    browser.press("Escape")
    browser.until("!document.getElementById('keys').open", "they are closed")
    browser.press("/")
    browser.until("document.activeElement.name === 'q'", "the search box is chosen")
    browser.type("crane j k")
    assert browser.evaluate("document.activeElement.value") == "crane j k", "letters in a box are letters"


def test_a_table_on_a_narrow_page_has_a_line_for_each_value_with_its_name(browser: Browser, site: str) -> None:
    browser.show(400, 800)
    for path in ("status", "coverage"):
        browser.open(site + path)
        shown = "[...document.querySelectorAll('.table td[data-label]')].filter(e => e.offsetParent)"
        assert browser.evaluate(f"{shown}.length") > 5, path
        assert browser.evaluate(f"{shown}.every(e => getComputedStyle(e).display === 'grid')"), path


def test_the_key_n_walks_through_the_unresolved_threads(browser: Browser, site: str) -> None:
    browser.open(f"{site}p/{PATH}/mrs/3")
    browser.press("n")
    assert browser.evaluate("document.activeElement.id") == "thread_open"
    browser.press("n")
    assert browser.evaluate("document.activeElement.id") == "thread_open", "it is the only one"


def test_texts_of_others_keep_their_words_and_their_direction(browser: Browser, tmp_path: Path) -> None:
    names = " | ".join(f"configuration{number}" for number in range(6))
    text = f"| {names} |\n|{'---|' * 6}\n\nשלום עולם!\n\n- אחת\n\nplain"
    app = ordinary(tmp_path / "lore.db")
    with app.store() as database, database.transaction() as tx:
        tx.execute("UPDATE issues SET description = :text, title = 'שלום!' WHERE iid = 1", {"text": text})
    edges = (
        "(e => { const r = document.createRange(); r.selectNodeContents(e); const a = r.getBoundingClientRect(),"
        " b = e.getBoundingClientRect(); return [a.left - b.left, b.right - a.right].map(Math.round) })"
    )
    browser.show(400, 800)
    for address in served(app):
        browser.open(f"{address}p/{PATH}/issues/1")
        cells = browser.evaluate(
            "[...document.querySelectorAll('.prose th')].map(e => e.getBoundingClientRect().height)"
        )
        assert max(cells) < 40, "each name is on one line"
        assert browser.evaluate("document.documentElement.scrollWidth") <= 400, "the table scrolls by itself"
        hebrew, plain = (browser.evaluate(f"{edges}(document.querySelectorAll('.prose > p')[{at}])") for at in (0, 1))
        assert hebrew[1] == 0 < hebrew[0]
        assert plain[0] == 0 < plain[1]
        marks = browser.evaluate("getComputedStyle(document.querySelector('.prose ul')).paddingRight")
        assert marks != "0px", "the marks of the list stand on the right"
        assert browser.evaluate(f"{edges}(document.querySelector('h1'))")[0] == 0, "a title stays where titles are"
        browser.open("about:blank")


def test_a_printed_page_is_light_and_shows_resolved_threads(browser: Browser, site: str) -> None:
    try:
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        browser.open(f"{site}p/{PATH}/mrs/3")
        shown = "document.querySelector('details.resolved .note').checkVisibility({contentVisibilityAuto: true})"
        assert not browser.evaluate(shown)
        browser.send("Emulation.setEmulatedMedia", media="print", features=dark)
        assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert browser.evaluate(shown)
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")


def test_results_appear_while_the_reader_types_and_the_address_follows(browser: Browser, site: str) -> None:
    browser.open(site + "search")
    # The browser moves the focus when it paints, which may be after the page is loaded.
    browser.until("document.activeElement.name === 'q'", "the focus is in the field")
    browser.type("crane")
    browser.until("document.querySelectorAll('#found [data-row]').length > 0", "results appear")
    browser.until("location.search.includes('q=crane')", "the address follows")
    assert browser.evaluate("document.querySelector('#found mark').textContent.toLowerCase()") == "crane"
    assert browser.evaluate("document.activeElement.value") == "crane"
    browser.press("Escape")
    browser.press("j")
    assert browser.evaluate("document.activeElement.matches('#found .main-link')")
    chip = "[...document.querySelectorAll('.chip')].find(c => c.textContent === 'issues')"
    assert "q=crane" in browser.evaluate(f"{chip}.href")


def test_status_changes_while_it_is_open(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "lore.db"
    for address in served(ordinary(path)):
        browser.open(address + "status")
        runs = browser.evaluate("document.querySelectorAll('#live tbody tr').length")
        generate_documents(open_app(path), silent)
        browser.until(f"document.querySelectorAll('#live tbody tr').length > {runs}", "the new run is listed")
        browser.open("about:blank")


def test_every_page_can_be_read_without_scripts(browser: Browser, site: str) -> None:
    for domain in ("DOM", "CSS"):
        browser.send(f"{domain}.enable")
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        for path in PAGES.values():
            browser.open(site + path)
            main = browser.send("DOM.getDocument", depth=0)["root"]["nodeId"]
            node = browser.send("DOM.querySelector", nodeId=main, selector="main")["nodeId"]
            html = browser.send("DOM.getOuterHTML", nodeId=node)["outerHTML"]
            assert len(html) > 200, path
            keys = browser.send("DOM.querySelector", nodeId=main, selector="[data-keys]")["nodeId"]
            style = browser.send("CSS.getComputedStyleForNode", nodeId=keys)["computedStyle"]
            assert {"name": "display", "value": "none"} in style, "a button that needs a script is not there"
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


def test_no_text_of_the_corpus_runs_or_loads_anything(browser: Browser, tmp_path: Path) -> None:
    browser.send("Page.addScriptToEvaluateOnNewDocument", source="window.alert = () => { window.ran = true; };")
    for address in served(hostile(tmp_path / "lore.db", CORPUS)):
        paths = [
            f"p/{PATH}/{part}/{number}" for number in range(1, len(CORPUS) + 1) for part in ("issues", "mrs", "topics")
        ]
        for path in [*paths, "", "issues?limit=100", "mrs?limit=100", "posts?limit=100", "search?q=alert&limit=100"]:
            browser.open(address + path)
            assert not browser.evaluate("window.ran"), path
            assert browser.evaluate("document.querySelectorAll('script:not([src^=\"/static/\"])').length") == 0, path
        browser.open("about:blank")


def test_the_button_refresh_shows_what_was_said_since(browser: Browser, desk: Desk) -> None:
    desk.ingested()
    environ = {"GITLAB_TOKEN": "unused"}
    for address in served(App(load_config(str(desk.config), environ), environ, db=str(desk.db))):
        browser.open(f"{address}p/{LEDGER}/issues/2")
        with desk.world.lock:
            desk.world.gitlab.add_note(desk.world.gitlab.issue(LEDGER, 2), "The new bollard is here.")
        browser.evaluate("document.querySelector('form[data-once] button').click()")
        browser.until("document.body?.textContent.includes('The new bollard is here.')", "the new note is shown")
        assert "Refresh succeeded" in browser.evaluate("document.querySelector('[role=status]').textContent")
        browser.open("about:blank")


def test_the_first_result_is_near_the_top_of_a_narrow_page(browser: Browser, site: str) -> None:
    browser.show(400, 800)
    browser.open(site + "search?q=crane")
    assert browser.evaluate("document.querySelector('.results .row').getBoundingClientRect().top") < 300


def test_what_waits_comes_first_on_a_narrow_page_and_stands_beside_the_lists_on_a_wide_one(
    browser: Browser, site: str
) -> None:
    tops = "['waiting', 'recent', 'sources'].map(id => document.getElementById(id).getBoundingClientRect().top)"
    for width in (400, 1400):
        browser.show(width, 800)
        browser.open(site)
        browser.until("document.querySelector('#waiting .count') !== null", "it is loaded")
        waiting, recent, sources = browser.evaluate(tops)
        assert sources - waiting > 100
        assert waiting < recent if width == 400 else abs(waiting - recent) < 2
        lefts = browser.evaluate(
            "[...document.querySelectorAll('#recent, .home > div .row .state')]"
            ".map(e => e.getBoundingClientRect().left)"
        )
        assert len(set(lefts)) == 1, "rows begin where their heading does"


@pytest.mark.parametrize("theme", THEMES)
def test_the_border_and_the_placeholder_of_a_field_can_be_seen(browser: Browser, site: str, theme: str) -> None:
    browser.show(900, 800, theme)
    browser.open(site + "issues")
    parts = browser.evaluate(
        "(e => [getComputedStyle(e).borderTopColor, getComputedStyle(e, '::placeholder').color,"
        " getComputedStyle(e).backgroundColor])(document.getElementById('find'))"
    )
    border, placeholder, ground = (_luminance(color) for color in parts)
    assert _contrast(border, ground) >= 3
    assert _contrast(placeholder, ground) >= 4.5


def _luminance(color: str) -> float:
    """Return the relative luminance of a colour written as rgb(…), as WCAG 2 defines it."""
    parts = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_no_table_is_wider_than_a_page_of_usual_width(browser: Browser, site: str) -> None:
    browser.show(900, 800)
    for path in ("status", "coverage"):
        browser.open(site + path)
        browser.until(LOADED, f"the parts of {path} are loaded")
        wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
        assert browser.evaluate(wide) == 0, path


def test_the_address_of_a_note_in_a_folded_thread_shows_it(browser: Browser, site: str) -> None:
    browser.open(f"{site}p/{PATH}/mrs/3?note=22#note_22")
    shown = "document.getElementById('note_22').checkVisibility({contentVisibilityAuto: true})"
    browser.until(shown, "the thread is unfolded")
