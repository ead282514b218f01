"""`/api/graphql`: what a query document gets for an answer.

Owns reading the request and picking the fields asked for. Refuses to find rows (`graphql_nodes`). Invariant: a
refused document is answered with 200 and `errors` only, and a project the caller may not read is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidelore_world.gitlab.graphql_conversations import Shown
from tidelore_world.gitlab.graphql_nodes import BadArgument, Node, query_node
from tidelore_world.gitlab.graphql_schema import check, depth_of, schema_types, score_of
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
MOST_COMPLEX, MOST_COMPLEX_SIGNED_IN = 200, 250
DEEPEST, DEEPEST_SIGNED_IN = 15, 20
TOO_LONG = "Request timed out. Please try a less complex query or a smaller set of records."


def graphql(forge: View, request: Request) -> Response:
    """Answer a query given as JSON, or in the address of a GET; where answers are kept, the same query again."""
    kept, key = forge.graphql_kept, (request.body, _is_signed_in(request))
    if kept is None or request.method == "GET":
        return _answer(forge, request)
    if key in kept:
        return Response(200, {"content-type": "application/json"}, kept[key])
    response = _answer(forge, request)
    if response.status == 200:
        kept[key] = response.body
    return response


def _answer(forge: View, request: Request) -> Response:
    if forge.graphql_status != 200:
        return _errors([{"message": "Not found!"}], forge.graphql_status)
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
    types = schema_types(statuses=forge.statuses, work_items=not forge.old_server, without=forge.graphql_fields_missing)
    problems = check(document, types) or _limits(document, request)
    if problems:
        return _errors(problems)
    shown = Shown()
    try:
        measured = {"__typename": "QueryComplexity", "score": score_of(document), "limit": _most(request)[0]}
        data = _pick(query_node(forge, shown) | {"queryComplexity": measured}, document.selections, document)
        if forge.graphql_most_notes is not None and shown.notes > forge.graphql_most_notes:
            return _errors([{"message": TOO_LONG}], 503)
        return json_response({"data": data})
    except BadArgument as problem:
        return _errors([{"message": str(problem), "extensions": {"code": "argumentLiteralsIncompatible"}}])


def _most(request: Request) -> tuple[int, int]:
    """The limits of complexity and depth: a caller without a token may ask for less."""
    return (MOST_COMPLEX_SIGNED_IN, DEEPEST_SIGNED_IN) if _is_signed_in(request) else (MOST_COMPLEX, DEEPEST)


def _is_signed_in(request: Request) -> bool:
    return "private-token" in request.headers or "authorization" in request.headers


def _limits(document: Document, request: Request) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    most, deepest = _most(request)
    score, depth = score_of(document), depth_of(document)
    if score > most:
        found.append({"message": f"Query has complexity of {score}, which exceeds max complexity of {most}"})
    if depth > deepest:
        found.append({"message": f"Query has depth of {depth}, which exceeds max depth of {deepest}"})
    return found


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
        return [None if node is None else _pick(node, found.selections, document) for node in value]
    return _pick(value, found.selections, document) if isinstance(value, dict) else value
