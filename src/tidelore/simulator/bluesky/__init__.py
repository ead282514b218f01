"""A simulated Bluesky: AppView, PDS and PLC directory on one origin.

Owns `BlueskyForge`, the one name other packages use, and `BlueskySettings`, its switches.
"""

from tidelore.simulator.bluesky.forge import BlueskyForge
from tidelore.simulator.bluesky.settings import BlueskySettings

__all__ = ["BlueskyForge", "BlueskySettings"]
