"""The answers of `lore demo` and `lore simulate` in robot mode."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from tidelore.app.answers import means


class KilledSync(Struct, frozen=True):
    """The first sync, until it was killed."""

    requests: Annotated[int, means("requests until the first sync was killed")]
    stored: Annotated[dict[str, int], means("what was stored by then, by kind")]


class SyncRequests(Struct, frozen=True):
    """How many requests each sync sent."""

    killed: Annotated[int, means("requests of the killed sync")]
    resumed: Annotated[int, means("requests of the resumed sync")]
    changed: Annotated[int, means("requests of the sync after the changes")]
    settled: Annotated[int, means("requests of the sync a day after changes that leave no trace")]
    verification: Annotated[int, means("requests of the verification")]
    quiet: Annotated[int, means("requests of a sync without changes")]


class SyncResults(Struct, frozen=True):
    """How much each sync stored."""

    resumed: Annotated[int, means("items and children stored by the resumed sync")]
    changed: Annotated[int, means("items and children stored after the changes")]
    settled: Annotated[int, means("items and children stored a day later")]
    verification: Annotated[int, means("items and children corrected by the verification")]
    quiet: Annotated[int, means("items and children stored by the sync without changes")]


class Corrections(Struct, frozen=True):
    """What the verification corrected."""

    gone: Annotated[int, means("items found deleted")]
    items: Annotated[int, means("items corrected by verification")]
    children: Annotated[int, means("children corrected by verification")]


class ComparedCopy(Struct, frozen=True, kw_only=True):
    """The comparison of one list with the simulator."""

    list: Annotated[
        str,
        means(
            "issues, merge_requests, or a kind of children; github_issues, github_pull_requests and so on; posts;"
            " with --console also followed pull requests and their comments"
        ),
    ]
    truth: Annotated[int, means("number in the simulator")]
    copy: Annotated[int, means("number in the local copy")]
    missing: Annotated[int, means("in the simulator only")]
    extra: Annotated[int, means("in the local copy only")]
    different: Annotated[int, means("in both, with different content")]


class SearchResult(Struct, frozen=True):
    """What the search of the demo prepared."""

    documents: Annotated[int, means("documents created")]
    embedded: Annotated[int, means("documents embedded")]


class RefreshResult(Struct, frozen=True):
    """The refresh of the thread that was found."""

    reference: Annotated[str, means("the merge request whose thread answers the question")]
    requests: Annotated[int, means("requests of its refresh")]
    documents: Annotated[int, means("documents written by it")]
    found: Annotated[bool, means("whether the new note is found")]


class SourceRequests(Struct, frozen=True):
    """The requests of one sync of the added sources."""

    github: Annotated[int, means("requests to GitHub")]
    bluesky: Annotated[int, means("requests to Bluesky")]


class AddedRequests(Struct, frozen=True):
    """How many requests each sync of the added sources sent."""

    first: SourceRequests
    changed: SourceRequests
    verification: SourceRequests


class AddedChanges(Struct, frozen=True):
    """What happened in the added sources after their first sync."""

    github: Annotated[dict[str, int], means("number of changes of each kind on GitHub")]
    bluesky: Annotated[dict[str, int], means("number of changes of each kind on Bluesky")]


class AddedSources(Struct, frozen=True, kw_only=True):
    """GitHub repositories and Bluesky accounts that are added to the configuration."""

    repositories: Annotated[int, means("number of GitHub repositories")]
    accounts: Annotated[int, means("number of Bluesky accounts")]
    stored: Annotated[dict[str, int], means("what their first sync stored, by kind")]
    changes: AddedChanges
    requests: AddedRequests
    corrected: Annotated[Corrections, means("what the verification of GitHub corrected")]


class BestResult(Struct, frozen=True, kw_only=True):
    """The best result of one source."""

    source: Annotated[str, means("gitlab, github or bluesky")]
    rank: Annotated[int, means("its rank among the results of all sources")]
    reference: Annotated[str, means("reference of the thread or address of the post")]
    title: Annotated[str, means("its title; of a post, its author")]
    snippet: Annotated[str, means("best matching part, on one line")]


class SearchOfAll(Struct, frozen=True, kw_only=True):
    """One search in all three sources."""

    question: Annotated[str, means("the text that was searched")]
    documents: Annotated[int, means("documents created for it")]
    total: Annotated[int, means("number of matching threads")]
    best: Annotated[list[BestResult], means("the best result of each source, in the order of rank")]


class DemoStory(Struct, frozen=True, kw_only=True):
    """The answer of `lore demo`."""

    seed: Annotated[int, means("the seed")]
    killed: KilledSync
    requests: SyncRequests
    repeated: Annotated[int, means("requests repeated after the kill")]
    stored: SyncResults
    corrected: Corrections
    changes: Annotated[dict[str, int], means("number of changes of each kind")]
    silent: Annotated[dict[str, int], means("number of changes of each kind that leave no trace")]
    comparison: list[ComparedCopy]
    search: SearchResult
    refreshed: Annotated[RefreshResult | None, means("null if no thread was found")]
    added: AddedSources
    answers: SearchOfAll


class LiveDemo(Struct, frozen=True, kw_only=True):
    """The answer of `lore demo --console`."""

    seed: Annotated[int, means("the seed")]
    seconds: Annotated[float, means("with --console only: how long the service ran")]
    changed: Annotated[dict[str, int], means("with --console only: changes in each network")]
    commands: Annotated[int, means("with --console only: commands of the operator")]
    held: Annotated[dict[str, int], means("with --console only: what the copy held when the service stopped, by kind")]
    comparison: list[ComparedCopy]


class SimulatedServers(Struct, frozen=True):
    """The answer of `lore simulate`.

    Printed once the servers accept requests.
    """

    url: Annotated[str, means("where it listens")]
    projects: Annotated[list[str], means("the GitLab projects in it")]
    repos: Annotated[list[str], means("the GitHub repositories in it")]
    accounts: Annotated[list[str], means("the Bluesky accounts in it")]
