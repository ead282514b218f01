"""Bugs of `lore move`: a copy that lacks rows, has them twice or differs, and is used all the same."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

WHOLE = "whole move"
CONTRACT = "tests/contract/test_moving.py"
FACES = "tests/faces/test_move.py"
_KILLED = f"{CONTRACT}::test_a_move_killed_at_each_seam_continues_where_it_stopped_and_copies_each_row_once"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="moved-rows-are-only-counted",
        invariant=WHOLE,
        file="store/moving/copying.py",
        before="        return self.source == self.target\n",
        after="        return self.source.rows == self.target.rows\n",
        test=f"{CONTRACT}::test_a_row_changed_during_the_move_is_found_and_the_next_move_starts_again[source]",
        why="A change that was made in the source during the move would be lost without a word.",
    ),
    Mutant(
        name="half-a-move-is-opened",
        invariant=WHOLE,
        file="store/database/migrate.py",
        before="    _refuse_unfinished(known)\n    _refuse_development(known)\n",
        after="    _refuse_development(known)\n",
        test=_KILLED,
        why="A service on half a copy would read everything again, and repeat answers that are in the other half.",
    ),
    Mutant(
        name="move-continues-before-its-position",
        invariant=WHOLE,
        file="store/moving/copying.py",
        before="    for rows in read_rows(source, table, position):\n",
        after="    for rows in read_rows(source, table):\n",
        test=_KILLED,
        why="A move that was killed could never be continued.",
    ),
    Mutant(
        name="move-beside-a-running-service",
        invariant=WHOLE,
        file="app/storage/moving.py",
        before="        _refuse_writers(app, source)\n        _refuse_snapshot(",
        after="        _refuse_snapshot(",
        test=f"{CONTRACT}::test_a_source_whose_lease_is_held_is_refused_before_and_after_copying",
        why="What the service posts while rows are copied would be posted again from the target.",
    ),
)
