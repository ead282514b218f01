"""All jobs of a configuration. Owns which there are, and that there is something to look after at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidelore.app.service.bluesky_jobs import bluesky_jobs, follows_somebody
from tidelore.app.service.feedback_jobs import feedback_jobs
from tidelore.app.service.forge_jobs import copy_jobs, forge_jobs
from tidelore.core.errors import ConfigError

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.service.outcome import Job
    from tidelore.store.database.port import Database


def build_jobs(app: App, database: Database) -> list[Job]:
    """Return everything there is to do for a configuration."""
    app = replace(app, insists=True)
    jobs = [*forge_jobs(app), *feedback_jobs(app)]
    if follows_somebody(app, database):
        jobs += bluesky_jobs(app)
    return [*jobs, *copy_jobs(app)]


def build_some_jobs(app: App, database: Database) -> list[Job]:
    """Return the same, or refuse a configuration by which no source is looked after."""
    jobs = build_jobs(app, database)
    if not any(job.spec.staleness_bound_seconds is not None for job in jobs):
        raise ConfigError(
            "nothing to do: no projects, repositories or accounts are configured",
            fix="add projects under [[gitlab]], repositories under [[github.repos]], or accounts under [bluesky]",
            key="gitlab.projects",
        )
    return jobs
