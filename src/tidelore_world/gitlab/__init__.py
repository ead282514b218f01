"""A GitLab instance (REST v4) with the behaviours that make mirroring it hard."""

from __future__ import annotations

from tidelore_world.gitlab.forge import GitLabForge

__all__ = ["GitLabForge"]
