"""Puts random bugs into the program, one at a time, and counts how many the tests notice.

    python -m tests.mutants.random_run --seed 14 --count 150 [--paths engine feedback store/mirror] [--tree DIR]

Works in a copy of the tree; the tree itself is only read. First it runs the tests once and records which test runs
which line. Then it runs, for each mutant, the tests that run the mutated line, the fastest first. The choice of
mutants depends on the seed and on the text of each function, not on line numbers, so that two versions of the
program get mostly the same mutants. The verdicts are printed as they come; the diff of each survivor follows.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

from tests.mutants import forked, line_map
from tests.mutants.forked import JOBS_VARIABLE, RESULTS_VARIABLE
from tests.mutants.line_map import MAP_VARIABLE, SOURCE_VARIABLE, STOP_VARIABLE, STOPPED
from tests.mutants.mutations import Change, changes_of, is_a_change
from tests.mutants.runner import PACKAGE, ROOT

# The engine, the writers of pages, and feedback. A path that a tree does not have is passed over.
PATHS = (
    "engine", "feedback", "store/mirror",
)  # fmt: skip
TESTS = (
    "tests/unit/engine", "tests/unit/feedback", "tests/unit/store", "tests/unit/documents", "tests/unit/sync",
    "tests/contract", "tests/situations", "tests/properties",
    "tests/faces/test_feedback_answers.py", "tests/faces/test_feedback_audit.py", "tests/faces/test_feedback_poll.py",
    "tests/faces/test_replies.py", "tests/faces/test_topic_replies.py",
)  # fmt: skip
MAP_SECONDS = 3600.0
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
# Processor time of a mutant's tests; and the time by the wall after which tests that only wait are said to hang.
CAP_SECONDS = 60.0
PATIENCE_SECONDS = 300.0
# Most mutants are noticed at once, so a few tests go first, in few files: importing all of them costs more.
FIRST_TESTS = 12
FIRST_FILES = 3
_PASSED = re.compile(r"^(\d+) passed|, (\d+) passed", re.MULTILINE)
_FAILURES = ("FAILED ", "ERROR ", "INTERNALERROR", "ImportError")
_IGNORED = shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", ".hypothesis", "build", "dist")


@dataclass(frozen=True)
class Result:
    """What became of a mutant. `tests` were run, `all_tests` run its line."""

    verdict: str
    tests: int
    all_tests: int
    killer: str = ""


@dataclass(frozen=True)
class Job:
    """A mutant and the tests that run its line."""

    number: int
    change: Change
    tests: Sequence[str]
    ran_at_import: bool


@dataclass(frozen=True)
class LineMap:
    """Which tests run which line, and how long each takes."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]

    def tests_of(self, change: Change) -> list[str]:
        """The tests that run a change, the fastest first; of one test with several parameters, one case before others.

        What runs at the import is used by all tests of the file.
        """
        by_line = self.lines.get(change.file, {})
        names = by_line if change.at_import else {str(line) for line in change.lines}
        found = {test for line in names for test in by_line.get(line, ()) if test in self.seconds}
        cases: Counter[str] = Counter()
        ranked: list[tuple[int, float, str]] = []
        for test in sorted(found, key=lambda test: (self.seconds[test], test)):
            function = test.partition("[")[0]
            ranked.append((cases[function], self.seconds[test], test))
            cases[function] += 1
        return [test for _, _, test in sorted(ranked)]

    def runs_at_import(self, change: Change) -> bool:
        """Tell whether a change takes effect when its module is imported, before any test."""
        by_line = self.lines.get(change.file, {})
        return change.at_import or any("" in by_line.get(str(line), ()) for line in change.lines)


class Copy:
    """A copy of the tree in which the tests run."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.root = folder / "tree"
        self.source = self.root / "src"
        self._plugins = folder / "plugins"
        shutil.copytree(tree, self.root, ignore=_IGNORED, symlinks=True)
        self._plugins.mkdir()
        for plugin in (line_map, forked):
            shutil.copy(str(plugin.__file__), self._plugins)

    def modules(self, paths: Iterable[str]) -> list[Path]:
        """The modules of the package at these paths."""
        package = self.source / PACKAGE
        found = {module for path in paths for module in _modules_at(package / path)}
        return sorted(found)

    def pytest(self, tests: Sequence[str], patience: float, **variables: str) -> tuple[int | None, str]:
        """Run tests; the code is None when they hung."""
        words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
        words += ["-p", "tests.mutants.witness", "-p", "line_map", "-p", "forked", "--hypothesis-seed=0", "--tb=line"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TIDELORE_"))}
        environ |= {"PYTHONPATH": f"{self.source}{os.pathsep}{self._plugins}"}
        environ |= {"COLUMNS": "300", **variables}
        if STOP_VARIABLE not in variables:
            words.remove("-x")
        with tempfile.TemporaryFile("w+") as output:
            child = subprocess.Popen(
                [*words, *tests], cwd=self.root, env=environ, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code: int | None = child.wait(patience)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end_session(child)
            output.seek(0)
            return code, output.read()

    def record(self, modules: Iterable[Path], tests: Sequence[str], keep: Path | None) -> LineMap:
        """Run the tests on SQLite once, without the long ones, and see what each of them runs."""
        target = self.root.parent / "map.json" if keep is None else keep.resolve()
        folders = sorted({str(module.parent) for module in modules})
        present = [test for test in tests if (self.root / test.partition("::")[0]).exists()]
        choice = ["-k", "not postgres", "-m", "not deep", *present]
        variables = {MAP_VARIABLE: str(target), SOURCE_VARIABLE: os.pathsep.join(folders)}
        code, output = self.pytest(choice, MAP_SECONDS, **variables)
        if code is None or not target.exists():
            raise RuntimeError(f"the tests could not be recorded:\n{output[-4000:]}")
        return self.read_map(target)

    def read_map(self, file: Path) -> LineMap:
        """Read what was recorded, be it in this copy or in another one of the same tree."""
        content = json.loads(file.read_text(encoding="utf-8"))
        lines = {f"{PACKAGE}/{path.rpartition(f'/src/{PACKAGE}/')[2]}": by for path, by in content["lines"].items()}
        return LineMap(content["seconds"], lines)

    def try_change(self, change: Change, tests: Sequence[str], cap: float) -> Result:
        """Run the tests of a change against it."""
        if not tests:
            return Result("survived", 0, 0)
        path = self.source / change.file
        original = path.read_bytes()
        # Bytecode is told to be stale by the second and the size, which may be those of the mutant before.
        bytecode = Path(cache_from_source(str(path)))
        bytecode.unlink(missing_ok=True)
        path.write_bytes(change.apply(original))
        try:
            ran = 0
            for some in _portions(tests):
                code, output = self.pytest(some, PATIENCE_SECONDS, **{STOP_VARIABLE: str(cap)})
                passed = _PASSED.search(output)
                ran += int(passed[1] or passed[2]) if passed else 0
                if code is None or code in (-signal.SIGXCPU, -signal.SIGKILL):
                    return Result("timeout", ran, len(tests))
                if "ERROR: not found: " in output:
                    raise RuntimeError(output)
                if code and (killer := _killer(output)):
                    return Result("killed", ran, len(tests), killer)
                if code and STOPPED not in output:
                    raise RuntimeError(output)
            return Result("survived", ran, len(tests))
        finally:
            path.write_bytes(original)
            bytecode.unlink(missing_ok=True)

    def try_forked(self, jobs: Sequence[Job], seconds: Mapping[str, float], cap: float) -> Iterator[tuple[Job, Result]]:
        """Try many changes in one session; those it cannot show are left out."""
        content = [
            {
                "number": number,
                "path": str(self.source / job.change.file),
                "mutated": job.change.apply((self.source / job.change.file).read_bytes()).decode(),
                "tests": [(test, seconds[test]) for test in job.tests],
                "cap": cap,
            }
            for number, job in enumerate(jobs)
        ]
        file, results = self.root.parent / "jobs.json", self.root.parent / "results.jsonl"
        file.write_text(json.dumps(content), encoding="utf-8")
        files = sorted({test.partition("::")[0] for job in jobs for test in job.tests})
        variables = {JOBS_VARIABLE: str(file), RESULTS_VARIABLE: str(results)}
        with ThreadPoolExecutor(1) as pool:
            session = pool.submit(self.pytest, files, len(jobs) * PATIENCE_SECONDS, **variables)
            told = 0
            while not session.done() or told < _count_lines(results):
                time.sleep(0.5)
                lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
                for line in lines[told:]:
                    found = json.loads(line)
                    job = jobs[found["number"]]
                    told += 1
                    if found["verdict"] != "unsuitable":
                        yield job, Result(found["verdict"], found["tests"], len(job.tests), found["killer"])
            if told != len(jobs):
                raise RuntimeError(f"the session ended early:\n{session.result()[1][-4000:]}")


def _end_session(child: subprocess.Popen[bytes]) -> None:
    """End what the tests themselves started, too."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _modules_at(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.rglob("*.py"))
    return [path] if path.exists() else []


def _portions(tests: Sequence[str]) -> Iterator[list[str]]:
    """First a few tests of few files, then the others."""
    files: set[str] = set()
    first: list[str] = []
    for test in tests:
        file = test.partition("::")[0]
        if len(first) < FIRST_TESTS and (file in files or len(files) < FIRST_FILES):
            files.add(file)
            first.append(test)
    yield first
    chosen = set(first)
    rest = [test for test in tests if test not in chosen]
    if rest:
        yield rest


def _killer(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith(_FAILURES)]
    return lines[0][:200] if lines else ""


def choose(
    copy: Copy, modules: Iterable[Path], seed: int, count: int, former: Mapping[str, str] | None = None
) -> list[Change]:
    """Choose mutants by the seed and by what they change, so that moving a function changes no choice.

    `former` gives modules that were renamed the name by which they were chosen before.
    """
    ranked: list[tuple[str, Change, bytes]] = []
    for module in modules:
        source = module.read_bytes()
        seen: Counter[str] = Counter()
        for change in changes_of(str(module.relative_to(copy.source)), source):
            before = source[change.start : change.end].decode()
            stem = (former or {}).get(module.stem, module.stem)
            name = "|".join((str(seed), stem, change.scope, change.kind, before, change.text))
            seen[name] += 1
            ranked.append((hashlib.sha256(f"{name}|{seen[name]}".encode()).hexdigest(), change, source))
    ranked.sort(key=lambda entry: entry[0])
    chosen: list[Change] = []
    for _, change, source in ranked:
        if len(chosen) == count:
            break
        if is_a_change(change, source):
            chosen.append(change)
    return chosen


def show(copy: Copy, change: Change) -> str:
    """The diff of a mutant."""
    source = (copy.source / change.file).read_bytes()
    before, after = source.decode().splitlines(), change.apply(source).decode().splitlines()
    name = f"{change.file} {change.scope}"
    return "\n".join(difflib.unified_diff(before, after, name, change.kind, lineterm="", n=2))


def identity(copy: Copy, change: Change) -> str:
    """A name for a mutant that does not depend on line numbers: what `--equivalent` lists."""
    return hashlib.sha256(show(copy, change).partition("@@")[2].partition("@@")[2].encode()).hexdigest()[:12]


def main() -> None:
    """Make the mutants, try each, and print the score."""
    parser = argparse.ArgumentParser(description="Put random bugs into the program and count which the tests notice.")
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--paths", nargs="+", default=PATHS, help="modules or folders below src/tidelore")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="tests to choose from")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the tree to test (default: this one)")
    parser.add_argument("--cap", type=float, default=CAP_SECONDS, help="processor seconds for the tests of a mutant")
    parser.add_argument("--renamed", nargs="*", default=[], help="modules as new=old, to get the mutants of before")
    parser.add_argument("--equivalent", type=Path, default=EQUIVALENT, help="the ids of mutants judged equivalent")
    parser.add_argument("--map", type=Path, help="where the record is kept for another run over the same tree")
    parser.add_argument("--list", action="store_true", help="only show the mutants")
    given = parser.parse_args()
    # So that what was started ends and the copy is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="tidelore-mutants-") as folder:
        copy = Copy(given.tree.resolve(), Path(folder))
        modules = copy.modules(given.paths)
        former = dict(pair.split("=") for pair in given.renamed)
        changes = choose(copy, modules, given.seed, given.count, former)
        if given.list:
            print("\n\n".join(f"{identity(copy, change)}\n{show(copy, change)}" for change in changes))
            return
        known = {line.split()[0] for line in given.equivalent.read_text().splitlines() if line}
        recorded = copy.read_map(given.map) if _exists(given.map) else copy.record(modules, given.tests, given.map)
        run(copy, recorded, changes, known, given.cap)


def _exists(path: Path | None) -> bool:
    return path is not None and path.exists()


def run(copy: Copy, recorded: LineMap, changes: Sequence[Change], known: set[str], cap: float) -> None:
    """Try the mutants and print what became of them."""
    print(f"{len(recorded.seconds)} tests recorded", flush=True)
    jobs = [
        Job(number, change, recorded.tests_of(change), recorded.runs_at_import(change))
        for number, change in enumerate(changes, 1)
    ]
    results: dict[int, Result] = {}
    fast = [job for job in jobs if job.tests and not job.ran_at_import]
    for job, result in copy.try_forked(fast, recorded.seconds, cap):
        results[job.number] = result
        _tell(copy, job, result)
    for job in jobs:
        if job.number not in results:
            results[job.number] = copy.try_change(job.change, job.tests, cap)
            _tell(copy, job, results[job.number])
    survivors = [job for job in jobs if results[job.number].verdict == "survived"]
    equivalent = [job for job in survivors if identity(copy, job.change) in known]
    for job in survivors:
        note = " (equivalent)" if job in equivalent else ""
        result = results[job.number]
        print(f"\n{identity(copy, job.change)}{note}, {result.tests} of {result.all_tests} tests")
        print(show(copy, job.change))
    verdicts = Counter(result.verdict for result in results.values())
    print(
        f"\nmutants: {len(jobs)}, killed: {verdicts['killed']}, survived: {len(survivors)}"
        f" (equivalent: {len(equivalent)}), timeout: {verdicts['timeout']}"
    )


def _tell(copy: Copy, job: Job, result: Result) -> None:
    change = job.change
    place = f"{change.file}:{change.lines.start} {change.scope}: {change.kind}"
    ran = f"{result.tests} of {result.all_tests} tests"
    print(f"{job.number:4} {result.verdict:8} {identity(copy, change)} {place} ({ran}) {result.killer}", flush=True)


def _count_lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


if __name__ == "__main__":
    main()
