"""Rejects configurations that the types of the settings cannot express.

Wrong addresses, two hosts with one name, overrides that would be ignored, invalid repository names, unknown
associations, and incomplete GitHub Apps. Each error names the file, the key and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from tidelore.core.errors import ConfigError, UserError
from tidelore.core.references import parse_horizon

if TYPE_CHECKING:
    from tidelore.core.config import Bluesky, GitHubHost, Host, ProjectHost

ASSOCIATIONS = ("@owner", "@member", "@collaborator", "@contributor", "@author")


def check_hosts(listed: Sequence[Host], file: str) -> None:
    """Reject what the types cannot express: invalid URLs, and two hosts with the same name."""
    hosts = [
        (f"{kind}[{place}]", host)
        for kind, group in groupby(listed, key=lambda host: host.kind)
        for place, host in enumerate(group)
    ]
    names: dict[str, str] = {}
    for where, host in hosts:
        name = host.name
        _check_address(host.base_url, "https://gitlab.example.com", f"{where}.base_url", file)
        if name in names:
            raise ConfigError(
                f"{file}: {where}.name: {name!r} is already used by {names[name]}",
                fix="give each host a different name",
                file=file,
                key=f"{where}.name",
            )
        names[name] = where
    for where, host in hosts:
        host.check(where, file)
        check_since(host, where, file)


def check_bluesky(settings: Bluesky, file: str) -> None:
    """Reject addresses of Bluesky's servers that are no URLs, or that contain the path of the API."""
    _check_address(settings.base_url, "https://public.api.bsky.app", "bluesky.base_url", file)
    _check_address(settings.plc_url, "https://plc.directory", "bluesky.plc_url", file)
    check_api_path(settings.base_url, "/xrpc", "bluesky.base_url", file)


def check_overrides(host: ProjectHost, where: str, file: str) -> None:
    """Reject an override that would be ignored: a duplicate, or one for a project that is not mirrored."""
    seen: dict[str, str] = {}
    for index, entry in enumerate(host.overrides):
        key = f"{where}[{index}].project"
        if entry.project in seen:
            raise ConfigError(
                f"{file}: {key}: {entry.project!r} already has overrides in {seen[entry.project]}",
                fix="merge the two tables",
                file=file,
                key=key,
            )
        # The projects of a group are not known here, so a name is certainly wrong only if there are no groups.
        if not host.groups and entry.project not in host.projects:
            raise ConfigError(
                f"{file}: {key}: {entry.project!r} is not a project of this host",
                fix="use a path listed under `projects`",
                file=file,
                key=key,
            )
        seen[entry.project] = f"{where}[{index}]"


def check_api_path(base_url: str, path: str, key: str, file: str) -> None:
    """Reject an address that ends with the path of the API, which is added to every request."""
    from urllib.parse import urlsplit

    if urlsplit(base_url).path.rstrip("/").endswith(path):
        raise ConfigError(
            f"{file}: {key}: ends with {path}, which is added to every request",
            fix=f"remove {path} from it",
            file=file,
            key=key,
        )


def check_web_address(base_url: str, web: str, api: str, key: str, file: str) -> None:
    """Reject the address of the web pages of a service whose API has another host name."""
    from urllib.parse import urlsplit

    if urlsplit(base_url).hostname in {web, f"www.{web}"}:
        raise ConfigError(
            f"{file}: {key}: {web} serves the web pages, not the API",
            fix=f'write "{api}", or remove the key',
            file=file,
            key=key,
        )


def check_paths(names: Sequence[str], where: str, form: str, file: str) -> None:
    """Reject a web address where the path of a project or group is expected."""
    for index, name in enumerate(names):
        if "://" in name:
            # Do not repeat the value: it may contain a password.
            key = f"{where}[{index}]"
            raise ConfigError(
                f"{file}: {key}: a web address instead of a path",
                fix=f'write only the path, such as "{form}"',
                file=file,
                key=key,
            )


def check_nested(projects: Sequence[str], where: str, file: str) -> None:
    """Reject a project without the group or user that it belongs to; a number is the id of a project."""
    for index, path in enumerate(projects):
        if "/" not in path and not path.isdecimal():
            key = f"{where}.projects[{index}]"
            raise ConfigError(
                f"{file}: {key}: {path!r} names no group or user",
                fix=f'write the whole path, such as "group/{path}"; for all projects of a group use {where}.groups',
                file=file,
                key=key,
            )


def check_since(host: Host, where: str, file: str) -> None:
    """Reject a horizon that cannot be parsed, of a host or of one of its projects."""
    entries: list[tuple[str, str | None]] = [(where, host.mirror_since)]
    for table in ("overrides", "repos"):
        entries += [(f"{where}.{table}[{at}]", one.mirror_since) for at, one in enumerate(getattr(host, table, ()))]
    for place, text in entries:
        if text:
            try:
                parse_horizon(text, 0)
            except UserError as error:
                key = f"{place}.mirror_since"
                raise ConfigError(f"{file}: {key}: {error.message}", fix=error.fix, file=file, key=key) from None


def check_repos(host: GitHubHost, where: str, file: str) -> None:
    """Reject invalid repository names and duplicates."""
    seen: dict[str, str] = {}
    for index, repo in enumerate(host.repos):
        key = f"{where}[{index}].name"
        owner, slash, name = repo.name.partition("/")
        if not (owner and slash and name) or "/" in name or repo.name != "".join(repo.name.split()):
            raise ConfigError(
                f"{file}: {key}: could not parse {repo.name!r} as a repository",
                fix='use the form "owner/repo"',
                file=file,
                key=key,
            )
        if repo.name.casefold() in seen:
            raise ConfigError(
                f"{file}: {key}: {repo.name!r} is already listed in {seen[repo.name.casefold()]}",
                fix="merge the two tables",
                file=file,
                key=key,
            )
        seen[repo.name.casefold()] = f"{where}[{index}]"


def allowed_users(host: GitHubHost, where: str) -> list[tuple[str, Sequence[str]]]:
    lists = [(f"{where}.allowed_users", host.allowed_users)]
    own = [(f"{where}.repos[{at}].allowed_users", repo.allowed_users) for at, repo in enumerate(host.repos)]
    return [*lists, *((key, names) for key, names in own if names is not None)]


def check_allowed_users(names: Sequence[str], key: str, file: str) -> None:
    """Reject an unknown association (`@...`), because it would match no user."""
    unknown = next((name for name in names if name.startswith("@") and name.casefold() not in ASSOCIATIONS), None)
    if unknown is not None:
        raise ConfigError(
            f"{file}: {key}: {unknown!r} is not an association",
            fix=f"write logins without @, or use one of: {', '.join(ASSOCIATIONS)}",
            file=file,
            key=key,
        )


def check_app(host: GitHubHost, where: str, file: str) -> None:
    """Reject an incomplete GitHub App: its id, its installation and its key are only valid together."""
    parts = {
        "app_id": host.app_id,
        "installation_id": host.installation_id,
        "private_key_file": host.private_key_file,
    }
    missing = [name for name, value in parts.items() if not value]
    if missing and len(missing) < len(parts):
        raise ConfigError(
            f"{file}: {where}.{missing[0]}: a GitHub App needs app_id, installation_id and private_key_file",
            fix=f"set {missing[0]}, or remove the others to authenticate with a token",
            file=file,
            key=f"{where}.{missing[0]}",
        )


def _check_address(url: str, example: str, key: str, file: str) -> None:
    if not _is_address(url):
        # Do not repeat the value: it may contain a password.
        raise ConfigError(f"{file}: {key}: not an http(s) URL", fix=f'write it like "{example}"', file=file, key=key)


def _is_address(text: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    plain = parts.username is None and not parts.query and not parts.fragment
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and plain
