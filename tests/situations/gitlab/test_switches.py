"""The switches of `[sync]` and `[storage]`: what is switched off is never asked for, what is limited stays within."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace
from tests.properties.inprocess import PROJECT as HOUSE_PROJECT
from tests.properties.inprocess import House, WorldTransport
from tests.situations.gitlab.bench import DAY, PROJECT, Bench, request_of
from tests.support.deep import gate_cases

EVENTS = {"resource_state_events", "resource_label_events", "resource_milestone_events"}


def fill(bench: Bench) -> None:
    """Two issues and two merge requests with everything that can hang on them."""
    bench.world.gitlab.bulk(PROJECT, issues=2, merge_requests=2, discussions=1, notes=1, events=1, files=1)
    bench.world.advance(DAY)


@pytest.mark.parametrize(
    ("switch", "silenced", "table"),
    [
        ("fetch_resource_events", EVENTS, "resource_state_events"),
        ("fetch_mr_closes_issues", {"closes_issues"}, "mr_closes_issues"),
        ("fetch_mr_diffs", {"diffs"}, "mr_file_changes"),
    ],
)
@gate_cases(1)
def test_a_disabled_kind_of_child_is_not_requested_until_enabled(
    bench: Bench, switch: str, silenced: set[str], table: str
) -> None:
    fill(bench)
    bench.set_up(f"{switch} = false", "scrub_share = 0.02")
    spent = bench.counted(lambda: [bench.mirror(), bench.mirror("issues"), bench.run("scrub", "--all")])
    assert not silenced & set(spent)
    assert {"discussions", *({"diffs"} - silenced)} <= set(spent)
    assert bench.one(f"SELECT COUNT(*) FROM {table}") == 0
    bench.set_up(f"{switch} = true")
    caught_up = bench.counted(bench.mirror)
    assert {name: times for name, times in caught_up.items() if name != "merge_requests"} == dict.fromkeys(silenced, 2)
    assert bench.one(f"SELECT COUNT(*) FROM {table}") > 0


def test_a_project_override_can_disable_a_kind_of_child(bench: Bench) -> None:
    fill(bench)
    text = bench.config.read_text()
    override = f'[[gitlab.overrides]]\nproject = "{PROJECT}"\nfetch_mr_diffs = false\n'
    bench.config.write_text(text.replace("[http]", f"{override}[http]"))
    spent = bench.counted(bench.mirror)
    assert "diffs" not in spent
    assert spent["closes_issues"] == 2


def test_reviewers_are_not_verified_by_default(bench: Bench) -> None:
    bench.world.gitlab.list_omits_reviewers = True
    bench.world.gitlab.create_merge_request(PROJECT, reviewers=["ada"])
    bench.world.advance(DAY)
    assert "reviewers" not in bench.counted(bench.mirror)
    assert bench.one("SELECT COUNT(*) FROM mr_reviewers") == 0


def test_verified_reviewers_are_stored_when_the_list_omits_them(bench: Bench) -> None:
    bench.set_up("verify_reviewers = true")
    forge = bench.world.gitlab
    forge.list_omits_reviewers = True
    forge.create_merge_request(PROJECT, reviewers=["ada", "grace"])
    bench.world.advance(DAY)
    assert bench.counted(bench.mirror)["reviewers"] == 1
    assert _reviewers(bench) == ["ada", "grace"]
    bench.world.advance(DAY)
    forge.edit_merge_request(PROJECT, 1, reviewers=["grace", "linus"])
    bench.world.advance(DAY)
    bench.mirror()
    assert _reviewers(bench) == ["grace", "linus"]
    assert "reviewers" not in bench.counted(bench.mirror)


def test_verified_reviewers_survive_a_change_without_a_new_timestamp(both: Bench) -> None:
    """A push makes the list's row different: it is written anew, with the reviewers it shows, which are none."""
    both.set_up("verify_reviewers = true")
    forge = both.world.gitlab
    forge.list_omits_reviewers = True
    found = forge.create_merge_request(PROJECT, reviewers=["ada"])
    both.world.advance(DAY)
    both.mirror()
    forge.push(PROJECT, 1)
    both.mirror()
    assert both.one("SELECT head_sha FROM merge_requests") == found.sha
    assert _reviewers(both) == ["ada"]


@pytest.mark.parametrize(("compress", "encodings"), [("true", {"zstd"}), ("false", {"identity"})])
def test_payload_compression_follows_the_setting(bench: Bench, compress: str, encodings: set[str]) -> None:
    fill(bench)
    bench.set_up(storage=f"compress_raw_payloads = {compress}")
    bench.mirror()
    assert set(bench.column("SELECT DISTINCT encoding FROM raw_payloads")) == encodings
    shown = {str(m["id"]): m for m in bench.world.gitlab.truth_merge_requests(PROJECT)}
    assert bench.payloads("merge_request") == shown
    homes = {found.id for iid in (1, 2) for found in request_of(bench.world, iid).discussions}
    assert set(bench.payloads("discussion")) == homes


class Gauge(WorldTransport):
    """Measures how many requests are under way at once, and when each began on the run's own clock."""

    def __init__(self, house: House) -> None:
        super().__init__(house.world)
        self._house = house
        self._now = 0
        self.peak = 0
        self.began: list[float] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._now += 1
        self.peak = max(self.peak, self._now)
        self.began.append(self._house.clock.monotonic())
        try:
            # Whoever may begin meanwhile has begun by then.
            for _ in range(50):
                await asyncio.sleep(0)
            return await super().handle_async_request(request)
        finally:
            self._now -= 1


def measured(folder: Path, **sync: float) -> Gauge:
    """Mirror twelve merge requests with their children through a gauge."""
    house = House(folder, scrub_share=0.0)
    house.world.gitlab.bulk(HOUSE_PROJECT, merge_requests=12, discussions=1, notes=1)
    house.world.advance(DAY)
    house.config = replace(house.config, sync=replace(house.config.sync, **sync))
    house.transport = gauge = Gauge(house)
    report = house.run(resources=("merge_requests",))
    assert report is not None
    assert report.scopes[0].children["discussions"].tally.fetched == 12
    return gauge


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_no_more_concurrent_requests_are_sent_than_allowed(tmp_path: Path, limit: int) -> None:
    assert measured(tmp_path, dependent_concurrency=limit).peak == limit


def test_a_configured_rate_limit_spaces_the_requests(tmp_path: Path) -> None:
    """One after another: the run's clock moves only when somebody waits, so the spaces are exact."""
    began = measured(tmp_path, dependent_concurrency=1, rate_limit_rps=4).began
    assert len(began) > 60
    assert {round(later - earlier, 6) for earlier, later in pairwise(began)} == {0.25}


def test_without_a_configured_rate_limit_no_request_waits(tmp_path: Path) -> None:
    assert len(set(measured(tmp_path, dependent_concurrency=1).began)) == 1


def _reviewers(bench: Bench) -> list[str]:
    return sorted(bench.column("SELECT username FROM mr_reviewers"))
