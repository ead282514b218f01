"""The origin. Owns the one place a client may speak to, and turns paths, links and redirects into addresses.

It refuses every address with another scheme, host or port: whoever receives a request receives the token.
Invariant: an `Address` it returns lies on the configured origin, compared on the very object that is sent, so
two parsers that disagree cannot open a way around.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn
from urllib.parse import urlencode, urljoin

from tidelore.core.errors import ConfigError, ForeignOrigin
from tidelore.sources.transport import Address, parse_address

Param = str | int | bool | None | Sequence[str | int]
Params = Mapping[str, Param]

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


class Origin:
    """The configured scheme, host and port, with the path the server may live under."""

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
        """Return where a path below the base, or an absolute address, is; or raise ForeignOrigin."""
        absolute = _ABSOLUTE.match(path_or_url) is not None
        text = path_or_url if absolute else f"{self.url}/{path_or_url.lstrip('/')}"
        query = encode_params(params) if params else ""
        if query:
            text = f"{text}{'&' if '?' in text else '?'}{query}"
        return self._own(text, "an address")

    def redirect(self, from_url: str, location: str) -> Address:
        """Return where a redirect leads; or raise ForeignOrigin."""
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
    """Return a query: None is left out, booleans are `true` and `false`, a sequence repeats its name."""
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
        # Nothing an address can be made of; the caller refuses it.
        return ""
