"""Prose: the seeded texts of the simulated world, all about one fictional product.

Owns every word the simulated people write. Refuses to know forges, ids and times. Invariant: whatever
is written about one `Topic` tells one story and reaches one decision.
"""

from __future__ import annotations

from .author import Prose
from .model import Link, Person, Topic, Turn

__all__ = ["Link", "Person", "Prose", "Topic", "Turn"]
