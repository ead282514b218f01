"""The last chapters of `lore demo`: GitHub and Bluesky are mirrored beside GitLab, and one question searches all three.

Owns what happens in the two networks and what is printed about it. Syncs, polls and the search are the real commands'
code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidelore.app.accounts import poll_accounts
from tidelore.app.searching import FoundThread, SearchQuestion, search
from tidelore.app.wiring import run_until_signalled
from tidelore.cli.output.render import plural
from tidelore.core.text import shorten, without_markdown
from tidelore.sync.account_poll import PollRequest
from tidelore_world.demo.answers import QUESTION_BY_WORDS, filled, index
from tidelore_world.demo.comparison import Difference, copy_sizes
from tidelore_world.demo.killed_mirror import GITHUB, mirror_all, open_app
from tidelore_world.demo.text import FATE, WIDE, corrected, corrections, counted, fill, title, verdict
from tidelore_world.demo.truth_github import compare_github
from tidelore_world.demo.truth_talk import compare_posts

if TYPE_CHECKING:
    from tidelore.sync.report import RunReport
    from tidelore_world.world import World

A_DAY = 86_400
SOURCES = {"gitlab": "GitLab", "github": "GitHub", "bluesky": "Bluesky"}
SILENT = ("delete", "resolve", "delete_issue", "edit_review")
"""What moves no `updated_at` of an issue or pull request: a sync may miss it, verification must not."""
MOST_RESULTS = 1000
_EXCERPT = 180


class MoreSources:
    """GitHub and Bluesky in the world of a demonstration, and the copy that gets them too."""

    def __init__(
        self, world: World, url: str, database: str, paths: Sequence[str], scale: float, say: Callable[[str], None]
    ) -> None:
        self._world = world
        self._say = say
        with world.lock:
            # Only now, so that the chapters before do not depend on what is in these networks.
            world.github.populate(scale)
            world.bluesky.populate(scale)
            settings = world.github.settings
            # A large demonstration asks more than the real services allow in an hour.
            settings.primary_limit = settings.graphql_limit = world.bluesky.settings.rate_limit = None
        self._repos = world.github.truth_repos()
        self._accounts = [account.handle for account in world.bluesky.network.accounts.values() if account.active]
        self._app = open_app(url, database, paths, repos=self._repos, accounts=self._accounts)

    def mirror(self) -> dict[str, Any]:
        """Sync both networks, let things change there, sync again and verify; return the numbers."""
        self._say("\n11. GitHub and Bluesky are added to the configuration and synced")
        requests = {"first": self._sync()}
        stored = copy_sizes(self._compared())
        self._say(f"   {', '.join(self._repos)} and {plural(len(self._accounts), 'account')}:")
        self._say(f"   {_asked(requests['first'])}. Stored:")
        self._say(counted(stored))
        self._say("   Then data changes there, and both are synced again:")
        changes = self._change()
        requests["changed"] = self._sync()
        self._say(f"   {_asked(requests['changed'])}")
        self._world.advance(A_DAY)
        requests["verification"], found = self._verify()
        self._say(f"   A day later everything is verified: {_asked(requests['verification'])}")
        self._say(f"   GitHub: {corrections(found)}")
        return {
            "repositories": len(self._repos),
            "accounts": len(self._accounts),
            "stored": stored,
            "changes": changes,
            "requests": requests,
            "corrected": found,
        }

    def compare(self) -> list[Difference]:
        """Compare the copy of both networks with the simulator."""
        self._say("   Local copy compared with the simulated servers:")
        differences = self._compared()
        for found in differences:
            self._say(f"   {verdict(found, WIDE)}")
        return differences

    def search(self) -> dict[str, Any]:
        """Ask one question and show the best result of each source."""
        self._say(f'\n12. One search in all three sources: "{QUESTION_BY_WORDS}"')
        made, _ = index(self._app)
        page = search(self._app, SearchQuestion(text=QUESTION_BY_WORDS, limit=MOST_RESULTS))
        best: dict[str, dict[str, Any]] = {}
        for rank, (source, item) in enumerate(self._by_source(page.items), 1):
            if source not in best:
                best[source] = {"source": source, "rank": rank, "reference": item.reference, "title": item.title}
                best[source]["snippet"] = item.snippet
        least = "at least " if page.total_is_lower_bound else ""
        self._say(f"   {least}{plural(page.total, 'matching thread')}; the best of each source and its rank:")
        for found in best.values():
            self._say(f"   {SOURCES[found['source']]} ({found['rank']:,}): {found['reference']}")
            if found["title"]:
                self._say(filled(found["title"]))
            self._say(filled(shorten(without_markdown(found["snippet"])[0], _EXCERPT)))
        for source in [source for source in SOURCES if source not in best]:
            self._say(f"   {SOURCES[source]}: nothing found in a world of this size")
        return {
            "question": QUESTION_BY_WORDS,
            "documents": made.regenerated,
            "total": page.total,
            "best": list(best.values()),
        }

    def _sync(self, *, verify: bool = False) -> dict[str, int]:
        report = mirror_all(self._app)
        poll = run_until_signalled(
            poll_accounts(self._app, PollRequest(everyone=True, verify=verify, documents=False)), FATE
        )
        return {"github": report.asked.get(GITHUB, 0), "bluesky": poll.requests}

    def _verify(self) -> tuple[dict[str, int], dict[str, int]]:
        """Sync, and verify every repository and account; return the requests and what was corrected."""
        requests = self._sync(verify=True)
        reports: list[RunReport] = []
        for repo in self._repos:
            # One by one: the projects on GitLab were verified before.
            reports.append(mirror_all(self._app, walk=False, scrub_budget=1_000_000, project=repo))
            requests["github"] += reports[-1].requests
        return requests, corrected(reports)

    def _change(self) -> dict[str, dict[str, int]]:
        world = self._world
        with world.lock:
            done = world.github.change(40, world.rng, None, world.advance)
            done += [change for kind in SILENT for change in world.github.change(2, world.rng, [kind])]
            posted = world.bluesky.change(20, world.rng, None, world.advance)
        counts = {"github": Counter(row["kind"] for row in done), "bluesky": Counter(row["kind"] for row in posted)}
        for source, kinds in counts.items():
            parts = [f"{count} × {title(kind)}" for kind, count in sorted(kinds.items())]
            self._say(fill([f"{SOURCES[source]}: {parts[0]}", *parts[1:]]))
        return {source: dict(kinds) for source, kinds in counts.items()}

    def _compared(self) -> list[Difference]:
        database = self._app.open_store()
        try:
            posts = compare_posts(database, self._world.bluesky)
            return [*compare_github(database, self._world.github), posts]
        finally:
            database.close()

    def _by_source(self, items: Sequence[FoundThread]) -> Iterator[tuple[str, FoundThread]]:
        for item in items:
            of_a_forge = "github" if item.project in self._repos else "gitlab"
            yield ("bluesky" if item.type == "post" else of_a_forge), item


def _asked(requests: dict[str, int]) -> str:
    return f"{plural(requests['github'], 'request')} to GitHub, {requests['bluesky']:,} to Bluesky"
