"""The field lists of the reference as one flat file, for shipping. Owns spelling out what the page gives by reference.

`python -m tests.architecture.schemas` writes `src/tidelore/cli/schemas.txt` again after the page was changed.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.reference import field_lines, sections

SHIPPED = Path(__file__).parents[2] / "src" / "tidelore" / "cli" / "schemas.txt"
_AS_FOR = re.compile(r"^Robot data: as for \[`lore ([^`]+)`\]", flags=re.MULTILINE)
_WITH = re.compile(
    r"\bwith the fields of (?:lore (?P<command>[a-z -]+)|(?P<prefix>\S+)(?: of lore (?P<home>[a-z -]+))?)$"
)


def schema(command: str) -> dict[str, str]:
    """Return the fields of a command's answer with their meaning."""
    text = sections("commands.md")[f"lore {command}"]
    same = _AS_FOR.search(text)
    found = schema(same[1]) if same else {}
    own = field_lines(text)
    for path, meaning in own.items():
        found[path] = meaning
        given = _WITH.search(meaning)
        if given and given["command"]:
            found |= {f"{path}.{inner}": told for inner, told in schema(given["command"]).items()}
        elif given:
            inside = f"{given['prefix']}."
            there = schema(given["home"]) if given["home"] else own
            found |= {
                f"{path}.{other.removeprefix(inside)}": told
                for other, told in there.items()
                if other.startswith(inside)
            }
    return found


def every_schema() -> dict[str, dict[str, str]]:
    """Return the fields of all commands of the page."""
    titles = [title.removeprefix("lore ") for title in sections("commands.md") if title.startswith("lore ")]
    return {title: schema(title) for title in titles}


def shipped_text() -> str:
    """Return the file as it must be."""
    parts = [
        "\n".join([f"[{command}]", *(f"{path} {meaning}" for path, meaning in found.items())])
        for command, found in every_schema().items()
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    SHIPPED.write_text(shipped_text(), encoding="utf-8")
