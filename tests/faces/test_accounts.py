"""`lore accounts`, `lore poll bluesky`, `lore stream bluesky` and `lore audit bluesky`, over real sockets."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faces.desk import Desk
from tests.faces.test_documented_shapes import compare

from tidelore.core.clock import SystemClock, format_instant
from tidelore_world.server import serve
from tidelore_world.world import World

ALICE, BOB, CAROL = "alice.test", "bob.test", "carol.test"


@pytest.fixture
def sea(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    """A network of three accounts, its time about ours; no accounts are followed."""
    world = World(start=format_instant(SystemClock().now_ms() - 3_600_000))
    for name in (ALICE, BOB, CAROL):
        world.bluesky.create_account(name, display_name=name.partition(".")[0].title())
    for name in (BOB, CAROL):
        world.bluesky.follow(ALICE, name)
    world.bluesky.post(ALICE, "Low tide at noon https://example.com/tides?utm_source=x")
    world.advance(600)
    world.bluesky.post(ALICE, "High tide at six")
    world.bluesky.post(BOB, "The harbour is full")
    world.advance(600)

    def read() -> tuple[str, str]:
        captured = capsys.readouterr()
        return captured.out, captured.err

    with serve(world) as server:
        desk = Desk(tmp_path, server.url, world, read)
        socket = server.url.replace("http", "ws")
        desk.config.write_text(
            f'[bluesky]\nbase_url = "{server.url}"\nplc_url = "{server.url}"\njetstream_url = "{socket}/subscribe"\n'
            'max_retries = 0\n[http]\ntimeout_seconds = 5\n[embedding]\nprovider = "none"\n'
        )
        yield desk


@pytest.fixture
def followed(sea: Desk) -> Desk:
    """Alice and Bob are followed and read."""
    assert sea.run("accounts", "add", ALICE, f"@{BOB}").code == 0
    assert sea.run("poll", "bluesky").code == 0
    return sea


# Accounts


@pytest.mark.parametrize("command", [("accounts", "list"), ("list", "posts"), ("sync",)])
def test_before_the_first_account_the_remedy_is_to_add_one(sea: Desk, command: tuple[str, ...]) -> None:
    assert "`lore accounts add HANDLE`" in sea.robot(*command).error["fix"]


def test_a_poll_without_accounts_says_how_to_add_one(sea: Desk) -> None:
    done = sea.run("poll", "bluesky")
    assert (done.code, done.out) == (0, "No accounts yet. Add one with `lore accounts add`.\n")


def test_accounts_are_added_by_handle_did_and_profile_address(sea: Desk) -> None:
    did = sea.world.bluesky.network.account(CAROL).did
    added = sea.run("accounts", "add", f"@{ALICE}", f"https://bsky.app/profile/{BOB}", did)
    assert added.code == 0
    assert added.out.endswith("3 accounts added, 0 already followed\n")
    again = sea.robot("accounts", "add", ALICE).data
    assert [one["handle"] for one in again["known"]] == [ALICE]
    assert again["added"] == []


def test_an_unknown_handle_is_reported_and_the_others_are_added(sea: Desk) -> None:
    some = sea.robot("accounts", "add", ALICE, "nobody.test")
    assert (some.code, some.error["code"]) == (7, "PARTIAL_SUCCESS")
    none = sea.robot("accounts", "add", "nobody.test")
    assert (none.code, none.error["code"]) == (6, "NOT_FOUND")
    assert [row[0] for row in sea.query("SELECT handle FROM accounts")] == [ALICE]


def test_an_invalid_handle_is_refused_before_any_request(sea: Desk) -> None:
    before = sea.world.requests.total()
    assert sea.robot("accounts", "add", "not a handle").code == 2
    assert sea.world.requests.total() == before


def test_a_file_of_handles_is_imported(sea: Desk) -> None:
    file = sea.folder / "people.txt"
    file.write_text(f"# people\n@{ALICE}, {BOB}  # and a remark\n\nhttps://bsky.app/profile/{CAROL}\n")
    assert len(sea.robot("accounts", "import", str(file)).data["added"]) == 3
    assert sea.robot("accounts", "import", str(sea.folder / "missing.txt")).code == 2
    file.write_text("# nobody\n")
    assert sea.robot("accounts", "import", str(file)).code == 2


def test_invalid_lines_of_an_imported_file_are_reported_and_the_others_are_added(sea: Desk) -> None:
    file = sea.folder / "people.txt"
    file.write_text(f"{ALICE}\nHandles:\n\n{BOB}, nobody.test\nhttps://bsky.app/profile/{CAROL}/post/3k2a\n")
    done = sea.run("accounts", "import", str(file))
    assert done.code == 7
    assert "line 2: Handles:: could not parse 'Handles:' as a Bluesky account" in done.out
    assert "line 4: nobody.test: account not found: nobody.test" in done.out
    assert "error: could not add line 2: Handles:, line 4: nobody.test, line 5: https://" in done.err
    assert f"line 5: https://bsky.app/profile/{CAROL}/post/3k2a: could not parse" in done.out
    assert [row[0] for row in sea.query("SELECT handle FROM accounts ORDER BY handle")] == [ALICE, BOB]
    again = sea.robot("accounts", "import", str(file)).document["data"]
    assert {(one["account"], one["line"]) for one in again["unresolved"]} == {
        ("Handles:", 2), ("nobody.test", 4), (f"https://bsky.app/profile/{CAROL}/post/3k2a", 5),
    }  # fmt: skip
    file.write_text("# people\nHandles:\n")
    error = sea.robot("accounts", "import", str(file)).error
    assert "line 2: could not parse 'Handles:'" in error["message"]


@pytest.mark.parametrize("form", ["list page", "list address", "starter pack page", "short starter pack page"])
def test_the_address_of_a_list_or_starter_pack_adds_its_members_and_not_its_owner(sea: Desk, form: str) -> None:
    sky = sea.world.bluesky
    for number in range(120):
        sky.create_account(f"member{number:03}.test")
    members = [f"member{number:03}.test" for number in range(120)]
    sky.create_list(ALICE, "Others", [CAROL])
    made = (sky.create_list if "list" in form else sky.create_starter_pack)(ALICE, "Keepers", [BOB, *members])
    rkey = made.uri.rpartition("/")[2]
    address = {
        "list page": f"https://bsky.app/profile/{ALICE}/lists/{rkey}",
        "list address": made.uri,
        "starter pack page": f"https://bsky.app/starter-pack/{ALICE}/{rkey}",
        "short starter pack page": f"https://bsky.app/start/{made.did}/{rkey}?utm=x",
    }[form]
    added = sea.robot("accounts", "add", address).data
    assert {one["handle"] for one in added["added"]} == {BOB, *members}
    assert {row[0] for row in sea.query("SELECT added_by FROM accounts")} == {f"list:{address}"}
    missing = sea.robot("accounts", "add", f"https://bsky.app/profile/{ALICE}/lists/nowhere")
    assert (missing.code, missing.error["code"]) == (6, "NOT_FOUND")
    assert missing.document["data"]["unresolved"][0]["error"] == "list or starter pack not found"


@pytest.mark.parametrize("page", ["post/3k2a", "feed/cats", "followers"])
def test_other_web_addresses_below_a_profile_are_refused(sea: Desk, page: str) -> None:
    assert sea.robot("accounts", "add", f"https://bsky.app/profile/{ALICE}/{page}").code == 2


def test_the_account_list_includes_configured_accounts_before_the_first_poll(sea: Desk) -> None:
    text = sea.config.read_text()
    sea.config.write_text(text.replace("[bluesky]\n", f'[bluesky]\naccounts = ["{ALICE}", "@{BOB}"]\n'))
    before = sea.run("accounts", "list")
    assert before.code == 0
    assert "2 accounts in the configuration" in before.out
    assert f"added by the next `lore poll bluesky`: {ALICE}, {BOB}" in before.out
    assert sea.robot("accounts", "list").data["configured"] == [ALICE, BOB]
    assert sea.run("poll", "bluesky").code == 0
    after = sea.robot("accounts", "list").data
    assert ([item["handle"] for item in after["items"]], after["configured"]) == ([ALICE, BOB], [])
    assert sea.run("accounts", "list", "--state", "paused").out.startswith("No account is paused.\n")


def test_the_follows_of_an_account_can_be_imported(sea: Desk) -> None:
    found = sea.robot("accounts", "follows", ALICE).data
    assert {one["handle"] for one in found["added"]} == {BOB, CAROL}
    assert {row[0] for row in sea.query("SELECT added_by FROM accounts")} == {f"follows:{ALICE}"}


def test_the_display_name_of_an_account_is_marked_as_text_of_others(followed: Desk) -> None:
    listed = followed.run("accounts", "list", "--robot").document
    assert listed["data"]["items"][0]["display_name"]
    assert listed["meta"]["untrusted"] == ["items[].display_name"]


def test_the_account_list_shows_state_and_reason(followed: Desk) -> None:
    followed.run("accounts", "add", CAROL)
    followed.world.bluesky.deactivate(CAROL)
    polled = followed.run("poll", "bluesky")
    assert polled.code == 0
    assert (
        f"[SKIP] {CAROL}: Account unavailable (invalid/deleted/private): API error: 400 (account deactivated)"
        in polled.out
    )
    listed = followed.run("accounts", "list")
    (line,) = [line for line in listed.out.splitlines() if line.startswith(CAROL)]
    assert "unavailable" in line
    assert "account deactivated" in line
    assert listed.out.splitlines()[-1] == "2 established, 1 unavailable"
    only = followed.robot("accounts", "list", "--state", "unavailable").data
    assert [item["handle"] for item in only["items"]] == [CAROL]


def test_an_account_can_be_paused_resumed_reset_and_removed(followed: Desk) -> None:
    assert followed.run("accounts", "pause", ALICE, "--reason", "too loud").out == f"{ALICE}: paused\n"
    assert followed.robot("accounts", "show", ALICE).data["reason"] == "too loud"
    assert followed.robot("poll", "bluesky", "--account", ALICE).code == 2
    assert followed.run("accounts", "resume", ALICE).code == 0
    assert followed.robot("accounts", "show", ALICE).data["state"] == "established"
    assert followed.run("accounts", "reset", ALICE).code == 0
    assert followed.robot("accounts", "show", ALICE).data["state"] == "new"
    assert followed.run("accounts", "remove", ALICE).code == 0
    assert followed.query("SELECT COUNT(*) FROM posts") == [(3,)], "the posts stay"
    assert followed.robot("accounts", "show", ALICE).code == 6
    notes = [note for (note,) in followed.query("SELECT note FROM sync_runs WHERE note IS NOT NULL ORDER BY id")]
    assert [note.split()[1] for note in notes] == ["reset", "removed"]


def test_accounts_refresh_updates_changed_handles(followed: Desk) -> None:
    followed.world.bluesky.change_handle(BOB, "robert.test")
    assert followed.robot("accounts", "refresh").data["renamed"] == [{"before": BOB, "after": "robert.test"}]
    assert followed.query("SELECT author_handle FROM posts WHERE text LIKE '%harbour%'") == [("robert.test",)]


def test_an_unknown_account_is_answered_with_the_nearest_handle(followed: Desk) -> None:
    error = followed.robot("accounts", "show", "alise.test").error
    assert ALICE in error["fix"]


# Polls


def test_a_poll_prints_the_documented_lines_and_a_summary(sea: Desk) -> None:
    sea.run("accounts", "add", ALICE, BOB)
    lines = sea.run("poll", "bluesky").out.splitlines()
    assert f"[INITIAL] {ALICE}: 2 posts, 1 URLs across 2 pages" in lines
    assert f"[INITIAL] {BOB}: 1 posts, 0 URLs across 2 pages" in lines
    assert lines[-1].startswith("2 accounts, 2 active, 3 posts, 1 URL, 4 pages, ")
    quiet = sea.run("poll", "bluesky").out.splitlines()
    assert quiet[-1].startswith("0 accounts, 0 active, 0 posts")


def test_polled_posts_are_found_by_search(followed: Desk) -> None:
    found = followed.robot("search", "harbour").data["items"]
    assert any("harbour" in str(item) for item in found)


@pytest.mark.parametrize("mode", ["feed", "records"])
def test_descriptions_labels_and_tags_of_polled_posts_are_found_and_shown(sea: Desk, mode: str) -> None:
    sky = sea.world.bluesky
    plain = sky.post(BOB, "Look", images=["A heron on the pier", ""], labels=["graphic-media"], tags=["birds"])
    sky.post(ALICE, "Read this", quote=plain.uri, images=["A quoted cormorant"])
    sky.post(ALICE, "", video="A gull that steals a sandwich")
    sky.repost(ALICE, plain.uri)
    assert sea.run("accounts", "add", ALICE, BOB, "--mode", mode).code == 0
    assert sea.run("poll", "bluesky").code == 0
    for word in ("heron", "birds", "graphic-media", "cormorant", "sandwich"):
        assert len(sea.robot("search", word, "--mode", "lexical").data["items"]) == 1, word
    shown = sea.robot("show", "post", plain.uri).data
    assert (shown["alt_text"], shown["labels"], shown["tags"]) == (
        ["A heron on the pier"],
        ["graphic-media"],
        ["birds"],
    )
    assert "A gull that steals a sandwich" in sea.run("list", "posts").out


def test_poll_state_has_the_documented_columns(followed: Desk) -> None:
    rows = followed.query(
        "SELECT user_handle, last_cursor, last_polled_at, posts_fetched_count FROM poll_state ORDER BY 1"
    )
    assert [(row[0], row[3]) for row in rows] == [(ALICE, 2), (BOB, 1)]
    assert all(row[1].endswith("Z") and row[2].endswith("Z") for row in rows)


def test_a_dry_run_sends_no_request_and_takes_no_lease(followed: Desk) -> None:
    before = followed.world.requests.total()
    data = followed.robot("poll", "bluesky", "--all", "--dry-run").data
    assert [one["handle"] for one in data["chosen"]] == [ALICE, BOB]
    assert followed.world.requests.total() == before
    assert followed.query("SELECT COUNT(*) FROM sync_runs") == [(1,)]


def test_an_account_that_failed_makes_a_partial_success(followed: Desk) -> None:
    fault = followed.world.faults.add("status", "/xrpc/app.bsky.feed.getAuthorFeed", status=503)
    found = followed.robot("poll", "bluesky", "--all")
    assert fault.fired == 1
    assert (found.code, found.error["code"]) == (7, "PARTIAL_SUCCESS")
    assert found.document["data"]["failed"] == 1
    assert followed.query("SELECT status FROM sync_runs ORDER BY id DESC LIMIT 1") == [("partial",)]
    followed.world.faults.add("status", "/xrpc/app.bsky.feed.getAuthorFeed", status=503, times=50)
    found = followed.robot("poll", "bluesky", "--all")
    assert found.error["code"] == "REMOTE_UNAVAILABLE"
    assert followed.query("SELECT status FROM sync_runs ORDER BY id DESC LIMIT 1") == [("failed",)]


def test_polling_without_accounts_succeeds(sea: Desk) -> None:
    assert sea.robot("poll", "bluesky").data["accounts"] == 0


def test_account_commands_answer_with_the_documented_fields(followed: Desk) -> None:
    for command in ("pause", "resume", "reset"):
        compare(f"accounts {command}", followed.robot("accounts", command, ALICE).data)
    listed = followed.robot("accounts", "list").data
    compare("accounts list", listed)
    shown = followed.robot("accounts", "show", BOB).data
    shown["positions"][0]["gaps"] = [{"top_at": None, "floor_at": None}]
    compare("accounts show", shown)
    mixed = followed.robot("accounts", "add", ALICE, CAROL, "nobody.test").document["data"]
    compare("accounts add", mixed)
    compare("accounts remove", followed.robot("accounts", "remove", CAROL).data)


# Scrubs


def test_a_scrub_with_bluesky_only_verifies_the_accounts(followed: Desk) -> None:
    sky = followed.world.bluesky
    first, second = (row["uri"] for row in sky.truth_records(ALICE))
    sky.edit(first, "Low tide at one")
    sky.delete(second)
    third = sky.post(BOB, "Dated long ago", created_at="2020-01-01T00:00:00Z").uri
    done = followed.robot("scrub", "--all")
    assert done.code == 0
    verified = {scope["account"]: scope for scope in done.data["scrubbed"]}
    assert {(scope["source"], scope["project"], name) for name, scope in verified.items()} == {
        ("bluesky", ALICE, ALICE), ("bluesky", BOB, BOB),
    }  # fmt: skip
    assert (verified[ALICE]["changed"], verified[ALICE]["gone"], verified[BOB]["created"]) == (1, 1, 1)
    stored = dict(followed.query("SELECT uri, text FROM posts WHERE deleted_at IS NULL"))
    assert stored[first] == "Low tide at one"
    assert second not in stored
    assert third in stored
    assert followed.robot("audit", "bluesky").data["differences"] == []
    sky.delete(first)
    assert followed.run("scrub", "--budget", "40").out == (
        "Verified 2 posts of 2 accounts: 0 corrected, 1 deleted remotely\n"
    )
    assert followed.query("SELECT command, status FROM sync_runs ORDER BY id DESC LIMIT 1") == [
        ("lore scrub", "succeeded")
    ]


GET_RECORD = "GET /xrpc/com.atproto.repo.getRecord"


@pytest.mark.parametrize(
    "fault",
    [{"kind": "status", "status": 400}, {"kind": "status", "status": 503}, {"kind": "disconnect"}],
    ids=["refused", "failing", "silent"],
)
def test_a_post_is_deleted_only_if_its_server_says_so_and_not_if_it_cannot_be_reached(
    followed: Desk, fault: dict[str, Any]
) -> None:
    sky = followed.world.bluesky
    kept, deleted = (row["uri"] for row in sky.truth_records(ALICE))
    sky.delete(deleted)
    there = "SELECT uri, text <> '' FROM posts WHERE deleted_at IS NULL ORDER BY uri"
    before = followed.query(there)
    followed.world.faults.add(route=GET_RECORD, times=None, **fault)
    failed = followed.robot("scrub", "--all")
    assert failed.code == 7, "Bob's account was verified"
    assert {one["account"]: one["error"] is None for one in failed.document["data"]["scrubbed"]} == {
        ALICE: False, BOB: True,
    }  # fmt: skip
    assert followed.query(there) == before
    followed.world.faults.clear()
    assert followed.robot("scrub", "--all").code == 0
    assert [row for row in before if row not in followed.query(there)] == [(deleted, 1)]
    assert followed.query("SELECT uri, text FROM posts WHERE deleted_at IS NOT NULL") == [(deleted, "")]
    assert kept in {uri for uri, _ in followed.query(there)}


def test_an_account_whose_server_does_not_answer_keeps_its_posts(followed: Desk) -> None:
    before = followed.query("SELECT uri, text FROM posts WHERE deleted_at IS NULL ORDER BY uri")
    followed.world.faults.add("disconnect", re.compile(r"GET /xrpc/com\.atproto\.repo\."), times=None)
    done = followed.robot("scrub", "--all")
    assert done.code != 0
    assert all(one["error"] is not None and not one["gone"] for one in done.document["data"]["scrubbed"])
    assert followed.query("SELECT uri, text FROM posts WHERE deleted_at IS NULL ORDER BY uri") == before
    assert followed.query("SELECT DISTINCT state FROM accounts") == [("established",)]


def test_a_scrub_spends_half_of_its_budget_on_accounts_if_projects_are_configured_too(followed: Desk) -> None:
    gitlab = followed.world.gitlab
    for name in ("port/quay", "port/lock"):
        gitlab.create_project(name)
        for number in range(3):
            gitlab.create_issue(name, title=f"Crane {number} stops")
            gitlab.create_merge_request(name, title=f"Start crane {number}")
    followed.config.write_text(
        followed.config.read_text()
        + f'\n[[gitlab]]\nbase_url = "{followed.url}"\nprojects = ["port/quay", "port/lock"]\n'
    )
    assert followed.robot("ingest", "--type", "issues").code == 0
    assert followed.robot("ingest", "--type", "merge_requests").code == 0
    data = followed.robot("scrub", "--budget", "12").data
    assert data["requests"] <= 12
    assert {one["account"] for one in data["scrubbed"]} == {None, ALICE, BOB}
    given = {followed.robot("scrub", "--budget", "1").data["scrubbed"][0]["source"] for _ in range(6)}
    assert given == {"gitlab", "bluesky"}, "the only request goes to each of them in turn"
    text = followed.run("scrub", "--all").out
    assert "Verified 12 stored items in 4 lists: 0 corrected" in text
    assert "Verified 3 posts of 2 accounts: 0 corrected" in text
    only = followed.robot("scrub", "--all", "-p", "quay").data
    assert {one["account"] for one in only["scrubbed"]} == {None}


def test_a_scrub_with_github_and_bluesky_verifies_both(followed: Desk) -> None:
    github = followed.world.github
    github.create_repo("port/crane")
    github.create_issue("port/crane", "The crane stops at night")
    followed.config.write_text(
        followed.config.read_text() + f'\n[[github]]\nbase_url = "{followed.url}"\nrepos = ["port/crane"]\n'
    )
    assert followed.robot("sync").code == 0
    verified = followed.robot("scrub", "--all").data["scrubbed"]
    assert {(one["source"], one["project"]) for one in verified} == {
        ("github", "port/crane"), ("bluesky", ALICE), ("bluesky", BOB),
    }  # fmt: skip


def test_a_scrub_skips_accounts_that_are_not_shown_any_more_and_leaves_them_to_the_next_poll(followed: Desk) -> None:
    followed.world.bluesky.deactivate(BOB)
    done = followed.run("scrub", "--all")
    assert done.code == 0
    assert f"  {BOB}: skipped: account deactivated" in done.out
    assert followed.query("SELECT status, warnings_count FROM sync_runs ORDER BY id DESC LIMIT 1") == [("succeeded", 1)]
    followed.run("poll", "bluesky")
    assert followed.query(f"SELECT state, reason FROM accounts WHERE handle = '{BOB}'") == [
        ("unavailable", "account deactivated")
    ]


def test_a_scrub_with_a_failed_account_is_partial_in_run_record_and_exit_code(followed: Desk) -> None:
    followed.world.faults.add("status", "GET /xrpc/com.atproto.repo.listRecords", times=None, after=2, status=500)
    done = followed.run("scrub", "--all")
    assert done.code == 7
    assert ": failed: the server failed (status 500)" in done.out
    assert followed.query("SELECT status FROM sync_runs ORDER BY id DESC LIMIT 1") == [("partial",)]


def test_a_scrub_without_projects_and_accounts_says_what_to_configure(sea: Desk) -> None:
    assert sea.robot("scrub", "--all").error["message"] == "no project is configured"


# Audits


def test_an_audit_of_accounts_finds_and_repairs_differences(followed: Desk) -> None:
    sky = followed.world.bluesky
    assert followed.robot("audit", "bluesky").data["differences"] == []
    first, second = (row["uri"] for row in sky.truth_records(ALICE))
    sky.edit(first, "Low tide at one")
    sky.delete(second)
    third = sky.post(ALICE, "Dated long ago", created_at="2020-01-01T00:00:00Z").uri
    found = followed.robot("audit", "bluesky", ALICE)
    assert found.code == 8
    told = {(one["verdict"], one["reference"]) for one in found.document["data"]["differences"]}
    assert told == {("different", first), ("extra", second), ("missing", third)}
    assert followed.query("SELECT COUNT(*) FROM posts WHERE deleted_at IS NOT NULL") == [(0,)], "nothing was written"
    repaired = followed.robot("audit", "bluesky", "--repair").data
    assert (repaired["repair"]["found"], repaired["repair"]["mended"]) == (3, 3)
    assert followed.query("SELECT COUNT(*) FROM posts WHERE deleted_at IS NOT NULL") == [(1,)]
    assert "1 item" in followed.run("audit", "bluesky", BOB).out


# The stream


def test_a_stream_stores_new_posts_and_stops_after_its_duration(followed: Desk) -> None:
    sky = followed.world.bluesky
    kept = sky.truth_records(BOB)[0]["uri"]

    def live() -> None:
        with followed.world.lock:
            followed.world.advance(1)
            made = sky.post(ALICE, "Just now https://example.com/news")
            sky.edit(kept, "The harbour is empty")
            sky.post(BOB, "Gone soon")
            sky.delete(sky.truth_records(BOB)[-1]["uri"])
            sky.repost(BOB, made.uri)

    with when_listening(followed, live):
        data = followed.robot("stream", "bluesky", "--for", "3").data
    assert (data["posts"], data["edited"], data["urls"]) == (2, 1, 1)
    assert data["cursor"].startswith("v1:")
    (shown,) = (one for one in followed.robot("cursors", "list").data["items"] if one["surface"] == "bluesky.stream")
    assert data["cursor"] in shown["reading"]
    compare("stream bluesky", data)
    live_posts = dict(followed.query("SELECT uri, cid FROM posts WHERE deleted_at IS NULL"))
    truth = {
        row["uri"]: row["cid"]
        for name in (ALICE, BOB)
        for kind in ("app.bsky.feed.post", "app.bsky.feed.repost")
        for row in sky.truth_records(name, kind)
    }
    assert live_posts == truth
    assert followed.robot("search", "empty").data["items"]


def test_a_stream_without_accounts_is_refused(sea: Desk) -> None:
    assert sea.robot("stream", "bluesky", "--for", "1").code == 2


class when_listening:  # noqa: N801 - it reads as a sentence
    """Let something happen once the stream is open."""

    def __init__(self, desk: Desk, act: Callable[[], None]) -> None:
        self._desk = desk
        self._act = act
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def _wait(self) -> None:
        while not self._over.wait(0.05):
            if self._desk.world.bluesky.jetstream.open:
                self._over.wait(0.3)
                self._act()
                return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(5)


# What the other commands tell of accounts


def test_doctor_reports_bluesky_reachability_and_account_states(followed: Desk) -> None:
    found = {finding["subject"]: finding for finding in followed.robot("doctor").data["findings"]}
    assert found[f"bluesky AppView ({followed.url})"]["detail"] == "reachable, no credentials needed"
    assert found[f"bluesky PLC directory ({followed.url})"]["ok"]
    assert found["bluesky accounts"]["detail"] == "2 established"
    socket = followed.url.replace("http", "ws")
    assert found[f"bluesky stream ({socket}/subscribe)"]["detail"] == "well-formed, protocol 1"


def test_doctor_reports_unknown_accounts_and_unreachable_servers(sea: Desk) -> None:
    text = sea.config.read_text()
    sea.config.write_text(text.replace("[bluesky]\n", f'[bluesky]\naccounts = ["{ALICE}", "nobody.test"]\n'))
    done = sea.robot("doctor")
    assert (done.code, done.error["code"]) == (6, "REMOTE_NOT_FOUND")
    found = {finding["subject"]: finding for finding in done.document["data"]["findings"]}
    assert found["bluesky configured accounts"]["detail"] == "1 of 2 found"
    assert not found["bluesky nobody.test"]["ok"]
    sea.config.write_text(text.replace(f'plc_url = "{sea.url}"', 'plc_url = "http://127.0.0.1:9"'))
    found = {finding["subject"]: finding for finding in sea.robot("doctor").document["data"]["findings"]}
    assert not found["bluesky PLC directory (http://127.0.0.1:9)"]["ok"]
    assert found[f"bluesky AppView ({sea.url})"]["ok"]


def test_doctor_refuses_an_invalid_stream_url_without_a_request(sea: Desk) -> None:
    sea.config.write_text('[bluesky]\njetstream_url = "ftp://stream.test"\n')
    before = sea.world.requests.total()
    done = sea.robot("doctor", "--offline")
    assert done.error["message"] == "bluesky.jetstream_url is not a WebSocket URL"
    assert sea.world.requests.total() == before


def test_doctor_does_not_mention_bluesky_when_it_is_not_configured(sea: Desk) -> None:
    sea.config.write_text("")
    assert not any("bluesky" in finding["subject"] for finding in sea.robot("doctor").data["findings"])


def test_sync_status_summarises_any_number_of_accounts_in_one_block(followed: Desk) -> None:
    assert followed.run("accounts", "add", CAROL).code == 0
    assert followed.run("accounts", "pause", BOB).code == 0
    done = followed.robot("sync-status")
    told = done.data["accounts"]
    assert {name: told[name] for name in ("established", "new", "paused", "unavailable")} == {
        "established": 1,
        "new": 1,
        "paused": 1,
        "unavailable": 0,
    }
    assert (told["due"], told["never_polled"], told["gaps"]) == (1, 1, 0)
    assert told["oldest_poll_at"] is not None
    out = followed.run("sync-status").out
    assert out.startswith("Bluesky accounts\n")
    assert "1 established, 1 new, 1 paused" in out
    assert "did:plc:" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_account_cursors_are_listed_and_found_by_handle(followed: Desk) -> None:
    did = followed.world.bluesky.network.account(ALICE).did
    assert f"{ALICE} {did}" in followed.run("cursors", "list").out
    shown = followed.robot("cursors", "show", "bluesky.author_feed", ALICE).data
    assert (shown["scope"], shown["account"], shown["project"]) == (did, ALICE, None)
    assert followed.robot("cursors", "show", "bluesky.author_feed", did).data["account"] == ALICE


def test_sync_with_bluesky_alone_polls_it_and_makes_it_searchable(sea: Desk) -> None:
    assert sea.run("accounts", "add", ALICE).code == 0
    planned = sea.robot("sync", "--dry-run").data["polled"]["bluesky"]
    assert planned["accounts"] == 1
    done = sea.robot("sync")
    assert done.code == 0
    assert done.data["polled"]["bluesky"]["posts"] == 2
    assert done.data["embeddings"] is None, "the provider is none here"
    assert sea.robot("search", "high tide", "--mode", "lexical").data["total"] == 2
