"""A poll of repositories under way shows in the ledger how many are done, what it asked and how much it stored."""

from __future__ import annotations

import re
from pathlib import Path

from tests.situations.feedback.bench import Bench, open_pulls
from tests.situations.witness import Witness, done, grows

from tidelore_world.world import World

REPOS = tuple(f"octo/{name}" for name in ("tide", "ebb", "flow", "reef", "shoal", "spit"))
NOTE = re.compile(r"github repositories: (\d+) comments stored")


def test_progress_shows_how_many_repositories_are_done(tmp_path: Path) -> None:
    world = World()
    rule = {"track_authors": ["robin"]}
    bench = Bench(world, tmp_path, repos=[{"name": name, **rule} for name in REPOS])
    for name in REPOS:
        open_pulls(world, 1, name)
    bench.poll_all()
    for name in REPOS:
        for number in range(3):
            world.github.comment(name, 1, f"What about {number}?")
    world.advance(60)
    witness = Witness(tmp_path / "lore.db", world.advance)
    report = bench.poll_all(reaper=witness)
    assert report is not None
    seen = witness.during("ingest")
    assert {run.progress_total for run in seen} == {len(REPOS)}
    assert grows(done(seen))
    notes = [NOTE.fullmatch(run.progress_note or "") for run in seen]
    assert None not in notes
    assert grows([int(found[1]) for found in notes if found is not None])
    assert grows([run.requests for run in witness.saw])
    end = witness.look()
    assert (end.status, end.progress_done, end.progress_total, end.progress_note) == ("succeeded", None, None, None)
    assert end.requests == report.requests > 0


def test_requests_of_a_repository_are_shown_before_it_is_done(tmp_path: Path) -> None:
    bench = Bench(World(), tmp_path)
    open_pulls(bench.world, 4)
    bench.track(1, 2, 3, 4)
    witness = Witness(tmp_path / "lore.db", bench.world.advance)
    bench.poll_all(reaper=witness, full=True)
    assert {run.progress_done for run in witness.during("ingest")} == {0}
    assert grows([run.requests for run in witness.saw])
