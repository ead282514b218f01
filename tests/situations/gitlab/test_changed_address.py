"""A host whose `base_url` is changed: the same server under another name, or another server with other ids."""

from __future__ import annotations

from tests.situations.gitlab.bench import DAY, PROJECT, Bench, OddWorld

from tidelore_world.server import serve


def moved(bench: Bench, url: str) -> None:
    """Change the address of the host in the configuration."""
    bench.config.write_text(bench.config.read_text().replace(bench.url, url))
    bench.url = url


def test_a_server_with_a_new_address_is_read_on_from_where_the_old_one_stopped(both: Bench) -> None:
    bench = both
    bench.set_up()
    bench.world.gitlab.bulk(PROJECT, merge_requests=30, discussions=1, notes=1)
    bench.world.advance(DAY)
    bench.mirror()
    quiet = bench.counted(bench.mirror)
    bench.world.gitlab.create_merge_request(PROJECT)
    bench.world.advance(DAY / 2)
    with serve(bench.world) as other:
        moved(bench, other.url)
        scope = bench.mirror()
        assert (scope["created"], scope["gone"]) == (1, 0)
        assert bench.counted(bench.mirror) == quiet, "the project is confirmed once"
    assert bench.one("SELECT COUNT(*) FROM merge_requests WHERE deleted_at IS NULL") == 31


def test_another_server_at_the_address_of_a_host_is_refused_and_changes_nothing(bench: Bench) -> None:
    bench.set_up()
    bench.world.gitlab.bulk(PROJECT, merge_requests=3)
    bench.world.advance(DAY)
    bench.mirror()
    before = bench.query("SELECT remote_id, title, updated_at FROM merge_requests ORDER BY id")
    other = OddWorld()
    other.gitlab.create_project("somebody/elses")
    other.gitlab.create_project(PROJECT)
    other.gitlab.bulk("somebody/elses", merge_requests=5)
    other.advance(DAY)
    with serve(other) as server:
        moved(bench, server.url)
        for _ in range(2):
            error = bench.try_mirror().document["error"]
            assert error["code"] == "REPOSITORY_REPLACED"
            assert "another name" in error["fix"]
    assert bench.query("SELECT remote_id, title, updated_at FROM merge_requests ORDER BY id") == before
    assert bench.column("SELECT path FROM projects") == [PROJECT]


def test_a_list_interrupted_within_one_instant_is_read_on_at_the_new_address(bench: Bench) -> None:
    bench.set_up(per_page=5)
    bench.world.gitlab.bulk(PROJECT, merge_requests=30, same_instant=True)
    bench.world.advance(DAY)
    fault = bench.world.faults.add("status", "GET /projects/:id/merge_requests", times=None, after=3, status=502)
    assert bench.try_mirror().code != 0
    assert fault.fired
    assert 0 < bench.one("SELECT COUNT(*) FROM merge_requests") < 30
    bench.world.faults.clear()
    with serve(bench.world) as other:
        moved(bench, other.url)
        bench.mirror()
    assert bench.one("SELECT COUNT(*) FROM merge_requests") == 30


def test_another_server_at_the_address_of_a_host_is_asked_for_nothing_by_other_commands(bench: Bench) -> None:
    bench.set_up()
    bench.world.gitlab.bulk(PROJECT, issues=1, merge_requests=1)
    bench.world.advance(DAY)
    bench.mirror("issues")
    bench.mirror()
    before = bench.query(
        "SELECT id, title, updated_at FROM issues UNION ALL SELECT id, title, updated_at FROM merge_requests"
    )
    other = OddWorld()
    other.gitlab.create_project("somebody/elses")
    other.gitlab.create_project(PROJECT)
    other.gitlab.bulk("somebody/elses", issues=1, merge_requests=1)
    other.advance(DAY)
    with serve(other) as server:
        moved(bench, server.url)
        one = bench.robot("sync", "--issue", "1", "--mr", "1", "-p", PROJECT).document["error"]
        audited = bench.robot("audit", "gitlab")
    assert "another project" in one["message"]
    assert "another project" in str(audited.document), audited.document
    assert (
        bench.query(
            "SELECT id, title, updated_at FROM issues UNION ALL SELECT id, title, updated_at FROM merge_requests"
        )
        == before
    )
