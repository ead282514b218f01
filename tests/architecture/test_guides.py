"""The commands that README, guides and other pages show exist and parse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.command_lines import explain_failure

ROOT = Path(__file__).parents[2]
LONGEST_GUIDE = 80
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^    .*\n?)+", flags=re.MULTILINE)
_COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?lore(?= |$)")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


def every_page() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def command_lines(text: str) -> Iterator[str]:
    """Yield the `lore` lines of fenced shell blocks and of indented blocks; a trailing backslash continues a line."""
    blocks = [body for language, body in _FENCE.findall(text) if language in {"", "sh", "bash", "console"}]
    blocks += _INDENTED.findall(_FENCE.sub("", text))
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            if _COMMAND.match(line.strip()):
                yield line.strip().removeprefix("$ ")


def test_every_command_in_the_documentation_parses() -> None:
    found = 0
    failures = []
    for page in every_page():
        for line in command_lines(page.read_text(encoding="utf-8")):
            found += 1
            problem = explain_failure(line)
            if problem is not None:
                failures.append(f"{page.relative_to(ROOT)}: {line}: {problem}")
    assert not failures, "\n".join(failures)
    assert found > 100, "the pages have many commands; were their blocks read?"


def test_a_command_that_does_not_exist_is_found_in_a_page() -> None:
    page = "```sh\nlore lits issues\n```\n\n    .venv/bin/lore show mr 12 --flies\n\n```json\nlore prose\n```\n"
    lines = list(command_lines(page))
    assert lines == ["lore lits issues", ".venv/bin/lore show mr 12 --flies"]
    assert all(explain_failure(line) for line in lines)


def test_guides_are_short_and_listed() -> None:
    guides = sorted((ROOT / "docs" / "guides").glob("*.md"))
    index = (ROOT / "docs" / "guides" / "README.md").read_text(encoding="utf-8")
    failures = [page.name for page in guides if len(page.read_text(encoding="utf-8").splitlines()) >= LONGEST_GUIDE]
    failures += [page.name for page in guides if page.name != "README.md" and f"({page.name})" not in index]
    assert not failures, f"longer than {LONGEST_GUIDE} lines or not in guides/README.md: {failures}"


def test_links_between_pages_lead_to_files() -> None:
    failures = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in every_page()
        for target in _LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not failures, "\n".join(failures)


def test_every_promise_of_the_readme_names_a_test_that_exists() -> None:
    promises = re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert promises
    missing = [
        f"{path}: {name}" for name, path in promises if f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert not missing, "\n".join(missing)
