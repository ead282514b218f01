"""Ollama. Owns how its server is asked: `/api/embed`, and `/api/embeddings` on old ones. A digest is the version.

The digest comes from `/api/tags`: `/api/show` tells everything about a model but that. Refuses to pull a model: what
is downloaded is the user's decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tidelore.core.errors import RemoteNotFound
from tidelore.embedding.client import JsonClient
from tidelore.embedding.embedder import ModelIdentity
from tidelore.embedding.remote import PROBE, Numbers
from tidelore.embedding.settings import Tuning

BASE_URL = "http://127.0.0.1:11434"
MODEL = "nomic-embed-text"
KEY_VARIABLE = ""
"""None by default: it asks for no key, and that of another service is not for it."""
TUNING = Tuning(fusion_weight=1.0, rrf_k=10, batch_size=32, min_similarity=0.2)
UNREPORTED = "unreported"


class _Embedded(Struct):
    embeddings: Numbers


class _EmbeddedOne(Struct):
    embedding: list[float]


class _Model(Struct):
    name: str
    digest: str = ""


class _Models(Struct):
    models: list[_Model] | None = None


class OllamaService:
    """One model of an Ollama server."""

    def __init__(self, client: JsonClient, model: str, dimensions: int) -> None:
        self._client = client
        self._model = model
        self._dimensions = dimensions
        self._one_by_one = False

    async def identify(self) -> ModelIdentity:
        version = await self._digest()
        probe = await self.ask([PROBE])
        return ModelIdentity(f"ollama/{self._model}", version, len(probe[0]) if probe else 0)

    async def ask(self, texts: Sequence[str]) -> Numbers:
        if not self._one_by_one:
            body: dict[str, Any] = {"model": self._model, "input": list(texts), "truncate": True}
            if self._dimensions:
                body["dimensions"] = self._dimensions
            try:
                return (await self._client.ask("POST", "api/embed", body, _Embedded)).embeddings
            except RemoteNotFound as failure:
                if _speaks_of_the_model(failure):
                    raise self._absent(failure) from None
                self._one_by_one = True
        return [await self._ask_old(text) for text in texts]

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _ask_old(self, text: str) -> list[float]:
        body = {"model": self._model, "prompt": text}
        try:
            return (await self._client.ask("POST", "api/embeddings", body, _EmbeddedOne)).embedding
        except RemoteNotFound as failure:
            if _speaks_of_the_model(failure):
                raise self._absent(failure) from None
            raise

    async def _digest(self) -> str:
        try:
            found = await self._client.ask("GET", "api/tags", None, _Models)
        except RemoteNotFound:
            return UNREPORTED  # a server that imitates Ollama and keeps no models of its own
        names = {self._model, f"{self._model}:latest"}
        return next((model.digest for model in found.models or () if model.name in names and model.digest), UNREPORTED)

    def _absent(self, failure: RemoteNotFound) -> RemoteNotFound:
        return RemoteNotFound(
            f"the Ollama server has no model {self._model}",
            status=failure.status,
            url=failure.url,
            reason="no_model",
            fix=f"ollama pull {self._model}",
        )


def _speaks_of_the_model(failure: RemoteNotFound) -> bool:
    # An address it does not know is answered in plain text, a model it does not have in JSON.
    return str(failure.details.get("said", "")).startswith("{")
