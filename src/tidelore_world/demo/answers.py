"""How `lore demo` ends: a question in other words, answered out of a review thread, and that one thread refreshed.

Owns the questions and what is told about their answers. The search and the refresh are the real commands' code.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelore.app.mirroring import document, embed, surgical_sync
from tidelore.app.searching import rank_by_meaning
from tidelore.app.wiring import App, run_until_signalled
from tidelore.cli.output.render import plural
from tidelore.core.text import one_line, without_markdown
from tidelore_world.demo.text import FATE

if TYPE_CHECKING:
    from tidelore.core.progress import DocumentReport, EmbedReport
    from tidelore.search.results import ThreadResult

QUESTION = "what did we settle on to recognise a boat that goes by several names"
"""In other words than anybody in the simulated world uses."""
QUESTION_BY_WORDS = "vessel identity IMO number decision"
"""In the words of the simulated world: what is asked where the extra `vectors` is not installed."""
REPLY = "Confirmed with the quartermaster: the brass plate carries the hull number."
_TELLING = "brass plate quartermaster"


class Answers:
    """The last part of a demonstration: what the copy is for."""

    def __init__(self, app: App, say: Callable[[str], None]) -> None:
        self._app = app
        self._say = say
        self._by_meaning = True

    def prepare(self) -> dict[str, int]:
        """Make documents and vectors out of the copy."""
        self._say("\n8. Generate search documents and embeddings (offline)")
        made, vectors = index(self._app)
        self._say(f"   {plural(made.regenerated, 'document')}, {plural(vectors.embedded, 'document')} embedded")
        self._by_meaning = vectors.notice is None
        if vectors.notice:
            fix = "" if vectors.error is None else f": {vectors.error.fix}"
            self._say(f"   {vectors.notice}{fix}")
        return {"documents": made.regenerated, "embedded": vectors.embedded}

    def ask(self) -> ThreadResult | None:
        """Ask by meaning, or else by words, and show the best answer that stands in a merge request's thread."""
        question = QUESTION if self._by_meaning else QUESTION_BY_WORDS
        self._say(f'\n9. Search by {"meaning" if self._by_meaning else "words"}: "{question}"')
        found = [answer for answer in self._search(question) if answer.type == "mr" and answer.found_in == "discussion"]
        if not found:
            self._say("   no matching review thread in a world of this size")
            return None
        best = found[0]
        self._say(f"   {best.reference}  {best.title}")
        self._say(filled(f"in a review thread: {best.snippet}"))
        return best

    def refresh(self, answer: ThreadResult) -> dict[str, Any]:
        """Refresh this one merge request, and find what was said in it a moment ago."""
        from tidelore.sync.report import SurgicalReport
        from tidelore.sync.surgical_preflight import SurgicalFlags, read_asked

        report = SurgicalReport()
        asked = [read_asked(answer.reference, "mr")]
        run_until_signalled(surgical_sync(self._app, asked, SurgicalFlags(), report, force=False), FATE)
        written = 0 if report.documents is None else report.documents.regenerated
        self._say(f"   lore sync --mr '{answer.reference}'")
        self._say(f"   {plural(report.requests, 'request')}, {plural(written, 'document')} written")
        found = [entry for entry in self._search(_TELLING) if entry.reference == answer.reference]
        self._say(filled(f"found: {found[0].snippet}") if found else "   the reply was NOT found")
        return {
            "reference": answer.reference,
            "requests": report.requests,
            "documents": written,
            "found": bool(found),
        }

    def _search(self, text: str) -> list[ThreadResult]:
        from tidelore.search.find import SearchRequest, find
        from tidelore.search.query import parse_query
        from tidelore.store.reading.fulltext import DocumentFilter

        database = self._app.open_store()
        try:
            meaning = rank_by_meaning(self._app, database, text if self._by_meaning else "")
            request = SearchRequest(
                query=parse_query(text),
                wanted=DocumentFilter(type="discussion"),
                mode="semantic" if self._by_meaning else "lexical",
                limit=50,
            )
            return find(database, request, meaning.ranker, meaning.notice).threads
        finally:
            database.close()


def index(app: App) -> tuple[DocumentReport, EmbedReport]:
    """Make documents of what changed, and vectors of those documents."""
    made = run_until_signalled(document(app, full=False, force=False), FATE)
    return made, run_until_signalled(embed(app), FATE)


def filled(text: str) -> str:
    """Return a text without the marks of its Markdown on indented lines."""
    return textwrap.fill(without_markdown(one_line(text))[0], 97, initial_indent="   ", subsequent_indent="   ")
