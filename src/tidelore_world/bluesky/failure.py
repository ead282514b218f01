"""The errors the simulated network answers with.

Owns the one exception handlers raise, and its JSON form.
"""

from __future__ import annotations

from tidelore_world.wire import Response, json_response


class XrpcFailure(Exception):
    """A request that is answered with an error status."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message

    def response(self) -> Response:
        """The answer as it goes over the wire."""
        return json_response({"error": self.error, "message": self.message}, self.status)


def invalid(message: str) -> XrpcFailure:
    """What the service says of a request it cannot accept, and of accounts it cannot show."""
    return XrpcFailure(400, "InvalidRequest", message)
