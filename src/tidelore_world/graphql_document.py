"""GraphQL documents as far as the simulated servers understand them: one operation, fragments, variables.

Owns reading the text, and leaving out what `@include` and `@skip` say. Refuses other directives and whatever else a
server would have to honour but does not. Invariant: a document that parses is understood whole; every node knows the
line and column it stands at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(
    r"(?P<skip>[\s,\ufeff]+|\#[^\n]*)"
    r'|(?P<block>"""(?:[^"]|"(?!""))*""")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<name>[_A-Za-z]\w*)"
    r"|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<mark>\.\.\.|[{}()\[\]:!=$@])"
)
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}


class BadDocument(ValueError):
    """The document cannot be read; `line` and `column` say where."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class EnumName(str):
    """A bare word given as a value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Field:
    """A field to answer, under its alias or its name."""

    key: str
    name: str
    arguments: Mapping[str, Any]
    selections: tuple[Selection, ...]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """Fields for objects of one type: inline, or the definition a spread names. No type means any."""

    type_name: str | None
    selections: tuple[Selection, ...]
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Spread:
    """A place where a named fragment goes."""

    name: str
    line: int
    column: int


Selection = Field | Fragment | Spread


@dataclass(slots=True)
class Document:
    """One operation and the fragments it may use."""

    operation: str = "query"
    name: str = ""
    selections: tuple[Selection, ...] = ()
    fragments: dict[str, Fragment] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int
    column: int


def parse_document(text: str, variables: Mapping[str, Any]) -> Document:
    """Read a document; variables are put in place of their names."""
    return _Parser(text, dict(variables)).document()


def _tokens(text: str) -> Iterator[_Token]:
    at, line, begin = 0, 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadDocument(f'Expected NAME, actual: UNKNOWN_CHAR ("{text[at]}")', line, at - begin + 1)
        kind = match.lastgroup or ""
        if kind != "skip":
            yield _Token(kind, match[0], line, at - begin + 1)
        if "\n" in match[0]:
            line += match[0].count("\n")
            begin = at + match[0].rindex("\n") + 1
        at = match.end()
    yield _Token("end", "", line, at - begin + 1)


class _Parser:
    def __init__(self, text: str, variables: dict[str, Any]) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0
        self.variables = variables

    def document(self) -> Document:
        made = Document()
        while self.here.kind != "end":
            begin = self.here
            if begin.text == "fragment":
                self.next()
                name = self.name()
                self.expect("on")
                made.fragments[name] = Fragment(self.name(), self.selections(), begin.line, begin.column)
            elif made.selections:
                raise BadDocument("An operation name is required", begin.line, begin.column)
            else:
                self.operation(made)
        if not made.selections:
            raise BadDocument("Unexpected end of document")
        return made

    def operation(self, made: Document) -> None:
        if self.here.text != "{":
            made.operation = self.name()
            made.name = self.name() if self.here.kind == "name" else ""
            if self.take("("):
                while not self.take(")"):
                    self.variable()
        made.selections = self.selections()

    def variable(self) -> None:
        self.expect("$")
        name = self.name()
        self.expect(":")
        required = self.type_reference()
        default = self.value() if self.take("=") else None
        if required and default is None and self.variables.get(name) is None:
            message = f"Variable ${name} of type {required} was provided invalid value"
            raise BadDocument(message, self.here.line, self.here.column)
        self.variables.setdefault(name, default)

    def type_reference(self) -> str:
        """The type's text if it requires a value, else nothing."""
        text = f"[{self.listed_type()}]" if self.take("[") else self.name()
        return f"{text}!" if self.take("!") else ""

    def listed_type(self) -> str:
        text = self.name() + ("!" if self.take("!") else "")
        self.expect("]")
        return text

    def selections(self) -> tuple[Selection, ...]:
        self.expect("{")
        found: list[Selection] = []
        while not self.take("}"):
            selection, wanted = self.selection()
            if wanted:
                found.append(selection)
        return tuple(found)

    def wanted(self) -> bool:
        """Whether the directives behind a field or a fragment leave it in."""
        wanted = True
        while self.take("@"):
            token, name = self.here, self.name()
            if name not in ("include", "skip"):
                raise BadDocument(f"Directive @{name} is not defined", token.line, token.column)
            wanted &= bool(self.arguments().get("if")) == (name == "include")
        return wanted

    def arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self.take("("):
            while not self.take(")"):
                argument = self.name()
                self.expect(":")
                arguments[argument] = self.value()
        return arguments

    def selection(self) -> tuple[Selection, bool]:
        begin = self.here
        if self.take("..."):
            type_name = None
            if self.here.kind == "name":
                type_name = self.name()
                if type_name != "on":
                    return Spread(type_name, begin.line, begin.column), self.wanted()
                type_name = self.name()
            wanted = self.wanted()
            return Fragment(type_name, self.selections(), begin.line, begin.column), wanted
        key = name = self.name()
        if self.take(":"):
            name = self.name()
        arguments, wanted = self.arguments(), self.wanted()
        inner = self.selections() if self.here.text == "{" else ()
        return Field(key, name, arguments, inner, begin.line, begin.column), wanted

    def value(self) -> Any:
        token = self.next()
        if token.text == "$":
            return self.variables.get(self.name())
        if token.text == "[":
            values = []
            while not self.take("]"):
                values.append(self.value())
            return values
        if token.text == "{":
            members: dict[str, Any] = {}
            while not self.take("}"):
                name = self.name()
                self.expect(":")
                members[name] = self.value()
            return members
        if token.kind == "block":
            return token.text[3:-3].strip()
        if token.kind in ("string", "number"):
            return json.loads(token.text)
        if token.kind == "name":
            return _WORDS[token.text] if token.text in _WORDS else EnumName(token.text)
        raise self.surprise(token, "a value")

    @property
    def here(self) -> _Token:
        return self.tokens[self.at]

    def next(self) -> _Token:
        token = self.here
        if token.kind == "end":
            raise self.surprise(token, "NAME")
        self.at += 1
        return token

    def take(self, text: str) -> bool:
        if self.here.text != text or self.here.kind in ("string", "block"):
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.surprise(self.here, f'"{text}"')

    def name(self) -> str:
        token = self.next()
        if token.kind != "name":
            raise self.surprise(token, "NAME")
        return token.text

    def surprise(self, token: _Token, wanted: str) -> BadDocument:
        found = f'"{token.text}"' if token.text else "end of document"
        return BadDocument(f"Expected {wanted}, actual: {found}", token.line, token.column)
