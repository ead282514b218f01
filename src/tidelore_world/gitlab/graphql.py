"""`/api/graphql`: what a query document gets for an answer.

Owns reading the request and picking the fields asked for. Refuses to find rows (`graphql_nodes`). Invariant: a
refused document is answered with 200 and `errors` only, and a project the caller may not read is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidelore_world.gitlab.graphql_nodes import BadArgument, Node, query_node
from tidelore_world.gitlab.graphql_schema import check, schema_types
from tidelore_world.gitlab.view import View
from tidelore_world.graphql_check import refusal
from tidelore_world.graphql_document import (
    BadDocument,
    Document,
    Field,
    Fragment,
    Selection,
    parse_document,
)
from tidelore_world.wire import Request, Response, json_response

MAX_QUERY_CHARS = 10_000


def graphql(forge: View, request: Request) -> Response:
    """Answer a query given as JSON, or in the address of a GET."""
    try:
        text, variables = _read(request)
    except (ValueError, AttributeError):
        return _errors([{"message": "Unexpected end of document", "locations": []}], 400)
    if len(text) > MAX_QUERY_CHARS:
        return _errors([{"message": "Query too large"}], 422)
    if not text.strip():
        return _errors([{"message": "No query string was present"}])
    try:
        document = parse_document(text, variables)
    except BadDocument as problem:
        return _errors([refusal(str(problem), problem.line, problem.column)])
    if document.operation == "mutation" and request.method == "GET":
        return _errors([{"message": "Mutations are forbidden in GET requests"}], 422)
    types = schema_types(statuses=forge.statuses, work_items=not forge.old_server)
    problems = check(document, types)
    if problems:
        return _errors(problems)
    try:
        return json_response({"data": _pick(query_node(forge), document.selections, document)})
    except BadArgument as problem:
        return _errors([{"message": str(problem), "extensions": {"code": "argumentLiteralsIncompatible"}}])


def _read(request: Request) -> tuple[str, Mapping[str, Any]]:
    address = {name: values[0] for name, values in request.query.items()}
    given = json.loads(request.body) if request.method == "POST" else address
    variables = given.get("variables") or {}
    if isinstance(variables, str):
        variables = json.loads(variables)
    return str(given.get("query") or ""), variables


def _errors(errors: Sequence[Mapping[str, Any]], status: int = 200) -> Response:
    return json_response({"errors": list(errors)}, status)


def _pick(node: Node, selections: Sequence[Selection], document: Document) -> Node:
    """The fields of one object that the selections ask for, in their order."""
    picked: Node = {}
    for found in selections:
        if isinstance(found, Field):
            picked[found.key] = _value(node[found.name], found, document)
            continue
        fragment = found if isinstance(found, Fragment) else document.fragments[found.name]
        if fragment.type_name in (None, node["__typename"], node.get("__interface")):
            picked |= _pick(node, fragment.selections, document)
    return picked


def _value(value: Any, found: Field, document: Document) -> Any:
    if callable(value):
        value = value(found.arguments)
    if isinstance(value, list):
        return [_pick(node, found.selections, document) for node in value]
    return _pick(value, found.selections, document) if isinstance(value, dict) else value
