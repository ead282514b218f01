"""Random lives of accounts, polled by processes that die: every post that lasted is stored exactly once, as it is.

People post, backdate, repost, edit, delete and hide in silence while polls are interrupted at any seam. After each
poll that came to its end everything with an honest date is there; after a verification everything is.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st
from tests.properties.effort import examples
from tests.properties.inprocess import Reaper, scratch
from tests.situations.bluesky.house import CYCLE, Waters

from tidelore.store.mirror.check import check_database
from tidelore_world.bluesky.records import POST

NAMES = ("alice.test", "bob.test", "carol.test")
DEEDS = ("post", "burst", "backdate", "repost", "own_repost", "edit", "delete", "wait", "poll", "killed_poll", "scrub")


EDITED_IN_A_GAP = [
    *("scrub", "post", "edit", "delete", "post", "edit", "backdate", "burst", "edit", "burst", "post", "edit", "post"),
    *("edit", "post", "post", "edit", "post", "post", "own_repost", "killed_poll", "post", "backdate", "post", "post"),
    *("post", "burst", "burst", "delete", "post", "backdate", "own_repost", "poll", "poll", "post", "edit"),
]
"""The last edit moves a post that was not read yet above the place where the walk of its account goes on."""


class Life:
    """A network under way. `honest` are the posts that a list shows where they belong."""

    def __init__(self, folder: Path, rng: random.Random, settings: dict[str, Any]) -> None:
        self.waters = Waters(folder, **settings)
        self.rng = rng
        self.honest: set[str] = set()
        self.waters.add(*NAMES)

    def act(self, deed: str) -> None:
        getattr(self, f"_{deed}")()
        self.waters.world.advance(self.rng.choice((0, 0.001, 1, 20, 300)))

    def _post(self) -> None:
        self.honest.add(self.waters.sky.post(self.rng.choice(NAMES), "Some words https://example.com/page").uri)

    def _burst(self) -> None:
        name = self.rng.choice(NAMES)
        for number in range(self.rng.randint(3, 30)):
            self.honest.add(self.waters.sky.post(name, f"Quick {number}").uri)
            self.waters.world.advance(self.rng.choice((0, 0.5)))

    def _backdate(self) -> None:
        year = self.rng.choice(("2020", "2025", "2099"))
        record = self.waters.sky.post(self.rng.choice(NAMES), "Not today", created_at=f"{year}-05-06T07:08:09.123Z")
        if year == "2099":
            self.honest.add(record.uri)

    def _repost(self, *, own: bool = False) -> None:
        name = self.rng.choice(NAMES)
        uris = [uri for who in ((name,) if own else NAMES) for uri in self._posts(who)]
        if uris:
            self.honest.add(self.waters.sky.repost(name, self.rng.choice(uris)).uri)

    def _own_repost(self) -> None:
        self._repost(own=True)

    def _edit(self) -> None:
        name = self.rng.choice(NAMES)
        uris = self._posts(name)
        if uris:
            uri = self.rng.choice(uris)
            self.waters.sky.edit(uri, f"Edited {self.rng.random()}")
            if uri not in self.waters.held(name):
                # Its new hash moves it among the posts of the same instant, perhaps above the place where an unfinished
                # walk goes on. Then only verification finds it.
                self.honest.discard(uri)

    def _delete(self) -> None:
        uris = sorted(uri for name in NAMES for uri in self.waters.truth(name))
        if uris:
            self.waters.sky.delete(self.rng.choice(uris))

    def _wait(self) -> None:
        self.waters.world.advance(CYCLE)

    def _poll(self) -> None:
        self.check_honest(self.waters.poll(everyone=True))

    def _killed_poll(self) -> None:
        report = self.waters.try_poll(Reaper(self.rng.randint(0, 60)), everyone=True, scrub_budget=3)
        if report is not None:
            self.check_honest(report)

    def _scrub(self) -> None:
        self.waters.poll(everyone=True, scrub_budget=self.rng.randint(1, 6))

    def _posts(self, name: str) -> list[str]:
        return [row["uri"] for row in self.waters.sky.truth_records(name, POST)]

    def check_honest(self, report: Any) -> None:
        """Whoever was read to the end is there with everything that was shown where it belongs."""
        assert not report.failed, report
        behind = {account.handle for account in report.told if account.behind}
        for name in NAMES:
            if name in behind:
                continue
            visible = self._visible(name)
            missing = (visible & self.honest) - self.waters.held(name).keys()
            assert not missing, f"{name}: {sorted(missing)}"

    def _visible(self, name: str) -> set[str]:
        """What the way of reading can show: of a deleted post the feed shows no repost."""
        if self.waters.config.bluesky.mode == "records":
            return set(self.waters.truth(name))
        shown = self.waters.sky.truth_feed(name)
        return {item["reason"]["uri"] if "reason" in item else item["post"]["uri"] for item in shown}

    def settle(self) -> None:
        """Poll until nobody is behind, then verify everybody, twice: what a verification brings is verified too."""
        for _ in range(60):
            report = self.waters.poll(everyone=True)
            if not any(account.behind for account in report.told):
                break
        else:
            pytest.fail("an account never catches up")
        self.check_honest(report)
        self.waters.poll(everyone=True, verify=True)
        self.waters.world.advance(CYCLE)
        self.waters.poll(everyone=True, verify=True)

    def assert_true(self) -> None:
        for name in NAMES:
            assert self.waters.held(name) == self.waters.truth(name), name
        with self.waters.database() as database:
            broken = [finding for finding in check_database(database, self.waters.clock.now_ms()) if not finding.ok]
        assert not broken, broken


@examples(15, 300)
@given(
    deeds=st.lists(st.sampled_from(DEEDS), min_size=20, max_size=60),
    seed=st.integers(0, 2**32),
    mode=st.sampled_from(["feed", "records"]),
    # A burst of posts at one instant has to fit into a walk, or there is no way past it.
    shape=st.sampled_from([(1, 10), (2, 5), (3, 20), (7, 3), (50, 3), (100, 100), (1, 100)]),
    cursors=st.sampled_from(["millis__cid", "iso"]),
)
@example(["burst", "killed_poll", "burst", "killed_poll", "poll"], 1, "feed", (2, 5), "millis__cid")
@example(EDITED_IN_A_GAP, 4505, "feed", (1, 10), "millis__cid")
@example(["burst", "killed_poll", "burst", "killed_poll", "poll"], 1, "records", (2, 3), "millis__cid")
def test_every_remaining_post_is_stored_once_and_unchanged(
    deeds: list[str], seed: int, mode: str, shape: tuple[int, int], cursors: Any
) -> None:
    per_page, max_pages = shape
    note(f"seed {seed}, {mode}, {per_page} a page, {max_pages} pages, {cursors}")
    settings = {"mode": mode, "posts_per_page": per_page, "max_pages_per_user": max_pages}
    with scratch() as folder:
        life = Life(folder, random.Random(seed), settings)
        life.waters.sky.settings.cursor_format = cursors
        for deed in deeds:
            life.act(deed)
        life.settle()
        life.assert_true()


@examples(8, 200)
@given(
    deeds=st.lists(st.sampled_from(DEEDS), min_size=10, max_size=30),
    seed=st.integers(0, 2**32),
    mode=st.sampled_from(["feed", "records"]),
)
def test_polling_again_without_changes_writes_nothing(deeds: list[str], seed: int, mode: str) -> None:
    note(f"seed {seed}, {mode}")
    with scratch() as folder:
        life = Life(folder, random.Random(seed), {"mode": mode})
        for deed in deeds:
            life.act(deed)
        life.settle()
        before = life.waters.rows("SELECT * FROM posts ORDER BY id")
        marks = life.waters.rows("SELECT * FROM dirty_sources ORDER BY 1, 2")
        life.waters.world.advance(CYCLE)
        life.waters.poll(everyone=True, verify=True)
        assert life.waters.rows("SELECT * FROM posts ORDER BY id") == before
        assert life.waters.rows("SELECT * FROM dirty_sources ORDER BY 1, 2") == marks
