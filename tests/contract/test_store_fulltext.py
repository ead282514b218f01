"""Full text on both databases: what is found, in which order, through which filters; no text is ever syntax."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.databases.samples import CREATED, add_project, issue, merge_request
from tests.databases.talk import keep

from tidelore.core.errors import UserError
from tidelore.core.model import Document
from tidelore.search.find import SearchRequest, SearchResults, find
from tidelore.search.fuse import Ranking
from tidelore.search.lexical import rank_lexical
from tidelore.search.query import parse_query, resolve_filters
from tidelore.store.database.migrate import migrate
from tidelore.store.database.port import Database
from tidelore.store.database.sqlite import SqliteDatabase
from tidelore.store.mirror.documents import DocumentSource, write_documents
from tidelore.store.mirror.parents import ISSUES, MERGE_REQUESTS
from tidelore.store.reading import fulltext
from tidelore.store.reading.found_documents import full_text
from tidelore.store.reading.fulltext import (
    CLOSING,
    OPENING,
    Ask,
    DocumentFilter,
    FilterShare,
    FullText,
    Gate,
    Scored,
    Term,
)

DAY = 86_400_000
FILLER = "Nothing of note was said about this at the meeting on the quay."


def document(source_type: str, source_id: int, thread: tuple[str, int], title: str, content: str) -> Document:
    return Document(
        source_type=source_type, source_id=source_id, project_id=1, thread_type=thread[0], thread_id=thread[1],
        title=title, state="opened", author_username="mira", participants=("mira",), labels=(), paths=(),
        identifiers=(), content=content, url=f"https://forge.test/{source_type}/{source_id}", created_at=CREATED,
        updated_at=CREATED + source_id * DAY,
    )  # fmt: skip


def write(database: Database, *documents: Document) -> None:
    with database.transaction() as tx:
        write_documents(
            tx, [DocumentSource(entry.source_type, entry.source_id) for entry in documents], documents, CREATED
        )


@pytest.fixture
def filled(database: Database) -> Database:
    """Two issues and a merge request of one project, an issue of another, and discussions."""
    harbour = add_project(database)
    add_project(database, 2, "port/quay")
    keep(database, harbour, ISSUES, [issue(1), issue(2), issue(3)])
    keep(database, harbour, MERGE_REQUESTS, [merge_request(1)])
    with database.transaction() as tx:
        tx.execute("DELETE FROM dirty_sources")
    first, second, request = ("issue", 1), ("issue", 2), ("merge_request", 1)
    write(
        database,
        replace(
            document("issue", 1, first, "Crane stops at the berth", f"It hangs. {FILLER}"),
            labels=("bug", "needs review"),
            participants=("mira", "jonas"),
        ),
        replace(
            document("issue", 2, second, "Invoices are late", f"A crane is mentioned once here. {FILLER}"),
            state="closed",
            author_username="jonas",
            participants=("jonas",),
            project_id=2,
        ),
        replace(
            document("merge_request", 1, request, "Derive usage", f"Rewrites the metering of invoices. {FILLER}"),
            state="merged",
            labels=("bug-hunt",),
            identifiers=("services/billing/usage/derive_all.py", "UsageMeter"),
        ),
        replace(
            document("discussion", 11, first, "Crane stops at the berth", f"@hana: the emergency brake. {FILLER}"),
            author_username="hana",
            participants=("hana", "piet"),
        ),
        replace(
            document("discussion", 12, request, "Derive usage", f"@hana: deriveXall is not that file. {FILLER}"),
            identifiers=("services/billing/usage/deriveXall.py",),
        ),
    )
    return database


def search(database: Database, text: str, wanted: DocumentFilter = DocumentFilter()) -> list[str]:  # noqa: B008
    return [thread.reference for thread in searched(database, text, wanted).threads]


def searched(database: Database, text: str, wanted: DocumentFilter = DocumentFilter()) -> SearchResults:  # noqa: B008
    return find(database, SearchRequest(query=parse_query(text), wanted=wanted, mode="lexical"))


def test_a_word_in_the_title_scores_higher_than_one_in_the_text(filled: Database) -> None:
    assert search(filled, "crane") == ["port/harbour#1", "port/quay#2"]


def test_words_match_their_inflected_forms(filled: Database) -> None:
    assert search(filled, "invoice cranes") == search(filled, "invoices crane")
    assert search(filled, "mentions") == ["port/quay#2"]


def test_one_matching_word_is_enough_and_more_score_higher(filled: Database) -> None:
    found = search(filled, "mentioned metering rewrites zeppelin")
    assert found == ["port/harbour!1", "port/quay#2"]


def test_a_phrase_matches_only_adjacent_words(filled: Database) -> None:
    assert search(filled, '"emergency brake"') == ["port/harbour#1"]
    assert search(filled, '"brake emergency"') == []


def test_documents_with_excluded_words_or_phrases_are_not_found(filled: Database) -> None:
    assert search(filled, "crane -mentioned") == ["port/harbour#1"]
    assert "port/quay#2" not in search(filled, '-"is mentioned"')
    assert search(filled, "derive_all.py -metering") == ["port/harbour!1"]
    assert searched(filled, "derive_all.py -metering").threads[0].found_in == "discussion"


def test_an_identifier_is_found_by_any_part_and_its_symbols_are_not_wildcards(filled: Database) -> None:
    text = full_text(filled)
    everything = DocumentFilter()
    rows: dict[int, int] = dict(filled.read("SELECT source_id, id FROM documents WHERE thread_type = 'merge_request'"))
    assert text.find_named("usage/derive_", (), everything, 10) == [rows[1]]
    assert text.find_named("USAGEMET", (), everything, 10) == [rows[1]]
    assert text.find_named("usage/derive", (), everything, 10) == [rows[12], rows[1]]
    assert text.find_named("services/billing/usage/derive_all.py", (), everything, 10) == [rows[1]]
    assert text.find_named("100%_", (), everything, 10) == []


def test_an_exact_identifier_ranks_before_a_longer_one_containing_it(filled: Database) -> None:
    write(
        filled,
        replace(document("issue", 3, ("issue", 3), "Short", "x"), identifiers=("UsageMeterReader",)),
    )
    rows: dict[str, int] = dict(
        filled.read("SELECT thread_type, id FROM documents WHERE source_type <> 'discussion' ORDER BY source_id")
    )
    found = full_text(filled).find_named("UsageMeter", (), DocumentFilter(), 10)
    assert found == [rows["merge_request"], rows["issue"]]


def test_an_identifier_finds_documents_that_no_word_finds(filled: Database) -> None:
    assert search(filled, "billing/usage/deri") == ["port/harbour!1"]


FILTERS: list[tuple[DocumentFilter, set[str]]] = [
    (DocumentFilter(type="issue"), {"issue 1", "issue 2", "discussion 11"}),
    (DocumentFilter(type="merge_request"), {"merge_request 1", "discussion 12"}),
    (DocumentFilter(type="discussion"), {"discussion 11", "discussion 12"}),
    (DocumentFilter(state="closed"), {"issue 2"}),
    (DocumentFilter(project_id=2), {"issue 2"}),
    (DocumentFilter(author="jonas"), {"issue 2"}),
    (DocumentFilter(author="piet"), {"discussion 11"}),
    (DocumentFilter(author="hana"), {"discussion 11"}),
    (DocumentFilter(author="pie"), set()),
    (DocumentFilter(labels=("bug",)), {"issue 1"}),
    (DocumentFilter(labels=("needs review", "bug")), {"issue 1"}),
    (DocumentFilter(labels=("bug-hunt",)), {"merge_request 1"}),
    (DocumentFilter(labels=("~~",)), set()),
    (DocumentFilter(since=CREATED + 11 * DAY), {"discussion 11", "discussion 12"}),
    (DocumentFilter(path="usage/derive_all"), {"merge_request 1"}),
    (DocumentFilter(path="BILLING"), {"merge_request 1", "discussion 12"}),
    (DocumentFilter(path="e_"), {"merge_request 1"}),
    (DocumentFilter(path="%"), set()),
]


def test_filters_apply_to_word_identifier_and_list_queries(filled: Database) -> None:
    text = full_text(filled)
    names = {
        row_id: f"{kind} {key}" for row_id, kind, key in filled.read("SELECT id, source_type, source_id FROM documents")
    }
    wrong = []
    for wanted, expected in FILTERS:
        for way, found in found_by(text, wanted, list(names)).items():
            named = {"merge_request 1", "discussion 12"} & expected
            if {names[row_id] for row_id in found} != (named if way == "find_named" else expected):
                wrong.append((wanted, way, found))
        if text.share(wanted).total < len(expected) / len(names) - 0.01:
            wrong.append((wanted, "share", []))
    assert wrong == []


def found_by(text: FullText, wanted: DocumentFilter, known: list[int]) -> dict[str, list[int]]:
    """Return the documents that each way of searching finds."""
    note, quay = Term("nothing"), Term("quay")
    asks = {
        "rank": Ask((note, quay), counts=(5, 5)),
        "rank behind one term": Ask((note, quay), gate=Gate((quay,)), counts=(5, 5)),
        "rank behind both terms": Ask((note, quay), gate=Gate((note, quay), needs_all=True), counts=(5, 5)),
        "rank narrowly": Ask((note, quay), is_narrow=True),
    }
    return {way: [scored.id for scored in text.rank(ask, wanted, 50)] for way, ask in asks.items()} | {
        "newest": list(text.newest((), wanted, 50)),
        "fitting": list(text.fitting([*known, 999], (), wanted)),
        "find_named": list(text.find_named("usage/deri", (), wanted, 50)),
    }


@pytest.mark.parametrize(
    "gate", [Gate((Term("crane"), Term("invoices"))), Gate((Term("crane"), Term("nothing")), True)]
)
def test_scores_behind_a_gate_equal_those_without_it(filled: Database, gate: Gate) -> None:
    terms = (Term("crane"), Term("invoices"), Term("nothing"))
    text = full_text(filled)
    counts = tuple(text.count(term, 100) for term in terms)
    whole = {scored.id: scored.score for scored in text.rank(Ask(terms, counts=counts), DocumentFilter(), 10)}
    through = text.rank(Ask(terms, gate=gate, counts=counts), DocumentFilter(), 10)
    assert len(whole) == 5
    assert len(through) == (3 if gate.needs_all else 4)
    found = {scored.id: scored.score for scored in through}
    assert found == pytest.approx({row_id: whole[row_id] for row_id in found})
    assert [scored.score for scored in through] == sorted((scored.score for scored in through), reverse=True)


def test_documents_with_all_words_are_scored_once_if_they_were_the_gate(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelore.search.lexical.GATE_ROOM", 1)
    monkeypatch.setattr("tidelore.search.lexical.ENOUGH", 1)
    text = full_text(filled)
    asked: list[Gate | None] = []
    rank = type(text).rank

    def counted(self: FullText, ask: Ask, wanted: DocumentFilter, limit: int) -> list[Scored]:
        asked.append(ask.gate)
        return rank(self, ask, wanted, limit)

    monkeypatch.setattr(type(text), "rank", counted)
    # The newest document with both words has not the best score.
    found = rank_lexical(filled, parse_query("invoices quay"), DocumentFilter(), 1)
    assert [gate is not None and gate.needs_all for gate in asked] == [True]
    assert len(found.ranking.ids) == 1


def test_all_documents_are_scored_when_the_gates_match_too_few(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelore.search.lexical.GATE_ROOM", 1)
    query = parse_query("mentioned quay crane")
    found = rank_lexical(filled, query, DocumentFilter())
    assert found.gates == (Gate((Term("mentioned"),)), Gate((Term("crane"), Term("quay")), needs_all=True))
    assert len(found.ranking.ids) == 5
    monkeypatch.setattr("tidelore.search.lexical.ENOUGH", 3)
    assert len(rank_lexical(filled, query, DocumentFilter()).ranking.ids) == 3
    monkeypatch.setattr("tidelore.search.lexical.ENOUGH", 1)
    assert len(rank_lexical(filled, query, DocumentFilter()).ranking.ids) == 1


def test_gates_one_after_the_other_give_the_scores_of_scoring_all_documents(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = parse_query("mentioned quay crane")
    whole = rank_lexical(filled, query, DocumentFilter())
    assert whole.gates == ()
    monkeypatch.setattr("tidelore.search.lexical.GATE_ROOM", 1)
    monkeypatch.setattr("tidelore.search.lexical.ENOUGH", 3)
    gated = rank_lexical(filled, query, DocumentFilter())
    assert len(gated.gates) == 2
    found = dict(zip(gated.ranking.ids, gated.ranking.strengths, strict=True))
    expected = dict(zip(whole.ranking.ids, whole.ranking.strengths, strict=True))
    assert found == pytest.approx({row_id: expected[row_id] for row_id in found})


def test_the_commonest_words_are_not_scored_but_documents_with_all_words_come_first(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = parse_query("mentioned crane quay")
    monkeypatch.setattr("tidelore.search.lexical.SCORED_ROOM", 4)
    few = rank_lexical(filled, query, DocumentFilter())
    # `quay` is in all five documents: of those only the ones with another word are ranked.
    assert [entry.documents for entry in few.counted] == [1, 3, 5]
    assert len(few.ranking.ids) == 3
    assert few.complete == rank_lexical(filled, parse_query("mentioned crane"), DocumentFilter()).complete
    assert few.complete <= set(few.ranking.ids)


def test_a_word_in_every_document_counts_only_when_there_is_no_other(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelore.search.lexical.EVERYWHERE", 5)
    assert len(rank_lexical(filled, parse_query("metering quay"), DocumentFilter()).ranking.ids) == 1
    assert len(rank_lexical(filled, parse_query("quay meeting"), DocumentFilter()).ranking.ids) == 5


def test_documents_are_counted_per_term_and_for_several_terms(filled: Database) -> None:
    text = full_text(filled)
    assert text.count(Term("crane"), 100) == 3
    assert text.count(Term("crane"), 2) >= 2
    assert text.count(Term("emergency brake", is_phrase=True), 100) == 1
    assert text.count(Term("zeppelin"), 100) == 0
    assert text.count_together([Term("crane"), Term("mentioned")]) == 1
    terms = (Term("crane"), Term("emergency brake", is_phrase=True), Term("zeppelin"))
    assert text.counts(terms, 100) == [3, 1, 0]


def test_counts_of_common_words_come_from_the_statistics_of_an_analysed_table(filled: Database) -> None:
    write(filled, *(document("discussion", 100 + n, ("issue", 1), "t", f"wombats {n % 2} tail") for n in range(400)))
    filled.script("ANALYZE documents")
    text = full_text(filled)
    words = (Term("Wombat"), Term("zeppelin"), Term("crane"))
    about, none, few = text.counts(words, 100)
    assert 300 <= about <= 500
    assert (none, few) == (0, 3)


@pytest.mark.parametrize("shortlist", [1, 2, 100])
def test_the_best_matches_are_found_with_any_shortlist_size(
    filled: Database, monkeypatch: pytest.MonkeyPatch, shortlist: int
) -> None:
    monkeypatch.setattr("tidelore.store.reading.fulltext._SHORTLIST", shortlist)
    text = full_text(filled)
    ask = Ask((Term("crane"), Term("nothing"), Term("invoices")), counts=(3, 5, 2))
    whole = text.rank(ask, DocumentFilter(), 50)
    for wanted in (DocumentFilter(state="opened"), DocumentFilter(state="closed"), DocumentFilter(type="discussion")):
        fitting = text.fitting([scored.id for scored in whole], (), wanted)
        expected = [scored.id for scored in whole if scored.id in fitting]
        assert expected
        for limit in (1, 50):
            assert [scored.id for scored in text.rank(ask, wanted, limit)] == expected[:limit]


def test_the_count_of_a_common_term_is_estimated_from_oldest_and_newest_documents(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelore.store.reading.fulltext._SAMPLE", 4)
    monkeypatch.setattr("tidelore.store.reading.fulltext._BEYOND_DOUBT", 1)
    old = [document("discussion", 100 + n, ("issue", 1), "t", "quokka" if n < 8 else "other") for n in range(40)]
    both = [
        replace(entry, content=f"{entry.content} wombat" if n % 2 else entry.content) for n, entry in enumerate(old)
    ]
    write(filled, *both)
    text = full_text(filled)
    assert 10 < text.count(Term("wombat"), 10) < 30
    # All of them at one end: by the other end there cannot be many.
    assert 8 <= text.count(Term("quokka"), 10) <= 10
    assert text.count(Term("zeppelin"), 10) == 0


def test_filters_alone_list_the_newest_first(filled: Database) -> None:
    found = searched(filled, "", DocumentFilter(type="merge_request"))
    assert [(thread.reference, thread.further) for thread in found.threads] == [("port/harbour!1", 1)]
    assert found.threads[0].found_in == "discussion"


def test_a_result_shows_its_kind_and_where_it_was_found(filled: Database) -> None:
    found = searched(filled, "emergency brake").threads[0]
    assert (found.reference, found.type, found.found_in, found.author) == (
        "port/harbour#1",
        "issue",
        "discussion",
        "hana",
    )
    assert found.web_url == "https://forge.test/discussion/11"
    assert [found.snippet[start:end] for start, end in found.highlights] == ["emergency", "brake"]
    assert found.ranks == {"lexical": 1}


def test_pages_of_results_are_consecutive(filled: Database) -> None:
    query = parse_query("nothing quay")
    whole = find(filled, SearchRequest(query=query, mode="lexical"))
    pages = [find(filled, SearchRequest(query=query, mode="lexical", limit=1, start=start)) for start in range(4)]
    assert [thread for page in pages for thread in page.threads] == whole.threads
    assert {page.total for page in pages} == {3}


def test_semantic_and_lexical_rankings_are_fused(filled: Database) -> None:
    wanted = filled.read("SELECT id FROM documents WHERE source_type = 'merge_request'")[0][0]
    by_meaning = Nearest(wanted)
    query = parse_query("crane")
    hybrid = find(filled, SearchRequest(query=query, mode="hybrid"), by_meaning)
    assert hybrid.mode == "hybrid"
    assert hybrid.notices == ()
    assert {thread.reference for thread in hybrid.threads} == {"port/harbour#1", "port/quay#2", "port/harbour!1"}
    assert by_meaning.begun == [FilterShare()]
    semantic = find(filled, SearchRequest(query=query, mode="semantic"), by_meaning).threads
    assert [(thread.reference, thread.ranks) for thread in semantic] == [("port/harbour!1", {"semantic": 1})]
    assert semantic[0].snippet.startswith("Rewrites the metering")
    assert by_meaning.alone == [False, False], "a word of the query is in the copy"
    assert len(by_meaning.begun) == 1, "without words nothing runs beside it"


class Nearest:
    """Ranks these documents by meaning, whatever is asked; only one that words were ranked beside has begun before."""

    rrf_k = 10

    def __init__(self, *ids: int) -> None:
        self.ids = ids
        self.alone: list[bool] = []
        self.begun: list[FilterShare] = []

    def begin(self, database: Database, request: SearchRequest, share: FilterShare, depth: int) -> None:
        self.begun.append(share)

    def __call__(self, database: Database, request: SearchRequest, depth: int, *, alone: bool) -> Ranking:
        self.alone.append(alone)
        return Ranking("semantic", () if alone else self.ids, 0.7)


def document_id(database: Database, source_type: str, source_id: int) -> int:
    rows = database.read(
        "SELECT id FROM documents WHERE source_type = :type AND source_id = :id", {"type": source_type, "id": source_id}
    )
    return int(rows[0][0])


def test_a_document_with_all_words_never_ranks_below_one_with_some_of_them(filled: Database) -> None:
    # The only document with both words is long and says them once; the others shout one of them and are nearer.
    write(
        filled,
        document("issue", 1, ("issue", 1), "Notes", f"{FILLER * 60} The keyset of a pagination. {FILLER * 60}"),
        document("issue", 2, ("issue", 2), "Pagination", "Pagination, pagination, pagination."),
        document("merge_request", 1, ("merge_request", 1), "Pagination", "Pagination again."),
    )
    near = Nearest(document_id(filled, "merge_request", 1), document_id(filled, "issue", 2))
    for mode in ("lexical", "hybrid"):
        found = find(filled, SearchRequest(query=parse_query("pagination keyset"), mode=mode), near)
        assert found.threads[0].reference == "port/harbour#1", mode
        assert {found.threads[0].snippet[a:b] for a, b in found.threads[0].highlights} == {"keyset", "pagination"}
        assert found.total == len(found.threads) == 3


def test_unknown_words_without_near_matches_find_nothing_with_a_notice(filled: Database) -> None:
    near = Nearest(document_id(filled, "issue", 1))
    for mode in ("hybrid", "semantic"):
        found = find(filled, SearchRequest(query=parse_query("zzxqv wqpfk"), mode=mode), near)
        assert (found.threads, found.total) == ([], 0)
        assert any("no document contains" in notice for notice in found.notices)
    assert near.alone == [True, True]
    lexical = searched(filled, "zzxqv wqpfk")
    assert (lexical.threads, lexical.total) == ([], 0)


def test_a_document_that_is_hardly_similar_counts_only_beside_a_word(filled: Database) -> None:
    by_word, by_meaning = document_id(filled, "issue", 1), document_id(filled, "merge_request", 1)

    class Unsure(Nearest):
        def __call__(self, database: Database, request: SearchRequest, depth: int, *, alone: bool) -> Ranking:
            return Ranking("semantic", self.ids, 0.7, sure=0)

    found = find(filled, SearchRequest(query=parse_query("crane"), mode="hybrid"), Unsure(by_meaning, by_word))
    assert {thread.reference for thread in found.threads} == {"port/harbour#1", "port/quay#2"}
    assert found.total == 2
    assert found.threads[0].ranks == {"lexical": 1, "semantic": 2}


def test_a_truncated_total_is_reported_as_a_lower_bound(filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not searched(filled, "crane").is_cut
    assert searched(filled, "nothing quay").total == 3
    monkeypatch.setattr("tidelore.search.find.DEPTH", 2)
    found = searched(filled, "nothing quay")
    assert found.is_cut
    assert found.total <= 2


def test_a_changed_document_is_found_by_its_new_words_only(filled: Database) -> None:
    write(filled, document("issue", 1, ("issue", 1), "Gangway", "folded"))
    assert search(filled, "gangway") == ["port/harbour#1"]
    assert search(filled, "hangs") == []


def test_query_fields_filter_like_the_command_options(filled: Database) -> None:
    written = [
        ("type", "MR"),
        ("project", "harbour"),
        ("author", "@hana"),
        ("label", "a"),
        ("label", "b"),
        ("since", "x"),
    ]
    found = resolve_filters(filled, written, lambda _text: 7)
    assert found == DocumentFilter(type="merge_request", project_id=1, author="hana", labels=("a", "b"), since=7)
    assert resolve_filters(filled, [("state", "open"), ("state", "open")], len).state == "opened"
    assert resolve_filters(filled, [("state", "all")], len).state is None


@pytest.mark.parametrize(
    "written", [[("type", "banana")], [("state", "gone")], [("author", "a"), ("author", "b")], [("path", "x" * 5_000)]]
)
def test_invalid_query_fields_are_refused_with_a_fix(filled: Database, written: list[tuple[str, str]]) -> None:
    with pytest.raises(UserError) as refused:
        resolve_filters(filled, written, len)
    assert refused.value.fix


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(), max_size=80) | st.text("crane\"-:.*()^%_\\'{}[]+!&|<>~ \x00\n", max_size=60))
@example('"')
@example('crane" OR "x')
@example("crane AND NOT (")
@example("title:crane NEAR(a b)")
@example("\x00crane\x00")
@example("\ud800 crane")
@example("%_\\' usage/%_.py")
@example("x" * 30_000)
@example(" ".join(f"w{n}.a_b" for n in range(3_000)))
@example("-crane -- -")
@example("º ª ² ½ ﷺ \u0300abc")
def test_no_query_text_causes_a_database_error(filled: Database, text: str) -> None:
    query = parse_query(text)
    if query.is_empty:
        return
    path = text.replace("\x00", "").encode("utf-8", "ignore").decode()[:200]
    for wanted in (DocumentFilter(), DocumentFilter(labels=(path,), author=path), DocumentFilter(path=path)):
        if wanted.narrows or query.terms or query.excluded:
            find(filled, SearchRequest(query=query, wanted=wanted, mode="lexical"))


WORDS = ("crane", "cranes", "Kräne", "brake", "emergency", "the", "港", "港湾", "a", "x-ray", "\U0001f6a2")
HIGHLIGHTED = (
    "SELECT rowid, highlight(documents_fts, 1, :opening, :closing) FROM documents_fts"
    " WHERE documents_fts MATCH :expression"
)


def test_sqlite_marks_the_words_that_its_word_index_would_highlight(tmp_path: Path) -> None:
    rng = random.Random(5)
    texts = ["the crane the crane the", *(" ".join(rng.choices(WORDS, k=rng.randint(0, 12))) for _ in range(60))]
    asked = [rng.sample((*WORDS, '"emergency brake"', '"crane the crane"', '"the crane"'), 4) for _ in range(60)]
    database = SqliteDatabase(str(tmp_path / "lore.db"))
    try:
        migrate(database, 1)
        add_project(database)
        ids = range(1, len(texts) + 1)
        write(database, *(document("issue", at, ("issue", at), "A title", texts[at - 1]) for at in ids))
        for words in (['"crane the crane"', '"the crane"'], *asked):
            terms = parse_query(" ".join(words)).terms
            params = {"opening": OPENING, "closing": CLOSING, "expression": fulltext.Matching.of(Ask(terms)).several}
            rows = database.read(HIGHLIGHTED, params)
            assert full_text(database).marked(terms, ids) == {at: said for at, said in rows if OPENING in said}
    finally:
        database.close()


ODD_LABELS = (
    "type::bug", "area/ui", "v1.2.3", "C++", "größe", "needs-review", "a & b", "x@y.example", "-5", "50%", "1e5",
    "https://e.example/a?b=c", "<b>", "b>", "<a", "&amp;", "e.example", "日本 語", "it's", "a_b",
)  # fmt: skip


def test_a_filter_by_any_label_or_person_loses_no_document(filled: Database) -> None:
    """The word index narrows these filters, and it must never narrow too much."""
    one = [
        replace(document("discussion", 200 + n, ("issue", 1), "t", "quokka"), labels=(label,), participants=(label,))
        for n, label in enumerate(ODD_LABELS)
    ]
    every = replace(
        document("discussion", 300, ("issue", 1), "t", "quokka"), labels=ODD_LABELS, participants=ODD_LABELS
    )
    write(filled, *one, every)
    text, ask = full_text(filled), Ask((Term("quokka"),))
    for label in ODD_LABELS:
        for wanted in (DocumentFilter(labels=(label,)), DocumentFilter(author=label)):
            found = set(text.newest((), wanted, 99))
            assert len(found) == 2, wanted
            assert {scored.id for scored in text.rank(ask, wanted, 99)} == found
            assert set(text.containing_all(ask, wanted, 99)) == found


def test_a_word_that_is_not_its_own_stem_counts_as_much_as_one_that_is(filled: Database) -> None:
    write(filled, *(document("discussion", 400 + n, ("issue", 1), "t", w) for n, w in enumerate(("running", "gnu"))))
    text = full_text(filled)
    scores = [text.rank(Ask((Term(word),)), DocumentFilter(), 9)[0].score for word in ("running", "gnu")]
    assert scores[0] == pytest.approx(scores[1], rel=0.01)
