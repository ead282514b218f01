"""URLs: the configured origin, the `Link` header (RFC 8288) and the next page of a list.

`Origin` resolves paths, links and redirects and refuses every URL with another scheme, host or port, because each
request carries the token. The check is made on the object that is sent, so a difference between two URL parsers cannot
be used to bypass it. `next_page` sends nothing and never raises on server input; it never returns the page just read,
so a list cannot loop. Invariant: a list ends only where a header says so or a page was not full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn
from urllib.parse import SplitResult, unquote_plus, urlencode, urljoin, urlsplit, urlunsplit

from tidelore.core.errors import ConfigError, ForeignOrigin
from tidelore.http.transport import Address, parse_address

Param = str | int | bool | None | Sequence[str | int]
Params = Mapping[str, Param]

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


class Origin:
    """The configured scheme, host and port, with an optional base path."""

    def __init__(self, base_url: str, clean: Callable[[str], str]) -> None:
        self._clean = clean
        base = parse_address(base_url)
        if base is None or base.query:
            raise ConfigError(
                f"base_url is not an http(s) URL: {clean(base_url)}",
                key="base_url",
                fix='write it like "https://gitlab.example.com"',
            )
        self._origin = base.origin
        self._name = f"{base.scheme}://{base.netloc.decode('ascii')}"
        self.url = str(base).rstrip("/")
        self.host = base.netloc

    def __str__(self) -> str:
        return self._name

    def resolve(self, path_or_url: str, params: Params | None = None) -> Address:
        """Return the URL of a path below the base, or of an absolute URL; raise ForeignOrigin for another origin."""
        absolute = _ABSOLUTE.match(path_or_url) is not None
        text = path_or_url if absolute else f"{self.url}/{path_or_url.lstrip('/')}"
        query = encode_params(params) if params else ""
        if query:
            text = f"{text}{'&' if '?' in text else '?'}{query}"
        return self._own(text, "an address")

    def redirect(self, from_url: str, location: str) -> Address:
        """Return the target of a redirect; raise ForeignOrigin for another origin."""
        return self._own(_join(from_url, location), "a redirect")

    def _own(self, text: str, what: str) -> Address:
        url = parse_address(text)
        if url is None or url.origin != self._origin:
            self._refuse(text, what)
        return url

    def _refuse(self, text: str, what: str) -> NoReturn:
        raise ForeignOrigin(
            f"{what} points to another origin than {self}",
            url=self._clean(text),
            reason="foreign_origin",
            fix="set base_url to the address the server uses for itself, including scheme and port",
        )


def encode_params(params: Params) -> str:
    """Return a query string: None is omitted, booleans are `true` and `false`, a sequence repeats its name."""
    pairs: list[tuple[str, str | int]] = []
    for name, value in params.items():
        if value is None:
            continue
        if isinstance(value, bool):
            pairs.append((name, "true" if value else "false"))
        elif isinstance(value, str | int):
            pairs.append((name, value))
        else:
            pairs.extend((name, item) for item in value)
    return urlencode(pairs)


def _join(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        # Not a valid URL; the caller refuses the empty string.
        return ""


PageRule = Literal["link", "x-next-page", "full-page"]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_BLANK = " \t\r\n"
# The relations of a paginated list: one of them without `next` means that this page is the last.
_PAGE_RELATIONS = frozenset({"first", "prev", "previous", "last"})


@dataclass(frozen=True, slots=True)
class Link:
    """One link of a `Link` header, with its target as written."""

    target: str
    relations: frozenset[str]
    anchor: str | None = None


@dataclass(frozen=True, slots=True)
class NextPage:
    """The URL of the next page, the rule that found it, and whether it has another origin than this page."""

    url: str
    rule: PageRule
    foreign: bool = False


def next_page(headers: Mapping[str, str], url: str, count: int, per_page: int) -> NextPage | None:
    """Return the page after the one read from `url` with `count` items, or None when it was the last.

    `headers` must accept lower-case names. Order of the rules: `Link rel=next`, then `x-next-page`, then a full page.
    """
    links = [link for link in parse_link(headers.get("link") or "") if _is_about(link, url)]
    for link in links:
        target = _resolve(url, link.target) if "next" in link.relations else None
        if target is not None and _canonical(target) != _canonical(url):
            return NextPage(target, "link", foreign=not same_origin(target, url))
    loops = any("next" in link.relations for link in links)
    page = _page_number(url)
    told = headers.get("x-next-page")
    if told is not None:
        told = told.strip()
        if told.isascii() and told.isdigit() and int(told) > page:
            return NextPage(_with_page(url, int(told)), "x-next-page")
        if not told:
            return None
    elif not loops and any(link.relations & _PAGE_RELATIONS for link in links):
        return None
    if 0 < per_page <= count:
        return NextPage(_with_page(url, page + 1), "full-page")
    return None


def same_origin(first: str, second: str) -> bool:
    """Return whether two absolute URLs share scheme, host and port."""
    one = _origin(first)
    return one is not None and one == _origin(second)


def parse_link(header: str) -> list[Link]:
    """Return the links of a header (several headers joined by commas); invalid parts are skipped."""
    links = []
    position = 0
    while position < len(header):
        if header[position] in _BLANK or header[position] == ",":
            position += 1
            continue
        end = header.find(">", position) if header[position] == "<" else -1
        if end < 0:
            position = _skip(header, position, ",")
            continue
        target = header[position + 1 : end].strip()
        # The first occurrence of a parameter counts (RFC 8288, section 3).
        parameters: dict[str, str] = {}
        position = _skip(header, end + 1, ";,")
        while position < len(header) and header[position] == ";":
            name, value, position = _parameter(header, position + 1)
            parameters.setdefault(name, value)
            position = _skip(header, position, ";,")
        relations = frozenset(parameters.get("rel", "").lower().split())
        links.append(Link(target, relations, parameters.get("anchor")))
    return links


def _parameter(header: str, start: int) -> tuple[str, str, int]:
    """Return name and value of the parameter that begins at `start`, and the position after it."""
    position = start
    while position < len(header) and header[position] not in "=;,":
        position += 1
    name = header[start:position].strip(_BLANK).lower()
    if position < len(header) and header[position] == "=":
        return name, *_value(header, position + 1)
    return name, "", position


def _value(header: str, position: int) -> tuple[str, int]:
    while position < len(header) and header[position] in _BLANK:
        position += 1
    if position < len(header) and header[position] == '"':
        end = _quoted_end(header, position)
        return re.sub(r"\\(.)", r"\1", header[position + 1 : end].removesuffix('"'), flags=re.DOTALL), end
    start = position
    while position < len(header) and header[position] not in ";,":
        position += 1
    return header[start:position].strip(_BLANK), position


def _quoted_end(header: str, position: int) -> int:
    """Return the position after the quoted string that opens at `position`; the end of the header if unclosed."""
    position += 1
    while position < len(header):
        if header[position] == "\\":
            position += 2
        elif header[position] == '"':
            return position + 1
        else:
            position += 1
    return len(header)


def _skip(header: str, position: int, stops: str) -> int:
    while position < len(header) and header[position] not in stops:
        position = _quoted_end(header, position) if header[position] == '"' else position + 1
    return position


def _is_about(link: Link, url: str) -> bool:
    """Return whether a link is about this page: it has no anchor, or its anchor is this page."""
    if link.anchor is None:
        return True
    context = _resolve(url, link.anchor)
    return context is not None and _canonical(context) == _canonical(url)


def _resolve(url: str, reference: str) -> str | None:
    try:
        return urljoin(url, reference)
    except ValueError:
        return None


def _split(url: str) -> SplitResult | None:
    if _UNSAFE.search(url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _origin(url: str) -> tuple[str, str, int | None] | None:
    parts = _split(url)
    if parts is None or not parts.hostname:
        return None
    scheme = parts.scheme.lower()
    return scheme, parts.hostname.lower(), parts.port or _DEFAULT_PORTS.get(scheme)


def _canonical(url: str) -> object:
    parts = _split(url)
    return url if parts is None else (_origin(url), parts.path or "/", parts.query)


def _page_number(url: str) -> int:
    parts = _split(url)
    for pair in (parts.query if parts else "").split("&"):
        name, _, value = pair.partition("=")
        if unquote_plus(name) == "page" and value.isascii() and value.isdigit():
            return int(value)
    return 1


def _with_page(url: str, page: int) -> str:
    """Return `url` with the page number set to `page` and the rest of its query unchanged."""
    parts = urlsplit(url)
    pairs = [pair for pair in parts.query.split("&") if pair and unquote_plus(pair.partition("=")[0]) != "page"]
    return urlunsplit(parts._replace(query="&".join([*pairs, f"page={page}"]), fragment=""))
