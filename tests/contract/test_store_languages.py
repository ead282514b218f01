"""Search in other languages, and with typing errors, on both databases: small sets with known answers."""

from __future__ import annotations

import pytest
from tests.contract.test_store_fulltext import document, write
from tests.databases.samples import add_project, issue
from tests.databases.talk import keep

from tidelore.search.find import SearchRequest, SearchResults, find
from tidelore.search.query import parse_query
from tidelore.search.spelling import Correction, correct
from tidelore.store.database.port import Database
from tidelore.store.mirror.documents import remove_documents, write_documents
from tidelore.store.mirror.parents import ISSUES
from tidelore.store.reading.found_documents import full_text
from tidelore.store.reading.fulltext import DocumentFilter, Term

TEXTS = {
    1: ("港のクレーンが停止する", "夜間に岸壁クレーンの非常ブレーキが作動し、荷役が東京港で止まりました。"),
    2: ("泊位起重机停止运行", "夜班时紧急制动器误触发，导致码头装卸作业中断。请检查GitLab流水线的配置。"),
    3: ("부두 크레인이 멈춤", "야간에 비상 브레이크가 작동하여 컨테이너 하역이 중단되었습니다."),
    4: (
        "Hafenkransteuerung fällt aus",
        "Die Notbremse der Kransteuerung löst beim Schichtwechsel aus, Größe der Last egal.",
    ),
    5: ("Le café du quai", "La grue a été arrêtée après la vérification des câbles."),
    6: ("The emergency brake engages at night", "Containers cannot be unloaded until the crane operator restarts it."),
}


@pytest.fixture
def copy(database: Database) -> Database:
    """One issue in each of six languages."""
    keep(database, add_project(database), ISSUES, [issue(number) for number in TEXTS])
    with database.transaction() as tx:
        tx.execute("DELETE FROM dirty_sources")
    write(database, *(document("issue", number, ("issue", number), *text) for number, text in TEXTS.items()))
    return database


def search(database: Database, text: str) -> SearchResults:
    return find(database, SearchRequest(query=correct(database, parse_query(text)).query, mode="lexical"))


def numbers(database: Database, text: str) -> list[int | None]:
    return [thread.iid for thread in search(database, text).threads]


def test_unspaced_text_is_found_by_any_part_of_a_sentence(copy: Database) -> None:
    asked = {
        "クレーン": [1], "東京": [1], "京港": [1], "ブレーキ": [1], "非常ブレーキ": [1], "役": [1], "た": [1],
        "起重机": [2], "制动器": [2], "码头装卸": [2], "断": [2], "GitLab": [2], "流水线": [2], "gitlab流水线": [2],
        "크레인": [3], "브레이크": [3], "크레인을": [3], "중단": [3], '"비상 브레이크"': [3],
        "ｸﾚｰﾝ": [1], "港口": [], "東港": [], '"港 岸壁"': [1],
    }  # fmt: skip
    assert {text: numbers(copy, text) for text in asked} == asked


def test_a_question_without_spaces_finds_documents_that_share_its_parts(copy: Database) -> None:
    assert numbers(copy, "なぜ夜間にクレーンが動かないのですか") == [1]
    assert numbers(copy, "为什么夜班的装卸作业不能进行") == [2]


def test_an_unspaced_word_can_be_excluded(copy: Database) -> None:
    assert numbers(copy, "非常 -東京") == []
    assert numbers(copy, "非常 -大阪") == [1]


def test_a_snippet_shows_the_unspaced_hit(copy: Database) -> None:
    write(
        copy,
        document("issue", 1, ("issue", 1), "長文", "無関係な文。" * 200 + "ここで東京港が出る。" + "終わり。" * 200),
    )
    found = search(copy, "東京港").threads[0]
    assert [found.snippet[start:end] for start, end in found.highlights] == ["東京港"]
    assert len(found.snippet) < 300


def test_accents_do_not_matter_in_either_direction(copy: Database) -> None:
    asked = {"cafe": [5], "café": [5], "CAFÉ": [5], "verification": [5], "cables": [5], "größe": [4]}
    # Only accents are ignored: ß and ss are different letters.
    asked |= {"große": [4], '"loest"': [], '"grosse"': []}
    assert {text: numbers(copy, text) for text in asked} == asked


def test_a_compound_is_found_by_its_parts_after_whole_words(copy: Database) -> None:
    assert numbers(copy, "Steuerung") == [4]
    assert numbers(copy, "Kran") == [4]
    assert numbers(copy, "bremse") == [4]
    write(copy, document("issue", 6, ("issue", 6), "Der Kran", "steht."))
    assert numbers(copy, "kran") == [6, 4]


def test_a_mistyped_word_finds_the_nearest_word(copy: Database) -> None:
    asked = [
        ("emergncy", "emergency", 6),
        ("emregency", "emergency", 6),
        ("xmergency", "emergency", 6),
        ("emargancy", "emergency", 6),
        ("brkae", "brake", 6),
        ("contaniers", "containers", 6),
        ("notbrense", "notbremse", 4),
        ("verifikation", "verification", 5),
    ]
    for written, used, number in asked:
        corrected = correct(copy, parse_query(f"{written} qqqqqqqq"))
        assert corrected.corrections == (Correction(written, used),)
        assert corrected.query.terms == (Term(used), Term("qqqqqqqq"))
        assert corrected.query.text == f"{used} qqqqqqqq"
        assert numbers(copy, written)[0] == number


def test_known_words_quoted_words_and_distant_words_are_not_corrected(copy: Database) -> None:
    for text in ("emergency", '"emergncy"', "emxrgxncx", "bra", "brk4e", "-emergncy crane", "restarted"):
        query = parse_query(text)
        assert correct(copy, query).query is query


def test_of_equally_near_words_the_commoner_one_with_the_same_beginning_is_used(copy: Database) -> None:
    write(
        copy,
        document("discussion", 11, ("issue", 1), "t", "brakes everywhere"),
        document("discussion", 12, ("issue", 1), "t", "drade drade"),
        document("discussion", 13, ("issue", 1), "t", "drade brabe"),
    )
    assert correct(copy, parse_query("brade")).corrections == (Correction("brade", "brake"),)


def test_words_of_a_changed_or_deleted_document_are_forgotten_unless_others_have_them(copy: Database) -> None:
    def known() -> set[str]:
        return {word for (word,) in copy.read("SELECT word FROM document_words")}

    assert {"hafenkransteuerung", "große", "cafe", "emergency"} <= known()
    write(copy, document("issue", 5, ("issue", 5), "The emergency is over", "Nothing else."))
    assert "cafe" not in known()
    with copy.transaction() as tx:
        remove_documents(tx, "issue", [4, 6])
    left = known()
    assert not left & {"hafenkransteuerung", "notbremse", "containers", "brake"}
    assert "emergency" in left
    with copy.transaction() as tx:
        write_documents(tx, [], [], 1)
    assert known() == left


def test_a_filter_by_an_unspaced_label_or_author_is_exact(copy: Database) -> None:
    text = full_text(copy)
    assert text.newest((), DocumentFilter(labels=("港a",)), 5) == []
    assert text.newest((), DocumentFilter(author="港a"), 5) == []
