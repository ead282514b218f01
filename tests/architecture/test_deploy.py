"""The files in deploy/ fit the program: their commands parse, their settings exist, and their metrics are exported."""

from __future__ import annotations

import json
import re
import shlex
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]
from tests.architecture.command_lines import explain_failure

from tidelore.cli.service import TOKEN_VARIABLE
from tidelore.core.config import Config
from tidelore.core.extras import EXTRAS
from tidelore.feedback.report import Metric
from tidelore.service.metrics import REGISTRY

DEPLOY = Path(__file__).parents[2] / "deploy"
_METRIC = re.compile(r"\blore_[a-z_]+")
_PINNED = re.compile(r"[\w.-]+\.[a-z]+/[\w./-]+:\d+\.\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?")
_SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PRIVATE_KEY)\w*=", re.IGNORECASE)
_LABEL = re.compile(r"\{\{(\w+)\}\}")


def unit(name: str) -> ConfigParser:
    """A systemd unit; a key that may stand several times has its last value."""
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((DEPLOY / name).read_text(encoding="utf-8"))
    return parser


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, with continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def compose(file: str = "compose.yaml") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / file).read_text(encoding="utf-8"))
    return found


def is_setting(variable: str) -> bool:
    """Whether a variable is one that the program reads as a setting."""
    if variable in ("LORE_CONFIG", "LORE_DB", "LORE_DEFAULT_PROJECT"):
        return True
    for section in msgspec.structs.fields(Config):
        if isinstance(section.type, type) and issubclass(section.type, msgspec.Struct):
            keys = {f"LORE_{section.name}_{key.name}".upper() for key in msgspec.structs.fields(section.type)}
            if variable in keys:
                return True
    return False


def dashboard_problems(dashboard: dict[str, Any], metrics: tuple[Metric, ...]) -> list[str]:
    """What a dashboard shows that is not exported, and what is exported that it does not show."""
    known = {metric.name: set(metric.labels) for metric in metrics}
    shown: set[str] = set()
    problems: list[str] = []
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            used = set(_METRIC.findall(target["expr"]))
            shown |= used
            labels = set.union(set(), *(known.get(name, set()) for name in used))
            problems += [f"{panel['title']}: no metric {name}" for name in used - known.keys()]
            problems += [
                f"{panel['title']}: no label {name}" for name in set(_LABEL.findall(target["legendFormat"])) - labels
            ]
    return problems + [f"not shown: {name}" for name in sorted(known.keys() - shown)]


def test_every_unit_starts_a_command_that_parses_and_stops_in_time() -> None:
    units = sorted(path.name for path in DEPLOY.glob("*.service"))
    assert units == ["lore-round.service", "lore-web.service", "lore-worker@.service", "lore.service"]
    for name in units:
        started = unit(name)["Service"]["ExecStart"]
        assert explain_failure(started.replace("%h/.local/bin/", "")) is None, (name, started)
        assert unit(name)["Service"]["NoNewPrivileges"] == "true"
        assert unit(name)["Service"]["UMask"] == "0077"
    assert unit("lore-round.timer")["Timer"]["Persistent"] == "true"


def containerfile_problems(found: list[tuple[str, str]]) -> list[str]:
    """What is wrong with the instructions of a container file: an image, a user, a secret, a source or a command."""
    problems = [f"FROM {rest}: name the registry and an exact version" for rest in _unpinned(found)]
    users = [rest for word, rest in found if word == "USER"]
    if not users or users[-1].partition(":")[0] in ("root", "0"):
        problems.append("runs as root")
    for word, rest in found:
        if word in ("ENV", "ARG") and _SECRET.search(rest):
            problems.append(f"{word} {rest}: a secret is stored in the image")
        if word == "ADD":
            problems.append(f"ADD {rest}: use COPY")
        if word == "COPY" and "--from=" not in rest:
            problems += [
                f"COPY {source}: not a file of the project"
                for source in rest.split()[:-1]
                if source == "." or not (DEPLOY.parent / source).exists()
            ]
        problems += [f"{line}: {why}" for line in _commands(word, rest) if (why := explain_failure(line)) is not None]
    return problems


def _unpinned(found: list[tuple[str, str]]) -> list[str]:
    stages: set[str] = set()
    unpinned = []
    for word, rest in found:
        if word == "FROM":
            image, _, stage = rest.partition(" AS ")
            if image not in stages and not _PINNED.fullmatch(image):
                unpinned.append(rest)
            stages.add(stage)
    return unpinned


def _commands(word: str, rest: str) -> list[str]:
    """The `lore` commands of an instruction, also those inside a program that it runs."""
    if word in ("ENTRYPOINT", "CMD") and rest.startswith('["lore"'):
        return [shlex.join(json.loads(rest))] if word == "CMD" else []
    listed = re.findall(r"\[('lore'(?:, '[^']*')*)\]", rest)
    return [shlex.join(re.findall(r"'([^']*)'", words)) for words in listed]


def test_the_container_file_is_pinned_unprivileged_and_without_secrets() -> None:
    found = instructions()
    assert containerfile_problems(found) == []
    checked = [command for word, rest in found for command in _commands(word, rest)]
    assert checked == ["lore status --robot"], "the health check"
    assert compose()["services"]["db"]["image"].partition(":")[2].count(".") >= 2, "an exact version"


def test_problems_of_a_container_file_are_found() -> None:
    wrong = [
        ("FROM", "python:3.13"),
        ("ENV", "GITLAB_TOKEN=x"),
        ("COPY", ". /src"),
        ("ADD", "https://example.org/x /x"),
        ("HEALTHCHECK", 'CMD ["python", "-c", "run([\'lore\', \'statsu\'])"]'),
    ]
    problems = containerfile_problems(wrong)
    assert [problem.partition(":")[0] for problem in problems] == [
        "FROM python", "runs as root", "ENV GITLAB_TOKEN=x", "COPY .", "ADD https", "lore statsu",
    ]  # fmt: skip


def test_only_what_the_container_file_copies_is_sent_to_the_builder() -> None:
    lines = (DEPLOY.parent / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    copied = {
        source.removeprefix("./")
        for word, rest in instructions()
        if word == "COPY" and "--from=" not in rest
        for source in rest.split()[:-1]
    }
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied


def test_the_container_installs_existing_extras_and_runs_a_command_that_parses() -> None:
    found = instructions()
    (install,) = [rest for word, rest in found if word == "RUN" and "pip install" in rest]
    extras = re.findall(r"\.\[([\w,-]+)\]", install)[0].split(",")
    assert set(extras) <= set(EXTRAS)
    assert {"postgres", "web", "worker"} <= set(extras), "the compose files need them"
    last = dict(found)
    assert explain_failure(shlex.join(json.loads(last["ENTRYPOINT"]) + json.loads(last["CMD"]))) is None
    assert last["USER"] != "root"
    variables = re.findall(r"\b(LORE_\w+)=", last["ENV"])
    assert variables
    assert [name for name in variables if not is_setting(name)] == []


def test_the_compose_file_runs_commands_that_parse_with_settings_that_exist() -> None:
    services = compose()["services"]
    assert set(services) == {"db", "service", "web"}
    for name in ("service", "web"):
        service = services[name]
        assert explain_failure(shlex.join(["lore", *service["command"]])) is None, name
        assert [variable for variable in service["environment"] if not is_setting(variable)] == []
        assert service["environment"]["LORE_DB"].startswith("postgresql://")
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), "only this machine reaches it"
    assert "--token" in services["web"]["command"], "others reach its address inside the network"
    assert TOKEN_VARIABLE in (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    assert set(compose()["volumes"]) == {volume.partition(":")[0] for volume in services["db"]["volumes"]}


def test_the_compose_file_of_workers_differs_in_its_workers_only() -> None:
    services, usual = compose("compose-workers.yaml")["services"], compose()["services"]
    assert set(services) == {"db", "worker", "web"}
    assert services["db"] == usual["db"]
    assert {key: services["web"][key] for key in ("command", "ports")} == {
        key: usual["web"][key] for key in ("command", "ports")
    }
    worker = services["worker"]
    assert explain_failure(shlex.join(["lore", *worker["command"]])) is None
    assert [variable for variable in worker["environment"] if not is_setting(variable)] == []
    assert "ports" not in worker, "several of them share one machine"


def test_the_dashboard_shows_exactly_the_metrics_of_the_service() -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    assert dashboard_problems(dashboard, REGISTRY) == []
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_a_wrong_setting_metric_or_label_is_found() -> None:
    assert not is_setting("LORE_HOOKS_ADRESS")
    target = {"expr": "rate(lore_request_total[5m])", "legendFormat": "{{host}}"}
    found = dashboard_problems({"panels": [{"title": "x", "targets": [target]}]}, REGISTRY[:1])
    assert found == ["x: no metric lore_request_total", "x: no label host", f"not shown: {REGISTRY[0].name}"]
