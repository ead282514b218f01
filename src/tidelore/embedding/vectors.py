"""The last step of every embedder: normalised float32 vectors, zero for blank texts.

Pure functions. Infinities and NaN are refused, because they would make every comparison invalid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tidelore.embedding.embedder import Vector


def is_blank(text: str) -> bool:
    """Return whether a text is blank; it is not passed to a model, and its vector is zero."""
    return not text or text.isspace()


def encodable(text: str) -> str:
    """Return the text with lone surrogates replaced, because neither tokenizers nor JSON accept them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def unit_rows(rows: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return each row normalised to unit length, a zero row unchanged; raise ValueError for a non-finite number."""
    wide = rows.astype(np.float64)
    if not np.isfinite(wide).all():
        raise ValueError("a vector holds a number that is not finite")
    # Divide by the largest value first: squares of very large or very small numbers exceed the range of a float.
    largest = np.abs(wide).max(axis=1, keepdims=True, initial=0.0)
    wide /= np.where(largest > 0, largest, 1.0)
    length = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, np.newaxis]
    wide /= np.where(length > 0, length, 1.0)
    return wide.astype(np.float32)


def in_their_places(rows: NDArray[np.float32], places: list[int], count: int) -> list[Vector]:
    """Return `count` vectors: the rows at their positions, zero at the others."""
    spread = np.zeros((count, rows.shape[1]), dtype=np.float32)
    spread[places] = rows
    return list(spread)
