"""Find URLs in a text and normalise them for comparison and counting.

`normalise` returns None for what is not a web URL and for what is too long to be indexed. It is idempotent, its result
is plain ASCII, and two URLs that differ only in tracking parameters become one.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from urllib.parse import unquote, urlsplit

MAX_LENGTH = 2000
"""Both databases can index this length. Longer URLs carry state and are not shared twice."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_TRACKING = re.compile(
    r"(?:utm_|mtm_|hsa_|__hs).*|"
    r"fbclid|gclid|gclsrc|dclid|gbraid|wbraid|gad_source|gad_campaignid|srsltid|msclkid|yclid|ysclid|"
    r"twclid|ttclid|li_fat_id|igsh|igshid|mc_cid|mc_eid|mkt_tok|_hsenc|_hsmi|hsctatracking|vero_id|"
    r"vero_conv|oly_anon_id|oly_enc_id|rb_clickid|s_cid|wickedid|epik|_openstat|ref_src|ref_url|"
    r"_branch_match_id|_branch_referrer|guccounter|guce_referrer|guce_referrer_sig|s_kwcid|ef_id|"
    r"pk_campaign|pk_kwd|pk_source|pk_medium"
)
_MOST_HOST = 253
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\u2060-\u2064\ufeff]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})|(.)", re.DOTALL)
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/]*")
_PLAIN_QUERY = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/?]*")
_LABEL = re.compile(r"[a-z0-9_][a-z0-9_-]{0,62}+(?<!-)")
# Most URLs only need their query and fragment changed: this matches them, five times faster than parsing.
_PLAIN = re.compile(
    rf"(https?://(?:{_LABEL.pattern}\.)*+{_LABEL.pattern})((?:/{_PLAIN_PATH.pattern})?)(?:\?([^#]*))?(?:#.*)?",
    re.DOTALL,
)

_URL = re.compile(r"(?<![A-Za-z0-9])(?:https?://|www\.(?=[^\s.]+\.))[^\s<>\"\u201c\u201d\u00ab\u00bb]+", re.IGNORECASE)
_CLOSING = ".,;:!?'*\u2019\u201a\u3002\uff0c"
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_CUT = "\u2026"


def normalise(url: str) -> str | None:
    """Return the normal form of a web URL for comparison, or None if it is not a web URL.

    Scheme and host in lower case and ASCII, no default port, user, fragment, tracking parameter or empty query; escapes
    in upper case and only where they are needed; dot segments resolved.
    """
    text = url.strip()
    if text[:4].lower() == "www.":
        text = f"https://{text}"
    if len(text) > 8 * MAX_LENGTH:
        return None
    plain = _PLAIN.fullmatch(text)
    if (plain is None or plain.end(2) < len(text)) and _UNSEEN.search(text):
        return None
    try:
        if plain is not None and "/." not in plain[2] and len(plain[1]) <= _MOST_HOST:
            return _bounded(f"{plain[1]}{plain[2] or '/'}{_clean_query(plain[3] or '')}")
        parts = urlsplit(text)
        scheme, port = parts.scheme.lower(), parts.port
        host = _host(parts.hostname or "") if scheme in _DEFAULT_PORTS else None
        if host is None:
            return None
        shown_port = "" if port is None or port == _DEFAULT_PORTS[scheme] else f":{port}"
        path = _resolve_dots(_escape(parts.path, _PLAIN_PATH))
        query = _clean_query(parts.query)
    except ValueError:  # an impossible port or bracket, or half a surrogate pair
        return None
    return _bounded(f"{scheme}://{host}{shown_port}{path}{query}")


def find_urls(text: str) -> tuple[str, ...]:
    """Return the web URLs that are written out in a text, in order, without duplicates.

    Punctuation of the surrounding sentence is not part of a URL. One that ends in an ellipsis was cut for display and
    is left out, because it is incomplete.
    """
    found: dict[str, None] = {}
    for match in _URL.finditer(text):
        raw, cut, _ = match[0].partition(_CUT)
        raw = _trim(raw)
        if raw and not cut:
            found[raw] = None
    return tuple(found)


def _bounded(url: str) -> str | None:
    return url if len(url) <= MAX_LENGTH else None


def _trim(raw: str) -> str:
    while raw:
        last = raw[-1]
        opening = _BRACKETS.get(last)
        if last in _CLOSING or (opening is not None and raw.count(opening) < raw.count(last)):
            raw = raw[:-1]
        else:
            break
    return raw


def _host(host: str) -> str | None:
    if ":" in host:
        return f"[{IPv6Address(host).compressed}]"
    host = unquote(host, errors="strict").lower().rstrip(".")
    if not host.isascii():
        import idna  # rarely needed, and it loads large tables

        try:
            host = idna.encode(host, uts46=True).decode("ascii").rstrip(".")
        except idna.IDNAError:
            return None
    labels = host.split(".")
    return host if len(host) <= _MOST_HOST and all(_LABEL.fullmatch(label) for label in labels) else None


def _escape(text: str, plain: re.Pattern[str]) -> str:
    """Return the text with escapes in upper case, and only for characters that must be escaped."""
    if plain.fullmatch(text) is not None:
        return text

    def rewrite(match: re.Match[str]) -> str:
        if match[1] is not None:
            known = chr(int(match[1], 16))
            return known if known in _UNRESERVED else f"%{match[1].upper()}"
        char = match[2]
        return char if plain.fullmatch(char) is not None else "".join(f"%{byte:02X}" for byte in char.encode())

    return _ESCAPE.sub(rewrite, text)


def _resolve_dots(path: str) -> str:
    if "/." not in path:
        return path or "/"
    kept: list[str] = []
    parts = path.split("/")[1:] if path else [""]
    for part in parts:
        if part == "..":
            del kept[-1:]
        elif part != ".":
            kept.append(part)
    if parts[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)


def _clean_query(query: str) -> str:
    if not query:
        return ""
    pairs = [_escape(pair, _PLAIN_QUERY) for pair in query.split("&") if pair]
    kept = [pair for pair in pairs if not _tracks(pair.partition("=")[0].lower())]
    return f"?{'&'.join(kept)}" if kept else ""


def _tracks(name: str) -> bool:
    return _TRACKING.fullmatch(name) is not None
