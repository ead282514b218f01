"""Opens the configured embedder and loads only the modules that it needs.

A missing package or setting is returned as a value with a reason and a remedy, not raised as an error, because keyword
search works without it. An invalid URL or proxy is a ConfigError.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelore.core.clock import Clock
from tidelore.core.config import Embedding, Http
from tidelore.core.extras import EXTRAS, find_missing, install_command
from tidelore.embedding.embedder import Embedder, Unavailable

_OF_SERVERS = ("numpy",)
"""The packages of the extra `vectors` that a provider on a server needs."""


def open_embedder(
    settings: Embedding, http: Http, environ: Mapping[str, str], clock: Clock | None = None
) -> Embedder | Unavailable | None:
    """Return the configured embedder, why it is unavailable, or None if none is configured; sends no request."""
    if settings.provider == "none":
        return None
    if settings.provider == "local":
        from tidelore.embedding.local import LocalEmbedder, find_local

        files = find_local()
        return files if isinstance(files, Unavailable) else LocalEmbedder(files, settings)
    if settings.provider == "minilm":
        from tidelore.embedding.minilm import MiniLmEmbedder, find_minilm

        weights = find_minilm()
        return weights if isinstance(weights, Unavailable) else MiniLmEmbedder(weights, settings)
    return _open_remote(settings, http, environ, clock)


def missing_extra(settings: Embedding) -> str | None:
    """Return the extra that the configured provider needs if it is not installed; imports none of its packages."""
    if settings.provider == "none":
        return None
    extra = "minilm" if settings.provider == "minilm" else "vectors"
    in_process = settings.provider in ("local", "minilm")
    return None if find_missing(EXTRAS[extra] if in_process else _OF_SERVERS) is None else extra


def _open_remote(
    settings: Embedding, http: Http, environ: Mapping[str, str], clock: Clock | None
) -> Embedder | Unavailable:
    if find_missing(_OF_SERVERS) is not None:
        return Unavailable("vectors need the package numpy", install_command("vectors"), "vectors")
    from tidelore.embedding.client import JsonClient, parse_base_url
    from tidelore.embedding.remote import PROVIDERS, RemoteEmbedder
    from tidelore.http.tls import is_loopback

    provider = PROVIDERS[settings.provider]
    base_url = parse_base_url(settings.base_url or provider.base_url)
    variable = settings.api_key_env or provider.key_variable
    key = environ.get(variable, "").strip() if variable else ""
    if variable and not key and not is_loopback(base_url):
        return Unavailable(f"no key for the embedding server: {variable} is not set", f"export {variable}")
    client = JsonClient(base_url, http=http, timeout_seconds=settings.timeout_seconds, key=key, clock=clock)
    service = provider.service(client, settings.model or provider.model, settings.dimensions)
    return RemoteEmbedder(service, settings, provider.tuning)
