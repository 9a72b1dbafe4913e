"""A cluster that KUBECONFIG names, with KEDA, and Cairn's images on its nodes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest
from cluster import CHARTS, NAMESPACE, ROOT, Cluster, run


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    subprocess.run(["kubectl", "create", "namespace", NAMESPACE], capture_output=True)
    run(CHARTS / "secret.sh", NAMESPACE)
    own = ("--set", "ownVolumes=true") if os.environ.get("CAIRN_KUBE_OWN_VOLUMES") else ()
    it = Cluster()
    it.helm("upgrade", "--install", "stores", CHARTS / "stores", *own, "--wait", "--timeout", "6m")
    it.deploy()
    issue = (ROOT / "gateway/tests/sources/payloads/github/issues_opened.json").read_text()
    image = json.loads(it.kubectl("get", "deployment", "cairn-gateway", "-o", "json"))["spec"]["template"]["spec"]
    names = ("CAIRN_BOOTSTRAP_API_KEY", "GITHUB_WEBHOOK_SECRET")
    keys = [{"name": name, "valueFrom": {"secretKeyRef": {"name": "cairn", "key": name}}} for name in names]
    container = {
        "name": "probe",
        "image": image["containers"][0]["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "env": [*keys, {"name": "ISSUE", "value": issue}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": {"containers": [container]}}
    it.kubectl("apply", "-f", "-", text=json.dumps(pod))
    it.kubectl("wait", "--for=condition=Ready", "pod/probe", "--timeout=120s")
    yield it
    run("kubectl", "delete", "namespace", NAMESPACE, "--wait=true", "--timeout=300s")
