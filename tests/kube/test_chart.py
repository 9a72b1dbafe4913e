"""The charts on a real cluster: installed, scaled, upgraded under load, restarted, removed. In this order."""

from __future__ import annotations

import concurrent.futures
import os
import time
import uuid

import pytest
from cluster import Cluster, run, until

pytestmark = pytest.mark.kube
CONSUMER = "cairn-ingest-consumer"


def word() -> str:
    return f"k{uuid.uuid4().hex[:8]}"


def ready(cluster: Cluster) -> bool:
    pods = [pod for pod in cluster.get("pods") if pod["status"]["phase"] != "Succeeded"]
    return all(
        any(it["type"] == "Ready" and it["status"] == "True" for it in pod["status"].get("conditions", ()))
        for pod in pods
    )


def test_every_pod_is_ready_and_the_job_is_done(cluster: Cluster) -> None:
    assert ready(cluster)
    jobs = {job["metadata"]["name"]: job["status"].get("succeeded") for job in cluster.get("jobs")}
    assert jobs.get("cairn-migrate", 1) == 1
    two = {"cairn-gateway", "cairn-embedder", "cairn-retriever", "cairn-answerer"}
    assert {name: cluster.replicas(name) for name in two} == dict.fromkeys(two, 2)
    assert {item["metadata"]["name"] for item in cluster.get("poddisruptionbudgets")} == two | {CONSUMER}


def test_a_signed_webhook_is_searchable_through_the_service(cluster: Cluster) -> None:
    prefix = word()
    assert cluster.inside("burst", prefix, "1") == {"sent": 1, "failures": []}
    assert cluster.inside("found", f"{prefix}00000") == {"missing": []}


def test_consumers_follow_the_lag_from_one_to_six_and_back(cluster: Cluster) -> None:
    until(lambda: cluster.replicas(CONSUMER) == 1, "single consumer", 240)
    prefix = word()
    begun = time.monotonic()
    assert cluster.inside("burst", prefix, "2500")["failures"] == []
    print(f"2500 accepted in {time.monotonic() - begun:.0f} s")
    print(f"six ready after {until(lambda: cluster.replicas(CONSUMER) == 6, 'six consumers', 300):.0f} s more")
    assert cluster.inside("found", f"{prefix}00000", f"{prefix}01250", f"{prefix}02499") == {"missing": []}
    print(f"one again after {until(lambda: cluster.replicas(CONSUMER) == 1, 'single consumer again', 480):.0f} s more")


def test_an_upgrade_under_load_loses_nothing_and_drops_no_request(cluster: Cluster) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        flowing = pool.submit(cluster.inside, "flow", word())
        time.sleep(5)
        cluster.deploy("--set-string", f"env.UPGRADED_AT={time.time():.0f}")
        cluster.kubectl("exec", "probe", "--", "touch", "/tmp/stop")
        result = flowing.result()
    print(result)
    assert result["failures"] == []
    assert result["missing"] == []
    assert result["sent"] > 20


@pytest.mark.skipif("CAIRN_KUBE_RESTART" not in os.environ, reason="CAIRN_KUBE_RESTART names no command")
def test_after_the_nodes_restart_everything_is_there(cluster: Cluster) -> None:
    prefix = word()
    assert cluster.inside("burst", prefix, "1")["failures"] == []
    assert cluster.inside("found", f"{prefix}00000") == {"missing": []}
    run("sh", "-c", os.environ["CAIRN_KUBE_RESTART"])
    time.sleep(15)  # until the node has noticed what it no longer runs
    print(f"ready {until(lambda: ready(cluster), 'readiness', 400):.0f} s after the restart")
    until(lambda: cluster.inside("found", f"{prefix}00000") == {"missing": []}, "the event of before", 120)
    assert cluster.inside("burst", word(), "1")["failures"] == []


def test_nothing_is_left_but_claims(cluster: Cluster) -> None:
    cluster.helm("uninstall", "cairn", "--wait")
    cluster.helm("uninstall", "stores", "--wait")
    kinds = "deployments,statefulsets,services,jobs,ingresses,networkpolicies,poddisruptionbudgets,hpa,serviceaccounts,configmaps"
    until(lambda: [pod["metadata"]["name"] for pod in cluster.get("pods")] == ["probe"], "end of the pods", 120)
    left = {item["metadata"]["name"] for item in cluster.get(kinds)} - {"default", "kube-root-ca.crt"}
    assert left == set()
    assert cluster.get("scaledobjects.keda.sh") == []
    assert {item["metadata"]["name"] for item in cluster.get("secrets")} == {"cairn"}
    claims = {item["metadata"]["name"] for item in cluster.get("persistentvolumeclaims")}
    assert claims == {"data-postgres-0", "data-mongo-0", "data-redis-0", "data-kafka-0"}
