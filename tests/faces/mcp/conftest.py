"""The desk of the other faces, for the tests of the MCP server."""

from __future__ import annotations

from tests.faces.conftest import desk, home, world

__all__ = ["desk", "home", "world"]
