"""Every page of `lore serve`: what it shows, under which address, as HTML and as JSON."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient
from tests.databases.feeds import MIRA, OTTO, follow, post, share
from tests.databases.samples import CREATED, add_project, issue, merge_request
from tests.databases.talk import DIFFS, DISCUSSIONS, attach, discussion, file_change, keep, note, placed
from tests.faces.web.copies import PATH, client_of, fill, open_app, ordinary, with_login
from tests.faces.web.reading import HOST, crawl, read
from tests.support.manual_clock import ManualClock

from tidelore.app.positions import SourcesOverview, dashboard
from tidelore.app.wiring import App
from tidelore.core.model import ProjectRecord, Scope
from tidelore.engine.cursor import Cursor
from tidelore.engine.ports import Batch
from tidelore.store.database.opening import open_database
from tidelore.store.mirror.page_writer import PageWriter
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.mirror.projects import list_projects, save_project
from tidelore.web.addresses import account_address, post_address

MOST_BYTES = 150_000
ISSUE, CHANGE, TOPIC = f"/p/{PATH}/issues/1", f"/p/{PATH}/mrs/3", f"/p/{PATH}/topics/7"
PAGES = {
    "/": "Recently changed",
    "/search?q=crane": "The crane stops",
    "/issues": "The crane stops",
    "/mrs": "Grease the crane",
    "/topics": "Topic 7",
    "/posts": "The tide turns at noon.",
    "/files?path=src/moor.py": "Grease the crane",
    "/accounts": "@mira.test",
    "/accounts/mira.test": "The tide turns at noon.",
    "/trending?hours=24": "A chart",
    "/status": "Recent runs",
    "/waiting": "Your login is not known",
    "/coverage": "discussions of merge requests",
    ISSUE: "Which crane?",
    CHANGE: "src/moor.py:39",
    TOPIC: "With a rope.",
}


def test_every_page_has_a_title_its_content_and_fewer_bytes_than_the_limit(client: TestClient) -> None:
    for address, content in PAGES.items():
        response = client.get(address)
        page = read(response.text)
        assert response.status_code == 200, address
        assert page.title.endswith(" – Tidelore"), address
        assert content in page.text, address
        assert len(response.content) < MOST_BYTES, address
        assert page.dangers == [], address
        assert len(page.ids) == len(set(page.ids)), f"{address}: an id twice"


@pytest.mark.deep
def test_every_page_is_shown_from_postgresql_too(migrated_postgres_address: str) -> None:
    client = client_of(fill(migrated_postgres_address))
    for address, content in PAGES.items():
        assert content in read(client.get(address).text).text, address


def test_every_page_answers_with_json_in_the_robot_envelope(client: TestClient) -> None:
    for address in PAGES:
        response = client.get(address, headers={"accept": "application/json"})
        document = response.json()
        assert (response.status_code, document["ok"]) == (200, True), address
        assert set(document["meta"]) == {"command", "version", "synced_at"}
    listed = client.get("/issues?state=closed", headers={"accept": "application/json"}).json()["data"]
    assert [(one["reference"], one["state"]) for one in listed["items"]] == [(f"{PATH}#2", "closed")]
    shown = client.get(ISSUE, headers={"accept": "application/json"}).json()["data"]
    assert shown["item"]["title"] == "The crane stops"
    assert [event["kind"] for event in shown["timeline"]] == ["state", "label"]


def test_every_link_of_the_site_leads_to_a_page_without_dangers(client: TestClient) -> None:
    pages = crawl(client, "/", *PAGES, most=100)
    assert len(pages) > 40
    assert {
        address: page.dangers for address, page in pages.items() if page.dangers and "images=yes" not in address
    } == {}


def test_an_item_shows_events_in_place_threads_with_their_hunk_and_folds_resolved_ones(client: TestClient) -> None:
    html = client.get(CHANGE).text
    text = read(html).text
    assert "return None" in text
    assert '<td class="line">39</td>' in html
    assert html.count('<details class="thread resolved"') == 1
    assert "mira: Typo." in text
    assert "resolved by noor" in text
    assert "1 unresolved thread, 1 resolved" in " ".join(text.split())
    assert "#thread_open" in read(html).links
    assert "closed this" in read(client.get(ISSUE).text).text


def test_a_reference_in_a_text_leads_to_its_item(client: TestClient) -> None:
    link = next(link for link in read(client.get(ISSUE).text).links if link.startswith("/go"))
    assert client.get(link).url.path == CHANGE
    assert client.get("/go?ref=port/harbour%237").url.path == TOPIC
    assert client.get("/go?ref=nothing").status_code == 400
    assert client.get("/go?ref=%2399&project=port/harbour").status_code == 404


def test_remote_images_are_links_until_the_reader_asks(client: TestClient) -> None:
    before, after = client.get(ISSUE), client.get(f"{ISSUE}?images=yes")
    assert "<img" not in before.text
    assert 'href="https://x.test/b.png"' in before.text
    assert f"{ISSUE}?images=yes" in read(before.text).links
    assert '<img src="https://x.test/b.png" alt="blue"' in after.text
    assert 'referrerpolicy="no-referrer"' in after.text
    assert "img-src 'self';" in before.headers["content-security-policy"]
    assert "img-src 'self' https: http:;" in after.headers["content-security-policy"]


def test_a_search_marks_the_match_and_a_live_search_gets_the_results_alone(client: TestClient) -> None:
    whole = client.get("/search?q=crane")
    part = client.get("/search?q=crane", headers={"hx-request": "true"})
    assert "<mark>crane</mark>" in whole.text
    assert "<mark>crane</mark>" in part.text
    assert "<html" not in part.text
    assert "HX-Request" in part.headers["vary"]
    assert "0 results" in read(client.get("/search?q=zeppelin").text).text


def test_a_thread_whose_state_is_unknown_is_not_shown_as_unresolved(app: App) -> None:
    with app.store() as database, database.transaction() as tx:
        tx.execute("UPDATE discussions SET resolved = NULL")
    page = client_of(app).get(CHANGE).text
    assert "state unknown" in page
    assert "thread open" not in page, "no mark of an unresolved thread"
    assert ">unresolved<" not in page


def test_filters_narrow_a_list_and_the_chips_lead_to_their_addresses(client: TestClient) -> None:
    page = read(client.get("/issues?state=closed").text)
    assert ("Issue 2" in page.text, "The crane stops" in page.text) == (True, False)
    assert "/issues" in page.links
    assert "/issues?state=opened" in page.links
    assert "The crane stops" in read(client.get("/issues?label=bug&label=crane").text).text
    assert "0 issues" in read(client.get("/issues?label=bug&label=other").text).text


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/issues?state=wrong", 400),
        ("/issues?sort=size", 400),
        ("/issues?limit=0", 400),
        ("/issues?limit=9999999999999", 400),
        ("/issues?after=x", 400),
        ("/issues?since=yesterday", 400),
        ("/mrs?draft=perhaps", 400),
        ("/trending?hours=-1", 400),
        ("/accounts?state=lost", 400),
        ("/search?q=x&type=ship", 400),
        (f"{ISSUE}?from=x", 400),
        ("/unknown", 404),
        ("/p/port/harbour/boats/1", 404),
        ("/p/port/harbour/issues/99", 404),
        ("/p/port/harbour/issues/99999999999999999999999", 400),
        ("/post?uri=x", 400),
        ("/accounts/nobody.test", 404),
        ("/static/../server.py", 404),
    ],
)
def test_a_wrong_address_gets_an_error_page_with_a_remedy(client: TestClient, address: str, status: int) -> None:
    response = client.get(address)
    assert response.status_code == status
    if not address.startswith("/static"):
        assert "Traceback" not in response.text
        assert 'class="fix"' in response.text
        assert "content-security-policy" in response.headers
    robot = client.get(address, headers={"accept": "application/json"})
    assert robot.status_code == status
    if not address.startswith("/static"):
        assert robot.json()["error"]["message"]


def test_a_page_that_fails_unexpectedly_shows_no_traceback_and_keeps_its_headers(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("tidelore.web.activity.read_home", fail)
    client = TestClient(client_of(app).app, base_url=HOST, raise_server_exceptions=False)
    response = client.get("/")
    assert response.status_code == 500
    assert "secret detail" not in response.text
    assert "default-src 'none'" in response.headers["content-security-policy"]


def test_a_long_list_goes_on_at_its_next_page_until_its_end(tmp_path: Path) -> None:
    app = open_app(tmp_path / "lore.db")
    database = open_database(str(tmp_path / "lore.db"))
    app.open_store(create=True).close()
    keep(database, add_project(database, 1, PATH), ISSUES, [issue(number) for number in range(1, 61)])
    database.close()
    client = client_of(app)
    address, seen = "/issues", set[str]()
    while address:
        page = read(client.get(address).text)
        rows = {link for link in page.links if link.startswith("/p/")}
        assert not seen & rows
        seen |= rows
        address = next((link for link in page.links if "after=" in link), "")
    assert len(seen) == 60


def test_a_long_conversation_is_shown_in_parts_below_the_size_limit_and_nothing_is_missing(tmp_path: Path) -> None:
    app = open_app(tmp_path / "lore.db")
    app.open_store(create=True).close()
    database = open_database(str(tmp_path / "lore.db"))
    project = add_project(database, 1, PATH)
    keep(database, project, ISSUES, [issue(1)])
    threads = [discussion(f"d{number}", note(number, f"word{number} " + "long text " * 300)) for number in range(120)]
    attach(database, project, "issues", 1, DISCUSSIONS, *threads)
    database.close()
    client, address, seen, parts = client_of(app), ISSUE, "", 0
    while address:
        response = client.get(address)
        assert len(response.content) < MOST_BYTES
        page = read(response.text)
        seen, parts = seen + page.text, parts + 1
        address = next((link for link in page.links if "from=" in link), "")
    assert parts > 3
    assert all(f"word{number} " in seen for number in range(120))


def test_a_thread_in_a_later_part_is_on_the_page_that_its_address_leads_to(tmp_path: Path) -> None:
    app = open_app(tmp_path / "lore.db")
    app.open_store(create=True).close()
    database = open_database(str(tmp_path / "lore.db"))
    project = add_project(database, 1, PATH)
    keep(database, project, MERGE_REQUESTS, [merge_request(3, references_full=f"{PATH}!3")])
    threads = [discussion(f"d{number}", note(number, "long text " * 300)) for number in range(60)]
    last = discussion("last", placed(99, "Why None?", "src/moor.py", 39))
    attach(database, project, "merge_requests", 3, DISCUSSIONS, *threads, last)
    database.close()
    client = client_of(app)
    first = read(client.get(CHANGE).text)
    assert "Why None?" not in first.text
    (link,) = {link for link in first.links if "thread=" in link}
    assert link == f"{CHANGE}?thread=last#thread_last"
    shown = read(client.get(link).text)
    assert "Why None?" in shown.text
    assert "thread_last" in shown.ids
    assert CHANGE in shown.links, "the way to the beginning"
    assert "long text" in read(client.get(f"{CHANGE}?thread=unknown").text).text


def test_a_copy_with_posts_alone_shows_these_and_an_empty_one_how_to_begin(tmp_path: Path) -> None:
    app = open_app(tmp_path / "lore.db")
    app.open_store(create=True).close()
    page = read(client_of(app).get("/").text)
    assert "lore init" in page.text
    assert not [words for words in ("Recently changed", "Unresolved", "Waiting for you") if words in page.text]
    with closing(open_database(str(tmp_path / "lore.db"))) as database:
        follow(database, MIRA)
        share(database, post(MIRA, "a"))
    page = read(client_of(app).get("/").text)
    assert "The tide turns at noon." in page.text
    assert not [words for words in ("lore init", "Nothing is stored", "Unresolved") if words in page.text]


def test_home_and_search_say_what_kind_of_item_a_row_is_and_whether_it_is_a_draft(tmp_path: Path) -> None:
    path = tmp_path / "lore.db"
    app = ordinary(path)
    with closing(open_database(str(path))) as database, database.transaction() as tx:
        tx.execute("UPDATE merge_requests SET draft = 1")
    client = client_of(app)
    home = client.get("/").text
    assert 'class="state draft"' in home
    assert all(f">{kind} {PATH}" in home for kind in ("issue", "merge request", "topic"))
    assert f">issue {PATH}#1<" in client.get("/search?q=crane").text


def test_the_button_details_is_there_only_if_there_are_details(client: TestClient) -> None:
    assert 'href="#details"' in client.get(ISSUE).text
    assert 'href="#details"' not in client.get(f"/p/{PATH}/issues/2").text


def test_home_and_status_load_what_waits_and_what_is_missing_from_pages_that_need_no_script(client: TestClient) -> None:
    for address, piece in (("/", "/waiting"), ("/status", "/coverage")):
        html = client.get(address).text
        assert f'hx-get="{piece}"' in html
        assert piece in read(html).links
        part = client.get(piece, headers={"hx-request": "true"}).text
        assert "<html" not in part
        whole = read(client.get(piece).text).text
        assert [line for line in read(part).text.splitlines() if line.strip() not in whole] == []


def test_threads_that_wait_for_the_reader_are_listed_with_the_reason_and_the_last_note(app: App) -> None:
    known = client_of(with_login(app, "mira"))
    page = read(known.get("/waiting").text)
    assert "Why None?" in page.text
    assert "review thread" in page.text
    assert "src/moor.py:39" in page.text
    assert "Typo." not in page.text
    (link,) = {link for link in page.links if link.startswith("/go?")}
    assert "Grease the crane" in read(known.get(link).text).title
    assert known.get(link, follow_redirects=False).headers["location"] == f"{CHANGE}?thread=open#thread_open"
    assert "Nothing waits for you." in read(client_of(with_login(app, "nobody-here")).get("/waiting").text).text


def test_home_does_not_count_the_lists_whose_beginning_it_shows(client: TestClient) -> None:
    statements: list[str] = []

    def listen(connection: apsw.Connection) -> None:
        connection.set_profile(lambda statement, _nanoseconds: statements.append(statement))

    apsw.connection_hooks.append(listen)
    try:
        assert "Grease the crane" in client.get("/").text
    finally:
        apsw.connection_hooks.remove(listen)
    assert any("FROM merge_requests t" in one for one in statements)
    counting = [one for one in statements if one.startswith("SELECT COUNT(*)")]
    assert not [
        one
        for one in counting
        if any(f"FROM {table} " in one for table in ("issues", "merge_requests", "topics", "posts"))
    ]


def test_a_deleted_item_shows_that_it_is_gone_and_nothing_that_looks_like_content(tmp_path: Path) -> None:
    app = ordinary(tmp_path / "lore.db")
    with app.store() as database, database.transaction() as tx:
        tx.execute("UPDATE issues SET deleted_at = updated_at, title = '', description = NULL, author_username = NULL")
    page = read(client_of(app).get(ISSUE).text)
    assert "Deleted issue" in page.text
    assert "This item was deleted on its host" in page.text
    assert not [word for word in ("no title", "No description", "unknown", "Open on") if word in page.text]


def test_an_empty_list_leads_back_to_the_whole_one(client: TestClient) -> None:
    for address in ("/issues?author=nobody", "/posts?author=nobody", "/search?q=zeppelin&state=closed"):
        page = read(client.get(address).text)
        assert "Nothing matches" in page.text, address
        assert address.partition("?author")[0].partition("&")[0] in page.links, address


def test_without_a_database_every_page_says_what_to_do(tmp_path: Path) -> None:
    client = client_of(open_app(tmp_path / "none.db"))
    for address in ("/", "/issues", "/search?q=x", "/status", "/waiting", ISSUE):
        response = client.get(address)
        assert response.status_code == 404, address
        page = read(response.text)
        assert page.title == "Nothing is stored yet – Tidelore", address
        assert all(command in page.text for command in ("lore init", "lore doctor", "lore sync")), address


@pytest.mark.deep
def test_texts_that_grow_when_they_are_rendered_stay_below_the_size_limit(tmp_path: Path) -> None:
    app = open_app(tmp_path / "lore.db")
    app.open_store(create=True).close()
    database = open_database(str(tmp_path / "lore.db"))
    project = add_project(database, 1, PATH)
    growing = ("#1 " * 15_000, ("> " * 39 + "x\n\n") * 200, "&" * 40_000)
    keep(database, project, ISSUES, [issue(number, description=text) for number, text in enumerate(growing, 1)])
    for number, text in enumerate(growing, 1):
        said = [note(number * 100 + place, text[:10_000]) for place in range(12)]
        attach(database, project, "issues", number, DISCUSSIONS, discussion(f"d{number}", *said))
    database.close()
    client = client_of(app)
    for number in range(1, len(growing) + 1):
        for address in (f"/p/{PATH}/issues/{number}", f"/p/{PATH}/issues/{number}?from=3"):
            assert len(client.get(address).content) < MOST_BYTES, address


def test_a_thread_of_many_notes_goes_on_in_further_entries_and_none_is_missing(tmp_path: Path) -> None:
    app = open_app(tmp_path / "lore.db")
    app.open_store(create=True).close()
    database = open_database(str(tmp_path / "lore.db"))
    project = add_project(database, 1, PATH)
    keep(database, project, ISSUES, [issue(1)])
    said = [note(number, f"word{number}.") for number in range(1, 36)]
    attach(database, project, "issues", 1, DISCUSSIONS, discussion("long", *said))
    database.close()
    page = read(client_of(app).get(ISSUE).text)
    positions = [page.text.index(f"word{number}.") for number in range(1, 36)]
    assert positions == sorted(positions)


def test_items_of_two_hosts_with_the_same_path_and_number_have_addresses_that_tell_them_apart(tmp_path: Path) -> None:
    app = open_app(tmp_path / "lore.db")
    app.open_store(create=True).close()
    database = open_database(str(tmp_path / "lore.db"))
    for source, host in (("one", "https://one.test"), ("two", "https://two.test")):
        record = ProjectRecord(1, PATH, "harbour", f"{host}/{PATH}", archived=False)
        with database.transaction() as tx:
            project = save_project(tx, source, PATH, record, CREATED)
        page = f"{host}/{PATH}/-/issues/1"
        scope = Scope(source, f"{source}.issues", "1", project.id, PATH)
        item = issue(1, title=f"Issue of {source}", web_url=page)
        PageWriter(database, scope, ISSUES, lambda: CREATED).commit(Batch([item], Cursor()))
    database.close()
    client = client_of(app)
    links = [link for link in read(client.get("/issues").text).links if link.startswith("/p/")]
    assert len(set(links)) == 2
    assert {read(client.get(link).text).title.partition(" ·")[0] for link in links} == {"Issue of one", "Issue of two"}
    assert client.get(f"/p/{PATH}/issues/1").status_code == 400


def test_home_marks_what_changed_since_the_visit_before_this_one(tmp_path: Path) -> None:
    clock = ManualClock(CREATED + 1_000)
    app = replace(ordinary(tmp_path / "lore.db"), clock=clock)
    client = client_of(app)
    assert "since your last visit" not in client.get("/").text
    clock.advance(60)
    assert "since your last visit" not in client.get("/").text, "the same visit"
    clock.advance(7_200)
    database = open_database(str(tmp_path / "lore.db"))
    project = next(row for row in list_projects(database) if row.path == PATH)
    keep(database, project, ISSUES, [issue(9, clock.now_ms(), title="The gull is back")])
    database.close()
    for _ in range(2):
        html = client.get("/").text
        assert "1 new since your last visit" in read(html).text
        assert html.count('class="row unseen"') == 1
    client.cookies.set("lore_8765_seen", "x-y")
    assert client.get("/").status_code == 200


def test_a_discussion_of_a_file_leads_to_its_thread_and_a_wrong_filter_is_named_as_on_the_page(
    client: TestClient,
) -> None:
    links = [link for link in read(client.get("/files?path=src/moor.py").text).links if "thread=open" in link]
    assert client.get(links[0], follow_redirects=False).headers["location"].endswith("#thread_open")
    assert "Invalid value for since" in read(client.get("/issues?since=yesterday").text).text


def test_the_end_of_several_paths_leads_to_each_of_them(tmp_path: Path) -> None:
    path = tmp_path / "lore.db"
    client = client_of(ordinary(path))
    with closing(open_database(str(path))) as database:
        project = list_projects(database)[0]
        attach(
            database, project, "merge_requests", 3, DIFFS,
            file_change("src/moor.py", "src/moor.py"), file_change("lib/moor.py", "lib/moor.py"),
        )  # fmt: skip
    page = read(client.get("/files?path=moor.py").text)
    links = [link for link in page.links if link.startswith("/files?")]
    assert len(links) == 2
    assert all("Grease the crane" in read(client.get(link).text).text for link in links)
    assert client.get("/files?path=moor.py", headers={"accept": "application/json"}).status_code == 400


def test_coverage_in_status_leaves_out_what_is_complete(app: App) -> None:
    client = client_of(app)
    part = client.get("/coverage", headers={"hx-request": "true"}).text
    whole = client.get("/coverage").text
    assert part.count("<tr>") < whole.count("<tr>")


def test_a_search_marks_the_words_in_titles_and_leads_to_the_note_that_matches(tmp_path: Path) -> None:
    app = ordinary(tmp_path / "lore.db")
    with app.store() as database, database.transaction() as tx:
        tx.execute("UPDATE documents SET title = 'The <b>crane</b> \x07stops'")
    html = client_of(app).get("/search?q=cranes").text
    assert ">The &lt;b&gt;<mark>crane</mark>&lt;/b&gt; stops</a>" in html
    page = read(html)
    assert "3 more matches" in page.text
    assert f"{ISSUE}?note=11#note_11" in page.links
    assert "note_11" in read(client_of(app).get(f"{ISSUE}?note=11").text).ids


def test_a_result_names_the_speaker_and_the_date_of_a_passage_once(tmp_path: Path) -> None:
    app = ordinary(tmp_path / "lore.db")
    with app.store() as database, database.transaction() as tx:
        tx.execute("DELETE FROM documents WHERE source_type <> 'discussion'")

    def found() -> list[tuple[str, str]]:
        html = client_of(app).get("/search?q=crane").text
        return re.findall(r'<p class="passage">(.*?)</p>(.*?)</li>', html, re.DOTALL)

    assert found()
    for shown, below in found():
        assert shown.startswith("@mira (2023-11-14)")
        assert ("mira" in read(below).text, "updated" in below) == (False, False)
    with app.store() as database, database.transaction() as tx:
        tx.execute("UPDATE documents SET author_username = 'otto', updated_at = updated_at + 86400000")
    assert all(("otto" in read(below).text, "updated" in below) == (True, True) for _, below in found())


def test_trending_links_are_narrowed_by_a_part_of_their_address(client: TestClient) -> None:
    assert "A chart" in client.get("/trending?hours=24").text
    found = client.get("/trending?hours=24", headers={"accept": "application/json"}).json()["data"]["items"]
    (address,) = (link["url"] for link in found)
    host = address.split("/")[2]
    assert "A chart" in client.get(f"/trending?hours=24&link={host.upper()}").text
    other = client.get("/trending?hours=24&link=elsewhere.test").text
    assert "A chart" not in other
    assert 'value="elsewhere.test"' in other
    assert "/trending?hours=24" in read(other).links


def test_a_note_in_a_later_part_is_on_the_page_that_a_search_leads_to(tmp_path: Path) -> None:
    app = open_app(tmp_path / "lore.db")
    app.open_store(create=True).close()
    database = open_database(str(tmp_path / "lore.db"))
    keep(database, project := add_project(database, 1, PATH), ISSUES, [issue(1)])
    threads = [discussion(f"d{number}", note(number, "long text " * 300)) for number in range(1, 60)]
    attach(database, project, "issues", 1, DISCUSSIONS, *threads, discussion("last", note(99, "The seagull.")))
    database.close()
    client = client_of(app)
    assert "note_99" not in read(client.get(ISSUE).text).ids
    assert "note_99" in read(client.get(f"{ISSUE}?note=99").text).ids


def test_a_post_leads_to_the_account_that_is_followed_and_names_whom_it_answers_or_repeats(tmp_path: Path) -> None:
    path = tmp_path / "lore.db"
    client = client_of(ordinary(path))
    first = post(MIRA, "a").record.uri
    with closing(open_database(str(path))) as database:
        share(database, post(OTTO, "c", subject_uri=first), post(OTTO, "d"))
    account = account_address(MIRA)
    for address in ("/", "/posts", post_address(first), account):
        page = read(client.get(address).text)
        assert account in page.links, address
        assert account_address(OTTO) not in page.links, address
    text = " ".join(read(client.get("/posts").text).text.split())
    assert "reply to @mira.test" in text
    assert "repost of @mira.test" in text
    assert post_address(first) in read(client.get("/posts").text).links


def test_an_account_counts_the_posts_that_are_stored_and_leads_to_its_page(client: TestClient) -> None:
    html = client.get("/accounts/mira.test").text
    assert ">Posts <span" in html
    assert '<span class="count">1</span>' in html
    assert f"https://bsky.app/profile/{MIRA.replace(':', '%3A')}" in read(html).links
    assert "0 posts" not in read(html).text + read(client.get("/accounts").text).text


def test_what_waits_is_counted_in_the_heading_that_home_loads_and_is_a_section(app: App) -> None:
    client = client_of(with_login(app, "mira"))
    part = client.get("/waiting", headers={"hx-request": "true"}).text
    assert '<h2 id="waiting"><a href="/waiting">Waiting for you</a> <span class="count">1</span></h2>' in part
    assert '<a href="/waiting" aria-current="page">Waiting</a>' in client.get("/waiting").text
    home = client.get("/").text
    assert home.index("Waiting for you") < home.index("Recently changed"), "a narrow page shows it first"
    assert read(home).links.count("/waiting") == 2, "the section and the heading"


def test_lists_and_items_use_the_same_words_for_answers_and_discussions(client: TestClient) -> None:
    listed = read(client.get("/topics").text)
    assert "unanswered" in listed.text
    assert "not answered" not in listed.text
    topic = read(client.get(TOPIC).text).text
    assert all(words in topic for words in ("unanswered", "2 comments", "lore sync"))
    for address in ("/mrs", CHANGE, f"{CHANGE}?system=yes"):
        assert "3 discussions" in read(client.get(address).text).text, address


def test_an_item_says_when_it_was_opened_and_updated_without_a_pointer(client: TestClient) -> None:
    for address in (ISSUE, CHANGE, TOPIC):
        assert read(client.get(address).text).text.count("2023-11-14 22:13 UTC") == 2, address


def test_a_file_is_shown_above_the_form_for_another_one_which_knows_its_project(client: TestClient) -> None:
    shown, empty = client.get("/files?path=src/moor.py").text, client.get("/files").text
    assert '<details class="more"><summary>Another file</summary>' in shown
    assert f"<option selected>{PATH}</option>" in shown
    assert "<details" not in empty
    assert "<form" in empty.partition("<main")[2]


def test_status_names_what_is_due_and_shows_no_green_mark_for_a_source_without_a_bound(app: App) -> None:
    client = client_of(with_login(app, "mira"))
    html = client.get("/status").text
    page = read(html)
    assert all(words in page.text for words in ("9 items due", "2 accounts due", "Nothing is pending."))
    assert 'class="dot warn"' in html
    assert 'class="dot good"' not in html + client.get("/").text
    assert "9 items due" in read(client.get("/").text).text


def test_coverage_begins_each_row_with_the_list_and_names_the_command_that_reads_the_rest(client: TestClient) -> None:
    html = client.get("/coverage").text
    assert '<th scope="row">merge requests</th>' in html
    assert "Run lore sync to read it." in read(html).text
    assert "/status" in read(html.partition("<main")[2]).links


@pytest.mark.parametrize(
    ("changes", "mark"),
    [
        ({"bound_seconds": 900}, "good"),
        ({}, ""),
        ({"bound_seconds": 900, "behind": 1}, "warn"),
        ({"bound_seconds": 900, "fresh": False}, "bad"),
        ({"bound_seconds": 900, "error": "refused"}, "bad"),
    ],
)
def test_the_mark_of_a_source_is_green_only_within_its_bound(
    app: App, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], mark: str
) -> None:
    def changed(app: App) -> SourcesOverview:
        found = dashboard(app)
        plain = {"behind": 0, "error": None, **changes}
        return replace(found, sources=[replace(source, **plain) for source in found.sources])

    monkeypatch.setattr("tidelore.web.activity.dashboard", changed)
    html = client_of(app).get("/status").text
    assert f'class="dot {mark}"' in html
    assert ("too old" in html) == (changes.get("fresh") is False)
