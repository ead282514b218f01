"""`lore init`: writes a configuration file."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import click

from tidelore.cli.face import LoreCommand, face_of
from tidelore.cli.render import Answer
from tidelore.core.config import config_path, parse_config
from tidelore.core.errors import StorageFailed, UserError

TEMPLATE = """\
# Tidelore's configuration. Every key is documented in docs/reference/configuration.md;
# omitted keys have the default shown there. Never write a token here: name its environment variable.

# default_project = "group/project"

# [storage]
# path = "~/.local/share/tidelore/lore.db"      # or a postgresql:// address

[[gitlab]]
name = "gitlab"
base_url = {base_url}
token_env = {token_env}
projects = [{projects}]
"""


@click.command("init", cls=LoreCommand, example="lore init --gitlab-url https://gitlab.com --project group/project")
@click.option(
    "--gitlab-url",
    default="https://gitlab.com",
    show_default=True,
    metavar="URL",
    help="Base URL of the GitLab server.",
)
@click.option(
    "--token-env",
    default="GITLAB_TOKEN",
    show_default=True,
    help="Name of the environment variable that holds the token.",
)
@click.option("-p", "--project", "projects", multiple=True, metavar="PATH", help="Project to mirror (repeatable).")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@click.pass_context
def command(
    ctx: click.Context,
    gitlab_url: str,
    token_env: str,
    projects: tuple[str, ...],
    overwrite: bool,  # noqa: FBT001
) -> Answer:
    """Write a configuration file.

    The file is created with mode 0600; an existing one is kept unless --overwrite is given. It never contains a token,
    only the name of the environment variable that holds it. Next steps: export the token, check the setup with `lore
    doctor`, fetch with `lore sync`, then `lore search`.
    """
    path = Path(config_path(face_of(ctx).choices.config, os.environ))
    if path.exists() and not overwrite:
        raise UserError(f"{path} already exists", fix="edit it, or replace it with --overwrite", path=str(path))
    text = TEMPLATE.format(
        base_url=_quoted(gitlab_url),
        token_env=_quoted(token_env),
        projects=", ".join(_quoted(project) for project in projects),
    )
    # What could not be read back is refused before anything is written.
    parse_config(tomllib.loads(text), str(path))
    _write(path, text.encode())
    lines = [f"Wrote {path}"]
    if not projects:
        lines.append("Add your projects under [[gitlab]], then:")
    lines += [f"  export {token_env}=…", "  lore doctor", "  lore sync", "  lore search 'words to find'"]
    return Answer({"path": str(path), "projects": list(projects)}, lines)


def _quoted(text: str) -> str:
    """Return a TOML string. JSON and TOML escape alike, except DEL and characters beyond the first plane."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            # The mode above is for a new file only.
            os.fchmod(descriptor, 0o600)
            file.write(content)
    except OSError as error:
        raise StorageFailed(
            f"cannot write {path}: {error.strerror}", fix="choose another path with --config", path=str(path)
        ) from None
