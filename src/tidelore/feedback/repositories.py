"""Find a configured repository by name, and verify that the name still belongs to the same repository.

A repository is named in full, by an unambiguous suffix, or by a reference to one of its threads; an ambiguous name is
refused. A renamed repository keeps its id, and its old name may be taken by another one: another id under a known name
is refused before anything is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import fields

from tidelore.core.config import Config, FeedbackHost, Host, ProjectHost, RepoSettings, feedback_hosts, repo_settings
from tidelore.core.errors import ConfigError, NotFound, UserError
from tidelore.core.model import ProjectRecord
from tidelore.core.references import match_one, read_reference
from tidelore.store.database.port import Database
from tidelore.store.mirror.projects import ProjectRow, check_identity, store_repository


class RepositorySource(Protocol):
    """The part of a source that is used here."""

    name: str

    async def resolve(self, configured: str | int) -> ProjectRecord:
        """Fetch a repository by name or id, with its current name."""
        ...


async def verify_repository(
    database: Database, source: RepositorySource, configured: str, known: ProjectRow | None, now_ms: int
) -> ProjectRow:
    """Return the repository with a configured name, after verifying it on the server."""
    record = await source.resolve(configured if known is None else known.path)
    if known is not None:
        check_identity(known, record.remote_id)
        if known.path == record.path:
            return known
    with database.transaction() as tx:
        return store_repository(tx, database, source.name, configured, record, now_ms)


ThreadKind = Literal["pr", "issue"]
_NOUNS = {"pr": "a pull request", "issue": "an issue"}
_LARGEST = 2**53


class ConfiguredRepo(Struct, frozen=True):
    """A configured repository."""

    host: FeedbackHost
    name: str

    @property
    def settings(self) -> RepoSettings:
        return repo_settings(self.host, self.name)


class ThreadName(Struct, frozen=True):
    """A parsed thread reference: its number, and its repository and web host if given."""

    number: int
    repo: str | None = None
    site: str | None = None


def parse_thread(text: str, kind: ThreadKind) -> ThreadName:
    """Parse a number, `#12`, `owner/repo#12` or a web address."""
    found = read_reference(text.strip())
    if found is not None:
        meant, reference = found
        wanted = "mr" if kind == "pr" else "issue"
        # On GitHub issues and pull requests share their numbers, so `#` does not distinguish them; a URL does.
        told_apart = reference.address is not None and meant != wanted
        if not told_apart and 0 < reference.iid <= _LARGEST:
            site = urlsplit(reference.address).hostname if reference.address else None
            return ThreadName(reference.iid, reference.project, site)
    raise UserError(
        f"could not parse {text!r} as {_NOUNS[kind]}",
        fix="use a number, owner/repo#12 or a URL",
        reference=text,
    )


def choose_repos(config: Config, wanted: str | None, kind: str | None = None) -> list[ConfiguredRepo]:
    """Return all configured repositories, or the one named `wanted`; of one forge if `kind` names it."""
    hosts = [host for host in feedback_hosts(config) if kind in (None, host.kind)]
    places = [ConfiguredRepo(host, name) for host in hosts for name in host.configured]
    if not places and kind not in (None, "github"):
        raise ConfigError(
            f"no project of {kind} is configured",
            fix=f"add your projects under `projects` of a [[{kind}]] table in the configuration file",
            key=f"{kind}.projects",
        )
    if not places:
        raise ConfigError(
            "no GitHub repository is configured",
            fix="add your repositories under [[github.repos]] in the configuration file",
            key="github.repos",
        )
    return places if wanted is None else [_match(places, wanted)]


def choose_repo(config: Config, repo: str | None, thread: ThreadName | None = None) -> ConfiguredRepo:
    """Return one configured repository, by its name or by the reference of a thread."""
    named = thread.repo if thread is not None else None
    if repo is not None and named is not None and not _is_same(repo, named):
        raise UserError(
            f"{named} is not in {repo}",
            fix="remove --repo, or name a thread of that repository",
            repo=repo,
            reference=named,
        )
    places = choose_repos(config, None)
    if thread is not None and thread.site is not None:
        places = [place for place in places if _site(place.host) == thread.site]
        if not places:
            raise NotFound(f"no host is configured for {thread.site}", fix="add it under [[github]] or [[gitlab]]")
    wanted = named or repo
    if wanted is not None:
        return _match(places, wanted)
    # A project that is only mirrored is followed by its name.
    places = [place for place in places if expects_feedback(place.host)] or places
    if len(places) > 1:
        raise UserError(
            f"{len(places)} repositories are configured and none was named",
            fix="pass --repo with one of: " + ", ".join(place.name for place in places),
            candidates=[place.name for place in places],
        )
    return places[0]


def expects_feedback(host: FeedbackHost) -> bool:
    """Return whether a host is configured for feedback: it is for nothing else, or one of the keys for it is set."""
    own = set(FeedbackHost.__struct_fields__) - set(Host.__struct_fields__)
    usual = {found.name: found.default for found in fields(host)}
    return not isinstance(host, ProjectHost) or any(getattr(host, name) != usual[name] for name in own)


def _match(places: Sequence[ConfiguredRepo], wanted: str) -> ConfiguredRepo:
    whole = [place for place in places if place.name.casefold() == wanted.casefold()]
    return match_one(whole[0].name if len(whole) == 1 else wanted, whole or places, lambda place: (place.name,), "repo")


def _is_same(one: str, other: str) -> bool:
    short, long = sorted((one.casefold(), other.casefold()), key=len)
    return long == short or long.endswith(f"/{short}")


def _site(host: FeedbackHost) -> str:
    """Return the host name of the web pages, from that of the API."""
    return (urlsplit(host.base_url).hostname or "").removeprefix("api.")
