"""A real `lore sync`, killed while it makes documents and vectors: each source is told once, each text meant once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
from tests.crash.stage import PROJECTS, Ended, Stage, open_stage
from tests.support.deep import gate_cases

from tidelore.documents.embed import cut
from tidelore.engine.crashpoint import Seam
from tidelore.store.reading.vectors import read_texts
from tidelore_world.gitlab.state import Kind
from tidelore_world.world import World

LISTS: tuple[Kind, ...] = ("issues", "merge_requests")
ITEMS, THREADS = 4, 40
"""Items of each list, and the threads of each: together several batches of documents."""
DELETED = 3
WORDS, OVERLAP = 20, 5
"""So few that most documents are several pieces."""
SETTINGS = {
    "LORE_HTTP_PER_PAGE": "100",
    "LORE_EMBEDDING_BATCH_SIZE": "100",
    "LORE_EMBEDDING_CHUNK_WORDS": str(WORDS),
    "LORE_EMBEDDING_CHUNK_OVERLAP": str(OVERLAP),
}
Before: TypeAlias = Literal["nothing", "an older copy"]
COMMITS = (Seam.BEFORE_COMMIT, Seam.INSIDE_COMMIT, Seam.AFTER_COMMIT)
Case: TypeAlias = tuple[Seam | None, Seam, int]
"""The stage a seam is visited in, the seam, and its how manieth visit there."""
EVERY: list[Case] = [
    (None, Seam.DOCUMENTS, 1),
    (None, Seam.LEASE_RELEASED, 1),
    *((stage, seam, visit) for stage in (Seam.DOCUMENTS, Seam.LEASE_RELEASED) for seam in COMMITS for visit in (1, 3)),
    (Seam.LEASE_RELEASED, Seam.BEFORE_FINISH, 1),
]
REDUCED: list[tuple[str, Before, Case]] = [
    ("sqlite", "nothing", (None, Seam.DOCUMENTS, 1)),
    ("sqlite", "nothing", (Seam.DOCUMENTS, Seam.INSIDE_COMMIT, 3)),
    ("sqlite", "an older copy", (Seam.DOCUMENTS, Seam.AFTER_COMMIT, 1)),
    ("sqlite", "an older copy", (None, Seam.LEASE_RELEASED, 1)),
    ("sqlite", "an older copy", (Seam.LEASE_RELEASED, Seam.INSIDE_COMMIT, 3)),
    ("postgres", "an older copy", (Seam.LEASE_RELEASED, Seam.INSIDE_COMMIT, 1)),
    ("sqlite", "nothing", (Seam.LEASE_RELEASED, Seam.AFTER_COMMIT, 1)),
]


def name_of(part: str | Case) -> str:
    """The id of a part of a case."""
    if isinstance(part, str):
        return part.replace(" ", "-")
    within, seam, visit = part
    return f"{seam}-{visit}" if within is None else f"{within}-{seam}-{visit}"


@dataclass(frozen=True)
class Telling:
    """What is told of the copy at one instant: each document and its pieces, by the hash of their content."""

    documents: dict[int, tuple[bytes, int]]
    """Hash, and when it was written."""
    pieces: dict[tuple[int, int], tuple[bytes, bytes]]
    """By document and position: the hash of the document it was cut from, and its own."""

    @classmethod
    def of(cls, stage: Stage) -> Telling:
        documents = stage.rows("SELECT id, content_hash, generated_at FROM documents")
        pieces = stage.rows("SELECT document_id, position, content_hash, chunk_hash FROM embeddings")
        return cls(
            {row_id: (bytes(value), at) for row_id, value, at in documents},
            {(row_id, place): (bytes(whole), bytes(own)) for row_id, place, whole, own in pieces},
        )

    @property
    def embedded(self) -> set[tuple[int, bytes]]:
        """The documents whose vectors are those of their content."""
        current = {(row_id, value) for row_id, (value, _) in self.documents.items()}
        return current & {(row_id, whole) for (row_id, _), (whole, _) in self.pieces.items()}

    def since(self, before: Telling) -> Work:
        own = {(*key, piece) for key, (_, piece) in self.pieces.items()}
        return Work(
            written=len(set(self.documents.items()) - set(before.documents.items())),
            removed=len(before.documents.keys() - self.documents.keys()),
            embedded=len(self.embedded - before.embedded),
            chunks=len(own - {(*key, piece) for key, (_, piece) in before.pieces.items()}),
        )


NOTHING = Telling({}, {})


@dataclass(frozen=True)
class Work:
    """What a process did for documents and vectors."""

    written: int
    removed: int
    embedded: int
    chunks: int

    @classmethod
    def told_by(cls, ended: Ended) -> Work:
        texts, vectors = ended.data["documents"], ended.data["embeddings"]
        return cls(texts["regenerated"], texts["removed"], vectors["embedded"], vectors["chunks"])

    def __add__(self, other: Work) -> Work:
        return Work(
            self.written + other.written,
            self.removed + other.removed,
            self.embedded + other.embedded,
            self.chunks + other.chunks,
        )


def build_world() -> World:
    world = World()
    for path in PROJECTS:
        world.gitlab.create_project(path)
        world.gitlab.bulk(path, ITEMS, ITEMS, discussions=THREADS, notes=1, files=2)
    world.advance(3600)
    return world


def change_the_world(world: World) -> None:
    """Retitle all issues, which all their threads repeat; revise all merge requests, which none of theirs does.

    Some threads go, and some are new.
    """
    forge = world.gitlab
    with world.lock:
        world.advance(3600)
        for path in PROJECTS:
            for issue in list(forge.project(path).issues):
                for discussion in issue.discussions[:DELETED]:
                    forge.delete_note(issue, discussion.notes[0])
                forge.add_note(issue, "The tide tables of the old harbour office are the ones to trust.")
                forge.edit_issue(path, issue.iid, title=f"Harbour matters, part {issue.iid}")
            for request in list(forge.project(path).merge_requests):
                forge.edit_merge_request(path, request.iid, description="Only the description is another.")
        world.advance(3600)


@pytest.fixture
def staged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str, Before], Stage]]:
    """The world beside a database of the dialect a case names; nothing is in it, or a copy that is behind."""
    with ExitStack() as stack:

        def stage(dialect: str, before: Before) -> Stage:
            address = request.getfixturevalue(f"migrated_{dialect}_address")
            opened = stack.enter_context(open_stage(address, tmp_path, build_world(), SETTINGS))
            lay_the_ground(opened, before)
            return opened

        yield stage


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Before], Work]:
    """What a sync that nothing disturbed does, measured once for each ground it starts from."""
    measured: dict[Before, Work] = {}

    def measure(before: Before) -> Work:
        if before not in measured:
            folder = tmp_path_factory.mktemp("uninterrupted")
            with open_stage(str(folder / "lore.db"), folder, build_world(), SETTINGS) as stage:
                lay_the_ground(stage, before)
                measured[before] = Work.told_by(stage.lore("sync", "--robot"))
                assert_everything_is_told(stage)
        return measured[before]

    return measure


def lay_the_ground(stage: Stage, before: Before) -> None:
    if before == "an older copy":
        assert stage.lore("sync").code == 0
        change_the_world(stage.world)


@pytest.mark.deep
def test_an_undisturbed_sync_builds_and_embeds_only_changed_documents(
    uninterrupted: Callable[[Before], Work],
) -> None:
    parents = len(PROJECTS) * len(LISTS) * ITEMS
    first, second = uninterrupted("nothing"), uninterrupted("an older copy")
    assert first.written == first.embedded == parents * (1 + THREADS)
    assert first.chunks > 2 * first.embedded
    assert second.written == second.embedded == parents // 2 * (1 + THREADS - DELETED + 1) + parents // 2
    assert second.removed == parents // 2 * DELETED
    assert second.chunks < second.embedded * first.chunks / first.embedded, "pieces that are the same were made anew"


@pytest.mark.parametrize(("dialect", "before", "case"), REDUCED, ids=name_of)
@gate_cases(3)
def test_a_sync_killed_while_building_documents_or_vectors_continues(
    staged: Callable[[str, Before], Stage],
    uninterrupted: Callable[[Before], Work],
    dialect: str,
    before: Before,
    case: Case,
) -> None:
    die_and_go_on(staged(dialect, before), before, case, uninterrupted(before))


@pytest.mark.deep
@pytest.mark.parametrize("before", ["nothing", "an older copy"])
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
@pytest.mark.parametrize("case", EVERY, ids=name_of)
def test_a_sync_killed_at_every_document_and_vector_seam_continues(
    staged: Callable[[str, Before], Stage],
    uninterrupted: Callable[[Before], Work],
    case: Case,
    dialect: str,
    before: Before,
) -> None:
    die_and_go_on(staged(dialect, before), before, case, uninterrupted(before))


@pytest.mark.deep
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_sync_killed_at_every_commit_still_counts_all_work(
    staged: Callable[[str, Before], Stage], uninterrupted: Callable[[Before], Work], dialect: str
) -> None:
    stage = staged(dialect, "an older copy")
    start, deaths = Telling.of(stage), 0
    while stage.lore_killed_at(Seam.AFTER_COMMIT, 1, "sync", after=Seam.DOCUMENTS).code == -signal.SIGKILL:
        deaths += 1
        assert deaths < 40, "the stages do not get on"
    assert deaths >= 5
    assert Telling.of(stage).since(start) == uninterrupted("an older copy")
    assert_everything_is_told(stage)


@pytest.mark.parametrize("seam", [Seam.BEFORE_COMMIT, Seam.AFTER_COMMIT])
@gate_cases(1)
def test_chunks_of_changed_settings_are_all_replaced_despite_a_kill(
    staged: Callable[[str, Before], Stage], seam: Seam
) -> None:
    stage = staged("sqlite", "nothing")
    assert stage.lore("sync").code == 0
    otherwise = {"LORE_EMBEDDING_CHUNK_WORDS": str(2 * WORDS)}
    killed = stage.lore_killed_at(seam, 1, "sync", after=Seam.LEASE_RELEASED, environ=otherwise)
    assert killed.code == -signal.SIGKILL, killed
    assert stage.lore("sync", environ=otherwise).code == 0
    assert_everything_is_told(stage, 2 * WORDS)


@pytest.mark.parametrize("stage_of_the_run", [Seam.DOCUMENTS, Seam.LEASE_RELEASED])
@gate_cases(1)
def test_an_interrupted_run_counts_the_documents_and_vectors_made_before(
    staged: Callable[[str, Before], Stage], stage_of_the_run: Seam
) -> None:
    stage = staged("sqlite", "nothing")
    ended = stage.lore_killed_at(Seam.AFTER_COMMIT, 1, "sync", after=stage_of_the_run, by=signal.SIGINT)
    assert ended.code == 130, ended
    made = Telling.of(stage).since(NOTHING)
    assert made.written > 0
    assert (made.embedded > 0) is (stage_of_the_run is Seam.LEASE_RELEASED)
    ((status, written, embedded, finished_at),) = stage.rows(
        "SELECT status, docs_regenerated, docs_embedded, finished_at FROM sync_runs"
    )
    assert (status, written, embedded) == ("cancelled", made.written, made.embedded)
    assert finished_at is not None


def die_and_go_on(stage: Stage, before: Before, case: Case, whole: Work) -> None:
    """Kill a sync at one place, start it again, and compare what both did with one that nothing disturbed."""
    within, seam, visit = case
    start = Telling.of(stage) if before == "an older copy" else NOTHING
    killed = stage.lore_killed_at(seam, visit, "sync", after=within)
    assert killed.code == -signal.SIGKILL, killed
    left = Telling.of(stage)
    done = left.since(start)
    embedding = Seam.LEASE_RELEASED in {within, seam}
    assert (done.written == whole.written) is embedding

    restarted = stage.lore("sync", "--robot")

    assert restarted.code == 0, restarted
    assert restarted.data["lease"] == ("free" if embedding else "dead")
    assert stage.run_statuses()[-2:] == ["crashed", "succeeded"]
    assert done + Work.told_by(restarted) == whole
    assert Telling.of(stage).since(start) == whole
    kept = left.documents.items() & Telling.of(stage).documents.items()
    assert len(kept) >= done.written, "a document was written twice"
    (ledger,) = stage.rows("SELECT docs_regenerated, docs_embedded FROM sync_runs ORDER BY id DESC LIMIT 1")
    assert ledger == (Work.told_by(restarted).written, Work.told_by(restarted).embedded)
    assert_everything_is_told(stage)


def assert_everything_is_told(stage: Stage, words: int = WORDS) -> None:
    """Each source has its document, each document its index entries and its vectors, and nothing else has any."""
    for resource in LISTS:
        stage.assert_copy_is_true(resource)
    assert stage.rows("SELECT * FROM dirty_sources") == []
    with stage.database() as database:
        if database.dialect == "sqlite":
            with database.transaction() as tx:
                for index in ("documents_fts", "documents_trigram"):
                    # With 1, the index is compared with the table it is of.
                    tx.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
        ids = [row_id for (row_id,) in database.read("SELECT id FROM documents")]
        expected = {
            (text.id, place): (text.content_hash, own)
            for text in read_texts(database, ids)
            for place, own in enumerate(cut(text, {}, words, OVERLAP).hashes)
        }
    assert Telling.of(stage).pieces == expected
    assert len(ids) == count_sources(stage)
    looked_at = stage.lore("generate-docs", "--full", "--robot").data
    assert looked_at == {"regenerated": 0, "unchanged": len(ids), "removed": 0, "failed": 0}


def count_sources(stage: Stage) -> int:
    """Return how many documents the forge is worth: one for each item, and for each thread that holds a word."""
    forge, count = stage.world.gitlab, 0
    with stage.world.lock:
        for resource in LISTS:
            for path in PROJECTS:
                by_item = forge.truth_all_discussions(resource, path)
                said = [any(not note["system"] for note in t["notes"]) for found in by_item.values() for t in found]
                count += len(by_item) + sum(said)
    return count
