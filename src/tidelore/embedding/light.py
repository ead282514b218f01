"""Embed one short text with the local model, without numpy and without the package `tokenizers`.

Importing the two and loading the tokenizer takes several times as long as everything else in a search that starts a
process. The weights are mapped, not loaded: a query touches a few rows of them. Invariant: the vector equals that of
`LocalEmbedder` up to rounding; a text that this tokenizer does not split alike is refused.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import sys
from math import sqrt
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from tidelore.core.content import digest
from tidelore.core.errors import ConfigError
from tidelore.embedding.embedder import ModelIdentity

if TYPE_CHECKING:
    # `pathlib` takes as long to import as all modules that compare vectors.
    from _typeshed import StrPath

NAME = "wordllama-l2-supercat-256"
DIMENSION = 256
TENSOR = "embedding.weight"
_RECIPE = b"mean-2"
_KNOWN_TOKENIZERS = {
    bytes.fromhex("93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"): bytes.fromhex(
        "d409af75b857b0c288227316512ddb326abbfa5f"
    )
}
"""The tokenizer files of releases of the package, by the hash that installers record: their digests, because reading
and hashing such a file takes longer than a search by words."""
_SPACE = "▁"
_LONGEST = 2_000
"""Merging pairs takes quadratic time; a longer text is left to the package."""


class LocalFiles(Struct, frozen=True):
    """The paths of the model's files."""

    weights: StrPath
    tokenizer: StrPath


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
        _KNOWN_TOKENIZERS.get(_recorded_hash(files.tokenizer) or b"") or digest(_read(files.tokenizer).strip()),
        _RECIPE,
    )
    return ModelIdentity(NAME, digest(b"".join(parts)).hex(), DIMENSION)


def embed_light(files: LocalFiles, text: str) -> list[float] | None:
    """Return the normalised vector of a text, or None if the package must split it."""
    if not text or text.isspace() or "  " in text or "<" in text or len(text) > _LONGEST or _SPACE in text:
        return None
    try:
        tokens = _tokens(files.tokenizer, text)
        with open(files.weights, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
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


def _read(path: StrPath) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _tokens(tokenizer: StrPath, text: str) -> list[int]:
    """Return the token ids of a text: byte-pair encoding in which a merge made earlier has the lower id."""
    vocabulary = _vocabulary(_read(tokenizer), text)
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


def _vocabulary(content: bytes, text: str) -> dict[str, int]:
    """Return the tokens that a text may be made of, and perhaps others."""
    start, end = content.find(b'"vocab": {'), content.find(b'"merges": [')
    if not 0 <= start < end or '"' in text or "\\" in text or not text.isprintable():
        return msgspec.json.decode(content, type=_TokenizerFile).model.vocab
    # Finding the tokens of these characters takes half as long as decoding all.
    allowed = re.escape(bytes(sorted(set(f"{_SPACE}{text}".encode()))))
    token = re.compile(rb'"(?<!\\")(<0x[0-9A-F]{2}>|[' + allowed + rb']+)":\s*([0-9]+)')
    return {name.decode(): int(number) for name, number in token.findall(content, start, end)}


def _sum_rows(mapped: mmap.mmap, tokens: list[int]) -> list[float]:
    start, shape = tensor_place(mapped, TENSOR)
    if len(shape) != 2 or shape[1] != DIMENSION or max(tokens) >= shape[0]:
        raise ValueError(f"the shape is {shape}")
    rows = (struct.unpack_from(f"<{DIMENSION}e", mapped, start + 2 * DIMENSION * token) for token in tokens)
    return [sum(column) for column in zip(*rows, strict=True)]


def _recorded_hash(path: StrPath) -> bytes | None:
    """Return the hash that the installer recorded for a file of the package, if the size is still the same.

    Hashing 16 MB takes longer than a whole search by words.
    """
    folder, file = os.path.split(os.path.abspath(path))
    package, inner = os.path.split(folder)
    packages, package = os.path.split(package)
    name = f"{package}/{inner}/{file},sha256="
    try:
        records = [
            entry.path for entry in os.scandir(packages)
            if entry.name.startswith(f"{package}-") and entry.name.endswith(".dist-info")
        ]  # fmt: skip
        size = os.stat(path).st_size
        for record in records:
            for line in _read(os.path.join(record, "RECORD")).decode().splitlines():
                if line.startswith(name) and line.endswith(f",{size}"):
                    return _decoded(line[len(name) :].partition(",")[0])
    except OSError:
        return None
    return None


def _decoded(text: str) -> bytes | None:
    from binascii import a2b_base64

    try:
        return a2b_base64(f"{text}==".translate({ord("-"): "+", ord("_"): "/"}))
    except ValueError:
        return None


def _hash(weights: StrPath) -> bytes:
    from hashlib import sha256

    try:
        return sha256(_read(weights)).digest()
    except OSError as error:
        name = os.path.basename(weights)
        raise ConfigError(f"cannot read the local model: {name}: {error.strerror}", file=str(weights)) from None
