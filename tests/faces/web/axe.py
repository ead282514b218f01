"""The accessibility checker axe-core, from the npm registry, kept in a cache folder of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

VERSION = "4.14.0"
_MEMBER = "package/axe.min.js"


def find_axe() -> Path | None:
    """Return the script, fetched once; None where npm or its registry is missing."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "tidelore-tests" / f"axe-core-{VERSION}"
    script = folder / "axe.min.js"
    if script.exists():
        return script
    npm = shutil.which("npm")
    if npm is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", f"axe-core@{VERSION}", "--pack-destination", str(folder), "--silent"]
    if subprocess.run(command, capture_output=True, timeout=120, check=False).returncode != 0:
        return None
    with tarfile.open(folder / f"axe-core-{VERSION}.tgz") as archive:
        member = archive.extractfile(_MEMBER)
        assert member is not None
        script.write_bytes(member.read())
    return script
