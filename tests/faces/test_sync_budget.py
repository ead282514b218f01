"""`lore sync --max-requests` and `--reserve-rate-limit`: polite stops, and a copy that is whole after enough runs."""

from __future__ import annotations

import pytest
from tests.faces.desk import CONSOLE, LEDGER, Desk

TABLES = ("issues", "merge_requests", "notes", "mr_file_changes", "posts", "projects")


@pytest.fixture
def everywhere(desk: Desk) -> Desk:
    """A desk with projects, a repository and accounts; a run verifies nothing, so that its requests are its own."""
    world = desk.world
    world.github.populate(0.02)
    world.bluesky.populate(0.02)
    world.advance(86_400)
    repos = world.github.truth_repos()
    accounts = [one.handle for one in world.bluesky.network.accounts.values() if one.active][:4]
    desk.configure(
        LEDGER,
        CONSOLE,
        extra=f'[[github]]\nbase_url = "{desk.url}"\nrepos = {repos[:1]}\n'
        f'[bluesky]\nbase_url = "{desk.url}"\nplc_url = "{desk.url}"\naccounts = {accounts}\n'
        '[sync]\nscrub_share = 0\n[embedding]\nprovider = "none"\n',
    )
    return desk


def counts(desk: Desk) -> dict[str, int]:
    return {table: desk.query(f"SELECT COUNT(*) FROM {table}")[0][0] for table in TABLES}


def test_runs_with_few_requests_make_the_same_copy_as_one_run(everywhere: Desk) -> None:
    desk = everywhere
    for _ in range(30):
        before = desk.world.requests.total()
        done = desk.robot("sync", "--max-requests", "30")
        used = desk.world.requests.total() - before
        budget = done.document["data"]["budget"]
        assert used <= 30
        assert budget["requests"] == used
        if done.code == 0:
            assert (budget["lists_left"], budget["accounts_left"], budget["spent"]) == ([], 0, [])
            break
        assert (done.code, done.error["code"], done.error["retryable"]) == (5, "BUDGET_SPENT", True)
        assert budget["lists_left"] or budget["accounts_left"]
        assert desk.query("SELECT COUNT(*) FROM child_sync WHERE attempts > 0") == [(0,)]
    else:
        pytest.fail("the copy was not whole after 30 runs")
    assert desk.query("SELECT COUNT(*) FROM sync_runs")[0][0] > 4
    whole = counts(desk)
    desk.db.unlink()
    assert desk.robot("sync").code == 0
    assert counts(desk) == whole


@pytest.mark.parametrize("reserve", [12, 26], ids=["among children", "among lists"])
def test_a_reserve_is_left_of_the_rate_limit_of_each_server(everywhere: Desk, reserve: int) -> None:
    desk = everywhere
    desk.world.gitlab.rate_limit = 30
    done = desk.robot("sync", "--reserve-rate-limit", str(reserve))
    assert (done.code, done.error["code"]) == (5, "BUDGET_SPENT")
    budget = done.document["data"]["budget"]
    assert 30 - reserve - 3 <= desk.world.gitlab.spent[1] <= 30 - reserve
    assert f"keeps {reserve}" in budget["spent"][0]
    # The other servers are read to their end.
    assert {name.partition(" ")[0] for name in budget["lists_left"]} <= {LEDGER, CONSOLE}
    assert budget["accounts_left"] == 0
    assert desk.query("SELECT COUNT(*) FROM posts")[0][0] > 0
    desk.world.advance(3600)
    desk.world.gitlab.rate_limit = None
    assert desk.robot("sync", "--reserve-rate-limit", str(reserve)).code == 0


def test_people_are_told_what_is_left(everywhere: Desk) -> None:
    done = everywhere.run("sync", "--max-requests", "20", "--quiet")
    assert done.code == 5
    assert "Sent 20 requests." in done.out
    assert f"  left: {LEDGER} gitlab." in done.out
    assert "run `lore sync` again: it continues there" in done.err
    assert "left off with its requests used up" in everywhere.run("sync-runs", "--robot").out
