"""The errors the simulated GitHub answers with.

Owns the one exception handlers raise, and its JSON form.
"""

from __future__ import annotations

from typing import Any

from tidelore_world.wire import Response, json_response


class ApiFailure(Exception):
    """A request that is answered with an error status."""

    def __init__(self, status: int, message: str, errors: tuple[dict[str, Any], ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors

    def response(self) -> Response:
        """The answer as it goes over the wire."""
        body: dict[str, Any] = {"message": self.message}
        if self.errors:
            body["errors"] = list(self.errors)
        body["documentation_url"] = "https://docs.github.com/rest"
        body["status"] = str(self.status)
        return json_response(body, self.status)


class Transferred(Exception):
    """What was asked for is in another repository now, under another number."""

    def __init__(self, repository_id: int, number: int) -> None:
        super().__init__(f"moved to repository {repository_id}")
        self.repository_id = repository_id
        self.number = number


def not_found() -> ApiFailure:
    """What GitHub says of anything missing or hidden."""
    return ApiFailure(404, "Not Found")
