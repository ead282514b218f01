"""A simulated GitHub: repositories, issues, pull requests, comments and reviews behind the REST paths.

Owns `GitHubForge`, the one name other packages use, and `GitHubSettings`, its switches.
"""

from tidelore_world.github.forge import GitHubForge
from tidelore_world.github.settings import GitHubSettings

__all__ = ["GitHubForge", "GitHubSettings"]
