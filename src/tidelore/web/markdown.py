"""Turns Markdown that others wrote into HTML that is safe to show.

Markdown is rendered, references and bare addresses become links, remote images become links until the reader asks for
them, and the sanitiser decides last: what it does not list is not in the page. Invisible characters are removed first.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from html.parser import HTMLParser
from urllib.parse import urljoin

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

from tidelore.core.text import without_hidden
from tidelore.web.addresses import external, reference_address

LONGEST = 40_000
"""Characters of one text that a page shows; the rest is on its host and in the JSON of the page."""
LONGEST_HTML = 60_000
"""Characters of HTML that one text may become; a text that becomes more is cut further."""
MOST_LINKS = 50
"""How many bare addresses and references of one text become links."""
CUT = "\n\n… (cut)"
_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "ul", "ol", "li", "dl", "dt"),
    *("dd", "table", "thead", "tbody", "tr", "th", "td", "strong", "em", "b", "i", "s", "del", "ins", "sub", "sup"),
    *("kbd", "a", "details", "summary", "span", "div", "input"),
}
_ATTRIBUTES = {
    "a": {"href", "title", "class"},
    "img": {"src", "alt", "title", "loading", "referrerpolicy"},
    "th": {"class"},
    "td": {"class"},
    "ul": {"dir"},
    "ol": {"start", "dir"},
    "blockquote": {"dir"},
    "span": {"class"},
    "input": {"type", "checked", "disabled"},
    "details": {"open"},
}
_CLASSES = {"remote-image", "image-name", "reference", "left", "center", "right", "suggested"}
_DIRECTED = frozenset({"ul", "ol", "blockquote"})
"""Tags whose marks stand on the side where their text begins; the style sheet does the same for paragraphs."""
_VOID = frozenset({"br", "hr", "img", "input", "area", "col", "embed", "link", "meta", "source", "track", "wbr"})
_SILENT = frozenset({"script", "style", "textarea", "title", "iframe", "noscript", "template", "svg", "math"})
ADDRESS = r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}]"
"""A bare address in a text, without the punctuation after it."""
_BARE = re.compile(
    rf"(?P<url>{ADDRESS})"
    r"|(?<![\w/&#!.-])(?P<reference>(?:[\w.+~-]+(?:/[\w.+~-]+)+)?[#!][0-9]{1,9})(?![\w/-])"
)
_TASK = re.compile(r"\[([ xX])\]\s")


def render_markdown(
    text: str | None, *, project: str | None = None, base: str | None = None, images: bool = False
) -> Markup:
    """Return sanitised HTML.

    `project` completes references such as #12, `base` completes relative links, `images` loads remote images.
    """
    if not text:
        return Markup()
    shown = text if len(text) <= LONGEST else text[:LONGEST] + CUT
    html = _rendered(shown, project, base, images)
    while len(html) > LONGEST_HTML:
        shown = text[: len(shown) * LONGEST_HTML // (len(html) * 2)] + CUT
        html = _rendered(shown, project, base, images)
    return html


def count_images(text: str | None) -> int:
    """Return roughly how many images a text embeds."""
    return 0 if not text else len(re.findall(r"!\[[^\]]*\]\(|<img\b", text))


@lru_cache(maxsize=2048)
def _rendered(text: str, project: str | None, base: str | None, images: bool) -> Markup:  # noqa: FBT001 - a cache key
    rewriter = _Rewriter(project, base, images=images)
    rewriter.feed(_parser().render(without_hidden(text)))
    rewriter.close()
    return Markup(_clean("".join(rewriter.parts), images=images))  # noqa: S704 - the sanitiser has just decided


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True, "breaks": True, "maxNesting": 40})
    return parser.enable(["table", "strikethrough"])


def _clean(html: str, *, images: bool) -> str:
    return nh3.clean(
        html,
        tags=_TAGS | ({"img"} if images else set()),
        clean_content_tags=set(_SILENT),
        attributes=_ATTRIBUTES,
        attribute_filter=_filter_attribute,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "class":
        return " ".join(word for word in value.split() if word in _CLASSES) or None
    if name == "dir":
        return "auto"
    if tag == "input":
        return {"type": "checkbox", "disabled": "disabled"}.get(name, value)
    return value


class _Rewriter(HTMLParser):
    """Rewrites rendered HTML: images to links, bare addresses and references to links. It removes nothing."""

    def __init__(self, project: str | None, base: str | None, *, images: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._project = project
        self._base = base
        self._images = images
        self._links = 0
        self._linked = 0
        self._verbatim = 0
        self._items: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "img":
            self.parts.append(self._image(values))
            return
        if tag == "input":
            return
        if tag == "a":
            self._links += 1
            href = self._absolute(values.get("href", ""))
            values = {"href": href} if href else {}
        elif tag in {"code", "pre"}:
            self._verbatim += 1
        elif tag in _DIRECTED:
            values["dir"] = "auto"
        if tag == "code" and values.get("class", "").startswith("language-suggestion"):
            self.parts.append('<span class="suggested">Suggested change</span>')
        align = re.fullmatch(r"text-align:(left|center|right)", values.pop("style", "").replace(" ", ""))
        if align is not None and tag in {"th", "td"}:
            values["class"] = align[1]
        self.parts.append(f"<{tag}{_attributes(values)}>")
        self._items.append(tag == "li")

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self._links = max(self._links - 1, 0)
        elif tag in {"code", "pre"}:
            self._verbatim = max(self._verbatim - 1, 0)
        if tag not in _VOID:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        task = _TASK.match(data) if self._items and self._items[-1] else None
        if task is not None:
            checked = " checked" if task[1] != " " else ""
            self.parts.append(f'<input type="checkbox" disabled{checked}> ')
            data = data[task.end() :]
        if data.strip():
            self._items.append(False)
        if self._links or self._verbatim:
            self.parts.append(escape(data))
        else:
            self._link_bare(data)

    def _link_bare(self, data: str) -> None:
        end = 0
        for found in _BARE.finditer(data):
            self._linked += 1
            if self._linked > MOST_LINKS:
                break
            self.parts.append(escape(data[end : found.start()]))
            word = found.group()
            reference = found["reference"]
            href = word if reference is None else reference_address(reference, self._project)
            self.parts.append(f"<a{_attributes({'href': href})}>{escape(word)}</a>")
            end = found.end()
        self.parts.append(escape(data[end:]))

    def _image(self, values: dict[str, str]) -> str:
        source = external(self._absolute(values.get("src", "")))
        alt = values.get("alt", "").strip() or "image"
        if source is None or self._links:
            return f'<span class="image-name">[{escape(alt)}]</span>'
        if self._images:
            shown = {"src": source, "alt": alt, "loading": "lazy", "referrerpolicy": "no-referrer"}
            return f"<img{_attributes(shown)}>"
        return f"<a{_attributes({'href': source, 'class': 'remote-image'})}>{escape(alt)}</a>"

    def _absolute(self, address: str) -> str:
        """Return a link as an absolute address; a relative one is meant relative to the item's page on its host."""
        if address.startswith("#") or not address:
            return ""
        try:
            whole = urljoin(self._base, address) if self._base else address
        except ValueError:
            return ""
        return whole if whole.startswith("mailto:") or external(whole) else ""


def _attributes(values: dict[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items())
