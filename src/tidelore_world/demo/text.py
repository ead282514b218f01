"""The words of both demonstrations. Owns how lists, counts and the comparison with the truth are told."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidelore.cli.output.render import plural
from tidelore.core.errors import IntegrityError
from tidelore_world.demo.comparison import Difference

if TYPE_CHECKING:
    from tidelore.sync.report import RunReport

FATE = "the temporary directory was removed"
"""What becomes of a demonstration that somebody ends before its time."""
WIDE = 22
"""Columns for the names of lists where those of GitHub are among them."""


def title(name: str) -> str:
    """Return the name of a list, or of a kind of change, as people write it."""
    return name.replace("_", " ").replace("github", "GitHub")


def counted(counts: Mapping[str, int]) -> str:
    """Return how much there is of each list, on indented lines."""
    return fill([f"{count:,} {title(name)}" for name, count in counts.items()])


def fill(parts: Sequence[str]) -> str:
    """Return the parts on indented lines; no line ends within a part."""
    glued = ", ".join(part.replace(" ", "\u00a0") for part in parts)
    return textwrap.fill(glued, 97, initial_indent="   ", subsequent_indent="   ").replace("\u00a0", " ")


def verdict(found: Difference, width: int = 16) -> str:
    """Return how the copy of a list compares with the world, on one line; its name gets `width` columns."""
    sizes = f"{found.truth:>5,} on the server, {found.copy:>5,} in the copy"
    faults = f"{found.missing:,} missing, {found.extra:,} extra, {found.different:,} different"
    return f"{title(found.list):<{width}} {sizes}: {faults}"


def corrected(reports: Sequence[RunReport]) -> dict[str, int]:
    """Return what the verification of these runs put right."""
    scopes = [scope for report in reports for scope in report.scrubbed]
    children = [child for scope in scopes for child in scope.children.values()]
    return {
        "gone": sum(scope.tally.gone for scope in scopes),
        "items": sum(scope.tally.changed for scope in scopes),
        "children": sum(child.tally.changed for child in children),
    }


def corrections(found: Mapping[str, int]) -> str:
    """Return what verification put right, in words."""
    children = f"{found['children']:,} {'child' if found['children'] == 1 else 'children'}"
    return f"{found['gone']:,} deleted on the server, {plural(found['items'], 'item')} and {children} corrected"


def judge(differences: Sequence[Difference]) -> IntegrityError | None:
    """Return what a demonstration ends with: an error where copy and world differ."""
    wrong = sum(difference.faults for difference in differences)
    if not wrong:
        return None
    return IntegrityError(f"the local copy differs from the server in {wrong} places", fix="report this with the seed")
