"""OpenAI and everything that speaks like it. Owns `POST /v1/embeddings`; the model's name in the answer is its version.

Vectors are put in the order of their `index`, whatever order they come in. Refuses a batch whose indexes are not
those of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tidelore.core.errors import RemotePermanent
from tidelore.embedding.client import JsonClient
from tidelore.embedding.embedder import ModelIdentity
from tidelore.embedding.remote import PROBE, Numbers
from tidelore.embedding.settings import Tuning

BASE_URL = "https://api.openai.com/v1"
MODEL = "text-embedding-3-small"
KEY_VARIABLE = "OPENAI_API_KEY"
TUNING = Tuning(fusion_weight=1.0, rrf_k=10, batch_size=64, min_similarity=0.2)

_VERSIONED = re.compile(r"/v\d+[a-z0-9]*$")


class _Item(Struct):
    index: int
    embedding: list[float]


class _Embedded(Struct):
    data: list[_Item]
    model: str = ""


class OpenAiService:
    """One model of a compatible server."""

    def __init__(self, client: JsonClient, model: str, dimensions: int) -> None:
        self._client = client
        self._model = model
        self._dimensions = dimensions
        # People write the address with and without the version of the interface; both are meant alike.
        self._path = "embeddings" if _VERSIONED.search(client.base_url) else "v1/embeddings"

    async def identify(self) -> ModelIdentity:
        found = await self._post([PROBE])
        probe = in_order(found.data, 1)
        return ModelIdentity(f"openai/{self._model}", found.model or self._model, len(probe[0]))

    async def ask(self, texts: Sequence[str]) -> Numbers:
        return in_order((await self._post(texts)).data, len(texts))

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _post(self, texts: Sequence[str]) -> _Embedded:
        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._dimensions:
            body["dimensions"] = self._dimensions
        return await self._client.ask("POST", self._path, body, _Embedded)


def in_order(items: Sequence[_Item], count: int) -> Numbers:
    """Return the vectors by index, or raise RemotePermanent when one is missing or doubled."""
    ordered = sorted(items, key=lambda item: item.index)
    if [item.index for item in ordered] != list(range(count)):
        raise RemotePermanent(
            f"the embedding server returned {len(items)} vectors for {count} texts", reason="wrong_count"
        )
    return [item.embedding for item in ordered]
