"""Reads a page as a browser does, and says what in it could run, load, restyle, leave the page or is not well made."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urlsplit

from starlette.testclient import TestClient

HOST = "http://127.0.0.1:8765"
_LOADING = {"src", "srcset", "poster", "data", "background", "formaction", "action", "ping", "manifest", "xlink:href"}
_FORBIDDEN = frozenset(
    {"iframe", "object", "embed", "style", "svg", "math", "base", "video", "audio", "frame", "applet", "template"}
)
_OWN_HX = {("hx-get", "/search"), ("hx-get", "/waiting"), ("hx-get", "/coverage"), ("hx-target", "#found")}


class PageReader(HTMLParser):
    """Collects the title, the links and the text of a page, and everything in it that others must not bring in."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.dangers: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.title = ""
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._in_title = tag == "title"
        if tag in _FORBIDDEN:
            self.dangers.append(f"<{tag}>")
        if tag == "script" and not values.get("src", "").startswith("/static/"):
            self.dangers.append(f"script {values}")
        if tag == "meta" and "http-equiv" in values:
            self.dangers.append(f"meta {values}")
        if tag == "link" and not values.get("href", "").startswith("/static/"):
            self.dangers.append(f"link {values}")
        for name, value in values.items():
            self._judge(tag, name, value)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])

    def _judge(self, tag: str, name: str, value: str) -> None:
        if name.startswith("on") or name == "style" or name == "srcdoc":
            self.dangers.append(f"{tag} {name}={value!r}")
        if name in _LOADING and not (value.startswith("/") and not value.startswith("//")):
            self.dangers.append(f"{tag} {name}={value!r}")
        if name == "hx-get" and (name, value) not in _OWN_HX:
            self.dangers.append(f"{tag} {name}={value!r}")
        if name == "data-live" and value != "/status/live":
            self.dangers.append(f"{tag} {name}={value!r}")
        if name == "href" and not _is_harmless(value):
            self.dangers.append(f"{tag} {name}={value!r}")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False

    def handle_data(self, data: str) -> None:
        self.text += data.replace("\N{NO-BREAK SPACE}", " ")
        if self._in_title:
            self.title += data


def _is_harmless(address: str) -> bool:
    if address.startswith(("/", "#")):
        return not address.startswith(("//", "/\\"))
    return urlsplit(address).scheme in {"http", "https", "mailto"}


def read(html: str) -> PageReader:
    """Return what a page consists of."""
    reader = PageReader()
    reader.feed(html)
    reader.close()
    return reader


def crawl(client: TestClient, *starts: str, most: int = 400) -> dict[str, PageReader]:
    """Follow every link of the site from these addresses; each page must be found."""
    found: dict[str, PageReader] = {}
    waiting = list(starts)
    while waiting and len(found) < most:
        address = waiting.pop(0)
        if address in found:
            continue
        response = client.get(address)
        assert response.status_code == 200, (address, response.status_code, response.text[-400:])
        if response.headers["content-type"].startswith("text/html"):
            found[address] = read(response.text)
            waiting += [link for link in found[address].links if link.startswith("/")]
    return found
