"""Documents to search: many of a set size for the clock, few with known answers for the quality.

Owns the texts and how they get into a copy: through the store's own writer, so every index is the product's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import apsw
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.docstrings import read_library
from benchmarks.languages import ASKED, TOLD, read_reference
from tidelore.core.model import Document, ProjectRecord
from tidelore.search.query import STOP_WORDS
from tidelore.store.database.migrate import migrate
from tidelore.store.database.opening import open_database
from tidelore.store.database.port import Database
from tidelore.store.mirror.documents import DocumentSource, write_documents
from tidelore.store.mirror.projects import save_project
from tidelore_world.prose import Prose
from tidelore_world.prose.stories import STORIES

WORDS = 200
THREADS_OF = 4
VOCABULARY = 40_000
BEGAN = 1_700_000_000_000
MINUTE = 60_000
_BATCH = 2_000
_CONSONANTS, _VOWELS = "bcdfghklmnprstvz", "aeiou"


class Question(Struct, frozen=True):
    """Words to search by, and the threads that answer."""

    text: str
    answers: frozenset[int]


def fill(path: Path, count: int) -> list[str]:
    """Make a copy with this many documents and return typical queries: 3 to 8 telling words of one of them."""
    rng = random.Random(20_260_302)
    documents = list(documents_of(rng, count))
    store(path, documents)
    chosen = rng.sample(documents, min(300, count))
    return [" ".join(rng.sample(_telling(document.content), rng.randint(3, 8))) for document in chosen]


def fill_with_stories(path: Path, topics_each: int) -> dict[str, list[Question]]:
    """Make a copy of the simulator's decisions without their titles; return questions by how they are put.

    A title is the one its own thread had; a paraphrase is another title of the same story, in other words.
    """
    prose = Prose(random.Random(7))
    documents: list[Document] = []
    threads: dict[str, list[int]] = {}
    titles: dict[str, list[str]] = {}
    while len(threads) < len(STORIES) or min(map(len, threads.values())) < topics_each:
        topic = prose.topic()
        slug = topic.story.slug
        if len(threads.setdefault(slug, [])) == topics_each:
            continue
        thread = len(titles.setdefault("all", [])) + 1
        titles["all"].append(topic.title)
        threads[slug].append(thread)
        texts = [prose.issue_body(topic)]
        texts += ["\n\f\n".join(turn.body for turn in prose.thread(topic, 4)) for _ in range(THREADS_OF - 1)]
        number = (thread - 1) * THREADS_OF
        documents += [document(number + place, thread, "", text) for place, text in enumerate(texts, 1)]
    store(path, documents)
    stories = {thread: slug for slug, members in threads.items() for thread in members}
    own = [Question(title, frozenset(threads[stories[thread]])) for thread, title in enumerate(titles["all"], 1)]
    others = [
        Question(wording, frozenset(threads[story.slug]))
        for story in STORIES
        for wording in (*story.titles, *story.changes)
        if "{" not in wording
    ]
    return {"its title": own, "a paraphrase": others}


def fill_with_docstrings(path: Path) -> dict[str, list[Question]]:
    """Make a copy of what the standard library describes, without the first sentences; those are the questions.

    Objects whose first sentences read the same answer each other's question.
    """
    objects = read_library()
    documents = [
        replace(
            document(number, number, "", f"{found.signature}\n\n{found.details}"),
            source_type="issue",
            identifiers=(found.name,),
        )
        for number, found in enumerate(objects, 1)
    ]
    store(path, documents)
    answers: dict[str, list[int]] = {}
    for number, found in enumerate(objects, 1):
        answers.setdefault(found.question, []).append(number)
    return {"its first sentence": [Question(text, frozenset(numbers)) for text, numbers in answers.items()]}


def fill_with_languages(path: Path) -> dict[str, list[Question]]:
    """Make a copy of conversations in three languages among the paragraphs of the language reference."""
    reference = read_reference()
    told = [document(number, number, "", f"{title}. {text}") for number, (title, text) in enumerate(TOLD, 1)]
    rest = [document(number, number, "", text) for number, (_, text) in enumerate(reference, len(TOLD) + 1)]
    store(path, [replace(entry, source_type="issue") for entry in (*told, *rest)])
    own = [Question(text, frozenset({number + 1})) for text, number in ASKED]
    asked = [Question(first, frozenset({number})) for number, (first, _) in enumerate(reference, len(TOLD) + 1)]
    return {"a question in German, Japanese or Chinese": own, "the first sentence of a paragraph": asked}


def document(number: int, thread: int, title: str, content: str) -> Document:
    """Return a document of an issue, or of a discussion of one."""
    return Document(
        source_type="issue" if number % THREADS_OF == 1 else "discussion",
        source_id=number,
        project_id=1,
        thread_type="issue",
        thread_id=thread,
        title=title,
        state="opened" if thread % 3 else "closed",
        author_username="mira",
        participants=("mira", "jonas"),
        labels=("bug", "ledger") if thread % 5 else ("infra",),
        paths=(),
        identifiers=(f"services/part{thread % 900}/file{number % 70}.py",),
        content=content,
        url=None,
        created_at=BEGAN,
        updated_at=BEGAN + number * MINUTE,
    )


def store(path: Path, documents: Sequence[Document]) -> None:
    """Write documents, and the issues they belong to, into a new copy."""
    create(path)
    database = open_database(str(path))
    try:
        for start in range(0, len(documents), _BATCH):
            write(database, documents[start : start + _BATCH])
    finally:
        database.close()
    _add_issues(path, sorted({entry.thread_id for entry in documents}))


def create(path: Path) -> None:
    """Make an empty copy with one project."""
    database = open_database(str(path))
    try:
        migrate(database, 1)
        with database.transaction() as tx:
            save_project(tx, "gitlab", "port/ledger", ProjectRecord(1, "port/ledger", "ledger", None, False), 1)
    finally:
        database.close()


def write(database: Database, entries: Sequence[Document]) -> None:
    """Write documents in one transaction."""
    with database.transaction() as tx:
        write_documents(tx, [DocumentSource(entry.source_type, entry.source_id) for entry in entries], entries, 1)


def _add_issues(path: Path, ids: Sequence[int]) -> None:
    connection = apsw.Connection(str(path))
    with connection:
        connection.execute(
            "INSERT INTO raw_payloads (id, content_hash, resource_type, remote_id, encoding, payload, fetched_at)"
            " VALUES (1, x'00', 'issue', '1', 'identity', x'7b7d', 1)"
        )
        connection.executemany(
            "INSERT INTO issues (id, remote_id, project_id, iid, title, state, created_at, updated_at, last_seen_at,"
            " content_hash, raw_payload_id) VALUES (?1, ?1, 1, ?1, '', 'opened', 1, 1, 1, x'00', 1)",
            ((row_id,) for row_id in ids),
        )
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def documents_of(rng: random.Random, count: int) -> Iterator[Document]:
    """Yield documents: half of each is the simulator's prose, half words of every rarity."""
    prose = Prose(random.Random(11))
    topics = [prose.topic() for _ in range(1_000)]
    spoken = [prose.issue_body(topic).split() for topic in topics]
    vocabulary = [_word(rng) for _ in range(VOCABULARY)]
    weights = list(accumulate(1 / (place + 10) for place in range(VOCABULARY)))
    for number in range(1, count + 1):
        words = spoken[rng.randrange(len(spoken))][: WORDS // 2]
        words = words + rng.choices(vocabulary, cum_weights=weights, k=WORDS - len(words))
        rng.shuffle(words)
        thread = (number - 1) // THREADS_OF + 1
        title = topics[thread % len(topics)].title
        yield document(number, thread, title, " ".join(words))


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.choice((2, 3, 3, 4))))


def _telling(content: str) -> list[str]:
    return [word for word in content.split() if word.isalpha() and word.lower() not in STOP_WORDS]
