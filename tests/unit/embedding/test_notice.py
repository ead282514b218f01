"""What others made and we ship is named with its licence, and is what the notice says it is."""

from __future__ import annotations

import hashlib
from importlib.resources import files


def test_the_bundled_vocabulary_matches_its_notice_and_has_its_licence_file() -> None:
    room = files("tidelore.embedding")
    notice = room.joinpath("NOTICE").read_text(encoding="utf-8")
    assert "\nminilm_vocabulary.txt\n" in notice
    assert hashlib.sha256(room.joinpath("minilm_vocabulary.txt").read_bytes()).hexdigest() in notice
    licence = room.joinpath("minilm_vocabulary.LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
