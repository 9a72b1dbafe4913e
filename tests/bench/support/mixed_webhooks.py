"""Signed webhooks of every source in turn, each with a text of its own and the length of a usual one."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

WORDS = ["pump", "valve", "crane", "lamp", "ferry", "tide", "gauge", "alarm", "stuck", "slow", "leak", "hot", "cold"]
TOPICS = ["ballast", "winch", "gangway", "sonar", "rudder", "bilge", "hawser", "fender", "capstan", "anchor", "mast"]


@dataclass(frozen=True)
class Webhook:
    """One delivery. `marker` is a word that only this one has."""

    path: str
    headers: Mapping[str, str]
    body: str
    marker: str


def mixed(count: int, secrets: Mapping[str, str], seed: int = 7) -> Sequence[Webhook]:
    """`count` deliveries, the six kinds in turn; `secrets` are the settings of the stack."""
    nonce = random.Random(f"{seed}{uuid.uuid4()}").randrange(16**6)
    made = []
    for number in range(count):
        marker = f"MARK-{nonce:06x}-{number}"
        body = f"{marker} {_prose(number)}"
        make = (_issue, _push, _merge_request, _ticket, _alert, _incident)[number % 6]
        made.append(make(number, marker, body, secrets))
    return made


def _prose(number: int) -> str:
    words = random.Random(number)
    return " ".join(words.choices([*WORDS, *TOPICS], k=60))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _signature(secret: str, body: str) -> str:
    return hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()


def _github(event: str, payload: Any, marker: str, secrets: Mapping[str, str]) -> Webhook:
    body = json.dumps(payload | {"repository": {"full_name": "harbour/bench"}})
    headers = {
        "x-github-event": event,
        "x-github-delivery": str(uuid.uuid4()),
        "x-hub-signature-256": f"sha256={_signature(secrets['GITHUB_WEBHOOK_SECRET'], body)}",
    }
    return Webhook("/webhooks/github", headers, body, marker)


def _issue(number: int, marker: str, text: str, secrets: Mapping[str, str]) -> Webhook:
    issue = {"number": number + 1, "title": f"Berth {number} reports {text[-40:]}", "body": text, "state": "open"}
    issue |= {"created_at": _now(), "updated_at": _now()}
    return _github("issues", {"action": "opened", "issue": issue}, marker, secrets)


def _push(number: int, marker: str, text: str, secrets: Mapping[str, str]) -> Webhook:
    sha = hashlib.sha1(marker.encode(), usedforsecurity=False).hexdigest()
    commit = {"id": sha, "message": f"Change gauge {number}\n\n{text}", "timestamp": _now(), "author": {"name": "Ada"}}
    commit |= {"modified": [f"deploy/{TOPICS[number % len(TOPICS)]}/values.yaml"]}
    return _github("push", {"ref": "refs/heads/main", "commits": [commit]}, marker, secrets)


def _merge_request(number: int, marker: str, text: str, secrets: Mapping[str, str]) -> Webhook:
    attributes = {"iid": number + 1, "title": f"Mend lamp {number}", "description": text, "state": "opened"}
    attributes |= {"action": "open", "created_at": _now(), "updated_at": _now(), "source_branch": "a"}
    payload = {"object_kind": "merge_request", "project": {"path_with_namespace": "harbour/bench"}}
    body = json.dumps(payload | {"object_attributes": attributes})
    return Webhook("/webhooks/gitlab", {"x-gitlab-token": secrets["GITLAB_WEBHOOK_TOKEN"]}, body, marker)


def _ticket(number: int, marker: str, text: str, secrets: Mapping[str, str]) -> Webhook:
    fields = {"summary": f"Ferry {number} is late", "description": text, "status": {"name": "Open"}}
    fields |= {"created": _now(), "updated": _now()}
    issue = {"id": str(number), "key": f"{marker.split('-')[1].upper().translate(_LETTERS)}-{number + 1}"}
    body = json.dumps({"webhookEvent": "jira:issue_created", "issue": issue | {"fields": fields}})
    headers = {"x-hub-signature": f"sha256={_signature(secrets['JIRA_WEBHOOK_SECRET'], body)}"}
    return Webhook("/webhooks/jira", headers, body, marker)


_LETTERS = str.maketrans("0123456789", "GHIJKLMNOP")


def _alert(number: int, marker: str, text: str, secrets: Mapping[str, str]) -> Webhook:
    labels = {"alertname": f"TideGauge{TOPICS[number % len(TOPICS)].title()}", "pod": f"gauge-{number}"}
    alert = {"status": "firing", "labels": labels, "annotations": {"description": text}, "startsAt": _now()}
    alert |= {"endsAt": "0001-01-01T00:00:00Z", "fingerprint": f"{hash(marker) & (2**64 - 1):016x}"}
    body = json.dumps({"version": "4", "status": "firing", "receiver": "cairn", "alerts": [alert]})
    return Webhook("/webhooks/alertmanager", {"authorization": f"Bearer {secrets['ALERTMANAGER_TOKEN']}"}, body, marker)


def _incident(number: int, marker: str, text: str, secrets: Mapping[str, str]) -> Webhook:
    data = {"id": f"P{marker.replace('-', '').upper()}", "type": "incident", "number": number, "status": "triggered"}
    data |= {"title": text, "created_at": _now()}
    event = {"id": str(uuid.uuid4()), "event_type": "incident.triggered", "resource_type": "incident"}
    body = json.dumps({"event": event | {"occurred_at": _now(), "data": data}})
    headers = {"x-pagerduty-signature": f"v1={_signature(secrets['PAGERDUTY_WEBHOOK_SECRET'], body)}"}
    return Webhook("/webhooks/pagerduty", headers, body, marker)
