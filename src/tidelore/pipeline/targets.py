"""Which lists a command means. Pure: configured names and the user's word in, targets out."""

from __future__ import annotations

from collections.abc import Sequence

from tidelore.config import Config
from tidelore.errors import ConfigError, UserError
from tidelore.matching import match_one
from tidelore.pipeline.ingest import Target
from tidelore.sources.registry import RESOURCES, ProjectSource


def check_resources(resources: Sequence[str]) -> None:
    """Refuse a resource type that does not exist."""
    for resource in resources:
        if resource not in RESOURCES:
            raise UserError(
                f"--type {resource!r} is not something that can be ingested",
                fix=f"use one of: {', '.join(RESOURCES)}",
                type=resource,
            )


def choose_projects(config: Config, wanted: str | None) -> dict[str, tuple[str, ...]]:
    """Return the configured projects by source; `wanted` matches whole names, then unambiguous endings."""
    everything = {host.name: host.projects for host in config.gitlab}
    if not any(everything.values()):
        raise ConfigError(
            "no project is configured",
            fix="run `lore init`, then list your projects under [[gitlab]] in the configuration file",
            key="gitlab.projects",
        )
    if wanted is None:
        return everything
    pairs = [(source, name) for source, names in everything.items() for name in names]
    source, name = match_one(wanted, pairs, lambda pair: (pair[1],), "configured project")
    return {source: (name,)}


def build_targets(
    sources: Sequence[ProjectSource], chosen: dict[str, tuple[str, ...]], resources: Sequence[str]
) -> list[Target]:
    """Return every list to read, project by project."""
    return [
        Target(source, configured, resource)
        for source in sources
        for configured in chosen.get(source.name, ())
        for resource in resources
    ]
