"""The charts' kept manifests: current, valid, and as careful as the composed stack."""

from __future__ import annotations

import copy
from typing import Any

import charts
import pytest
import yaml

OPERATORS = yaml.safe_load((charts.HERE / "operators.yaml").read_text())
MANIFESTS = {name: charts.documents((charts.RENDERED / f"{name}.yaml").read_text()) for name in charts.RENDERINGS}
POD_KINDS = ("Deployment", "Job")


def of_kind(name: str, kind: str) -> dict[str, dict[str, Any]]:
    return {it["metadata"]["name"]: it for it in MANIFESTS[name] if it["kind"] == kind}


def test_kept_manifests_are_current_and_valid() -> None:
    assert charts.check() == []


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Deployment", ("spec", "template", "spec", "containers", 0, "livenesProbe"), {}),
        ("Deployment", ("spec", "template", "spec", "containers", 0, "ports", 0, "containerPort"), "http"),
        ("Service", ("spec", "ports", 0, "port"), "eighty"),
        ("NetworkPolicy", ("spec", "podselector"), {}),
        ("ScaledObject", ("spec", "triggers", 0, "metadata", "lagThreshold"), 50),
        ("ScaledObject", ("spec", "triggers", 0, "metadata", "topics"), "x"),
        ("ExternalSecret", ("spec", "secretStoreRef", "kind"), "Store"),
    ],
)
def test_a_wrong_field_is_found(kind: str, path: tuple[Any, ...], value: object) -> None:
    manifest = copy.deepcopy(next(it for it in MANIFESTS["production"] if it["kind"] == kind))
    assert charts.faults(manifest, OPERATORS) == []
    place: Any = manifest
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert charts.faults(manifest, OPERATORS) != []


@pytest.mark.parametrize("name", ["one-node", "production", "upgrade"])
def test_no_pod_of_cairn_is_root_or_can_become_it(name: str) -> None:
    pods = [it["spec"]["template"]["spec"] for it in MANIFESTS[name] if it["kind"] in POD_KINDS]
    assert len(pods) == 6
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


def test_a_secret_reaches_only_who_needs_it() -> None:
    told = {
        name: {env["name"] for env in it["spec"]["template"]["spec"]["containers"][0]["env"] if "valueFrom" in env}
        for name, it in of_kind("production", "Deployment").items()
    }
    assert [name for name, keys in told.items() if "GITHUB_WEBHOOK_SECRET" in keys] == ["cairn-gateway"]
    assert [name for name, keys in told.items() if "CAIRN_BOOTSTRAP_API_KEY" in keys] == ["cairn-gateway"]
    assert {name for name, keys in told.items() if "MONGO_URI" in keys} == {"cairn-gateway", "cairn-ingest-consumer"}
    assert {name for name, keys in told.items() if "PG_DSN" in keys} == {
        "cairn-retriever",
        "cairn-answerer",
        "cairn-ingest-consumer",
    }


def test_an_autoscaler_owns_the_number_of_replicas() -> None:
    assert all("replicas" not in it["spec"] for it in of_kind("production", "Deployment").values())
    assert all(it["spec"]["replicas"] == 1 for it in of_kind("one-node", "Deployment").values())
    scaled = of_kind("production", "ScaledObject")["cairn-ingest-consumer"]["spec"]
    topics = {trigger["metadata"]["topic"] for trigger in scaled["triggers"]}
    assert topics == {"cairn.runbooks.v1", "cairn.events.v1", "cairn.repo-changes.v1"}
    assert {it["metadata"]["name"] for it in MANIFESTS["production"] if it["kind"] == "PodDisruptionBudget"} == set(
        of_kind("production", "Deployment")
    )


def test_calls_that_the_services_make_are_allowed_and_no_other_between_them() -> None:
    """From the URLs in each process' environment: whoever is told an address may call it, and nobody else may."""
    calls = set()
    for name, it in of_kind("production", "Deployment").items():
        for env in it["spec"]["template"]["spec"]["containers"][0]["env"]:
            host = env.get("value", "").removeprefix("http://").split(":")[0]
            if env.get("value", "").startswith("http://cairn-"):
                calls.add((name, host))
    allowed = set()
    granted = set()
    for name, it in of_kind("production", "NetworkPolicy").items():
        for rule in it["spec"]["ingress"]:
            for peer in rule.get("from", ()):
                if "podSelector" in peer:
                    labels = peer["podSelector"]["matchLabels"]
                    allowed.add((f"cairn-{labels['app.kubernetes.io/component']}", name))
        for rule in it["spec"]["egress"]:
            for peer in rule.get("to", ()):
                if "podSelector" in peer:
                    labels = peer["podSelector"]["matchLabels"]
                    granted.add((name, f"cairn-{labels['app.kubernetes.io/component']}"))
    assert allowed == granted == calls


def test_an_upgrade_migrates_before_a_pod_is_replaced() -> None:
    (job,) = of_kind("upgrade", "Job").values()
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
    (job,) = of_kind("production", "Job").values()
    assert "annotations" not in job["metadata"]
