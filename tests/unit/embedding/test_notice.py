"""What others made and we ship is named with its licence, and is what the notice says it is."""

from __future__ import annotations

import hashlib
from importlib.resources import files


def test_the_vocabulary_is_the_one_the_notice_names_and_its_licence_lies_beside_it() -> None:
    room = files("tidelore.embedding")
    notice = room.joinpath("NOTICE").read_text(encoding="utf-8")
    assert "\nminilm_vocabulary.txt\n" in notice
    assert hashlib.sha256(room.joinpath("minilm_vocabulary.txt").read_bytes()).hexdigest() in notice
    licence = room.joinpath("minilm_vocabulary.LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
