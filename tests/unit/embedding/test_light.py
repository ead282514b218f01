"""The light way to embed a query: the same vector as the local embedder, or none."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tidelore.core.config import Embedding
from tidelore.embedding.embedder import Unavailable
from tidelore.embedding.light import _KNOWN_TOKENIZERS, LocalFiles, _recorded_hash, _vocabulary, embed_light, identify
from tidelore.embedding.local import LocalEmbedder, find_local

TEXTS = (
    "crane", "why do we keep old rows", "usage/derive.py ParkingLot", "Größe, naïve café!", "東京港のクレーン",
    "tab\tand\nline", "🙂 emoji", "x" * 60, "------====", "a", "C:\\dir 100% [x](y) {z}", "\u200b hidden",
)  # fmt: skip


@pytest.fixture(scope="module")
def files() -> LocalFiles:
    found = find_local()
    assert not isinstance(found, Unavailable)
    return found


def test_a_light_vector_equals_that_of_the_local_embedder(files: LocalFiles) -> None:
    expected = LocalEmbedder(files, Embedding()).embed_now(TEXTS)
    for text, vector in zip(TEXTS, expected, strict=True):
        found = embed_light(files, text)
        assert found is not None, text
        assert np.abs(vector - np.array(found)).max() < 1e-6, text


def test_a_text_that_must_be_split_by_the_package_is_refused(files: LocalFiles, tmp_path: Path) -> None:
    for text in ("", "  ", "two  spaces", "a <s> b", "▁", "x" * 3_000, "\ud800"):
        assert embed_light(files, text) is None
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x10\x00")
    assert embed_light(LocalFiles(broken, files.tokenizer), "crane") is None
    assert embed_light(LocalFiles(files.weights, broken), "crane") is None


def test_the_recorded_hash_of_the_weights_is_their_hash_and_a_copy_has_the_same_identity(
    files: LocalFiles, tmp_path: Path
) -> None:
    assert _recorded_hash(files.weights) == sha256(Path(files.weights).read_bytes()).digest()
    copy = tmp_path / "wordllama" / "weights" / Path(files.weights).name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(Path(files.weights).read_bytes())
    assert _recorded_hash(copy) is None
    assert identify(LocalFiles(copy, files.tokenizer)) == identify(files)
    record = tmp_path / "wordllama-1.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text(f"wordllama/weights/{copy.name},sha256=AAAA,{copy.stat().st_size}\n")
    assert _recorded_hash(copy) == b"\x00\x00\x00"
    copy.write_bytes(b"other size")
    assert _recorded_hash(copy) is None


def test_a_known_tokenizer_file_has_the_digest_of_its_content(files: LocalFiles, tmp_path: Path) -> None:
    assert _recorded_hash(files.tokenizer) in _KNOWN_TOKENIZERS, "add the digest of this release"
    copy = tmp_path / "tokenizer.json"
    copy.write_bytes(Path(files.tokenizer).read_bytes())
    assert _recorded_hash(copy) is None
    assert identify(LocalFiles(files.weights, copy)) == identify(files)


@pytest.mark.parametrize("text", [*TEXTS, "id: 5, [a]^-z] #1", "日本語 naïve 🚢", 'say "so" \\ n', "x\ty"])
def test_the_tokens_of_a_text_are_among_those_that_are_read(files: LocalFiles, text: str) -> None:
    content = Path(files.tokenizer).read_bytes()
    whole = msgspec.json.decode(content)["model"]["vocab"]
    found = _vocabulary(content, text)
    marks = set(f"▁{text}")
    assert found.items() <= whole.items()
    assert {token for token in whole if set(token) <= marks} <= found.keys()
    assert {token for token in whole if token.startswith("<0x")} <= found.keys()


def test_embedding_lightly_imports_neither_numpy_nor_tokenizers() -> None:
    code = (
        "import sys; from tidelore.embedding.local import find_local; from tidelore.embedding.light import *;"
        "from tidelore.search import sign_scan; assert embed_light(find_local(), 'crane');"
        "print({'numpy', 'tokenizers', 'safetensors'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
