"""The stack in containers does what its user expects, and goes on when a part of it dies or all of it is stopped."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import uuid
from typing import Any

import httpx
import pytest
import yaml
from composed import OURS, ROOT, Composed, run
from whole_stack import until

pytestmark = pytest.mark.compose
QUESTION = "How do I recover a PostgreSQL replica that has fallen behind on WAL?"
WAL = "postgresql-replica-behind-on-wal"


@pytest.fixture(scope="module", name="seeded")
def _seeded(composed: Composed) -> Composed:
    composed.cairn("seed")
    composed.cairn("import", "/opt/cairn/data/cairn", "--prefix", "cairn-", "--wait")
    return composed


def ask(stack: Composed, question: str, **more: Any) -> dict[str, Any]:
    response = stack.http.post("/ask", json={"question": question, **more})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def search(stack: Composed, query: str) -> list[dict[str, Any]]:
    response = stack.http.post("/search", json={"query": query})
    assert response.status_code == 200, response.text
    hits: list[dict[str, Any]] = response.json()["results"]
    return hits


def test_a_question_is_answered_from_the_runbook_that_covers_it(seeded: Composed) -> None:
    answer = ask(seeded, QUESTION)
    assert answer["mode"] in {"full", "cached", "excerpts"}
    assert any(source["cited"] and source["runbook_id"] == WAL for source in answer["sources"])
    assert ask(seeded, "how do I unjam the office printer on the third floor")["mode"] == "refused"


RULES = yaml.safe_load((ROOT / "deploy" / "observability" / "alerts.yml").read_text())["groups"][0]["rules"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_of_cairn_leads_to_its_own_runbook(seeded: Composed, rule: dict[str, Any]) -> None:
    answer = ask(seeded, "what do I do now?", alert={"labels": {"alertname": rule["alert"], "service": "cairn"}})
    assert {source["runbook_id"] for source in answer["sources"] if source["cited"]} == {rule["annotations"]["runbook"]}


def issue(stack: Composed, word: str, secret: str) -> httpx.Response:
    """An issue as GitHub sends it, signed with `secret`."""
    payload = json.loads((ROOT / "gateway/tests/sources/payloads/github/issues_opened.json").read_text())
    payload["issue"]["title"] = f"Crane {word} does not answer"
    payload["issue"]["number"] = payload["issue"]["id"] = uuid.uuid4().int % 10**8
    body = json.dumps(payload).encode()
    headers = {
        "x-github-event": "issues",
        "x-github-delivery": str(uuid.uuid4()),
        "x-hub-signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
        "content-type": "application/json",
    }
    return stack.http.post("/webhooks/github", content=body, headers=headers)


def test_a_signed_webhook_becomes_searchable_and_a_forged_one_is_refused(composed: Composed) -> None:
    word = f"kx{uuid.uuid4().hex[:10]}"
    assert issue(composed, word, "not the secret").status_code == 401
    assert issue(composed, word, composed.env["GITHUB_WEBHOOK_SECRET"]).status_code == 202
    until(lambda: any(word in hit["text"] for hit in search(composed, word)), "the issue to be searchable", 30)


def put(stack: Composed, number: int, word: str) -> None:
    text = f"# Pump {word} {number} lost pressure\n\n1. Read gauge `pumpctl gauge --unit {word}{number:03}`.\n"
    response = stack.http.put(
        f"/runbooks/pump-{word}-{number}", content=text, headers={"content-type": "text/markdown"}
    )
    assert response.status_code in (200, 201), response.text


def _found(stack: Composed, query: str, page: str) -> None:
    until(lambda: any(hit["runbook_id"] == page for hit in search(stack, query)), f"{page} to be searchable", 90)


def test_a_consumer_that_dies_under_load_loses_nothing(composed: Composed) -> None:
    """It stays dead: the other replicas take its partitions."""
    word = f"u{uuid.uuid4().hex[:8]}"
    victim = composed.containers("ingest-consumer")[0]
    for number in range(30):
        if number == 10:
            run(["docker", "kill", "--signal", "KILL", victim["Id"]])
        put(composed, number, word)
    for number in range(30):
        _found(composed, f"pumpctl gauge --unit {word}{number:03}", f"pump-{word}-{number}")
    assert len(composed.containers("ingest-consumer")) == 2
    composed.compose("up", "-d", "--no-build", "--wait")
    assert len(composed.containers("ingest-consumer")) == 3
    for number in range(30):
        composed.http.delete(f"/runbooks/pump-{word}-{number}")
    composed.cairn("verify", "--repair")


def test_after_down_and_up_everything_is_there(seeded: Composed) -> None:
    word = f"kept{uuid.uuid4().hex[:8]}"
    put(seeded, 1, word)
    seeded.compose("down")
    begun = time.monotonic()
    seeded.compose("up", "-d", "--no-build", "--wait")
    print(f"up in {time.monotonic() - begun:.0f} s")
    assert ask(seeded, QUESTION)["mode"] in {"full", "cached", "excerpts"}
    _found(seeded, f"pumpctl gauge --unit {word}001", f"pump-{word}-1")
    seeded.http.delete(f"/runbooks/pump-{word}-1")
    seeded.cairn("verify", "--repair")


@pytest.mark.parametrize("service", OURS)
def test_a_container_runs_without_rights(composed: Composed, service: str) -> None:
    for container in composed.containers(service):
        host = container["HostConfig"]
        assert container["Config"]["User"] == "10001:10001"
        assert host["ReadonlyRootfs"] is True
        assert host["CapDrop"] == ["ALL"]
        assert host["Memory"] > 0
        assert "no-new-privileges:true" in host["SecurityOpt"]
        assert bool(host["PortBindings"]) == (service == "gateway")
        processes = run(["docker", "top", container["Id"], "-eo", "pid,uid"]).split()[3::2]
        assert set(processes) == {"10001"}
    if service == "gateway":
        (port,) = composed.containers(service)[0]["NetworkSettings"]["Ports"]["8000/tcp"]
        assert port["HostIp"] == composed.env["CAIRN_BIND"]


def test_the_logs_hold_no_secret(composed: Composed) -> None:
    logs = composed.compose("logs", "--no-color", *OURS, "migrate")
    assert len(logs.splitlines()) > 20
    generated = [
        line.split("=")[0] for line in (ROOT / ".env.example").read_text().splitlines() if line.endswith("=generate")
    ]
    assert [name for name in generated if composed.env[name] in logs] == []


def test_stopping_is_prompt_and_clean(composed: Composed) -> None:
    """Each process ends by itself within its grace, not by SIGKILL (137)."""
    ids = {service: [one["Id"] for one in composed.containers(service)] for service in OURS}
    composed.compose("stop", *OURS)
    codes = {service: [_exit_code(one) for one in found] for service, found in ids.items()}
    composed.compose("up", "-d", "--no-build", "--wait")
    assert codes == {service: [0] * len(found) for service, found in ids.items()}


def _exit_code(container: str) -> int:
    return int(json.loads(run(["docker", "inspect", container]))[0]["State"]["ExitCode"])
