"""Which suites may be left out of the gate because nothing they test has changed since `make test-all` passed.

The facts of the simulated world depend on few files. `make test-all` checks them and records the digest of those files
in `tests/proven.json`; the gate checks them again as soon as a file differs from the record.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "proven.json"
SUITES = {
    "tests/world": ("src/tidelore_world", "tests/world"),
}
"""Each suite with the folders it depends on."""


def is_proven(suite: str, record: Path = RECORD, root: Path = ROOT) -> bool:
    """Return whether the last `make test-all` ran this suite on the files as they are."""
    if not record.is_file():
        return False
    recorded: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))
    return recorded.get(suite) == digest_of(SUITES[suite], root)


def digest_of(folders: tuple[str, ...], root: Path = ROOT) -> str:
    """Return one digest of the names and contents of all modules below some folders."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(path.read_bytes())}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def write_record(record: Path = RECORD, root: Path = ROOT) -> None:
    """Record every suite as proven; call it after all of them passed."""
    digests = {suite: digest_of(folders, root) for suite, folders in SUITES.items()}
    record.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_record()
