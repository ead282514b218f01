"""Embedders on a server: batches, checks of the returned vectors, and the APIs of Ollama and OpenAI.

Vectors of another dimension than the identified model's are refused, and so are batches with more or fewer vectors than
texts: in a shifted batch every vector would be stored for the wrong text. Ollama has `/api/embed`, and
`/api/embeddings` on old servers; a model's version is its digest from `/api/tags`; no model is ever pulled. OpenAI and
compatible servers have `POST /v1/embeddings`; vectors are ordered by their `index`, and the model's name in the
response is its version.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tidelore.core.config import Embedding
from tidelore.core.errors import RemoteNotFound, RemotePermanent
from tidelore.embedding.client import JsonClient
from tidelore.embedding.embedder import ModelIdentity, TunedEmbedder, Tuning, tune
from tidelore.embedding.vectors import encodable, in_their_places, is_blank, unit_rows

if TYPE_CHECKING:
    from tidelore.embedding.embedder import Vector


PROBE = "dimension"
"""The text that is embedded to find out the dimension of a model."""

Numbers = list[list[float]]


class EmbeddingService(Protocol):
    """The API of one kind of server: how vectors are requested, and how a model's version is determined."""

    async def identify(self) -> ModelIdentity:
        """Request the model's version and the dimension of its vectors."""
        ...

    async def ask(self, texts: Sequence[str]) -> Numbers:
        """Request the vectors of a batch, in its order; none of the texts is blank."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class RemoteEmbedder(TunedEmbedder):
    """An embedder whose model runs on a server."""

    def __init__(self, service: EmbeddingService, settings: Embedding, default: Tuning) -> None:
        self._service = service
        self._wanted = settings.dimensions
        self._known: ModelIdentity | None = None
        self._asking = asyncio.Lock()
        super().__init__(tune(settings, default))

    async def identify(self) -> ModelIdentity:
        async with self._asking:
            if self._known is None:
                identity = await self._service.identify()
                if self._wanted and identity.dimension != self._wanted:
                    raise _wrong_dimension(self._wanted, identity.dimension)
                self._known = identity
            return self._known

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        places = [place for place, text in enumerate(texts) if not is_blank(text)]
        dimension = (await self.identify()).dimension
        rows = [np.zeros((0, dimension), dtype=np.float32)]
        for start in range(0, len(places), self.batch_size):
            batch = [encodable(texts[place]) for place in places[start : start + self.batch_size]]
            rows.append(checked(await self._service.ask(batch), len(batch), dimension))
        return in_their_places(np.concatenate(rows), places, len(texts))

    async def aclose(self) -> None:
        await self._service.aclose()


def checked(numbers: Numbers, count: int, dimension: int) -> NDArray[np.float32]:
    """Return the normalised vectors of a batch, or raise RemotePermanent if they cannot be stored."""
    if len(numbers) != count:
        raise RemotePermanent(
            f"the embedding server returned {len(numbers)} vectors for {count} texts", reason="wrong_count"
        )
    for row in numbers:
        if len(row) != dimension:
            raise _wrong_dimension(dimension, len(row))
    try:
        return unit_rows(np.asarray(numbers, dtype=np.float64).reshape(count, dimension))
    except ValueError as error:
        raise RemotePermanent(str(error), reason="bad_vector") from None


def _wrong_dimension(expected: int, found: int) -> RemotePermanent:
    return RemotePermanent(
        f"the embedding server returned {found} dimensions instead of {expected}",
        reason="wrong_dimension",
        fix="check embedding.model and embedding.dimensions",
        expected=expected,
        found=found,
    )


UNREPORTED = "unreported"


class _OllamaVectors(Struct):
    embeddings: Numbers


class _OllamaVector(Struct):
    embedding: list[float]


class _OllamaModel(Struct):
    name: str
    digest: str = ""


class _OllamaModels(Struct):
    models: list[_OllamaModel] | None = None


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
                return (await self._client.ask("POST", "api/embed", body, _OllamaVectors)).embeddings
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
            return (await self._client.ask("POST", "api/embeddings", body, _OllamaVector)).embedding
        except RemoteNotFound as failure:
            if _speaks_of_the_model(failure):
                raise self._absent(failure) from None
            raise

    async def _digest(self) -> str:
        try:
            found = await self._client.ask("GET", "api/tags", None, _OllamaModels)
        except RemoteNotFound:
            return UNREPORTED  # an Ollama-compatible server without a list of models
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
    # Ollama reports an unknown path in plain text and an unknown model in JSON.
    return str(failure.details.get("said", "")).startswith("{")


_VERSIONED = re.compile(r"/v\d+[a-z0-9]*$")


class _OpenAiVector(Struct):
    index: int
    embedding: list[float]


class _OpenAiVectors(Struct):
    data: list[_OpenAiVector]
    model: str = ""


class OpenAiService:
    """One model of an OpenAI-compatible server."""

    def __init__(self, client: JsonClient, model: str, dimensions: int) -> None:
        self._client = client
        self._model = model
        self._dimensions = dimensions
        # Users write the URL with or without the API version; accept both.
        self._path = "embeddings" if _VERSIONED.search(client.base_url) else "v1/embeddings"

    async def identify(self) -> ModelIdentity:
        found = await self._post([PROBE])
        probe = in_order(found.data, 1)
        return ModelIdentity(f"openai/{self._model}", found.model or self._model, len(probe[0]))

    async def ask(self, texts: Sequence[str]) -> Numbers:
        return in_order((await self._post(texts)).data, len(texts))

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _post(self, texts: Sequence[str]) -> _OpenAiVectors:
        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._dimensions:
            body["dimensions"] = self._dimensions
        return await self._client.ask("POST", self._path, body, _OpenAiVectors)


def in_order(items: Sequence[_OpenAiVector], count: int) -> Numbers:
    """Return the vectors by index, or raise RemotePermanent if one is missing or duplicated."""
    ordered = sorted(items, key=lambda item: item.index)
    if [item.index for item in ordered] != list(range(count)):
        raise RemotePermanent(
            f"the embedding server returned {len(items)} vectors for {count} texts", reason="wrong_count"
        )
    return [item.embedding for item in ordered]


class Provider(Struct, frozen=True):
    """A kind of embedding server with its defaults. Without a `key_variable` no key is sent by default."""

    base_url: str
    model: str
    key_variable: str
    tuning: Tuning
    service: Callable[[JsonClient, str, int], EmbeddingService]


PROVIDERS = {
    "ollama": Provider(
        base_url="http://127.0.0.1:11434",
        model="nomic-embed-text",
        key_variable="",
        tuning=Tuning(fusion_weight=1.0, rrf_k=10, batch_size=32, min_similarity=0.2),
        service=OllamaService,
    ),
    "openai": Provider(
        base_url="https://api.openai.com/v1",
        model="text-embedding-3-small",
        key_variable="OPENAI_API_KEY",
        tuning=Tuning(fusion_weight=1.0, rrf_k=10, batch_size=64, min_similarity=0.2),
        service=OpenAiService,
    ),
}
