"""Which repository and which thread is meant. Owns how people name both.

Pure: what is configured and the user's words in, one place out. A repository is named by its name, an unambiguous
ending of it, or by the reference to a thread in it; where only one is configured it need not be named. Refuses to
guess between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from tidelore.core.config import Config, GitHubHost, RepoSettings, repo_settings
from tidelore.core.errors import ConfigError, NotFound, UserError
from tidelore.core.references import match_one, read_reference

ThreadKind = Literal["pr", "issue"]
_NOUNS = {"pr": "a pull request", "issue": "an issue"}
_LARGEST = 2**53


class Place(Struct, frozen=True):
    """A configured repository."""

    host: GitHubHost
    name: str

    @property
    def settings(self) -> RepoSettings:
        return repo_settings(self.host, self.name)


class ThreadName(Struct, frozen=True):
    """A thread as somebody named it: its number, and its repository where that was named too."""

    number: int
    repo: str | None = None
    site: str | None = None


def read_thread(text: str, kind: ThreadKind) -> ThreadName:
    """Read a number, `#12`, `owner/repo#12` or a web address."""
    found = read_reference(text.strip())
    if found is not None:
        meant, reference = found
        wanted = "mr" if kind == "pr" else "issue"
        # A sign does not part the two on GitHub, where threads share their numbers; an address does.
        told_apart = reference.address is not None and meant != wanted
        if not told_apart and 0 < reference.iid <= _LARGEST:
            site = urlsplit(reference.address).hostname if reference.address else None
            return ThreadName(reference.iid, reference.project, site)
    raise UserError(
        f"could not parse {text!r} as {_NOUNS[kind]}",
        fix="use a number, owner/repo#12 or a URL",
        reference=text,
    )


def choose_places(config: Config, wanted: str | None) -> list[Place]:
    """Return every configured repository, or the one that is named."""
    places = [Place(host, repo.name) for host in config.github for repo in host.repos]
    if not places:
        raise ConfigError(
            "no GitHub repository is configured",
            fix="add your repositories under [[github.repos]] in the configuration file",
            key="github.repos",
        )
    return places if wanted is None else [_match(places, wanted)]


def choose_place(config: Config, repo: str | None, thread: ThreadName | None = None) -> Place:
    """Return the one repository that is meant, by its name or by the thread's."""
    named = thread.repo if thread is not None else None
    if repo is not None and named is not None and not _is_same(repo, named):
        raise UserError(
            f"{named} is not in {repo}",
            fix="remove --repo, or name a thread of that repository",
            repo=repo,
            reference=named,
        )
    places = choose_places(config, None)
    if thread is not None and thread.site is not None:
        places = [place for place in places if _site(place.host) == thread.site]
        if not places:
            raise NotFound(f"no GitHub host is configured for {thread.site}", fix="add it under [[github]]")
    wanted = named or repo
    if wanted is not None:
        return _match(places, wanted)
    if len(places) > 1:
        raise UserError(
            f"{len(places)} repositories are configured and none was named",
            fix="pass --repo with one of: " + ", ".join(place.name for place in places),
            candidates=[place.name for place in places],
        )
    return places[0]


def _match(places: Sequence[Place], wanted: str) -> Place:
    whole = [place for place in places if place.name.casefold() == wanted.casefold()]
    return match_one(whole[0].name if len(whole) == 1 else wanted, whole or places, lambda place: (place.name,), "repo")


def _is_same(one: str, other: str) -> bool:
    short, long = sorted((one.casefold(), other.casefold()), key=len)
    return long == short or long.endswith(f"/{short}")


def _site(host: GitHubHost) -> str:
    """Return where a host's web pages are: not the name of its API."""
    return (urlsplit(host.base_url).hostname or "").removeprefix("api.")
