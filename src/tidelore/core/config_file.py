"""Find, read and check the configuration file, and apply the environment variables that override it.

Rejects unknown and mistyped keys (naming the file, the key and the nearest valid one), values out of range, and
secrets: a token is configured only by the name of its environment variable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import GenericAlias, MappingProxyType
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from tidelore.core.config import Config, Host, Section, all_hosts
from tidelore.core.errors import ConfigError, UserError
from tidelore.core.patterns import late_pattern

_SCHEME = late_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://")

HostTables = Callable[[], Mapping[str, type[Host]]]
"""Returns the shapes of the tables of other forges by name. Called only for a file with a table that is unknown here,
because finding them takes time that every command would spend."""


def no_tables() -> Mapping[str, type[Host]]:
    """Return no tables of other forges."""
    return MappingProxyType({})


def config_path(explicit: str | None, environ: Mapping[str, str]) -> str:
    """Return the path of the configuration file, whether or not it exists."""
    chosen = explicit or environ.get("LORE_CONFIG")
    return os.path.expanduser(chosen) if chosen else _xdg(environ, "XDG_CONFIG_HOME", ".config", "config.toml")


def database_address(config: Config, explicit: str | None, environ: Mapping[str, str]) -> str:
    """Return the database address: a file path or a postgresql:// URL."""
    chosen = explicit or environ.get("LORE_DB") or config.storage.path
    if is_url(chosen):
        return chosen
    return os.path.expanduser(chosen) if chosen else _xdg(environ, "XDG_DATA_HOME", ".local/share", "lore.db")


def is_url(address: str) -> bool:
    """Return whether a database address is a URL of PostgreSQL, not a path."""
    return address.startswith(("postgresql://", "postgres://"))


def check_database_address(address: str) -> None:
    """Reject the URL of another kind of database."""
    if "://" in address and _SCHEME.match(address) and not is_url(address):
        # Do not repeat the address: it may contain a password.
        raise UserError("unsupported database address", fix="use a path, or the form postgresql://user@host/database")


def load_config(
    explicit: str | None = None, environ: Mapping[str, str] | None = None, tables: HostTables = no_tables
) -> Config:
    """Read and validate the settings. Without a file use the defaults, unless a path was given explicitly."""
    environ = os.environ if environ is None else environ
    path = config_path(explicit, environ)
    named = bool(explicit or environ.get("LORE_CONFIG"))
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        if named:
            raise ConfigError(
                f"no configuration file at {path}", fix=f"create one with: lore init --config {path}", file=path
            ) from None
        content = b""
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", fix="check the path and its permissions", file=path
        ) from None
    try:
        tree = _parse_toml(content.decode()) if content else {}
    except ValueError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}", fix="correct the syntax error at that line", file=path
        ) from None
    return parse_config(_overridden(tree, environ), path, tables)


def _with_repo_tables(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the tree with each plain name in `github.repos` turned into a table, so that both forms are accepted."""
    hosts = tree.get("github")
    if not isinstance(hosts, list) or not any(isinstance(host, dict) and "repos" in host for host in hosts):
        return tree

    def expanded(host: Any) -> Any:
        repos = host.get("repos") if isinstance(host, dict) else None
        if not isinstance(repos, list):
            return host
        return {**host, "repos": [{"name": repo} if isinstance(repo, str) else repo for repo in repos]}

    return {**tree, "github": [expanded(host) for host in hosts]}


def parse_config(tree: dict[str, Any], file: str = "<memory>", tables: HostTables = no_tables) -> Config:
    """Convert a decoded TOML tree to settings, or raise ConfigError with the invalid key and how to correct it."""
    if not tree:
        # Nothing to check. Building the validator is slow, and offline reads must start quickly.
        return Config()
    tree = _with_repo_tables(tree)
    ours = _known_keys(Config)
    found = tables() if tree.keys() - ours.keys() else no_tables()
    others = {kind: GenericAlias(tuple, (table, ...)) for kind, table in found.items() if kind not in ours}
    for key, valid in _unknown_keys(tree, {**ours, **others}, ""):
        raise _unknown_key(key, valid, file)
    config: Config = _convert({key: value for key, value in tree.items() if key in ours}, Config, "", file)
    hosts = tuple(
        host for kind, shape in others.items() if kind in tree for host in _convert(tree[kind], shape, kind, file)
    )
    if hosts:
        config = msgspec.structs.replace(config, others=hosts)
    from tidelore.core.config_checks import check_bluesky, check_hosts

    check_hosts(all_hosts(config), file)
    check_bluesky(config.bluesky, file)
    if config.embedding.chunk_overlap >= config.embedding.chunk_words:
        key = "embedding.chunk_overlap"
        said = f"{file}: {key}: must be smaller than chunk_words ({config.embedding.chunk_words})"
        raise ConfigError(said, fix=f"lower {key}, or raise embedding.chunk_words", file=file, key=key)
    return config


def _convert(tree: Any, shape: Any, root: str, file: str) -> Any:
    """Convert a part of the tree, found under the key `root`, and name the whole key of an invalid value."""
    try:
        return msgspec.convert(tree, shape)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at ")
        key = (root + where.strip("`").removeprefix("$")).removeprefix(".") or "the top level"
        fix = f"correct the value of {key}"
        if "matching regex" in message and "_env" in key.rpartition(".")[2]:
            message = "not the name of an environment variable"
            fix = "write only the name of the variable, such as GITHUB_TOKEN; a token itself must not be stored here"
        raise ConfigError(f"{file}: {key}: {message}", fix=fix, file=file, key=key) from None


def _xdg(environ: Mapping[str, str], variable: str, fallback: str, name: str) -> str:
    root = environ.get(variable) or os.path.join(os.path.expanduser("~"), fallback)
    return os.path.join(root, "tidelore", name)


def _parse_toml(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def _sections() -> list[str]:
    """Return the names of the tables; by their defaults, because evaluating the annotations of all fields is slow."""
    defaults = Config()
    return [name for name in Config.__struct_fields__ if isinstance(getattr(defaults, name), Section)]


def _overridden(tree: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Override the file with `LORE_<SECTION>_<KEY>`. Values are parsed as TOML, or taken as text if that fails."""
    result = dict(tree)
    ours = sorted(name for name in environ if name.startswith("LORE_"))
    sections = _sections() if ours else ()
    for name in ours:
        for section in sections:
            prefix = f"LORE_{section.upper()}_"
            if name.startswith(prefix) and isinstance(result.get(section, {}), dict):
                table = dict(result.get(section, {}))
                table[name.removeprefix(prefix).lower()] = _toml_value(environ[name])
                result[section] = table
    if "LORE_DEFAULT_PROJECT" in environ:
        result["default_project"] = environ["LORE_DEFAULT_PROJECT"]
    return result


def _toml_value(text: str) -> Any:
    try:
        return _parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def _unknown_keys(tree: Any, known: Mapping[str, Any], path: str) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(tree, dict):
        return
    for key, value in tree.items():
        here = f"{path}{key}"
        if key not in known:
            yield here, [f"{path}{name}" for name in known]
            continue
        inner = known[key]
        if isinstance(inner, type) and issubclass(inner, Struct):
            yield from _unknown_keys(value, _known_keys(inner), f"{here}.")
        elif get_origin(inner) is tuple and isinstance(value, list):
            element = get_args(inner)[0]
            if isinstance(element, type) and issubclass(element, Struct):
                for index, entry in enumerate(value):
                    yield from _unknown_keys(entry, _known_keys(element), f"{here}[{index}].")


@cache
def _known_keys(shape: type[Struct]) -> dict[str, Any]:
    """Return the keys of a table with their types; reading them from the annotations takes a millisecond."""
    found = {info.name: info.type for info in msgspec.structs.fields(shape)}
    if shape is Config:
        # Each of them has a table under the name of its forge.
        del found["others"]
    return found


def _unknown_key(key: str, valid: list[str], file: str) -> ConfigError:
    leaf = key.rpartition(".")[2]
    if leaf in {"token", "password", "private_token", "access_token"}:
        return ConfigError(
            f"{file}: {key}: tokens must not be stored in this file",
            fix="export the token in an environment variable and set token_env to its name",
            file=file,
            key=key,
        )
    from difflib import get_close_matches

    # Compare the last part only: the path before it is the same for all and would make all of them look similar.
    table = key.removesuffix(leaf)
    near = get_close_matches(leaf, [name.removeprefix(table) for name in valid], n=1, cutoff=0.5)
    nearest = f"{table}{near[0]}" if near else None
    fix = f"did you mean {nearest}?" if nearest else f"valid here: {', '.join(sorted(valid))}"
    return ConfigError(f"{file}: unknown key {key}", fix=fix, file=file, key=key, nearest=nearest)
