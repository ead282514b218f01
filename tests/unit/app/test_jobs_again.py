"""Which jobs of a service bring about what a run did not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tidelore.app.console import jobs_again
from tidelore.app.status import ShownRun, job_entry
from tidelore.store.work.service_records import JobRow

JOBS = [
    job_entry(job)
    for job in (
        JobRow("gitlab:main", "main", "sync", "", "idle"),
        JobRow("gitlab:other", "other", "sync", "", "idle"),
        JobRow("github:hub/a/b", "hub", "poll", "", "idle"),
        JobRow("answers:hub", "hub", "answers", "", "idle"),
        JobRow("bluesky:poll", "bluesky", "poll", "", "idle"),
        JobRow("bluesky:stream", "bluesky stream", "stream", "", "idle"),
        JobRow("documents", "copy", "documents", "", "idle"),
        JobRow("embeddings", "embedding", "embeddings", "", "idle"),
    )
]
FAILED = ShownRun(
    **dict.fromkeys(ShownRun.__struct_fields__, 0)  # type: ignore[arg-type]
    | {"command": "lore sync", "mode": "standard", "status": "failed", "phase": "failed"}
)


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("lore sync", ["gitlab:main", "gitlab:other"]),
        ("lore ingest issues", ["gitlab:main", "gitlab:other"]),
        ("lore poll github", ["github:hub/a/b"]),
        ("lore poll bluesky", ["bluesky:poll"]),
        ("lore stream bluesky", ["bluesky:stream"]),
        ("lore generate-docs", ["documents"]),
        ("lore embed", ["embeddings"]),
        ("lore synchronise", []),
        ("lore audit --repair", []),
        ("lore cursors reset", []),
    ],
    ids=str,
)
def test_a_failed_run_is_repeated_by_the_jobs_that_match_its_command(command: str, names: list[str]) -> None:
    for status in ("failed", "crashed", "cancelled"):
        assert jobs_again(replace(FAILED, command=command, status=status), JOBS) == names


def test_succeeded_running_and_surgical_runs_are_not_repeated() -> None:
    assert jobs_again(replace(FAILED, status="succeeded"), JOBS) == []
    assert jobs_again(replace(FAILED, status="running"), JOBS) == []
    assert jobs_again(replace(FAILED, mode="surgical"), JOBS) == []
