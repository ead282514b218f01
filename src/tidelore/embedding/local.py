"""The default embedder: the 256-dimensional word vectors and the tokenizer inside the `wordllama` package.

Both files are read in place and the package itself is never imported: it reconfigures logging, and its loader looks in
the wrong folder and then tries the network. Nothing is downloaded. Invariant: a vector is the normalised mean of its
tokens' vectors, as the package computes it, except that a blank text gives zero and not NaN.
"""

from __future__ import annotations

import importlib.util
import math
import os
import struct
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from tidelore.core.config import Embedding
from tidelore.core.errors import ConfigError
from tidelore.core.extras import EXTRAS, find_missing, install_command
from tidelore.embedding.embedder import InProcessEmbedder, ModelIdentity, Tuning, Unavailable, tune
from tidelore.embedding.light import DIMENSION, TENSOR, LocalFiles, identify, tensor_place

if TYPE_CHECKING:
    import numpy as np
    from _typeshed import StrPath
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

    from tidelore.embedding.embedder import Vector

TUNING = Tuning(fusion_weight=0.7, rrf_k=10, batch_size=64, min_similarity=0.35)

_EXTRA = "vectors"
_REINSTALL = "pip install --force-reinstall wordllama"
# From this many texts on, converting the half-precision table to float32 pays off; a query needs only a few rows.
_WORTH_WIDENING = 32
_SPLIT_AT_ONCE = 256
"""How many texts are split into tokens at once: with fewer, the threads that do it wait for each other more often."""


def find_local() -> LocalFiles | Unavailable:
    """Return the files of the installed model, or what is missing; imports no package and opens no file."""
    if (missing := find_missing(EXTRAS[_EXTRA])) is not None:
        return Unavailable(f"the local model needs the package {missing}", install_command(_EXTRA), _EXTRA)
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        return Unavailable("the installed package wordllama has no folder", _REINSTALL)
    folder = spec.submodule_search_locations[0]
    files = LocalFiles(
        os.path.join(folder, "weights", "l2_supercat_256.safetensors"),
        os.path.join(folder, "tokenizers", "l2_supercat_tokenizer_config.json"),
    )
    for file in (files.weights, files.tokenizer):
        if not os.path.isfile(file):
            return Unavailable(f"the installed package wordllama has no {os.path.basename(file)}", _REINSTALL)
    return files


class _Split(Struct, frozen=True):
    """Texts split into tokens: how many there are, which are not blank, and the tokens of those."""

    count: int
    places: list[int]
    encoded: list[Encoding]


class LocalEmbedder(InProcessEmbedder):
    """Computes vectors in this process; the model is loaded on first use."""

    def __init__(self, files: LocalFiles, settings: Embedding) -> None:
        self._files = files
        super().__init__(tune(settings, TUNING))

    @cached_property
    def identity(self) -> ModelIdentity:
        return identify(self._files)

    def embed_now(self, texts: Sequence[str]) -> list[Vector]:
        parts = _parts(texts, self.batch_size)
        return [vector for part in parts for vector in self._vectors(self._split(part), len(texts))]

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if len(texts) <= self.batch_size:
            return await super().embed(texts)
        import asyncio

        # Splitting texts into tokens uses every processor, the rest only one: the next texts are split meanwhile.
        loop = asyncio.get_running_loop()
        parts = _parts(texts, max(self.batch_size, _SPLIT_AT_ONCE))
        found: list[Vector] = []
        coming = loop.run_in_executor(None, self._split, parts[0])
        for following in range(1, len(parts) + 1):
            split = await coming
            if following < len(parts):
                coming = loop.run_in_executor(None, self._split, parts[following])
            found += self._vectors(split, len(texts))
        return found

    def _split(self, texts: Sequence[str]) -> _Split:
        """Split texts into tokens; may run in any thread."""
        from tidelore.embedding.vectors import encodable, is_blank

        places = [place for place, text in enumerate(texts) if not is_blank(text)]
        words = [encodable(texts[place]) for place in places]
        return _Split(len(texts), places, self._tokenizer.encode_batch_fast(words, add_special_tokens=False))

    def _vectors(self, split: _Split, run: int) -> list[Vector]:
        """Return the vectors of texts, of which there are `run` in all."""
        import numpy as np

        from tidelore.embedding.vectors import in_their_places, unit_rows

        table = self._wide if run >= _WORTH_WIDENING else self._table
        pooled = np.zeros((len(split.encoded), DIMENSION), dtype=np.float32)
        for row, encoding in zip(pooled, split.encoded, strict=True):
            tokens = table.take(encoding.ids, axis=0).astype(np.float32, copy=False)
            # A product with ones is the fastest sum. No division by the count: the vector is normalised afterwards.
            np.dot(np.ones(len(tokens), dtype=np.float32), tokens, out=row)
        return in_their_places(unit_rows(pooled), split.places, split.count)

    @cached_property
    def _wide(self) -> NDArray[np.float32]:
        import numpy as np

        return self._table.astype(np.float32)

    @cached_property
    def _table(self) -> NDArray[Any]:
        import mmap

        import numpy as np

        try:
            with open(self._files.weights, "rb") as file:
                # Mapped, not read: a query needs only a few rows. The array keeps the mapping open.
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            start, shape = tensor_place(mapped, TENSOR)
            table: NDArray[Any] = np.frombuffer(mapped, "<f2", math.prod(shape), start).reshape(shape)
        except (OSError, ValueError, KeyError, struct.error, msgspec.DecodeError) as error:
            raise _unreadable(self._files.weights, str(error)) from None
        if table.ndim != 2 or table.shape[1] != DIMENSION:
            raise _unreadable(self._files.weights, f"its shape is {table.shape}")
        if self._tokenizer.get_vocab_size() > len(table):
            raise _unreadable(self._files.tokenizer, "it knows more tokens than the model")
        return table

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        try:
            tokenizer: Tokenizer = Tokenizer.from_file(str(self._files.tokenizer))
        except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
            raise _unreadable(self._files.tokenizer, str(error)) from None
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer


def _parts(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def _unreadable(file: StrPath, detail: str) -> ConfigError:
    return ConfigError(
        f"cannot read the local model: {os.path.basename(file)}: {detail}", fix=_REINSTALL, file=str(file)
    )
