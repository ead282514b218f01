"""Databases without a schema: the migrations make it."""

from __future__ import annotations

import pytest


@pytest.fixture
def address(dialect: str, request: pytest.FixtureRequest) -> str:
    """A database of the dialect: empty, or with the schema where the test asks for an open one."""
    kind = "migrated_" if "database" in request.fixturenames else ""
    return str(request.getfixturevalue(f"{kind}{dialect}_address"))
