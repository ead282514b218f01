"""`lore embed`, its stage in `lore sync`, and `lore similar`: with the real local model, and servers that are down."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from mcp import Client
from starlette.testclient import TestClient
from tests.faces.desk import CONSOLE, LEDGER, Desk
from tests.unit.embedding.model_server import MODEL, ModelServer

from tidelore.app.console import ConsoleViews
from tidelore.app.searching import Meaning, rank_by_meaning
from tidelore.app.wiring import App
from tidelore.core.clock import SystemClock
from tidelore.core.config_file import load_config
from tidelore.core.process import ProcessIdentity, is_dead
from tidelore.engine.lease import acquire
from tidelore.mcp.server import make_server
from tidelore.search.find import SearchRequest
from tidelore.search.query import parse_query
from tidelore.store.reading.fulltext import DocumentFilter
from tidelore.store.work.leases import LeaseTable
from tidelore.web.guard import make_access
from tidelore.web.server import build_site

DOWN = '[embedding]\nprovider = "ollama"\nbase_url = "http://127.0.0.1:9"\n'
KILLED = """
import os, signal, sys
from tidelore.cli.main import main
from tidelore.engine.crashpoint import Seam
def die(seam):
    if seam is Seam.INSIDE_COMMIT:
        os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:], seam=die)
"""


@contextmanager
def serving(server: ModelServer) -> Iterator[ModelServer]:
    """Serve a model from a thread of its own."""
    up, done = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        async with server:
            loops.append(asyncio.get_running_loop())
            up.set()
            await done.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert up.wait(5)
        yield server
    finally:
        loops[0].call_soon_threadsafe(done.set)
        thread.join()


def served_by(server: ModelServer) -> str:
    return f'[embedding]\nprovider = "ollama"\nbase_url = "{server.url}"\nmodel = "{MODEL}"\n'


def vectors(desk: Desk) -> int:
    return int(desk.query("SELECT COUNT(*) FROM embeddings")[0][0])


def test_a_sync_embeds_the_documents_it_built_and_reports_it(desk: Desk) -> None:
    done = desk.run("sync")
    assert done.code == 0
    assert done.err == ""
    (line,) = [line for line in done.out.splitlines() if " embeddings " in line]
    assert "11 documents embedded (" in line
    assert "0 unchanged" in line
    data = desk.robot("sync").data
    assert data["embeddings"]["embedded"] == 0
    assert data["embeddings"]["unchanged"] == 11
    assert data["embeddings"]["model"].startswith("wordllama")
    assert data["embeddings"]["notice"] is None


def test_only_a_changed_thread_is_embedded_again(desk: Desk) -> None:
    desk.run("sync")
    with desk.world.lock:
        forge = desk.world.gitlab
        forge.add_note(forge.issue(LEDGER, 2), body="The crane stops at 40 %.")
        desk.world.advance(3600)
    made = desk.robot("sync").data["embeddings"]
    assert made["embedded"] == 2, "the thread, and its issue, whose participants changed"
    assert made["chunks"] == 1, "the issue's own text did not"


def test_a_search_for_nonsense_finds_nothing_and_says_why(desk: Desk) -> None:
    desk.run("sync")
    for mode in ("hybrid", "semantic", "lexical"):
        data = desk.robot("search", "zzxqv wqpfk", "--mode", mode).data
        assert (data["items"], data["total"], data["next"]) == ([], 0, None), mode
        assert "no document contains" in data["notice"]
    done = desk.run("search", "zzxqv wqpfk")
    assert (done.code, done.out) == (0, "No matches.\n")
    assert "no document contains" in done.err


@pytest.mark.parametrize("without", ["--no-embed", '[embedding]\nprovider = "none"\n'])
def test_with_no_embed_nothing_is_embedded_or_reported(desk: Desk, without: str) -> None:
    flags = [without] if without.startswith("--") else []
    desk.configure(LEDGER, CONSOLE, extra="" if flags else without)
    data = desk.robot("sync", *flags).data
    assert data["embeddings"] is None
    assert "embed" not in data["stage_timings_ms"]
    assert vectors(desk) == 0
    assert "embed" not in desk.robot("sync", "--dry-run", *flags).data["stages"]


def test_the_embed_command_creates_vectors(desk: Desk) -> None:
    desk.run("sync", "--no-embed")
    data = desk.robot("embed").data
    assert (data["embedded"], data["unchanged"], data["failed"]) == (11, 0, 0)
    assert data["chunks"] == vectors(desk) >= 11
    assert desk.robot("embed").data["embedded"] == 0
    again = desk.robot("embed", "--full").data
    assert (again["embedded"], again["chunks"]) == (11, data["chunks"])
    assert "11 unchanged" in desk.run("embed").out


def test_an_embedding_server_that_is_down_is_a_note_in_sync_and_an_error_in_embed(desk: Desk) -> None:
    desk.configure(LEDGER, CONSOLE, extra=DOWN)
    done = desk.run("sync")
    assert done.code == 0
    assert "embedding stopped: no usable response" in done.out
    assert desk.query("SELECT COUNT(*) FROM documents") == [(11,)]
    assert desk.query("SELECT status, docs_embedded, warnings_count FROM sync_runs") == [("succeeded", 0, 1)]
    assert "no usable response" in desk.robot("sync").data["embeddings"]["notice"]
    refused = desk.robot("embed")
    assert refused.code == 1
    assert refused.error["code"] == "REMOTE_UNAVAILABLE"
    assert refused.error["retryable"]


def test_a_wrong_embedding_url_is_a_note_in_sync(desk: Desk) -> None:
    desk.configure(LEDGER, CONSOLE, extra='[embedding]\nprovider = "ollama"\nbase_url = "ollama"\n')
    assert desk.run("sync").code == 0
    assert desk.robot("embed").error["code"] == "CONFIG_INVALID"


def test_vectors_of_a_server_are_replaced_by_those_of_another_model(desk: Desk) -> None:
    with serving(ModelServer("ollama")) as server:
        desk.configure(LEDGER, CONSOLE, extra=served_by(server))
        made = desk.robot("sync").data["embeddings"]
        assert made["embedded"] == 11
        assert made["model"] == f"ollama/{MODEL}"
        assert sum(map(len, server.batches)) >= 11
    desk.configure(LEDGER, CONSOLE)
    replaced = desk.robot("embed").data
    assert (replaced["embedded"], replaced["removed"]) == (11, made["chunks"])
    assert desk.query("SELECT COUNT(*) FROM embedding_models") == [(1,)]


def test_embedding_takes_no_lease(desk: Desk) -> None:
    desk.run("sync", "--no-embed")
    with closing(desk.store()) as store:
        lease = acquire(
            LeaseTable(store), "sync", ProcessIdentity.current(), "another", SystemClock(),
            stale_after_ms=600_000, is_dead=is_dead, force=False,
        )  # fmt: skip
        assert desk.run("sync").code == 3
        assert desk.robot("embed").data["embedded"] == 11
        lease.release()


@pytest.mark.deep
def test_after_a_kill_while_embedding_the_next_run_embeds_the_rest(desk: Desk) -> None:
    desk.run("sync", "--no-embed")
    argv = ["embed", "--config", str(desk.config), "--db", str(desk.db)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *argv], env=os.environ, check=False, timeout=60)
    assert killed.returncode == -9
    assert vectors(desk) == 0
    assert desk.robot("embed").data["embedded"] == 11
    assert desk.run("check").code == 0


def test_embed_before_the_first_sync_is_refused_with_a_fix(desk: Desk) -> None:
    assert desk.robot("embed").code == 6


# What ranks by meaning for a search


def meaning(desk: Desk, text: str = "charged twice") -> Meaning:
    app = App(load_config(str(desk.config)), {}, db=str(desk.db))
    with closing(desk.store()) as store:
        return rank_by_meaning(app, store, text)


def test_a_semantic_search_finds_a_paraphrase(desk: Desk) -> None:
    # So that something is found among the merge requests too, none of which is about this.
    desk.configure(LEDGER, CONSOLE, extra="[embedding]\nmin_similarity = 0\n")
    paid_twice, duplicate, _crane = tell(desk)
    desk.run("sync")
    found = meaning(desk, "customer billed two times")
    assert found.notice is None
    assert found.ranker is not None
    with closing(desk.store()) as store:
        everything = found.ranker(store, SearchRequest(query=parse_query("customer billed two times")), 3, alone=False)
        narrowed = SearchRequest(
            query=parse_query("customer billed two times"), wanted=DocumentFilter(type="merge_request")
        )
        requests = found.ranker(store, narrowed, 100, alone=False)
        without = found.ranker(store, SearchRequest(query=parse_query("customer -duplicate")), 100, alone=False)
    rows = dict(
        desk.query(
            "SELECT d.id, i.iid FROM documents d JOIN issues i ON i.id = d.source_id WHERE d.source_type = 'issue'"
        )
    )
    assert {rows[document] for document in everything.ids[:2]} == {paid_twice, duplicate}
    assert everything.weight == 0.7
    assert requests.ids
    assert not rows.keys() & set(requests.ids)
    assert duplicate not in {rows.get(document) for document in without.ids}


@pytest.mark.parametrize("face", ["web", "console", "mcp"])
def test_a_program_that_searches_often_reads_the_vectors_once(desk: Desk, face: str) -> None:
    desk.configure(LEDGER, CONSOLE, extra="[embedding]\nmin_similarity = 0\n")
    tell(desk)
    desk.run("sync")
    app = App(load_config(str(desk.config)), {}, db=str(desk.db))
    searches, query = SEARCHES[face](app), "refunding buyers"
    before = searches(query)
    assert before, "found by meaning: no text has a word of it"
    with closing(desk.store()) as store, store.transaction() as tx:
        # Not announced by a new generation, so only who reads the vectors again notices.
        tx.execute("UPDATE embedding_blocks SET vectors = zeroblob(length(vectors))")
    assert SEARCHES[face](app)(query) == []
    assert searches(query) == before
    desk.world.gitlab.create_issue(LEDGER, title="Buoy drifts", description="The marker float left its mooring.")
    desk.world.advance(3600)
    desk.run("sync")
    assert searches(query) != before, "the block was written since, so it is read again"


def by_web(app: App) -> Callable[[str], list[str]]:
    client = TestClient(build_site(app, make_access("127.0.0.1", 8765, None)), base_url="http://127.0.0.1:8765")

    def ask(text: str) -> list[str]:
        told = client.get("/search", params={"q": text}, headers={"accept": "application/json"})
        return [row["reference"] for row in told.json()["data"]["items"]]

    return ask


def by_console(app: App) -> Callable[[str], list[str]]:
    views = ConsoleViews(app)

    def ask(text: str) -> list[str]:
        page = views.by_meaning(text, 10)
        assert page is not None
        return [row.reference for row in page.items]

    return ask


def by_mcp(app: App) -> Callable[[str], list[str]]:
    server = make_server(app)

    async def ask(text: str) -> list[str]:
        async with Client(server) as client:
            told = await client.call_tool("search", {"query": text})
        assert told.structured_content is not None
        return [row["reference"] for row in told.structured_content["items"]]

    return lambda text: asyncio.run(ask(text))


SEARCHES = {"web": by_web, "console": by_console, "mcp": by_mcp}


def test_documents_without_vectors_give_a_notice_in_semantic_search(desk: Desk) -> None:
    desk.run("sync", "--no-embed")
    assert meaning(desk) == Meaning(), "without vectors the search itself says so"
    desk.run("embed")
    assert meaning(desk, " ") == Meaning()
    desk.configure(LEDGER, CONSOLE, extra=DOWN)
    assert "no usable response" in (meaning(desk).notice or "")
    with serving(ModelServer("ollama")) as server:
        desk.configure(LEDGER, CONSOLE, extra=served_by(server))
        assert "another model" in (meaning(desk).notice or "")
        desk.run("embed")
        assert meaning(desk).ranker is not None


# Similar


def tell(desk: Desk) -> tuple[int, int, int]:
    """Write three issues, two of them about the same thing in other words."""
    texts = [
        ("Payment is charged twice", "A customer was billed two times for one order after the card form reloaded."),
        ("Duplicate invoice for a single purchase", "The customer paid the bill again: the card was charged double."),
        ("Crane telemetry is late", "Position messages of the harbour crane arrive minutes after the container moved."),
    ]
    with desk.world.lock:
        made = [desk.world.gitlab.create_issue(LEDGER, title=title, description=text) for title, text in texts]
        desk.world.advance(3600)
    first, second, third = (item.iid for item in made)
    return first, second, third


def test_similar_ranks_the_most_related_thread_first_and_excludes_the_thread_itself(desk: Desk) -> None:
    paid_twice, duplicate, _crane = tell(desk)
    desk.run("sync")
    items = desk.robot("similar", f"{LEDGER}#{paid_twice}").data["items"]
    assert items[0]["iid"] == duplicate
    assert items[0]["reference"] == f"{LEDGER}#{duplicate}"
    assert all((item["project"], item["type"], item["iid"]) != (LEDGER, "issue", paid_twice) for item in items)
    assert len(items) == 10
    scores = [item["score"] for item in items]
    assert scores == sorted(scores, reverse=True)
    assert len({item["reference"] for item in items}) == len(items)


def test_similar_respects_the_limit_and_prints_lines(desk: Desk) -> None:
    paid_twice, duplicate, _crane = tell(desk)
    desk.run("sync")
    assert len(desk.robot("similar", f"#{paid_twice}", "-n", "2", "-p", "ledger").data["items"]) == 2
    assert desk.run("similar", f"#{paid_twice}", "-p", "ledger").out.startswith(f"{LEDGER}#{duplicate}")
    chosen = desk.robot("similar", f"#{paid_twice}", "-p", "ledger", "--fields", "iid,score").data["items"]
    assert set(chosen[0]) == {"iid", "score"}


def test_similar_refuses_invalid_and_ambiguous_references(desk: Desk) -> None:
    desk.run("sync")
    assert desk.robot("similar", "1", "-p", "ledger").error["code"] == "USAGE", "both an issue and a merge request"
    assert desk.robot("similar", "5", "-p", "ledger").data["total"] == 10, "only an issue has this number"
    assert desk.robot("similar", "!1", "-p", "ledger").data["total"] == 10
    assert desk.robot("similar", "what?").code == 2
    assert desk.robot("similar", "#4711").code == 6


def test_similar_without_vectors_is_refused_with_the_fix(desk: Desk) -> None:
    desk.run("sync", "--no-embed")
    refused = desk.robot("similar", "#1", "-p", "ledger")
    assert refused.code == 2
    assert "lore embed" in refused.error["fix"]
