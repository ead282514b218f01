"""From a setting to an embedder: lazily, and with a reason where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidelore.core.config import Embedding, Http
from tidelore.core.errors import ConfigError
from tidelore.embedding.embedder import InProcess, Unavailable
from tidelore.embedding.local import LocalEmbedder
from tidelore.embedding.registry import open_embedder
from tidelore.embedding.remote import RemoteEmbedder


def test_provider_none_opens_no_embedder() -> None:
    assert open_embedder(Embedding(provider="none"), Http(), {}) is None


def test_the_default_is_local_with_its_measured_weights() -> None:
    embedder = open_embedder(Embedding(), Http(), {})
    assert isinstance(embedder, LocalEmbedder)
    assert (embedder.fusion_weight, embedder.rrf_k) == (0.7, 10)


def test_configured_fusion_weights_override_the_measured_defaults() -> None:
    embedder = open_embedder(Embedding(fusion_weight=0.0, rrf_k=60, batch_size=7), Http(), {})
    assert isinstance(embedder, LocalEmbedder)
    assert (embedder.fusion_weight, embedder.rrf_k, embedder.batch_size) == (0.0, 60, 7)


@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_opening_a_remote_embedder_sends_no_request(provider: str) -> None:
    settings = Embedding(provider=provider, base_url="http://127.0.0.1:1")  # type: ignore[arg-type]
    embedder = open_embedder(settings, Http(), {})
    assert isinstance(embedder, RemoteEmbedder)
    assert not isinstance(embedder, InProcess)
    assert (embedder.fusion_weight, embedder.rrf_k) == (1.0, 10)


def test_a_missing_api_key_is_reported_with_the_environment_variable() -> None:
    missing = open_embedder(Embedding(provider="openai"), Http(), {})
    assert isinstance(missing, Unavailable)
    assert missing.fix == "export OPENAI_API_KEY"
    named = open_embedder(Embedding(provider="openai", api_key_env="MY_KEY"), Http(), {"OPENAI_API_KEY": "x"})
    assert isinstance(named, Unavailable)
    assert named.fix == "export MY_KEY"


def test_an_invalid_base_url_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        open_embedder(Embedding(provider="ollama", base_url="ollama"), Http(), {})


def test_provider_none_imports_neither_model_nor_http_client() -> None:
    script = (
        "import sys; from tidelore.core.config import Http; from tidelore.embedding.registry import open_embedder;"
        "from tidelore.core.config import Embedding;"
        "open_embedder(Embedding(provider='none'), Http(), {}); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "httpx2", "tokenizers", "asyncio", "tidelore.embedding.local"} & set(done.stdout.split())
