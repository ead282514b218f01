"""The reference pages say what the code does, and nothing else."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
import types
import typing
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from benchmarks import recorded
from tests.architecture import manual_page, schema_reference
from tests.architecture.command_reference import PAGE, reference_text
from tests.architecture.reference import PAGES, code, preface, rows, sections
from tests.architecture.source_tree import read_modules
from tests.databases.catalogue import columns_of

from tidelore.core.config import Config, GitHubHost, GitHubRepo, GitLabHost, ProjectOverride
from tidelore.core.errors import EXIT_CODES, every_error
from tidelore.store.database.descriptions import read_tables
from tidelore.store.database.migrate import migrate, migrations
from tidelore.store.database.sqlite import SqliteDatabase

NOT_READ = "†"
TABLES: dict[str, type[msgspec.Struct]] = {
    "Top level": Config,
    "[[gitlab]]": GitLabHost,
    "[[gitlab.overrides]]": ProjectOverride,
    "[[github]]": GitHubHost,
    "[[github.repos]]": GitHubRepo,
}
TABLES |= {
    f"[{info.name}]": info.type
    for info in msgspec.structs.fields(Config)
    if isinstance(info.type, type) and issubclass(info.type, msgspec.Struct)
}


# Errors


def test_every_error_is_documented_with_its_codes_and_a_fix() -> None:
    documented = {code(row[0]): row[1:] for row in rows(preface("errors.md"))}
    failures = []
    for error in every_error():
        exit_code, retryable, meaning, remedy = documented.get(error.code, ["", "", "", ""])
        if (exit_code, retryable) != (str(error.exit_code), "yes" if error.retryable else "no"):
            failures.append(f"{error.code}: documented as exit {exit_code!r}, retryable {retryable!r}")
        if not meaning or not remedy:
            failures.append(f"{error.code}: meaning or remedy is missing")
    assert not failures, "\n".join(failures)


def test_no_error_is_documented_that_does_not_exist() -> None:
    documented = [code(row[0]) for row in rows(preface("errors.md"))]
    assert documented == list(dict.fromkeys(documented))
    assert set(documented) == {error.code for error in every_error()}


def test_codes_are_unique_and_exit_codes_documented() -> None:
    codes = [error.code for error in every_error()]
    assert len(codes) == len(set(codes))
    documented = {int(row[0]) for row in rows(sections("errors.md")["Exit codes"])}
    assert documented == {0} | {error.exit_code for error in every_error()}
    assert {int(row[0]): row[1] for row in rows(sections("errors.md")["Exit codes"])} == EXIT_CODES


# Configuration


def documented_keys(heading: str) -> dict[str, list[str]]:
    found = {title.removesuffix(NOT_READ).strip(): text for title, text in sections("configuration.md").items()}
    return {code(row[0]): row for row in rows(found[heading])}


def test_every_table_of_the_configuration_is_documented() -> None:
    titles = {title.removesuffix(NOT_READ).strip() for title in sections("configuration.md")}
    assert titles == set(TABLES)


def test_every_key_is_documented_with_its_type_and_default() -> None:
    failures = [failure for heading in TABLES for failure in key_failures(heading)]
    assert not failures, "\n".join(failures)


def key_failures(heading: str) -> Iterator[str]:
    """Yield what the page says wrongly about the keys of one table."""
    shape = TABLES[heading]
    documented = documented_keys(heading)
    nested = {heading.strip("[]") for heading in TABLES}
    expected = {
        info.name: info
        for info in msgspec.structs.fields(shape)
        # `others` are the hosts of forges whose tables are declared with their sources.
        if not (shape is Config and info.name in {*nested, "others"})
    }
    for name in set(documented) ^ set(expected):
        yield f"{heading} {name}: {'no such key' if name in documented else 'not documented'}"
    for name in set(documented) & set(expected):
        _, kind, default, meaning = documented[name]
        if kind != kind_of(expected[name].type):
            yield f"{heading} {name}: type is {kind_of(expected[name].type)}, documented as {kind}"
        if default_of(default) != plain(expected[name]):
            yield f"{heading} {name}: default is {plain(expected[name])!r}, documented as {default}"
        if not meaning:
            yield f"{heading} {name}: no meaning"


def default_of(cell: str) -> Any:
    if cell in {"—", "required"}:
        return cell
    return tomllib.loads(f"value = {code(cell)}")["value"]


def plain(info: msgspec.structs.FieldInfo) -> Any:
    if info.default is msgspec.NODEFAULT:
        return "required"
    return "—" if info.default is None else list(info.default) if isinstance(info.default, tuple) else info.default


def kind_of(annotation: Any) -> str:
    """Name a type as the page does."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return kind_of(arguments[0])
    if origin in {typing.Union, types.UnionType}:
        return kind_of(next(argument for argument in arguments if argument is not type(None)))
    if origin is typing.Literal:
        return "one of " + ", ".join(f'`"{value}"`' for value in arguments)
    if origin is tuple:
        inner = arguments[0]
        is_table = isinstance(inner, type) and issubclass(inner, msgspec.Struct)
        return "list of tables" if is_table else f"list of {kind_of(inner)}s"
    return {str: "string", bool: "boolean", int: "integer", float: "number"}[annotation]


def test_a_config_key_is_marked_as_unused_exactly_when_nothing_reads_it(source: Path) -> None:
    read = attributes_read(source)
    headings = ["Top level", "[storage]", "[http]", "[sync]", "[log]", "[embedding]", "[[gitlab]]"]
    wrong = [
        f"{heading} {name}"
        for heading in headings
        for name, row in documented_keys(heading).items()
        if (NOT_READ in row[0]) != (name not in read)
    ]
    assert not wrong, "\n".join(wrong)


def attributes_read(source: Path) -> set[str]:
    """The attributes taken from something called after the settings: `config.sync.scrub_share`, `host.groups`."""
    owners = {"config", "settings", "_settings", "host", "_host", "storage", "http", "sync", "log"}
    return {
        node.attr
        for module in read_modules(source)
        if module.name != "cli.doctor"  # which tells what is configured in vain
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).rpartition(".")[2] in owners
    }


# Commands


def test_the_schema_reference_equals_the_generated_one_and_describes_every_table_and_view(tmp_path: Path) -> None:
    assert schema_reference.PAGE.read_text(encoding="utf-8") == schema_reference.page(), "run `make docs`"
    tables = read_tables("".join(step.sql for step in migrations("sqlite")))
    with closing(SqliteDatabase(str(tmp_path / "lore.db"))) as database:
        migrate(database, 1)
        known = columns_of(database)
    known.pop("schema_version")
    assert {name: [column for column, _ in columns] for name, columns in known.items() if not tables[name].is_view} == {
        name: [column.name for column in table.columns] for name, table in tables.items() if not table.is_view
    }
    assert [name for name, table in tables.items() if not table.comment] == []


def test_the_manual_page_equals_the_generated_one() -> None:
    assert manual_page.PAGE.read_text(encoding="utf-8") == manual_page.page(), "run `make docs` and commit the result"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not here")
def test_the_manual_page_is_formatted_without_a_warning() -> None:
    words = ["groff", "-ww", "-man", "-Tascii", str(manual_page.PAGE)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    assert "lore snapshot" in re.sub(".\x08", "", done.stdout)


def test_the_command_reference_equals_the_generated_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_text(), "run `make docs` and commit the result"


# Glossary


def test_the_glossary_defines_each_word_once_and_one_word_per_row() -> None:
    text = (PAGES.parent / "glossary.md").read_text(encoding="utf-8")
    words = [row[0] for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:] for row in rows(part) if row and row[0]]
    assert len(words) > 50
    assert sorted(word for word in set(words) if words.count(word) > 1) == []
    assert [word for word in words if "," in word] == []


def test_the_recorded_benchmarks_are_generated_and_all_are_listed() -> None:
    source = (recorded.RECORD.parent / "__main__.py").read_text()
    names = set(re.findall(r'"([a-z-]+)": [a-z_]+\.run', source))
    found = recorded.load()
    assert found.keys() <= names
    text, _, generated = recorded.PAGE.read_text().partition(recorded.BEGIN)
    assert generated.strip() == recorded.render(found).strip(), "run `python -m benchmarks --record`"
    described = re.search(r"--only \S+ +# some of: ([a-z, -]+)", text)
    assert described is not None
    assert set(described[1].split(", ")) == names
    assert {row.strip("`") for row in re.findall(r"^\| (`[a-z-]+`) \|", text, re.MULTILINE)} == names
