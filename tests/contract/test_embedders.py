"""One suite for every embedder: the model inside the package, the extra's, and servers of three kinds with faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from tests.support.manual_clock import ManualClock
from tests.unit.embedding.model_server import DIGEST, MODEL, ModelServer, Style, numbers_of, truncate
from tests.unit.http.wire_server import Answer, answer

from tidelore.core.config import Embedding, Http
from tidelore.core.errors import (
    CredentialsRejected,
    RateLimited,
    RemoteError,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
)
from tidelore.embedding.embedder import Embedder, Unavailable
from tidelore.embedding.registry import open_embedder

T = TypeVar("T")

REMOTE: tuple[Style, ...] = ("ollama", "ollama-old", "openai")
KEY = "sk-0123456789"
TEXTS = ["The lease is lost", "", "A cursor moves with its rows", "  \n", "Grüße \U0001f600", "lone \ud800 surrogate"]
BLANK = {1, 3}


def opened(settings: Embedding, clock: ManualClock) -> Embedder:
    embedder = open_embedder(settings, Http(max_retries=2), {"OPENAI_API_KEY": KEY}, clock)
    assert embedder is not None
    if isinstance(embedder, Unavailable):
        # Only the extra may be missing; whatever else cannot be opened is a failure.
        assert settings.provider == "minilm", embedder
        pytest.skip(embedder.reason)
    return embedder


def with_server(
    style: str, do: Callable[[Embedder, ModelServer], Awaitable[T]], clock: ManualClock | None = None, **chosen: Any
) -> T:
    """Run `do` with a server of a style and its embedder."""
    below = chosen.pop("below", "")

    async def run() -> T:
        async with ModelServer(style) as server:  # type: ignore[arg-type]
            tree = {"provider": style.partition("-")[0], "base_url": server.url + below, "model": MODEL} | chosen
            embedder = opened(Embedding(**tree), clock or ManualClock())
            try:
                return await do(embedder, server)
            finally:
                await embedder.aclose()

    return asyncio.run(run())


def with_embedder(
    kind: str, do: Callable[[Embedder], Awaitable[T]], *faults: Answer, **chosen: Any
) -> tuple[T, ModelServer | None, ManualClock]:
    """Run `do` with an embedder of a kind, and the faults with its server if it needs one."""
    clock = ManualClock()

    async def at_server(embedder: Embedder, server: ModelServer) -> tuple[T, ModelServer | None, ManualClock]:
        server.faults.extend(faults)
        return await do(embedder), server, clock

    if kind in REMOTE:
        return with_server(kind, at_server, clock, **chosen)
    embedder = opened(Embedding(provider=kind, **chosen), clock)  # type: ignore[arg-type]

    async def run() -> T:
        return await do(embedder)

    return asyncio.run(run()), None, clock


def embed(kind: str, texts: list[str], *faults: Answer, **chosen: Any) -> tuple[Any, ModelServer | None, ManualClock]:
    """Return the vectors as one array, or the error."""

    async def do(embedder: Embedder) -> Any:
        try:
            return np.array(await embedder.embed(texts))
        except RemoteError as error:
            return error

    return with_embedder(kind, do, *faults, **chosen)


@pytest.fixture(params=("local", "minilm", *REMOTE))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=REMOTE)
def style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# What holds for all


def test_vectors_are_unit_float32_of_the_named_dimension_and_blank_texts_zero(kind: str) -> None:
    async def do(embedder: Embedder) -> None:
        vectors = await embedder.embed(TEXTS)
        dimension = (await embedder.identify()).dimension
        assert len(vectors) == len(TEXTS)
        for place, vector in enumerate(vectors):
            assert vector.dtype == np.float32
            assert vector.shape == (dimension,)
            assert float(np.linalg.norm(vector)) == pytest.approx(0 if place in BLANK else 1, abs=1e-5)

    with_embedder(kind, do)


def test_a_text_gets_the_same_vector_at_any_position_in_a_batch(kind: str) -> None:
    async def do(embedder: Embedder) -> None:
        texts = [text for place, text in enumerate(TEXTS) if place not in BLANK]
        together = await embedder.embed(texts)
        backwards = (await embedder.embed(texts[::-1]))[::-1]
        alone = [(await embedder.embed([text]))[0] for text in texts]
        assert np.allclose(together, backwards, atol=1e-6)
        assert np.allclose(together, alone, atol=1e-6)
        assert len({vector.tobytes() for vector in together}) == len(texts)

    with_embedder(kind, do)


def test_more_texts_than_a_batch_holds_keep_their_order(kind: str) -> None:
    texts = [f"remark {number} about {['lease', 'cursor', 'page'][number % 3]}" for number in range(11)]
    small, server, _ = embed(kind, texts, batch_size=3)
    whole, _, _ = embed(kind, texts)
    assert np.allclose(small, whole, atol=1e-6)
    if server is not None:
        asked = [batch for batch in server.batches if batch != ["dimension"]]
        size = 1 if kind == "ollama-old" else 3
        assert asked == [texts[start : start + size] for start in range(0, 11, size)]


def test_embedding_no_texts_gives_no_vectors(kind: str) -> None:
    vectors, _, _ = embed(kind, [])
    assert vectors.shape == (0,)


def test_the_model_identity_is_stable(kind: str) -> None:
    async def do(embedder: Embedder) -> Any:
        first = await embedder.identify()
        await embedder.embed(["a"])
        assert await embedder.identify() == first
        return first

    first, server, _ = with_embedder(kind, do)
    again, _, _ = with_embedder(kind, do)
    assert first == again
    assert first.name
    assert first.version
    assert server is None or server.batches.count(["dimension"]) == 1


# What holds for servers


def test_vectors_equal_those_sent_by_the_server(style: str) -> None:
    vectors, server, _ = embed(style, ["b", "a", "c"])
    assert server is not None
    expected = np.array([numbers_of(text, server.dimension) for text in "bac"])
    assert np.allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_blank_texts_are_never_sent(style: str) -> None:
    _, server, _ = embed(style, TEXTS)
    assert server is not None
    assert not any(not text.strip() for batch in server.batches for text in batch)


def test_the_model_version_is_the_one_the_server_reports(style: str) -> None:
    identity, _, _ = with_embedder(style, lambda embedder: embedder.identify())
    assert identity.version == (f"{MODEL}-002" if style == "openai" else DIGEST)
    assert identity.name == f"{style.partition('-')[0]}/{MODEL}"
    assert identity.dimension == 8


@pytest.mark.parametrize(("fault", "waits"), [(answer(500), [1]), (answer(429, Retry_After="9"), [9]), (truncate, [1])])
def test_a_temporary_error_costs_only_a_pause(style: str, fault: Answer, waits: list[float]) -> None:
    vectors, server, clock = embed(style, ["a", "b"], fault)
    unharmed, _, _ = embed(style, ["a", "b"])
    assert np.array_equal(vectors, unharmed)
    assert server is not None
    assert not server.faults
    assert len(clock.slept) == len(waits)
    assert all(wait / 2 <= slept <= wait for slept, wait in zip(clock.slept, waits, strict=True))


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (answer(500), RemoteTransient),
        (answer(429, Retry_After="1"), RateLimited),
        (truncate, RemoteTransient),
        (answer(body=b"{"), RemoteTransient),
        (answer(401), CredentialsRejected),
        (answer(400), RemotePermanent),
        (answer(body=b"[]"), RemotePermanent),
    ],
)
def test_a_persistent_error_is_raised_with_its_type(style: str, fault: Answer, error: type[RemoteError]) -> None:
    raised, server, _ = embed(style, ["a"], *[fault] * 3)
    assert type(raised) is error
    assert server is not None
    assert len(server.faults) == (0 if raised.retryable else 2)


def test_a_server_that_is_down_is_a_transient_error(style: str) -> None:
    # A port on which nothing listens: the discard service of no machine that runs tests.
    raised, _, clock = embed(style, ["a"], base_url="http://127.0.0.1:9")
    assert type(raised) is RemoteTransient
    assert (raised.reason, raised.details["attempts"], len(clock.slept)) == ("connection", 3, 2)


def test_a_model_that_changes_its_dimension_is_refused(style: str) -> None:
    async def do(embedder: Embedder, server: ModelServer) -> RemotePermanent:
        await embedder.embed(["a"])
        server.dimension = 9
        with pytest.raises(RemotePermanent) as caught:
            await embedder.embed(["b"])
        return caught.value

    raised = with_server(style, do)
    assert (raised.reason, raised.details["expected"], raised.details["found"]) == ("wrong_dimension", 8, 9)


def test_a_dimension_other_than_the_configured_one_is_refused() -> None:
    raised, _, _ = embed("ollama-old", ["a"], dimensions=5)
    assert isinstance(raised, RemotePermanent)
    assert raised.reason == "wrong_dimension"


@pytest.mark.parametrize("style", ["ollama", "openai"])
def test_a_configured_dimension_is_sent_to_the_server(style: str) -> None:
    vectors, _, _ = embed(style, ["a"], dimensions=5)
    assert vectors.shape == (1, 5)


@pytest.mark.parametrize("style", ["ollama", "openai"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_batch_with_missing_or_surplus_vectors_is_refused(style: str, count: int) -> None:
    rows = [[1.0] * 8] * count
    items = [{"index": place, "embedding": row} for place, row in enumerate(rows)]
    fault = answer(body=json.dumps({"embeddings": rows, "data": items}).encode())

    async def do(embedder: Embedder, server: ModelServer) -> str | None:
        await embedder.identify()
        server.faults.append(fault)
        with pytest.raises(RemotePermanent) as caught:
            await embedder.embed(["a", "b"])
        return caught.value.reason

    assert with_server(style, do) == "wrong_count"


def test_a_model_missing_on_the_server_is_reported_with_the_fix() -> None:
    for style in ("ollama", "ollama-old"):
        raised, _, _ = embed(style, ["a"], model="absent")
        assert isinstance(raised, RemoteNotFound)
        assert raised.fix == "ollama pull absent"


def test_the_api_key_is_sent_to_openai_only(style: str) -> None:
    _, server, _ = embed(style, ["a"])
    assert server is not None
    assert {seen.headers.get("authorization") for seen in server.seen} == (
        {f"Bearer {KEY}"} if style == "openai" else {None}
    )


def test_the_openai_base_url_may_include_the_version() -> None:
    async def do(embedder: Embedder, server: ModelServer) -> list[str]:
        await embedder.identify()
        return [seen.target for seen in server.seen]

    assert with_server("openai", do, below="/v1/") == with_server("openai", do) == ["/v1/embeddings"]
