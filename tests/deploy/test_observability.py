"""Alert rules and dashboards speak of metrics that exist, and every alert leads to a runbook of Cairn's own."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import frontmatter
import pytest
import yaml
from debian_programs import debian_program
from prometheus_client import CollectorRegistry

from cairn_answerer.metrics import Metrics as AnswererMetrics
from cairn_embedder.metrics import EmbedderMetrics
from cairn_gateway.metrics import Metrics as GatewayMetrics
from cairn_ingest_consumer.engine_metrics import EngineMetrics
from cairn_ingest_consumer.metrics import IngestMetrics, RebuildMetrics
from cairn_retriever.metrics import Metrics as RetrieverMetrics
from cairn_shared.clock import SystemClock
from cairn_shared.web.shedding import Shedding, ShedPolicy

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "observability"
RULES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARDS = sorted((FOLDER / "grafana" / "dashboards").glob("*.json"))
PAGES = {f"cairn-{path.stem}": frontmatter.load(str(path)) for path in (ROOT / "data" / "cairn").glob("*.md")}


async def _nothing(*_: object) -> None:
    """An app that is never called."""


@pytest.fixture(scope="module", name="series")
def _series() -> dict[str, set[str]]:
    """Label names by series name, of all services, as their registries declare them."""
    registry = CollectorRegistry()
    for make in (GatewayMetrics, EmbedderMetrics, RetrieverMetrics, AnswererMetrics, IngestMetrics, RebuildMetrics):
        make(registry)
    EngineMetrics(registry, SystemClock())
    Shedding(_nothing, ShedPolicy(paths=()), registry)
    found: dict[str, set[str]] = {}
    for collector in list(registry._collector_to_names):
        labels = set(collector._labelnames)  # type: ignore[attr-defined]
        for name in registry._collector_to_names[collector]:
            found[name] = labels | ({"le"} if name.endswith("_bucket") else set())
    return found


OF_PROMETHEUS = {"job", "instance"}


def wrong(expression: str, series: dict[str, set[str]]) -> list[str]:
    """Metrics that no service has, and labels that none of the expression's metrics has."""
    names = set(re.findall(r"\bcairn_\w+", expression))
    unknown = sorted(name for name in names if name not in series)
    allowed = OF_PROMETHEUS | {label for name in names for label in series.get(name, ())}
    used = {label for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in re.split(r",\s*", group)}
    if names:
        used |= {
            label for inside in re.findall(r"\{([^}]*)\}", expression) for label in re.findall(r"(\w+)\s*[!=]", inside)
        }
        unknown += sorted(used - allowed - {"alertstate", "service"})
    return unknown


def alerts_of(page: frontmatter.Post) -> list[str]:
    """The alerts that a page's front matter names."""
    named = page["alerts"]
    assert isinstance(named, list)
    return [str(alert) for alert in named]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_asks_for_what_is_measured_and_leads_to_a_runbook_that_names_it(
    rule: dict[str, Any], series: dict[str, set[str]]
) -> None:
    assert wrong(rule["expr"], series) == []
    page = PAGES[rule["annotations"]["runbook"]]
    assert rule["alert"] in alerts_of(page)
    assert rule["labels"]["severity"] in {"critical", "warning"}


def test_every_runbook_belongs_to_an_alert() -> None:
    named = sorted(alert for page in PAGES.values() for alert in alerts_of(page))
    assert named == sorted(str(rule["alert"]) for rule in RULES)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_what_is_measured(path: Path, series: dict[str, set[str]]) -> None:
    board = json.loads(path.read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 0
    faults = {
        panel["title"]: wrong(target["expr"], series)
        for panel in panels
        for target in panel["targets"]
        if wrong(target["expr"], series)
    }
    assert faults == {}


@pytest.mark.slow
def test_every_alert_is_seen_firing_and_silent() -> None:
    """The cases of alerts_test.yml, run by Prometheus's own tool."""
    promtool = Path(debian_program("prometheus")).with_name("promtool")
    done = subprocess.run([promtool, "test", "rules", "alerts_test.yml"], cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = [case["name"] for case in yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]]
    assert sorted(cases) == sorted(f"{rule['alert']} {ends}" for rule in RULES for ends in ("fires", "is silent"))


def test_prometheus_understands_its_configuration(tmp_path: Path) -> None:
    promtool = Path(debian_program("prometheus")).with_name("promtool")
    text = (FOLDER / "prometheus.yml").read_text().replace("/etc/prometheus/alerts.yml", str(FOLDER / "alerts.yml"))
    (tmp_path / "prometheus.yml").write_text(text)
    done = subprocess.run([promtool, "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
