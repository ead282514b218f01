"""What an audit found. Owns the shape of its report, the comparison of two sides, and the verdict over all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from tidelore.core.errors import IntegrityError, PartialSuccess, TideloreError

VERDICTS = ("missing", "extra", "different", "unreadable")


class Difference(Struct, frozen=True):
    """One item that is not the same here and there. `unreadable` ones are there, and cannot be compared."""

    verdict: str
    kind: str
    project: str
    iid: int | None
    reference: str
    key: str


class Unread(Struct, frozen=True):
    """Children that could not be read, so that nothing is known of them."""

    kind: str
    project: str
    reference: str
    error: TideloreError


class ScopeAudit(Struct):
    """One list of one project: how much was compared, and what came of it."""

    source: str
    surface: str
    project: str
    synced_at: int | None = None
    items: int = 0
    children: int = 0
    differences: list[Difference] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    skipped: str | None = None
    error: TideloreError | None = None

    @property
    def counts(self) -> Counter[str]:
        return Counter(found.verdict for found in self.differences)


class AuditReport(Struct):
    """One whole audit. `synced_at` is when the copy was last brought up to date."""

    synced_at: int | None
    scopes: list[ScopeAudit]
    requests: int = 0
    seconds: float = 0.0

    @property
    def differences(self) -> list[Difference]:
        return [found for scope in self.scopes for found in scope.differences]

    @property
    def unread(self) -> list[Unread]:
        return [entry for scope in self.scopes for entry in scope.unread]

    @property
    def counts(self) -> Counter[str]:
        return Counter(found.verdict for found in self.differences)


def compare(held: Mapping[str, object], met: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield a verdict and a key for everything that is not the same on both sides."""
    for key, content in met.items():
        if key not in held:
            yield "missing", key
        elif held[key] != content:
            yield "different", key
    for key in held:
        if key not in met:
            yield "extra", key


def describe(counts: Counter[str]) -> str:
    """Return counts in words, in the order of the verdicts; nothing for none."""
    return ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS if counts[verdict])


def judge(report: AuditReport) -> TideloreError | None:
    """Return the error an audit ends with, if any: a difference first, then what could not be compared."""
    counts = report.counts
    if counts:
        return IntegrityError(
            f"the local copy differs from the server: {describe(counts)}",
            fix="run `lore sync` to fetch recent changes; `lore audit gitlab --repair` corrects the rest",
            **{verdict: counts[verdict] for verdict in VERDICTS},
        )
    failed = [(scope, scope.error) for scope in report.scopes if scope.error is not None]
    if failed and len(failed) == len(report.scopes) and len({type(error) for _, error in failed}) == 1:
        return failed[0][1]
    if not failed and not report.unread:
        return None
    errors = [error for _, error in failed] + [entry.error for entry in report.unread]
    parts = [f"{len(failed)} of {len(report.scopes)} lists"] if failed else []
    parts += [f"{len(report.unread):,} lists of children"] if report.unread else []
    return PartialSuccess(
        f"no differences found, but {' and '.join(parts)} could not be read",
        fix=errors[0].fix or "run the command again",
        failed=[
            {"project": scope.project, "surface": scope.surface, "code": error.code, "message": error.message}
            for scope, error in failed
        ],
    )
