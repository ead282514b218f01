"""Random histories in which the settings change between runs: at the end the copy is as the last settings demand.

What was read, refused or left out under earlier settings must not hide anything under later ones. Lists, kinds of
children, horizons, page sizes, addresses, tokens with fewer rights, and projects come and go while runs are killed.
Nothing is verified before the comparison, because that would repair what an earlier run left behind; the exception is
what does not depend on settings.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.properties.audit import compare
from tests.properties.inprocess import BASE_URL, NEVER_SECONDS, PROJECT, House, MortalApp, Reaper, scratch
from tests.properties.test_accounts import DEEDS, NAMES, Life
from tests.situations.bluesky.house import configured
from tests.situations.feedback.bench import Bench, key
from tests.situations.github.house import REPO, GitHubHouse
from tests.support.deep import gate_cases

from tidelore.app.mirroring import audit
from tidelore.core.clock import format_instant
from tidelore.core.config_file import parse_config
from tidelore.store.mirror.accounts import find_account, pause_account, remove_account, resume_account
from tidelore_world.github import churn as github_churn
from tidelore_world.gitlab.actions import EVERYDAY
from tidelore_world.world import World

OTHER = "group/other"
UNSEEN = {"push", "resolve", "delete_note", "delete_issue", "delete_merge_request", "delete", "unresolve"}
"""Changes that neither lists nor parents show; only verification finds them."""
GITLAB_KINDS = (
    *(kind for kind in EVERYDAY if kind not in UNSEEN),
    "relabel",
    "set_milestone",
    "set_reviewers",
    "set_status",
)
GITHUB_KINDS = tuple(kind for kind in github_churn.EVERYDAY if kind not in UNSEEN)
ENOUGH, SOON = 3, 100
"""Runs after the last change of settings, and the seconds before each: no pause after a refusal ends by itself."""
ADDRESSES = (BASE_URL, BASE_URL.replace("127.0.0.1", "localhost"))
SWITCHES = ("fetch_resource_events", "fetch_mr_closes_issues", "fetch_mr_diffs", "verify_reviewers")
REFUSED = ("resource_[a-z]+_events", "closes_issues", "diffs", "reviewers", "discussions", "issues", "merge_requests")
"""Children and lists that a token with few rights may not read."""


def trouble(world: World, rng: random.Random) -> None:
    """Make some requests fail, or all of them with 404 from the middle of a run on."""
    if rng.random() < 0.5:
        world.faults.add("status", None, rng.randrange(1, 5), rng.randrange(10), status=502)
    else:
        world.faults.add("status", None, None, rng.randrange(20), status=404)


def run_with_trouble(life: GitLabLife | GitHubLife, refused: Sequence[str], most: int) -> None:
    """Run once: perhaps with up to `most` kinds refused, with faults, or killed on the way."""
    rng, world = life.rng, life.world
    if life.token == "guest":
        for kind in rng.sample(refused, rng.randint(1, most)):
            world.faults.add("status", re.compile(f"/{kind}$"), times=None, status=rng.choice((403, 404)))
    elif rng.random() < 0.5:
        trouble(world, rng)
    resources = rng.choice((("issues", "merge_requests"), ("issues",), ("merge_requests",)))
    life.run(Reaper(rng.randrange(60)) if rng.random() < 0.4 else None, resources=resources, scrub_budget=0)
    world.faults.clear()
    world.advance(rng.choice((1, 90, 90_000)))


class GitLabLife(House):
    """A project whose configuration is another one in every run."""

    token = "first"

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(folder)
        self.rng = rng
        self.world.gitlab.create_project(OTHER)
        self.world.gitlab.create_issue(OTHER)
        # A list that is interrupted within one instant goes on at the address of a page.
        self.world.gitlab.bulk(PROJECT, 6, 6, same_instant=True, discussions=1, notes=1, events=1, files=1)

    def app(self, reaper: Reaper) -> MortalApp:
        environ = {"GITLAB_TOKEN": self.token}
        return MortalApp(self.config, environ, str(self.path), self.clock, reaper, self.transport)

    def statuses(self) -> dict[int, dict[str, str] | None]:
        """Return the stored statuses of issues in the form of `truth_statuses`."""
        with self.database() as database:
            rows = database.read(
                "SELECT i.iid, i.status_name, i.status_category, i.status_color, i.status_icon_name FROM issues i"
                " JOIN projects p ON p.id = i.project_id WHERE p.path = :path AND i.deleted_at IS NULL",
                {"path": PROJECT},
            )
        names = ("name", "category", "color", "icon_name")
        return {iid: dict(zip(names, row, strict=True)) if row[0] else None for iid, *row in rows}

    def configure(self, *, all_of_it: bool = False) -> None:
        """Choose settings at random, or those that ask for everything."""
        rng = self.rng
        projects: dict[str, Any] = {"projects": rng.choice(([PROJECT], [OTHER], [PROJECT, OTHER], []))}
        if not projects["projects"] or rng.random() < 0.3:
            projects["groups"] = ["group"]
        since = format_instant(self.clock.now_ms() - rng.randrange(86_400_000)) if rng.random() < 0.3 else ""
        switches = {name: rng.random() < 0.6 for name in SWITCHES}
        if all_of_it:
            projects, since, switches = {"projects": [PROJECT, OTHER]}, "", dict.fromkeys(SWITCHES, True)
        self.token = rng.choice(("guest", "reporter", "developer"))
        host = {"base_url": rng.choice(ADDRESSES), "mirror_since": since, "graphql": "off", **projects}
        host["include_archived"] = all_of_it or rng.random() < 0.5
        self.config = parse_config(
            {
                "http": {"per_page": rng.choice((2, 3, 10, 100)), "max_retries": 0},
                "sync": {
                    "scrub_share": 0.0,
                    "use_keyset_pagination": rng.random() < 0.3,
                    "heartbeat_interval_seconds": NEVER_SECONDS,
                    "settle_seconds": 75 if all_of_it else rng.choice((75, 600)),
                    **switches,
                },
                "gitlab": [host],
            }
        )

    def live(self) -> None:
        """Change the world and the settings, then run once."""
        rng, world = self.rng, self.world
        world.gitlab.change(rng.randrange(1, 10), rng, GITLAB_KINDS, world.advance)
        self.configure()
        if rng.random() < 0.2:
            world.gitlab.archive_project(PROJECT, archived=rng.random() < 0.5)
        world.gitlab.statuses = rng.random() < 0.7
        run_with_trouble(self, REFUSED, most=3)


def check_gitlab(seed: int) -> None:
    rng = random.Random(seed)
    with scratch() as folder:
        life = GitLabLife(folder, rng)
        for _ in range(rng.randrange(2, 6)):
            life.live()
        life.world.gitlab.archive_project(PROJECT, archived=False)
        life.world.gitlab.statuses = True
        life.configure(all_of_it=True)
        life.token = "owner"
        for _ in range(ENOUGH):
            life.world.advance(SOON)
            report = life.run(scrub_budget=0)
            assert report is not None
            assert [scope.error for scope in report.scopes if scope.error] == []
        compare(life)
        audited = asyncio.run(audit(life.app(Reaper()), None))
        assert (audited.differences, audited.unread) == ([], [])
        assert life.statuses() == life.world.gitlab.truth_statuses(PROJECT)


@pytest.mark.parametrize("seed", range(8))
@gate_cases(4)
def test_a_project_is_whole_whatever_the_settings_of_earlier_runs_were(seed: int) -> None:
    check_gitlab(seed)


GITHUB_REFUSED = ("issues", "pulls", "issues/[0-9]+/timeline", "pulls/[0-9]+/files", "pulls/[0-9]+/reviews", "graphql")


class GitHubLife(GitHubHouse):
    """A repository whose configuration is another one in every run."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(folder)
        self.rng = rng
        self.forge.create_repo("octo/other")
        for _ in range(2):
            self.forge.create_pull(REPO)
            self.forge.create_issue(REPO, "a question", "with a text")
        self.forge.create_discussion(REPO, "a topic", "with a text", category="Q&A")

    def configure(self, *, all_of_it: bool = False) -> None:
        rng = self.rng
        repos: dict[str, Any] = {"repos": rng.choice(([REPO], ["octo/other"], [REPO, "octo/other"], []))}
        if not repos["repos"] or rng.random() < 0.3:
            repos["orgs"] = ["octo"]
        since = format_instant(self.clock.now_ms() - rng.randrange(7_200_000)) if rng.random() < 0.3 else ""
        switches = {name: rng.random() < 0.6 for name in SWITCHES}
        if all_of_it:
            # The list of an organisation shows at once what is otherwise looked up once a day: Discussions, archived.
            repos, since, switches = {"repos": [REPO], "orgs": ["octo"]}, "", dict.fromkeys(SWITCHES, True)
        following = {
            "mirror": "all" if all_of_it else rng.choice(("all", "all", "followed")),
            "fetch": rng.choice(("auto", "repo", "thread")),
            "incremental": rng.random() < 0.7,
            "track_authors": rng.sample(("octo", "robin", "sam"), rng.randrange(4)),
        }
        self.token = rng.choice((None, "guest", "reporter", "developer"))
        archived = all_of_it or rng.random() < 0.5
        host = {
            "base_url": rng.choice(ADDRESSES),
            "mirror_since": since,
            "include_archived": archived,
            **repos,
            **following,
        }
        sizes = {"per_page": rng.choice((2, 3, 10, 100)), "max_retries": 0}
        self.settings = {"sync": switches, "host": {**host, **repos, **following}, "http": sizes}

    def live(self) -> None:
        rng, world, forge = self.rng, self.world, self.forge
        forge.change(rng.randrange(1, 12), rng, GITHUB_KINDS, world.advance)
        self.configure()
        for switch in (forge.switch_issues, forge.switch_discussions):
            if rng.random() < 0.2:
                switch(REPO, on=rng.random() < 0.5)
        run_with_trouble(self, GITHUB_REFUSED, most=2)


def check_github(seed: int) -> None:
    rng = random.Random(seed)
    with scratch() as folder:
        life = GitHubLife(folder, rng)
        for _ in range(rng.randrange(2, 6)):
            life.live()
        life.forge.switch_issues(REPO, on=True)
        life.forge.switch_discussions(REPO, on=True)
        life.configure(all_of_it=True)
        life.token = "owner"
        for _ in range(ENOUGH):
            life.world.advance(SOON)
            life.sync(scrub_budget=0)
        assert [found for found in life.differences() if found.endswith("missing")] == []
        life.verify()
        assert life.differences() == []
        assert life.audit().differences == []


@pytest.mark.parametrize("seed", range(8))
@gate_cases(4)
def test_a_repository_is_whole_whatever_the_settings_of_earlier_runs_were(seed: int) -> None:
    check_github(seed)


class AccountsLife(Life):
    """Accounts whose way of reading, page sizes, address and presence change between polls."""

    def _configure(self) -> None:
        rng, waters = self.rng, self.waters
        per_page, pages = rng.choice(((2, 10), (7, 5), (50, 3), (100, 100)))
        waters.config = configured(
            mode=rng.choice(("feed", "records")),
            posts_per_page=per_page,
            max_pages_per_user=pages,
            base_url=rng.choice(ADDRESSES),
            initial_lookback_hours=rng.choice((1000, 2000)),
        )

    def _change_mode(self) -> None:
        self.waters.add(self.rng.choice(NAMES), mode=self.rng.choice(("feed", "records", None)))

    def _remove(self) -> None:
        name = self.rng.choice(NAMES)
        app = self.waters.app()
        with closing(app.open_store()) as database, database.transaction() as tx:
            remove_account(tx, find_account(database, name).id)
        self.waters.sky.post(name, "While nobody followed")
        self.waters.add(name)

    def _pause(self) -> None:
        name = self.rng.choice(NAMES)
        app = self.waters.app()
        with closing(app.open_store()) as database, database.transaction() as tx:
            account = find_account(database, name)
            pause_account(tx, account.id, None, self.waters.clock.now_ms())
        self.honest.add(self.waters.sky.post(name, "While it was paused").uri)
        self.waters.poll(everyone=True)
        with closing(app.open_store()) as database, database.transaction() as tx:
            resume_account(tx, account.id, self.waters.clock.now_ms())

    def _hide(self) -> None:
        name = self.rng.choice(NAMES)
        self.waters.sky.deactivate(name)
        self.waters.poll(everyone=True)
        self.waters.sky.reactivate(name)


ACCOUNT_DEEDS = (*DEEDS, *("configure", "change_mode", "remove", "pause", "hide") * 2)


def check_accounts(seed: int) -> None:
    rng = random.Random(seed)
    with scratch() as folder:
        life = AccountsLife(folder, rng, {"initial_lookback_hours": 1000})
        for _ in range(rng.randrange(20, 50)):
            life.act(rng.choice(ACCOUNT_DEEDS))
        life.settle()
        life.assert_true()


@pytest.mark.parametrize("seed", range(8))
@gate_cases(4)
def test_accounts_are_whole_whatever_the_settings_of_earlier_polls_were(seed: int) -> None:
    check_accounts(seed)


AUTHORS = ("robin", "sam", "kim")
SPEAKERS = ("octo", "somebody", "stranger")


def check_feedback(seed: int) -> None:
    """Change rules and allowed users between polls; in the last poll all users and all pull requests count."""
    rng = random.Random(seed)
    with scratch() as folder:
        world = World(seed=5)
        world.github.create_repo(REPO)
        bench = Bench(world, folder, per_page=rng.choice((2, 5, 100)))
        said: set[str] = set()
        for turn in range(rng.randrange(2, 7)):
            for _ in range(rng.randrange(3)):
                labels = ["Agent"] if rng.random() < 0.3 else []
                world.github.create_pull(REPO, f"change {turn}", author=rng.choice(AUTHORS), labels=labels)
                world.advance(rng.randrange(90))
            pulls = [thread.number for thread in world.github.repository(REPO).threads]
            for number in rng.choices(pulls, k=rng.randrange(4)) if pulls else ():
                talk = rng.choice((world.github.comment, world.github.review_comment))
                said.add(key(talk(REPO, number, f"turn {turn}", rng.choice(SPEAKERS))))
                world.advance(rng.randrange(90))
            bench.host = {
                "mirror": rng.choice(("all", "followed")),
                "fetch": rng.choice(("auto", "repo", "thread")),
                "incremental": rng.random() < 0.8,
                "track_authors": rng.sample(AUTHORS, rng.randrange(3)),
                "track_labels": ["agent"] if rng.random() < 0.3 else [],
                "allowed_users": rng.choice(([], ["*"], ["somebody"], ["stranger", "octo"])),
            }
            bench.poll_all(reaper=Reaper(rng.randrange(60)) if rng.random() < 0.4 else None)
            world.advance(rng.choice((1, 90, 90_000)))
        bench.host |= {"track_authors": [*AUTHORS], "allowed_users": ["*"], "incremental": True}
        bench.settle(ENOUGH, SOON)
        assert said - set(bench.event_keys()) == set()


@pytest.mark.parametrize("seed", range(8))
@gate_cases(4)
def test_every_comment_becomes_an_event_whatever_the_rules_of_earlier_polls_were(seed: int) -> None:
    check_feedback(seed)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("check", [check_gitlab, check_github, check_accounts, check_feedback])
def test_copies_are_whole_after_many_random_histories_of_settings(check: Callable[[int], None], part: int) -> None:
    for seed in range(1000 + part * 30, 1030 + part * 30):
        check(seed)
