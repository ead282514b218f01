"""Embed one short text with the local model, without numpy and without the package `tokenizers`.

Importing the two and loading the tokenizer takes several times as long as everything else in a search that starts a
process. The weights are mapped, not loaded: a query touches a few rows of them. Invariant: the vector equals that of
`LocalEmbedder` up to rounding; a text that this tokenizer does not split alike is refused.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from math import sqrt
from pathlib import Path

import msgspec
from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.errors import ConfigError
from tidelore.embedding.embedder import ModelIdentity

NAME = "wordllama-l2-supercat-256"
DIMENSION = 256
TENSOR = "embedding.weight"
_RECIPE = b"mean-2"
_SPACE = "▁"
_LONGEST = 2_000
"""Merging pairs takes quadratic time; a longer text is left to the package."""


class LocalFiles(Struct, frozen=True):
    """The paths of the model's files."""

    weights: Path
    tokenizer: Path


class _Bpe(Struct):
    vocab: dict[str, int]


class _TokenizerFile(Struct):
    model: _Bpe


class _Tensor(Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def identify(files: LocalFiles) -> ModelIdentity:
    """Return the identity of the model: the hashes of its files."""
    # The tokenizer file ends with a line break in some releases of the package; the model is the same.
    parts = (
        _recorded_hash(files.weights) or _hash(files.weights),
        digest(files.tokenizer.read_bytes().strip()),
        _RECIPE,
    )
    return ModelIdentity(NAME, digest(b"".join(parts)).hex(), DIMENSION)


def embed_light(files: LocalFiles, text: str) -> list[float] | None:
    """Return the normalised vector of a text, or None if the package must split it."""
    if not text or text.isspace() or "  " in text or "<" in text or len(text) > _LONGEST or _SPACE in text:
        return None
    try:
        tokens = _tokens(files.tokenizer, text)
        with files.weights.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            total = _sum_rows(mapped, tokens)
    except (OSError, ValueError, KeyError, IndexError, struct.error, UnicodeEncodeError):
        # The package reports what is wrong with a file, and replaces what cannot be encoded.
        return None
    length = sqrt(sum(number * number for number in total))
    return [number / length for number in total] if length > 0 else None


def tensor_place(mapped: mmap.mmap, name: str) -> tuple[int, tuple[int, ...]]:
    """Return where the half-precision numbers of a tensor start in a safetensors file, and its shape."""
    (size,) = struct.unpack_from("<Q", mapped)
    tensors = msgspec.json.decode(mapped[8 : 8 + size], type=dict[str, msgspec.Raw])
    tensor = msgspec.json.decode(tensors[name], type=_Tensor)
    if tensor.dtype != "F16":
        raise ValueError(f"{name} has the type {tensor.dtype}")
    return 8 + size + tensor.data_offsets[0], tensor.shape


def _tokens(tokenizer: Path, text: str) -> list[int]:
    """Return the token ids of a text: byte-pair encoding in which a merge made earlier has the lower id."""
    vocabulary = msgspec.json.decode(tokenizer.read_bytes(), type=_TokenizerFile).model.vocab
    parts: list[str] = []
    for mark in _SPACE + text.replace(" ", _SPACE):
        parts += [mark] if mark in vocabulary else [f"<0x{byte:02X}>" for byte in mark.encode()]
    never = sys.maxsize

    def rank(at: int) -> int:
        return vocabulary.get(parts[at] + parts[at + 1], never)

    # The rank of each part together with the next one; a merge changes those around it only.
    ranks = [rank(at) for at in range(len(parts) - 1)]
    while ranks and (best := min(ranks)) < never:
        at = ranks.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        around = range(max(at - 1, 0), min(at + 1, len(parts) - 1))
        ranks[around.start : at + 2] = [rank(place) for place in around]
    return [vocabulary[part] for part in parts]


def _sum_rows(mapped: mmap.mmap, tokens: list[int]) -> list[float]:
    start, shape = tensor_place(mapped, TENSOR)
    if len(shape) != 2 or shape[1] != DIMENSION or max(tokens) >= shape[0]:
        raise ValueError(f"the shape is {shape}")
    rows = (struct.unpack_from(f"<{DIMENSION}e", mapped, start + 2 * DIMENSION * token) for token in tokens)
    return [sum(column) for column in zip(*rows, strict=True)]


def _recorded_hash(weights: Path) -> bytes | None:
    """Return the hash that the installer recorded for a file of the package, if the size is still the same.

    Hashing 16 MB takes longer than a whole search by words.
    """
    package = weights.parent.parent
    name = f"{package.name}/{weights.parent.name}/{weights.name},sha256="
    try:
        records = [
            entry.path for entry in os.scandir(package.parent)
            if entry.name.startswith(f"{package.name}-") and entry.name.endswith(".dist-info")
        ]  # fmt: skip
        size = weights.stat().st_size
        for record in records:
            for line in Path(record, "RECORD").read_text().splitlines():
                if line.startswith(name) and line.endswith(f",{size}"):
                    return _decoded(line[len(name) :].partition(",")[0])
    except OSError:
        return None
    return None


def _decoded(text: str) -> bytes | None:
    from base64 import urlsafe_b64decode

    try:
        return urlsafe_b64decode(f"{text}==")
    except ValueError:
        return None


def _hash(weights: Path) -> bytes:
    from hashlib import sha256

    try:
        return sha256(weights.read_bytes()).digest()
    except OSError as error:
        raise ConfigError(f"cannot read the local model: {weights.name}: {error.strerror}", file=str(weights)) from None
