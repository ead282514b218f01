"""Where a review remark sits in a diff: new side, old side, context, a range of lines, or a picture.

Owns positions of DiffNotes. Refuses to write notes. Invariant: a position names a file of the merge
request's own diff and the commits of its latest version.
"""

from __future__ import annotations

import random

from tidelore_world.gitlab.state import FileDiff, MergeRequest, Position
from tidelore_world.prose import Turn

_PICTURES = (".png", ".jpg", ".svg")


def place_review(rng: random.Random, request: MergeRequest, turn: Turn) -> Position:
    """Put a review turn on the file it speaks about, or on the first changed file."""
    diffs = request.diffs
    diff = next((found for found in diffs if turn.path in (found.new_path, found.old_path)), diffs[0])
    line = turn.line or rng.randint(1, 200)
    return text_position(rng, request, diff, line)


def text_position(rng: random.Random, request: MergeRequest, diff: FileDiff, line: int) -> Position:
    """A position on one line or on a range that ends there."""
    position = _on(request, diff.old_path, diff.new_path)
    dice = rng.random()
    first = max(1, line - rng.randint(1, 6))
    if diff.deleted_file or (dice < 0.15 and not diff.new_file):
        position.old_line = line
        if rng.random() < 0.3:
            position.first_old_line = first
    elif dice < 0.25 and not diff.new_file:
        position.old_line, position.new_line = line, line + 2
    elif dice < 0.5:
        position.new_line, position.first_new_line = line, first
        if not diff.new_file and rng.random() < 0.3:
            position.first_old_line = first
    else:
        position.new_line = line
    return position


def image_position(rng: random.Random, request: MergeRequest) -> Position:
    """A position on a picture that the merge request changes; the picture joins the diff if it lacks one."""
    path = next((diff.new_path for diff in request.diffs if diff.new_path.endswith(_PICTURES)), None)
    if path is None:
        path = "docs/images/overview.png"
        request.diffs.append(FileDiff(path, path, "Binary files differ\n"))
        request.versions[-1].files += 1
    position = _on(request, path, path)
    position.position_type = "image"
    position.width, position.height = 1280, 720
    position.x, position.y = rng.randint(0, 1279), rng.randint(0, 719)
    return position


def _on(request: MergeRequest, old_path: str, new_path: str) -> Position:
    latest = request.versions[-1]
    return Position(latest.base_sha, latest.start_sha, latest.head_sha, old_path, new_path)
