"""Writes docs/man/lore.1 from the help texts (`make docs`)."""

from __future__ import annotations

from pathlib import Path

from tidelore.cli.export.man import manual
from tidelore.cli.main import lore

PAGE = Path(__file__).parents[2] / "docs" / "man" / "lore.1"


def page() -> str:
    """Return the page as it should be."""
    assert hasattr(lore, "list_commands")
    return manual(lore)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
