"""Real runbooks, read where they lie: set CAIRN_CORPORA, or keep them in `shared/corpora` beside the checkout."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from cairn_shared.errors import InvalidInput
from cairn_shared.runbooks.markdown import decode_markdown, load_runbook
from cairn_shared.runbooks.model import Runbook

CORPORA = Path(os.environ.get("CAIRN_CORPORA") or Path(__file__).resolve().parents[3] / "shared" / "corpora")
PROMETHEUS = "prometheus-operator-runbooks"
OPENSHIFT = "openshift-runbooks"

CODE = re.compile(r"(`+).+?\1", re.DOTALL)
"""Code spans and fences, where a comment is text about comments."""

pytestmark = pytest.mark.skipif(not CORPORA.is_dir(), reason=f"no corpora at {CORPORA.name}; set CAIRN_CORPORA")

ODDEST = [
    # file, title, steps of the procedure, all steps
    (f"{PROMETHEUS}/kubernetes/KubeAPIErrorBudgetBurn.md", "Kube API Error Budget Burn", 4, 10),
    (f"{PROMETHEUS}/node/NodeRAIDDiskFailure.md", "Node RAID Disk Failure", 0, 1),
    (f"{PROMETHEUS}/node/NodeFilesystemSpaceFillingUp.md", "Node Filesystem Space Filling Up", 0, 4),
    (f"{PROMETHEUS}/prometheus/PrometheusRemoteWriteBehind.md", "Prometheus Remote Write Behind", 0, 4),
    (f"{PROMETHEUS}/prometheus/PrometheusOutOfOrderTimestamps.md", "Prometheus Out Of Order Timestamps", 0, 1),
    (f"{PROMETHEUS}/general/InfoInhibitor.md", "Info Inhibitor", 0, 4),
    (f"{PROMETHEUS}/general/Watchdog.md", "Watchdog", 0, 4),
    (f"{PROMETHEUS}/etcd/etcdHighFsyncDurations.md", "etcdHighFsyncDurations", 0, 6),
    # a fence that is never closed
    (
        f"{PROMETHEUS}/prometheus-operator/PrometheusOperatorNodeLookupErrors.md",
        "Prometheus Operator Node Lookup Errors",
        0,
        3,
    ),
    (
        f"{OPENSHIFT}/openshift-container-storage-operator/StorageAutoScalingFailed.md",
        "StorageAutoScalingFailed",
        8,
        12,
    ),
    (f"{OPENSHIFT}/openshift-container-storage-operator/helpers/accessToolbox.md", "Access the Toolbox", 0, 1),
    (
        f"{OPENSHIFT}/openshift-container-storage-operator/helpers/sre-to-engineering-escalation.md",
        "SRE-to-ODF-Engineering escalation path",
        0,
        8,
    ),
    (f"{OPENSHIFT}/openshift-container-storage-operator/CephXattrSetLatency.md", "CephXattrSetLatency", 13, 17),
    (
        f"{OPENSHIFT}/openshift-virtualization-operator/HCOGoldenImageWithNoSupportedArchitecture.md",
        "HCOGoldenImageWithNoSupportedArchitecture",
        8,
        14,
    ),
    (
        f"{OPENSHIFT}/openshift-virtualization-operator/VirtualMachineCRCErrors.md",
        "VirtualMachineCRCErrors [Deprecated]",
        0,
        1,
    ),
    (
        f"{OPENSHIFT}/openshift-virtualization-operator/VirtualMachineStuckInUnhealthyState.md",
        "VirtualMachineStuckInUnhealthyState",
        5,
        19,
    ),
    (
        f"{OPENSHIFT}/openshift-virtualization-operator/PersistentVolumeFillingUp.md",
        "PersistentVolumeFillingUp",
        15,
        27,
    ),
    (f"{OPENSHIFT}/cluster-logging-operator/CollectorNodeDown.md", "CollectorNodeDown", 19, 28),
    (f"{OPENSHIFT}/cluster-monitoring-operator/TargetDown.md", "TargetDown", 4, 18),
    (f"{OPENSHIFT}/cluster-kube-apiserver-operator/KubeAPIErrorBudgetBurn.md", "KubeAPIErrorBudgetBurn", 0, 5),
    (f"{OPENSHIFT}/cluster-network-operator/hierarchy/README.md", "Alerts Hierarchy", 0, 1),
    (f"{OPENSHIFT}/advanced-cluster-management-operator/ACMRemoteWriteError.md", "ACMRemoteWriteError", 8, 12),
    (f"{OPENSHIFT}/machine-config-operator/RuncDeprecated.md", "RuncDeprecated", 8, 17),
]


def load(path: Path) -> Runbook:
    relative = path.relative_to(CORPORA).as_posix()
    return load_runbook(decode_markdown(path.read_bytes()), runbook_id="page", path=relative)


@pytest.mark.parametrize(
    ("name", "title", "procedure", "total"), ODDEST, ids=[row[0].split("/", 1)[1] for row in ODDEST]
)
def test_the_oddest_files(name: str, title: str, procedure: int, total: int) -> None:
    runbook = load(CORPORA / name)
    assert runbook.title == title
    assert [step.number for step in runbook.steps] == list(range(1, total + 1))
    assert [step.kind != "section" for step in runbook.steps] == [True] * procedure + [False] * (total - procedure)


def test_every_file_loads_or_is_an_index_page_without_content() -> None:
    refused: dict[str, str] = {}
    loaded = 0
    for path in sorted(CORPORA.rglob("*.md")):
        try:
            runbook = load(path)
        except InvalidInput as exc:
            refused[path.name] = exc.detail
            continue
        loaded += 1
        text = "\n".join(step.body for step in runbook.steps)
        assert "{{<" not in text
        assert "<!--" not in CODE.sub("", text)
    assert loaded >= 380
    assert refused.pop("_index.md") == "no content besides the front matter"
    assert set(refused.values()) <= {"no content besides the title"}


def test_no_word_of_a_file_is_lost() -> None:
    """Every word outside of comments and tags is in the title, in a step or in its section's headings."""
    for path in sorted((CORPORA / OPENSHIFT).rglob("*.md")):
        runbook = load(path)
        kept = " ".join([runbook.title, *(f"{step.section} {step.body}" for step in runbook.steps)])
        source = re.sub(r"<!--.*?-->|<[^<>]*>|password: \S+", "", path.read_text(), flags=re.DOTALL)
        lost = [word for word in re.findall(r"[A-Za-z]{4,}", source) if word not in kept]
        assert not lost, f"{path.name}: {lost}"
