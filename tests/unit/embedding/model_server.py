"""Real servers on 127.0.0.1 that answer like Ollama, an old Ollama and OpenAI, and fail when they are told to."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from typing import Any, Literal

from tests.unit.http.wire_server import Answer, Seen, answer, read_request

Style = Literal["ollama", "ollama-old", "openai"]

DIGEST = "0a109f422b47e3a30ba2b10eca18548e944e8a23073ee3f3e947efcf3c45e59f"
MODEL = "stones"


def numbers_of(text: str, dimension: int) -> list[float]:
    """Return a vector that depends on the text alone, of no particular length."""
    seed = hashlib.sha256(text.encode()).digest()
    return [seed[place % 32] / 17 - 7.5 + place for place in range(dimension)]


async def truncate(_: Seen, writer: asyncio.StreamWriter) -> None:
    """Promise more than comes."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{" + b'"data": [')
    await writer.drain()
    writer.close()


class ModelServer:
    """Answers requests for vectors; `faults` come first, one for each such request."""

    def __init__(self, style: Style, *, dimension: int = 8) -> None:
        self.style = style
        self.dimension = dimension
        self.faults: deque[Answer] = deque()
        self.batches: list[list[str]] = []
        self.seen: list[Seen] = []
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> ModelServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while (request := await read_request(reader)) is not None:
                self.seen.append(request)
                fault = self.faults.popleft() if self.faults and request.method == "POST" else self._answer(request)
                if isinstance(fault, bytes):
                    writer.write(fault)
                    await writer.drain()
                else:
                    await fault(request, writer)
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    def _answer(self, request: Seen) -> bytes:
        route = f"{request.method} {request.target}"
        if route == "POST /v1/embeddings" and self.style == "openai":
            return self._openai(json.loads(request.body))
        if self.style == "openai":
            return answer(404, b'{"error": {"message": "no such route"}}')
        if route == "GET /api/tags":
            return _json({"models": [{"name": f"{MODEL}:latest", "digest": DIGEST, "size": 1}]})
        body = json.loads(request.body)
        if not route.endswith(("/api/embed", "/api/embeddings")) or (
            route == "POST /api/embed" and self.style == "ollama-old"
        ):
            return answer(404, b"404 page not found", Content_Type="text/plain")
        if body["model"] != MODEL:
            return answer(404, json.dumps({"error": f'model "{body["model"]}" not found, try pulling it'}).encode())
        if route == "POST /api/embed":
            vectors = self._vectors(body["input"], body.get("dimensions"))
            return _json({"model": MODEL, "embeddings": vectors})
        return _json({"embedding": self._vectors([body["prompt"]], None)[0]})

    def _openai(self, body: dict[str, Any]) -> bytes:
        if "" in body["input"]:
            return answer(400, b'{"error": {"message": "input cannot be an empty string"}}')
        vectors = self._vectors(body["input"], body.get("dimensions"))
        items = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        return _json({"object": "list", "data": items[::-1], "model": f"{body['model']}-002"})

    def _vectors(self, texts: list[str], dimension: int | None) -> list[list[float]]:
        self.batches.append(texts)
        return [numbers_of(text, dimension or self.dimension) for text in texts]


def _json(value: object) -> bytes:
    return answer(body=json.dumps(value).encode())
