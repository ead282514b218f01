"""Proxies. Owns which proxy, if any, stands between us and a host.

It refuses surprises: a proxy that the environment names never sees a request to this very machine. One that
the configuration names is used for everything, because somebody said so.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit


def choose_proxy(base_url: str, configured: str, environment: Mapping[str, str]) -> str | None:
    """Return the proxy for a host. `environment` is what `urllib.request.getproxies` returns."""
    if configured:
        return configured
    parts = urlsplit(base_url)
    host = (parts.hostname or "").lower()
    if _is_loopback(host) or _is_excepted(host, parts.port, environment.get("no", "")):
        return None
    proxy = environment.get(parts.scheme) or environment.get("all")
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_excepted(host: str, port: int | None, exceptions: str) -> bool:
    """Read NO_PROXY the way curl does: names with their subdomains, addresses, networks, `*`."""
    for entry in exceptions.lower().split(","):
        name = entry.strip().lstrip(".")
        if name == "*" or (name and (host == name or host.endswith(f".{name}") or name == f"{host}:{port}")):
            return True
        try:
            if "/" in name and ip_address(host) in ip_network(name, strict=False):
                return True
        except ValueError:
            continue
    return False
