"""`POST /graphql` of the simulated GitHub: reading the request, its cost, and picking the fields asked for.

Owns the limits of a query and the shape of answers and errors. Refuses to find rows (`graphql_schema`). Facts kept:
an answer with errors has status 200; a field that fails is null, and so is the nearest nullable field above it; a
query that may reach more than 500,000 nodes is refused whole; one that takes too long answers 502 or 504.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidelore_world.clock import SECOND_US, iso_seconds
from tidelore_world.faults import SimulatedTimeout
from tidelore_world.github.failure import ApiFailure
from tidelore_world.github.graphql_mutations import mutation_types
from tidelore_world.github.graphql_schema import INTERFACES, TYPES
from tidelore_world.github.graphql_types import Context, FieldFailure, FieldType, Node
from tidelore_world.github.serving import LOST_SECONDS, Desk, token_of
from tidelore_world.graphql_check import Error, check_document, refusal
from tidelore_world.graphql_document import BadDocument, Document, Field, Fragment, Selection, parse_document
from tidelore_world.wire import Request, Response, json_response

if TYPE_CHECKING:
    from tidelore_world.github.discussing import Discussing

MOST_NODES = 500_000
_SLOW = (
    "Something went wrong while executing your query. This may be the result of a timeout, or it could be a GitHub "
    "bug. Please include `0000:0000:0000000:0000000:00000000` when reporting this issue."
)

Path = tuple[str | int, ...]
Types = Mapping[str, Mapping[str, FieldType]]


class _Missing(Exception):
    """A value that must be there is missing: whatever holds it is null."""


class GraphQL:
    """Answers GraphQL requests."""

    def __init__(self, events: Discussing, desk: Desk) -> None:
        self._events = events
        self._desk = desk
        self._types: Types = {**TYPES, **mutation_types(events)}
        self._names = {
            name: {key: found.inner for key, found in members.items()} for name, members in self._types.items()
        }

    def answer(self, request: Request) -> Response:
        """Answer a query given as JSON."""
        text, variables = _read(request)
        if not text.strip():
            return _refused([{"message": "A query attribute must be specified and must be a string."}])
        try:
            document = parse_document(text, variables)
        except BadDocument as problem:
            return _refused([refusal(str(problem), problem.line, problem.column)])
        problems = check_document(document, self._offered(), self._accepted, self._required)
        return _refused(problems) if problems else self._run(request, document)

    def _offered(self) -> Mapping[str, Mapping[str, str | None]]:
        lacks = self._desk.settings.graphql_lacks
        if not lacks:
            return self._names
        return {
            type_name: {name: inner for name, inner in known.items() if f"{type_name}.{name}" not in lacks}
            for type_name, known in self._names.items()
        }

    def _run(self, request: Request, document: Document) -> Response:
        settings, limits, caller = self._desk.settings, self._desk.limits, token_of(request)
        count = _Count(self._types, document)
        count.walk(document.selections, document.operation.capitalize(), 1)
        cost = max(1, round(count.requests / 100))
        if count.nodes > MOST_NODES:
            message = (
                f"This query requests up to {count.nodes:,} possible nodes which exceeds the maximum limit of 500,000."
            )
            return json_response({"data": None, "errors": [{"type": "MAX_NODE_LIMIT_EXCEEDED", "message": message}]})
        if limits.points_left(caller) < 1:
            viewer = self._events.hub.user(self._desk.login(request))
            message = f"API rate limit already exceeded for user ID {viewer.id}."
            return json_response({"errors": [{"type": settings.graphql_limited_type, "message": message}]})
        limits.charge_points(caller, cost)
        if settings.graphql_slow_nodes is not None and count.nodes > settings.graphql_slow_nodes:
            limits.charge_points(caller, settings.graphql_slow_points)
            return json_response({"data": None, "errors": [{"message": _SLOW}]}, settings.graphql_slow_status)
        changes = document.operation == "mutation"
        refused = limits.creation_refusal(caller) if changes else None
        if refused is not None:
            return refused
        response = self._execute(request, document, self._budget(caller, cost, count.nodes))
        if changes:
            limits.charge_creation(caller)
            if settings.lost_answers > 0:
                settings.lost_answers -= 1
                raise SimulatedTimeout(LOST_SECONDS)
        return response

    def _budget(self, caller: str, cost: int, nodes: int) -> Mapping[str, Any]:
        budget = self._desk.limits.graphql(caller)
        reset = iso_seconds(budget["reset"] * SECOND_US)
        return {**budget, "cost": cost, "nodeCount": nodes, "resetAt": reset}

    def _execute(self, request: Request, document: Document, budget: Mapping[str, Any]) -> Response:
        settings = self._desk.settings
        context = Context(
            self._events.hub, settings, request.origin.removesuffix("/api/v3"), self._desk.login(request), budget
        )
        run = _Run(self._types, document, context, settings.graphql_resources)
        root = Node(document.operation.capitalize(), None)
        data: dict[str, Any] | None
        try:
            data = run.object(root, document.selections, ())
        except _Missing:
            data = None
        return json_response({"data": data} | ({"errors": run.errors} if run.errors else {}))

    def _accepted(self, type_name: str, name: str) -> frozenset[str]:
        return self._types[type_name][name].arguments

    def _required(self, type_name: str, name: str) -> tuple[str, ...]:
        return self._types[type_name][name].required


def _read(request: Request) -> tuple[str, Mapping[str, Any]]:
    try:
        given = json.loads(request.body)
    except ValueError as error:
        raise ApiFailure(400, "Problems parsing JSON") from error
    if not isinstance(given, dict):
        raise ApiFailure(400, "Body should be a JSON object")
    query, variables = given.get("query"), given.get("variables") or {}
    return query if isinstance(query, str) else "", variables if isinstance(variables, dict) else {}


def _refused(errors: Sequence[Error]) -> Response:
    return json_response({"errors": list(errors)})


@dataclass(slots=True)
class _Count:
    """What a document may reach at most: nodes, and the requests that cost points."""

    types: Types
    document: Document
    nodes: int = 0
    requests: int = 0

    def walk(self, selections: Sequence[Selection], type_name: str, times: int) -> None:
        for found in selections:
            if not isinstance(found, Field):
                fragment = found if isinstance(found, Fragment) else self.document.fragments[found.name]
                self.walk(fragment.selections, fragment.type_name or type_name, times)
                continue
            declared = self.types.get(type_name, {}).get(found.name)
            if declared is None or declared.inner is None:
                continue
            inside = times
            if declared.is_connection:
                size = found.arguments.get("first") or found.arguments.get("last")
                inside = times * (size if isinstance(size, int) else 1)
                self.requests += times
                self.nodes += inside if isinstance(size, int) else 0
            elif found.name == "nodes" and type_name == "Query":
                inside = times * max(1, len(found.arguments.get("ids") or ()))
                self.requests += 1
                self.nodes += inside
            self.walk(found.selections, declared.inner, inside)


@dataclass(slots=True)
class _Run:
    """One query on its way through the objects; `resources` is how many of a list it may still read."""

    types: Types
    document: Document
    context: Context
    resources: int | None
    errors: list[Error] = field(default_factory=list)

    def object(self, node: Node, selections: Sequence[Selection], path: Path) -> dict[str, Any]:
        """The fields of one object that the selections ask for."""
        return {key: self._field(node, same, (*path, key)) for key, same in self._collect(node, selections).items()}

    def _collect(self, node: Node, selections: Sequence[Selection]) -> dict[str, list[Field]]:
        """The fields to answer by their keys; the same key may be asked for in several fragments."""
        picked: dict[str, list[Field]] = {}
        for found in selections:
            if isinstance(found, Field):
                picked.setdefault(found.key, []).append(found)
                continue
            fragment = found if isinstance(found, Fragment) else self.document.fragments[found.name]
            known = INTERFACES.get(node.type_name, frozenset())
            if fragment.type_name in (None, node.type_name) or fragment.type_name in known:
                for key, same in self._collect(node, fragment.selections).items():
                    picked.setdefault(key, []).extend(same)
        return picked

    def _field(self, node: Node, same: Sequence[Field], path: Path) -> Any:
        found = same[0]
        if found.name == "__typename":
            return node.type_name
        declared = self.types[node.type_name][found.name]
        selections = [inner for asked in same for inner in asked.selections]
        try:
            if f"{node.type_name}.{found.name}" in self.context.settings.graphql_forbidden:
                raise FieldFailure("FORBIDDEN", "Resource not accessible by personal access token", saml_failure=False)
            value = declared.resolve(self.context, node, self._arguments(declared, found, selections))
            return self._complete(value, declared, found, selections, path)
        except FieldFailure as failure:
            self._tell(failure, found, path)
        except _Missing:
            pass
        if declared.nullable:
            return None
        raise _Missing

    @staticmethod
    def _arguments(declared: FieldType, found: Field, selections: Sequence[Selection]) -> Mapping[str, Any]:
        """The arguments of a field; a connection of which only the count is wanted needs no page."""
        if not declared.is_connection:
            return found.arguments
        names = {inner.name for inner in selections if isinstance(inner, Field)}
        only = all(isinstance(inner, Field) for inner in selections) and names <= {"totalCount", "__typename"}
        return {**found.arguments, "_counted_only": only}

    def _complete(
        self, value: Any, declared: FieldType, found: Field, selections: Sequence[Selection], path: Path
    ) -> Any:
        if value is None:
            if declared.nullable:
                return None
            raise _Missing
        if declared.inner is None:
            return value
        if isinstance(value, Node):
            return self.object(value, selections, path)
        return [self._item(item, found, selections, (*path, place)) for place, item in enumerate(value)]

    def _item(self, item: Node | FieldFailure, found: Field, selections: Sequence[Selection], path: Path) -> Any:
        """One entry of a list: null when it cannot be read, or when the query has read too much."""
        if self.resources is not None:
            if self.resources <= 0:
                self._exhaust(found, path)
                return None
            self.resources -= 1
        if isinstance(item, FieldFailure):
            self._tell(item, found, path)
            return None
        try:
            return self.object(item, selections, path)
        except _Missing:
            return None

    def _exhaust(self, found: Field, path: Path) -> None:
        if not any(error.get("type") == "RESOURCE_LIMITS_EXCEEDED" for error in self.errors):
            failure = FieldFailure("RESOURCE_LIMITS_EXCEEDED", "Resource limits for this query exceeded.")
            self._tell(failure, found, path)

    def _tell(self, failure: FieldFailure, found: Field, path: Path) -> None:
        error: Error = {"type": failure.kind, "path": list(path)}
        if failure.extensions:
            error["extensions"] = failure.extensions
        error["locations"] = [{"line": found.line, "column": found.column}]
        error["message"] = failure.message
        self.errors.append(error)
