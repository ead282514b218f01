"""Answers that somebody asks for. Owns the wiring between the intent and the host it is posted to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelore.app.feedback.hub import open_hub
from tidelore.feedback.places import Place

if TYPE_CHECKING:
    from tidelore.app import App
    from tidelore.feedback.answers import Answering, Posted


async def post_answer(app: App, place: Place, answering: Answering) -> Posted:
    """Store an answer and send it; what could not be confirmed is finished by the next poll."""
    from tidelore.feedback.answers import post

    async with open_hub(app, [place]) as hub:
        project = await hub.project(place)
        return await post(hub.database, hub.source(place), project, place.host, answering, app.clock, app.seam)
