"""What a benchmark found. Owns the shape of a finding, the table people read and the file programs read.

A finding without a bound explains the ones that have one; only a broken bound makes the run fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

RESULTS = Path(__file__).parent / "results"


class Finding(Struct, frozen=True):
    """One number. `bound` is the largest value that keeps the promise."""

    benchmark: str
    measured: str
    value: float
    unit: str = ""
    bound: float | None = None

    @property
    def broken(self) -> bool:
        return self.bound is not None and self.value > self.bound


def table(findings: Sequence[Finding]) -> str:
    """Return the findings as one table."""
    head = ("benchmark", "measured", "value", "bound", "")
    body = [
        (
            finding.benchmark,
            finding.measured,
            _number(finding.value, finding.unit),
            "" if finding.bound is None else f"<= {_number(finding.bound, finding.unit)}",
            "" if finding.bound is None else "BROKEN" if finding.broken else "ok",
        )
        for finding in findings
    ]
    widths = [max(len(row[column]) for row in (head, *body)) for column in range(len(head))]
    lines = [_line(row, widths) for row in (head, tuple("-" * width for width in widths), *body)]
    return "\n".join(lines)


def save(findings: Sequence[Finding], conditions: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write the findings as JSON and return the file: one file per run, named by when it began."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{conditions['started'].replace(':', '')}.json"
    document = {**conditions, "ok": not any(finding.broken for finding in findings), "findings": findings}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
    return path


def _number(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if value == int(value) and unit != "x" else f"{value:,.2f}"
    return f"{text} {unit}".rstrip()


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, measured, value, bound, verdict = row
    cells = (
        name.ljust(widths[0]),
        measured.ljust(widths[1]),
        value.rjust(widths[2]),
        bound.rjust(widths[3]),
        verdict,
    )
    return "  ".join(cells).rstrip()
