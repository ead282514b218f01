"""What an error shows to people: what failed, the server's own words, and what to do."""

from __future__ import annotations

import pytest

from tidelore.cli.command import Choices
from tidelore.cli.output.render import render_error
from tidelore.core.errors import RemotePermanent


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('{"message": "Resource not accessible by personal access token", "status": "403"}', "Resource not accessible"),
        ('{"message":"403 Forbidden","error":"insufficient_scope"}', "403 Forbidden"),
        ('{"message":"a \\\\"quoted\\\\" wo', '{"message":"a'),
        ("<html>\x1b[31mred", "<html>"),
    ],
)
def test_a_refusal_shows_the_words_of_the_server_without_control_characters(
    capsys: pytest.CaptureFixture[str], said: str, shown: str
) -> None:
    error = RemotePermanent("the server refused the request (status 403)", status=403, said=said, fix="ask")
    render_error(error, Choices(), "sync")
    head, words, fix = capsys.readouterr().err.splitlines()
    assert head.startswith("error: ")
    assert words.startswith(f"said:  {shown}")
    assert "\x1b" not in words
    assert fix == "fix:   ask"
