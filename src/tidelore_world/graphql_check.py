"""The check of a GraphQL document against the types a simulated server has.

Owns the wording of refusals, which is graphql-ruby's: both GitLab and GitHub are built on it. Refuses to look at rows.
Invariant: a document that passes the check can be answered without a further look at names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelore_world.graphql_document import Document, Field, Fragment, Selection

Error = dict[str, Any]
Types = Mapping[str, Mapping[str, str | None]]
"""Fields by type; None for one that has no fields of its own, else the type of what it leads to."""

Accepted = Callable[[str, str], Collection[str]]
Required = Callable[[str, str], Sequence[str]]


def check_document(document: Document, types: Types, accepted: Accepted, required: Required) -> list[Error]:
    """Every reason why a document is refused; none means it can be answered.

    `accepted` and `required` name the arguments of a field of a type.
    """
    checker = _Checker(types, document, accepted, required)
    root = document.operation.capitalize()
    checker.walk(document.selections, root, (f"{document.operation} {document.name}".rstrip(),))
    for name, fragment in document.fragments.items():
        checker.fragment(fragment, (f"fragment {name}",))
    return checker.errors


def refusal(message: str, line: int, column: int, path: Sequence[str] = (), **extensions: str) -> Error:
    """An error in graphql-ruby's shape."""
    error: Error = {"message": message, "locations": [{"line": line, "column": column}]}
    if path:
        error["path"] = list(path)
    if extensions:
        error["extensions"] = extensions
    return error


@dataclass(slots=True)
class _Checker:
    types: Types
    document: Document
    accepted: Accepted
    required: Required
    errors: list[Error] = field(default_factory=list)

    def walk(self, selections: Sequence[Selection], type_name: str, path: tuple[str, ...]) -> None:
        for found in selections:
            if isinstance(found, Field):
                self.field(found, type_name, (*path, found.key))
            elif isinstance(found, Fragment):
                self.fragment(found, (*path, f"... on {found.type_name}"), type_name)
            elif found.name not in self.document.fragments:
                message = f"Fragment {found.name} was used, but not defined"
                code = {"code": "useAndDefineFragment", "fragmentName": found.name}
                self.errors.append(refusal(message, found.line, found.column, path, **code))

    def fragment(self, found: Fragment, path: tuple[str, ...], outer: str | None = None) -> None:
        type_name = found.type_name or outer or ""
        if type_name in self.types:
            self.walk(found.selections, type_name, path)
            return
        message = f"No such type {type_name}, so it can't be a fragment condition"
        code = {"code": "undefinedType", "typeName": type_name}
        self.errors.append(refusal(message, found.line, found.column, path, **code))

    def field(self, found: Field, type_name: str, path: tuple[str, ...]) -> None:
        name, fields = found.name, self.types.get(type_name, {})
        if name == "__typename":
            return
        if name not in fields:
            code = {"code": "undefinedField", "typeName": type_name, "fieldName": name}
            self._refuse(found, path, f"Field '{name}' doesn't exist on type '{type_name}'", code)
            return
        self._arguments(found, type_name, path)
        inner = fields[name]
        if inner is None and found.selections:
            code = {"code": "selectionMismatch", "nodeName": f"field '{name}'", "typeName": "String"}
            self._refuse(found, path, f"Selections can't be made on scalars (field '{name}' has selections)", code)
        elif inner is not None and not found.selections:
            message = f"Field must have selections (field '{name}' returns {inner} but has no selections.)"
            code = {"code": "selectionMismatch", "nodeName": f"field '{name}'", "typeName": inner}
            self._refuse(found, path, message, code)
        elif inner is not None:
            self.walk(found.selections, inner, path)

    def _arguments(self, found: Field, type_name: str, path: tuple[str, ...]) -> None:
        accepted = self.accepted(type_name, found.name)
        for argument in found.arguments:
            if argument not in accepted:
                message = f"Field '{found.name}' doesn't accept argument '{argument}'"
                code = {"code": "argumentNotAccepted", "name": found.name, "argumentName": argument}
                self._refuse(found, (*path, argument), message, code)
        missing = [name for name in self.required(type_name, found.name) if found.arguments.get(name) is None]
        if missing:
            names = ", ".join(missing)
            message = f"Field '{found.name}' is missing required arguments: {names}"
            code = {"code": "missingRequiredArguments", "name": found.name, "arguments": names}
            self._refuse(found, path, message, code)

    def _refuse(self, found: Field, path: tuple[str, ...], message: str, code: dict[str, str]) -> None:
        self.errors.append(refusal(message, found.line, found.column, path, **code))
