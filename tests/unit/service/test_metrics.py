"""The export of metrics: every documented name, and a text that prometheus_client's parsers read back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from tests.support.manual_clock import ManualClock

from tidelore.feedback.report import FEEDBACK_METRICS as FEEDBACK
from tidelore.feedback.report import Metric, Sample
from tidelore.service.metrics import REGISTRY, MetricsCollector, render
from tidelore.store.database.port import Database
from tidelore.store.work.service_records import add_to_counter

EVERY = {metric.name: metric for metric in (*FEEDBACK, *REGISTRY)}
Parse = Callable[[str], Iterable[Family]]


def of(*samples: Sample) -> list[tuple[Metric, list[Sample]]]:
    return [(metric, [one for one in samples if one.name == metric.name]) for metric in EVERY.values()]


def test_without_samples_a_plain_metric_is_zero_and_a_labelled_one_has_no_samples() -> None:
    text = render(of())
    assert "\nfeedback_events_ingested_total 0.0\n" in text
    assert "github_comment_new_total{" not in text
    assert [name for name in EVERY if f"# TYPE {name} {EVERY[name].kind}\n" not in text] == []
    assert [name for name in EVERY if f"# HELP {name} {EVERY[name].help}\n" not in text] == []
    assert "_created" not in text


def test_label_values_and_large_numbers_are_read_back_as_they_were_given() -> None:
    values = ["plain", 'with "quotes"', "back\\slash", "two\nlines", "\\n is no newline", "é 𝄞", "a,b={c}"]
    text = render(
        of(
            *(Sample("github_comment_new_total", {"surface": value}, 12) for value in values),
            *(Sample("action_tokens_total", {"status": "posted", "source": value}, 3) for value in values),
            Sample("action_token_unobserved_age_seconds", {}, 1.25),
            Sample("feedback_events_ingested_total", {}, 2**60),
        )
    )
    families = {family.name: family for family in parse_text(text)}
    new = families["github_comment_new"]
    assert (new.type, {sample.labels["surface"] for sample in new.samples}) == ("counter", set(values))
    tokens = [one for family in families.values() for one in family.samples if one.name == "action_tokens_total"]
    assert {one.labels["source"] for one in tokens} == set(values)
    assert {(one.labels["status"], one.value) for one in tokens} == {("posted", 3)}
    assert families["action_token_unobserved_age_seconds"].samples[0].value == 1.25
    assert families["feedback_events_ingested"].samples[0].value == 2**60


def test_a_label_that_is_not_documented_is_kept() -> None:
    samples = [Sample("github_comment_new_total", {"surface": "pulls", "repo": "a/b"}, 1)]
    assert 'github_comment_new_total{repo="a/b",surface="pulls"} 1.0\n' in render(of(*samples))


@pytest.mark.parametrize(
    ("generate", "parse"), [(generate_latest, parse_text), (generate_openmetrics, parse_openmetrics)]
)
def test_a_scrape_collects_every_name_from_the_database(
    database: Database, clock: ManualClock, generate: Callable[[CollectorRegistry], bytes], parse: Parse
) -> None:
    class Kept:
        """The database of the fixture, which must survive the scrape."""

        def __getattr__(self, name: str) -> object:
            return (lambda: None) if name == "close" else getattr(database, name)

    with database.transaction() as tx:
        add_to_counter(tx, "feedback_events_ingested_total", {}, 2)
        add_to_counter(tx, "left_behind_total", {}, 3)
    registry = CollectorRegistry()
    registry.register(MetricsCollector(lambda: Kept(), clock))  # type: ignore[arg-type, return-value]
    families = {family.name: family for family in parse(generate(registry).decode())}
    assert {name.removesuffix("_total") for name in families} == {name.removesuffix("_total") for name in EVERY}
    assert families["feedback_events_ingested"].samples[0].value == 2


def test_a_single_metric_can_be_requested(database: Database, clock: ManualClock) -> None:
    registry = CollectorRegistry()
    registry.register(MetricsCollector(lambda: database, clock))
    text = generate_latest(registry.restricted_registry(["lore_service_up"])).decode()
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["lore_service_up 0.0"]
