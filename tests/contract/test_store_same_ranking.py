"""Both databases find the same documents for the same words, with the same scores."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace
from tests.contract.test_store_fulltext import document, write
from tests.contract.test_store_languages import TEXTS
from tests.databases.postgres_server import PostgresServer
from tests.databases.samples import add_older_project, add_project

from tidelore.core.model import Document
from tidelore.search.lexical import rank_lexical
from tidelore.search.query import parse_query
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.reading.found_documents import full_text
from tidelore.store.reading.fulltext import Ask, DocumentFilter, Term

TEXT = (
    "crane cranes craning berth berths the of and running runs run generally generalization invoices billing billed"
    " os.path.join services/billing/usage.py don't it's user@example.org https://e.example/a?b=c v1.2.3 3rd utf8 x-ray"
    " snake_case camelCase naïve café größe “quoted” — 2024-01-02 a/b <b>bold</b> &amp; C++ §5 ships→quay 🚢boat"
)
WORDS = TEXT.split()
SINGLE = (
    "crane", "berth", "the", "run", "generalize", "bill", "path", "join", "usage", "don", "t", "user", "example",
    "https", "v1", "2", "3rd", "utf8", "ray", "snake", "case", "camelcase", "naive", "CAFÉ", "größe", "quoted", "2024",
    "bold", "b", "amp", "c", "5", "quay", "boat", "mira", "jonas", "bug", "harbour", "of",
)  # fmt: skip


def corpus() -> list[Document]:
    """Return documents of all lengths, with words in every column, and one in each of six languages."""
    rng = random.Random(20)
    documents = [
        replace(
            document(
                "issue",
                number,
                ("issue", number),
                " ".join(rng.choices(WORDS, k=rng.randint(0, 6))),
                " ".join(
                    rng.choices(WORDS, weights=[1 / at for at in range(1, len(WORDS) + 1)], k=rng.randint(1, 120))
                ),
            ),
            labels=tuple(rng.sample(("bug", "crane", "type::bug", "harbour quay", "running"), rng.randint(0, 2))),
            participants=tuple(rng.sample(("mira", "jonas", "crane", "bug"), rng.randint(1, 2))),
        )
        for number in range(10, 130)
    ]
    return documents + [document("issue", number, ("issue", number), *text) for number, text in TEXTS.items()]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer) -> Iterator[list[Database]]:
    """SQLite and PostgreSQL with the same documents."""
    path = str(tmp_path_factory.mktemp("same") / "lore.db")
    with (
        postgres_server.fresh_database() as address,
        closing(open_database(path)) as sqlite,
        closing(open_database(address)) as postgres,
    ):
        for database in (sqlite, postgres):
            migrate(database, 1)
            add_project(database)
            write(database, *corpus())
        yield [sqlite, postgres]


def scores(database: Database, *terms: Term) -> dict[int, float]:
    """Return the score of every document with one of the terms."""
    text = full_text(database)
    ask = Ask(terms, counts=tuple(text.counts(terms, 1_000)))
    return {scored.id: scored.score for scored in text.rank(ask, DocumentFilter(), 1_000)}


def test_a_word_is_found_in_the_same_documents_and_scores_the_same(both: list[Database]) -> None:
    for word in SINGLE:
        expected, found = (scores(database, Term(word)) for database in both)
        assert expected, word
        assert found == pytest.approx(expected, rel=0.001, abs=1e-5), word


def test_several_words_score_the_same_together(both: list[Database]) -> None:
    rng = random.Random(21)
    for _ in range(40):
        terms = tuple(Term(word) for word in rng.sample(SINGLE, rng.randint(2, 6)))
        expected, found = (scores(database, *terms) for database in both)
        assert found == pytest.approx(expected, rel=0.001, abs=1e-5), terms


@pytest.mark.parametrize(
    "phrase",
    ["os.path.join", "services/billing/usage.py", "the crane", "クレーン", "起重机", "브레이크", "役", "v1.2.3"],
)
def test_a_phrase_is_found_in_the_same_documents(both: list[Database], phrase: str) -> None:
    expected, found = (scores(database, Term(phrase, is_phrase=True)) for database in both)
    assert expected
    assert found.keys() == expected.keys()


def test_a_query_gives_the_same_first_ten(both: list[Database]) -> None:
    rng = random.Random(22)
    for _ in range(60):
        query = parse_query(" ".join(rng.sample(SINGLE, rng.randint(1, 5))))
        expected, found = (rank_lexical(database, query, DocumentFilter()).ranking for database in both)
        assert found.strengths[:10] == pytest.approx(expected.strengths[:10], rel=0.001, abs=1e-5), query
        assert set(found.ids) == set(expected.ids), query
        # Documents whose scores are nearly the same may change places.
        strengths = dict(zip(expected.ids, expected.strengths, strict=True))
        told = [strengths[row_id] for row_id in found.ids[:10]]
        assert told == pytest.approx(expected.strengths[:10], rel=0.001, abs=1e-5), query


def test_migration_6_makes_words_of_older_documents_findable(postgres_server: PostgresServer) -> None:
    with postgres_server.fresh_database() as address, closing(open_database(address)) as database:
        migrate(database, 1, upto=5)
        add_older_project(database)
        older = document("issue", 1, ("issue", 1), "Crane", "os.path.join fails in services/billing/usage.py")
        write(database, replace(older, labels=("bug",)))
        assert migrate(database, 1, upto=6) == [6]
        for word in ("crane", "join", "billing", "mira", "bug"):
            assert len(scores(database, Term(word))) == 1, word


def test_documents_are_indexed_without_a_search_path_as_when_a_backup_is_restored(both: list[Database]) -> None:
    _, postgres = both
    before = postgres.read("SELECT id, search_vector::text FROM documents ORDER BY id")
    postgres.script("SET search_path = ''")
    try:
        postgres.script("UPDATE public.documents SET title = title || ''")
    finally:
        postgres.script("RESET search_path")
    assert postgres.read("SELECT id, search_vector::text FROM documents ORDER BY id") == before
