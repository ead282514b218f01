"""Which lists a command means. Pure: what is configured, what is stored and the user's word in, targets out."""

from __future__ import annotations

from collections.abc import Sequence

from tidelore.core.config import Config, GitLabHost
from tidelore.core.errors import ConfigError, NotFound, UserError
from tidelore.core.references import match_one
from tidelore.pipeline.ingest import Target
from tidelore.pipeline.projects import Chosen, name_projects
from tidelore.sources.ports import RESOURCES, ProjectSource
from tidelore.store.mirror.projects import ProjectRow


def check_resources(resources: Sequence[str]) -> None:
    """Refuse a resource type that does not exist."""
    for resource in resources:
        if resource not in RESOURCES:
            raise UserError(
                f"invalid value for --type: {resource!r}",
                fix=f"use one of: {', '.join(RESOURCES)}",
                type=resource,
            )


def check_configured(config: Config) -> None:
    """Refuse to mirror nothing."""
    if not any(host.projects or host.groups for host in config.gitlab):
        raise ConfigError(
            "no project is configured",
            fix="run `lore init`, add your projects to the configuration file, then run `lore doctor`",
            key="gitlab.projects",
        )


def choose_known(config: Config, known: Sequence[ProjectRow], wanted: str) -> Chosen | None:
    """Return the project that is meant as far as that is known here, or None when the groups have to be asked.

    As soon as there are groups only a whole name is certain: whether an ending is unambiguous, they decide.
    """
    named = [chosen for host in config.gitlab for chosen in name_projects(host, known)]
    if not any(host.groups for host in config.gitlab):
        return choose_one(named, wanted)
    candidates = named + _stored_of_groups(config, known, {(one.source, one.configured) for one in named})
    whole = [chosen for chosen in candidates if wanted in (chosen.path, chosen.configured)]
    return whole[0] if len(whole) == 1 else None


def hosts_of(config: Config, one: Chosen | None) -> list[GitLabHost]:
    """Return the hosts to be opened: that of the one project that is meant, else all that have something to read."""
    return [
        host for host in config.gitlab if (host.projects or host.groups) and (one is None or one.source == host.name)
    ]


def choose_one(candidates: Sequence[Chosen], wanted: str) -> Chosen:
    """Return the one project that is meant by a whole name, or by an unambiguous ending of a path."""
    failures = [chosen.failure for chosen in candidates if chosen.failure is not None]
    projects = [chosen for chosen in candidates if not chosen.is_group]
    try:
        return match_one(wanted, projects, lambda chosen: (chosen.path, chosen.configured), "configured project")
    except NotFound:
        if failures:
            # It may well be in there: why we could not look is the more useful answer.
            raise failures[0] from None
        raise


def build_targets(sources: Sequence[ProjectSource], chosen: Sequence[Chosen], resources: Sequence[str]) -> list[Target]:
    """Return every list to read, project by project; a group that could not be listed is one of them."""
    by_name = {source.name: source for source in sources}
    targets: list[Target] = []
    for one in chosen:
        kinds = ["groups"] if one.is_group else resources
        targets += [Target(by_name[one.source], one.configured, kind, one.listed, one.failure) for kind in kinds]
    return targets


def _stored_of_groups(config: Config, known: Sequence[ProjectRow], named: set[tuple[str, str]]) -> list[Chosen]:
    """Return what is stored below the path of a configured group, and is not configured by name."""
    roots = {host.name: tuple(f"{group}/" for group in host.groups) for host in config.gitlab}
    return [
        Chosen(row.source, row.configured, row.path)
        for row in known
        if row.path.startswith(roots.get(row.source, ())) and (row.source, row.configured) not in named
    ]
