"""A simulated Bluesky: AppView, PDS and PLC directory on one origin.

Owns `BlueskyForge`, the one name other packages use, and `BlueskySettings`, its switches.
"""

from tidelore_world.bluesky.forge import BlueskyForge
from tidelore_world.bluesky.settings import BlueskySettings

__all__ = ["BlueskyForge", "BlueskySettings"]
