"""Work side by side."""

from tidelore.together import together

__all__ = ["together"]
