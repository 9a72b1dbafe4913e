"""Runs inside the cluster, in a pod of the gateway's image: sends signed webhooks to the Service and looks for them.

Standard input is this file, the arguments say what to do; one line of JSON comes back. A connection is made for every
request, as a sender of webhooks makes it.
"""

import concurrent.futures
import hashlib
import hmac
import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import httpx

URL = "http://cairn-gateway:8000"
KEY = {"authorization": f"Bearer {os.environ['CAIRN_BOOTSTRAP_API_KEY']}"}
STOP = Path("/tmp/stop")


def payload(word: str) -> bytes:
    """An issue as GitHub sends it."""
    issue: dict[str, Any] = json.loads(os.environ["ISSUE"])
    issue["issue"]["title"] = f"Crane {word} does not answer"
    issue["issue"]["number"] = issue["issue"]["id"] = uuid.uuid4().int % 10**8
    return json.dumps(issue).encode()


def send(word: str) -> str | None:
    """Send one; what went wrong, or None when it was accepted."""
    body = payload(word)
    signature = hmac.new(os.environ["GITHUB_WEBHOOK_SECRET"].encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "x-github-event": "issues",
        "x-github-delivery": str(uuid.uuid4()),
        "x-hub-signature-256": f"sha256={signature}",
        "content-type": "application/json",
    }
    try:
        response = httpx.post(f"{URL}/webhooks/github", content=body, headers=headers, timeout=30)
    except httpx.HTTPError as exc:
        return repr(exc)
    return None if response.status_code == 202 else f"{response.status_code}: {response.text[:200]}"


def found(word: str) -> bool:
    """Is the issue with this word among what search finds?"""
    response = httpx.post(f"{URL}/search", json={"query": word}, headers=KEY, timeout=30)
    response.raise_for_status()
    return any(word in hit["text"] for hit in response.json()["results"])


def missing(words: list[str], seconds: float) -> list[str]:
    """The words that are still not found after some time."""
    end = time.monotonic() + seconds
    left = words
    while left and time.monotonic() < end:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            left = [word for word, there in zip(left, pool.map(found, left), strict=True) if not there]
        if left:
            time.sleep(1)
    return left


def burst(prefix: str, count: int) -> dict[str, Any]:
    """`count` webhooks, sixteen at a time."""
    words = [f"{prefix}{number:05}" for number in range(count)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        failures = [failure for failure in pool.map(send, words) if failure]
    return {"sent": count, "failures": failures[:5]}


def flow(prefix: str) -> dict[str, Any]:
    """Webhooks and searches, one after the other, until the file STOP is there; then look for every webhook."""
    STOP.unlink(missing_ok=True)
    words: list[str] = []
    failures: list[str] = []
    searches = 0
    while not STOP.exists():
        words.append(f"{prefix}{len(words):05}")
        if failure := send(words[-1]):
            failures.append(failure)
        try:
            searches += 1
            found(words[max(0, len(words) - 20)])
        except httpx.HTTPError as exc:
            failures.append(f"search: {exc!r}")
        time.sleep(0.2)
    return {"sent": len(words), "searches": searches, "failures": failures[:5], "missing": missing(words, 240)}


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "burst":
        print(json.dumps(burst(arguments[0], int(arguments[1]))))
    elif what == "flow":
        print(json.dumps(flow(arguments[0])))
    else:
        print(json.dumps({"missing": missing(arguments, 120)}))
