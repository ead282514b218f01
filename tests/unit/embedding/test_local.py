"""The model inside the package: the package's own vectors, without the package."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest

from tidelore.core.config import Embedding
from tidelore.core.errors import ConfigError
from tidelore.embedding.embedder import InProcess, Unavailable
from tidelore.embedding.light import DIMENSION, LocalFiles
from tidelore.embedding.local import LocalEmbedder, find_local

TEXTS = [
    "The cache is dropped when a merge request is rebased.",
    "rebase",
    "src/tidelore/store/mirror/page_writer.py:120  def commit(self) -> None:",
    "Grüße, 漢字 and \U0001f600; <s> is no token here?",
    "a" * 500,
    "word " * 400,
    "  indented\n\n\tlines\r\n",
]
# The package's own inference class over its own files; its loader would look for them on the network.
REFERENCE = """
import json, sys
from safetensors import safe_open
from tokenizers import Tokenizer
from wordllama.inference import WordLlamaInference
weights, tokenizer, texts = json.load(sys.stdin)
with safe_open(weights, framework="np") as file:
    table = file.get_tensor("embedding.weight")
model = WordLlamaInference(table, Tokenizer.from_file(tokenizer))
json.dump(model.embed(texts, norm=True).tolist(), sys.stdout)
"""
LOADED = """
import sys
from tidelore.embedding.local import LocalEmbedder, find_local
from tidelore.core.config import Embedding
embedder = LocalEmbedder(find_local(), Embedding())
assert "numpy" not in sys.modules
embedder.identity, embedder.embed_now(["a query"])
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.fixture(scope="module")
def files() -> LocalFiles:
    found = find_local()
    assert isinstance(found, LocalFiles), found
    return found


@pytest.fixture(scope="module")
def embedder(files: LocalFiles) -> LocalEmbedder:
    return LocalEmbedder(files, Embedding())


@pytest.mark.deep
def test_vectors_equal_those_of_the_wordllama_package(files: LocalFiles, embedder: LocalEmbedder) -> None:
    request = json.dumps([str(files.weights), str(files.tokenizer), TEXTS])
    done = subprocess.run([sys.executable, "-c", REFERENCE], input=request, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = np.array(json.loads(done.stdout))
    assert expected.shape == (len(TEXTS), DIMENSION)
    assert np.abs(np.array(embedder.embed_now(TEXTS)) - expected).max() < 1e-5


def test_a_text_gets_the_same_vector_alone_and_in_a_batch(embedder: LocalEmbedder) -> None:
    alone = [embedder.embed_now([text])[0] for text in TEXTS]
    many = embedder.embed_now(TEXTS * 20)
    assert np.array_equal(np.array(many), np.array(alone * 20))


def test_each_of_many_texts_gets_its_own_vector(embedder: LocalEmbedder) -> None:
    texts = [f"crane {number} of berth {number % 7}" if number % 11 else " " for number in range(1_000)]
    alone = [embedder.embed_now([text])[0] for text in texts]
    assert np.array_equal(np.array(asyncio.run(embedder.embed(texts))), np.array(alone))


def test_a_cancelled_embedder_ends_at_once_and_can_be_used_again(embedder: LocalEmbedder) -> None:
    async def cancelled() -> None:
        work = asyncio.ensure_future(embedder.embed(TEXTS * 100))
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert len(await embedder.embed(TEXTS * 20)) == len(TEXTS) * 20

    asyncio.run(cancelled())


def test_texts_with_related_meaning_are_closer_than_unrelated_ones(embedder: LocalEmbedder) -> None:
    question, near, far = embedder.embed_now(
        ["Why does login fail?", "Authentication error on sign in", "The colour of the button is too dark"]
    )
    assert question @ near > question @ far + 0.1


def test_a_query_loads_neither_the_package_nor_a_client_nor_an_event_loop() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert {"numpy", "tokenizers"} <= loaded
    assert not loaded & {"wordllama", "asyncio", "httpx2", "requests", "pydantic"}


def test_a_trailing_newline_in_the_tokenizer_file_does_not_change_the_model_id(
    files: LocalFiles, embedder: LocalEmbedder, tmp_path: Path
) -> None:
    respaced = tmp_path / "tokenizer.json"
    respaced.write_bytes(Path(files.tokenizer).read_bytes().rstrip() + b"\n\n")
    assert LocalEmbedder(LocalFiles(files.weights, respaced), Embedding()).identity == embedder.identity


def test_different_weights_give_a_different_model_id(
    files: LocalFiles, embedder: LocalEmbedder, tmp_path: Path
) -> None:
    other = tmp_path / "weights.safetensors"
    content = bytearray(Path(files.weights).read_bytes())
    content[-1] ^= 1
    other.write_bytes(content)
    identity = LocalEmbedder(LocalFiles(other, files.tokenizer), Embedding()).identity
    assert identity.version != embedder.identity.version
    assert (identity.name, identity.dimension) == (embedder.identity.name, DIMENSION)


@pytest.mark.parametrize("damaged", ["weights", "tokenizer"])
def test_a_damaged_model_file_is_reported_with_the_fix(files: LocalFiles, damaged: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"{")
    chosen = {"weights": files.weights, "tokenizer": files.tokenizer} | {damaged: broken}
    with pytest.raises(ConfigError, match="cannot read the local model") as caught:
        LocalEmbedder(LocalFiles(**chosen), Embedding()).embed_now(["a"])
    assert caught.value.details["file"] == str(broken)
    assert "reinstall" in str(caught.value.fix)


@pytest.mark.parametrize("missing", ["wordllama", "numpy", "tokenizers"])
def test_a_missing_package_makes_the_embedder_unavailable_with_a_fix(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == missing else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    found = find_local()
    assert isinstance(found, Unavailable)
    assert missing in found.reason
    assert "pip install" in found.fix


def test_missing_model_files_make_the_embedder_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wordllama").mkdir()
    (tmp_path / "wordllama" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    found = find_local()
    assert isinstance(found, Unavailable)
    assert "l2_supercat_256.safetensors" in found.reason


def test_the_local_embedder_runs_in_process(embedder: LocalEmbedder) -> None:
    assert isinstance(embedder, InProcess)
