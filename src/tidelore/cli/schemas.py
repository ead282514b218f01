"""The fields of every command's robot answer. Reads `schemas.txt`, the only place where they are written down.

A section starts with `[command]`, or `[command] as other` when it has all fields of another command. A line starting
with `>` is a note for the reference; every other line is a path and its meaning. A meaning may end in `with the fields
of lore COMMAND`, `of PREFIX` or `of PREFIX of lore COMMAND`: `read_schema` spells these fields out.
"""

from __future__ import annotations

import pkgutil
import re

from msgspec import Struct

from tidelore.core.errors import IntegrityError

SCHEMAS = "schemas.txt"
_HEADING = re.compile(r"\[(?P<name>[a-z -]+)\](?: as (?P<base>[a-z -]+))?")
_WITH = re.compile(
    r"\bwith the fields of (?:lore (?P<command>[a-z -]+)|(?P<prefix>\S+)(?: of lore (?P<home>[a-z -]+))?)$"
)


class Section(Struct, frozen=True):
    """One section of the file, as it is written: `fields` maps paths to meanings."""

    base: str | None
    notes: list[str]
    fields: dict[str, str]


def read_sections() -> dict[str, Section]:
    """Return the sections by command, in the order of the file."""
    content = pkgutil.get_data("tidelore.cli", SCHEMAS)
    if content is None:
        raise IntegrityError(f"{SCHEMAS} is missing from the installation", fix="reinstall tidelore")
    found: dict[str, Section] = {}
    for part in content.decode().strip().split("\n\n"):
        first, *lines = part.splitlines()
        heading = _HEADING.fullmatch(first)
        assert heading is not None, first
        notes = [line.removeprefix("> ") for line in lines if line.startswith("> ")]
        pairs = [line.partition(" ") for line in lines if not line.startswith("> ")]
        fields = {path: meaning for path, _, meaning in pairs}
        assert len(fields) == len(pairs), f"{first} names a field twice"
        found[heading["name"]] = Section(heading["base"], notes, fields)
    return found


def read_schema(command: str, sections: dict[str, Section] | None = None) -> dict[str, str]:
    """Return every field of a command's answer with its meaning, references spelled out."""
    known = read_sections() if sections is None else sections
    if command not in known:
        return {}
    section = known[command]
    found = read_schema(section.base, known) if section.base else {}
    for path, meaning in section.fields.items():
        found[path] = meaning
        given = _WITH.search(meaning)
        if given and given["command"]:
            found |= {f"{path}.{inner}": told for inner, told in read_schema(given["command"], known).items()}
        elif given:
            prefix = f"{given['prefix']}."
            home = read_schema(given["home"], known) if given["home"] else section.fields
            found |= {
                f"{path}.{other.removeprefix(prefix)}": told for other, told in home.items() if other.startswith(prefix)
            }
    return found
