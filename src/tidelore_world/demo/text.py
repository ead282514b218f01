"""The words of both demonstrations. Owns how lists, counts and the comparison with the truth are told."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from tidelore.core.errors import IntegrityError
from tidelore_world.demo.comparison import Difference

FATE = "the temporary directory was removed"
"""What becomes of a demonstration that somebody ends before its time."""


def title(name: str) -> str:
    """Return the name of a list, or of a kind of change, as people write it."""
    return name.replace("_", " ")


def counted(counts: Mapping[str, int]) -> str:
    """Return how much there is of each list, on indented lines."""
    return fill([f"{count:,} {title(name)}" for name, count in counts.items()])


def fill(parts: Sequence[str]) -> str:
    """Return the parts on indented lines; no line ends within a part."""
    glued = ", ".join(part.replace(" ", "\u00a0") for part in parts)
    return textwrap.fill(glued, 97, initial_indent="   ", subsequent_indent="   ").replace("\u00a0", " ")


def verdict(found: Difference) -> str:
    """Return how the copy of a list compares with the world, on one line."""
    sizes = f"{found.truth:>5,} on the server, {found.copy:>5,} in the copy"
    faults = f"{found.missing:,} missing, {found.extra:,} extra, {found.different:,} different"
    return f"{title(found.list):<16} {sizes}: {faults}"


def judge(differences: Sequence[Difference]) -> IntegrityError | None:
    """Return what a demonstration ends with: an error where copy and world differ."""
    wrong = sum(difference.faults for difference in differences)
    if not wrong:
        return None
    return IntegrityError(f"the local copy differs from the server in {wrong} places", fix="report this with the seed")
