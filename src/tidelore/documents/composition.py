"""Compose the text of a document from stored rows. Pure.

The parts of a thread are separated by form feeds, which readers and indexes treat as white space and the chunker as
boundaries.
"""

from __future__ import annotations

import re

from tidelore.core.clock import format_instant
from tidelore.core.model import Document
from tidelore.core.text import without_own_mark
from tidelore.store.reading.documents import (
    NoteSource,
    ParentSource,
    PostSource,
    SharedLink,
    ThreadSource,
    TopicCommentSource,
    TopicSource,
)

PART = "\n\f\n"
_RUN = re.compile(r"[\w./:-]+")
_IDENTIFIER = re.compile(
    r"[A-Za-z_][\w-]*(?:(?:::|[./:])[\w-]+)+/?"  # a path, a module, a method
    r"|[A-Za-z]\w*_\w+"  # snake_case
    r"|[a-z]+[A-Z]\w+|[A-Z][a-z0-9]+[A-Z]\w*"  # camelCase, CamelCase
    r"|[A-Z]{2,}-\d+"  # TICKET-12
)
_MOST_IDENTIFIERS = 400
_LONGEST_IDENTIFIER = 256
"""Longer than any path. Matching tries every start position, so a very long run of characters must be cut."""
_LONGEST_WORD = 512
"""Longer than any URL that people read. PostgreSQL parses a word like `a_a_a_…` in quadratic time (60,000 characters
take 16 s), and a snippet cannot be shorter than one word."""
_IN_WORDS = r"[\w./~:@%&?=+#-]"
_ENDLESS_WORD = re.compile(rf"(?<!{_IN_WORDS})({_IN_WORDS}{{{_LONGEST_WORD}}}){_IN_WORDS}+")


def compose_parent(source_type: str, parent: ParentSource) -> Document:
    """Return the document of an issue or merge request: its description. Its discussions are separate documents."""
    people = dict.fromkeys([name for name in (parent.author_username, *parent.people) if name])
    content = without_endless_words(parent.description or "")
    return Document(
        source_type=source_type,
        source_id=parent.id,
        project_id=parent.project_id,
        thread_type=source_type,
        thread_id=parent.id,
        title=without_endless_words(parent.title),
        state=parent.state,
        author_username=parent.author_username,
        participants=tuple(people),
        labels=parent.labels,
        paths=parent.paths,
        identifiers=identifiers((*parent.paths, parent.title, content)),
        content=content,
        url=parent.url,
        created_at=parent.created_at,
        updated_at=parent.updated_at,
    )


def compose_thread(thread: ThreadSource) -> Document:
    """Return the document of a discussion: its notes in order, with their authors and the lines they refer to."""
    parent, notes = thread.parent, thread.notes
    paths = dict.fromkeys(path for note in notes for path in (note.new_path, note.old_path) if path)
    content = without_endless_words(PART.join(_said(note) for note in notes))
    first = notes[0]
    return Document(
        source_type="discussion",
        source_id=thread.id,
        project_id=parent.project_id,
        thread_type=thread.parent_type,
        thread_id=parent.id,
        title=without_endless_words(parent.title),
        state=parent.state,
        author_username=first.author_username,
        participants=tuple(dict.fromkeys(note.author_username for note in notes if note.author_username)),
        labels=parent.labels,
        paths=tuple(paths),
        identifiers=identifiers((*paths, content)),
        content=content,
        url=first.url or (f"{parent.url}#note_{first.remote_id}" if parent.url else None),
        created_at=first.created_at,
        updated_at=max(note.updated_at for note in notes),
    )


def compose_topic(topic: TopicSource) -> Document:
    """Return the document of a topic: its text and all its comments, with their authors.

    Its category is a label, so that it can be found and filtered by it.
    """
    people = (topic.author_username, *(comment.author_username for comment in topic.comments))
    parts = [topic.body or "", *(_commented(comment) for comment in topic.comments)]
    content = without_endless_words(PART.join(part for part in parts if part))
    return Document(
        source_type="topic",
        source_id=topic.id,
        project_id=topic.project_id,
        thread_type="topic",
        thread_id=topic.id,
        title=without_endless_words(topic.title),
        state=topic.state,
        author_username=topic.author_username,
        participants=tuple(dict.fromkeys(name for name in people if name)),
        labels=(topic.category,) if topic.category else (),
        paths=(),
        identifiers=identifiers((topic.title, content)),
        content=content,
        url=topic.url,
        created_at=topic.created_at,
        updated_at=topic.updated_at,
    )


def compose_post(post: PostSource) -> Document:
    """Return the document of a post: its text, the alt text of its images, its tags, its labels, and its links.

    The post can be found by any part of a link's URL, and filtered by tag and label.
    """
    urls = tuple(link.url for link in post.links)
    words = " ".join([*(f"#{tag}" for tag in post.tags), *(f"label:{label}" for label in post.labels)])
    said = [post.text, *post.alt_text, words]
    content = without_endless_words(
        PART.join([*(part for part in said if part), *(_linked(link) for link in post.links)])
    )
    return Document(
        source_type="post",
        source_id=post.id,
        project_id=None,
        thread_type="post",
        thread_id=post.id,
        title=f"@{post.author}",
        state=post.kind,
        author_username=post.author,
        participants=(post.author,),
        labels=tuple(dict.fromkeys([*post.tags, *post.labels])),
        paths=(),
        identifiers=tuple(dict.fromkeys([*urls, *identifiers((post.text,))]))[:_MOST_IDENTIFIERS],
        content=content,
        url=post.url,
        created_at=post.created_at,
        updated_at=post.sort_at if post.edited_at is None else max(post.sort_at, post.edited_at),
    )


def without_endless_words(text: str) -> str:
    """Truncate dumps and other extremely long words in a text; the text after them is kept."""
    return _ENDLESS_WORD.sub(r"\1…", text)


def identifiers(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths and identifiers in texts, each once; search finds them by any substring."""
    found: dict[str, None] = {}
    for text in texts:
        for run in _RUN.finditer(text):
            word = run[0][:_LONGEST_IDENTIFIER]
            if _is_plain(word):
                continue
            found.update(dict.fromkeys(_IDENTIFIER.findall(word)))
            if len(found) >= _MOST_IDENTIFIERS:
                return tuple(found)[:_MOST_IDENTIFIERS]
    return tuple(found)


def _is_plain(word: str) -> bool:
    """Return whether a word is ordinary and cannot contain an identifier; most words are, so this saves matching."""
    return word.isalpha() and (word.islower() or word.isupper() or word[1:].islower())


def place_of(note: NoteSource) -> str | None:
    """Return the position of a note in a diff, such as `path:45-48`."""
    path = note.new_path or note.old_path
    if path is None:
        return None
    line = note.old_line if note.new_line is None else note.new_line
    start, end = note.range_start or line, note.range_end or line
    if end is None:
        return path
    return f"{path}:{end}" if start is None or start == end else f"{path}:{start}-{end}"


def _linked(link: SharedLink) -> str:
    return "\n".join(part for part in (link.title, link.description, link.url) if part)


def _commented(comment: TopicCommentSource) -> str:
    mark = " [answer]" if comment.is_answer else ""
    author = comment.author_username or "unknown"
    return f"@{author} ({format_instant(comment.created_at)[:10]}){mark}: {without_own_mark(comment.body)}"


def _said(note: NoteSource) -> str:
    place = place_of(note)
    where = (f" [{place}]" if place else "") + (" [internal]" if note.is_internal else "")
    author = note.author_username or "unknown"
    return f"@{author} ({format_instant(note.created_at)[:10]}){where}: {without_own_mark(note.body)}"
