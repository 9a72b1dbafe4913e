"""How fast the one-machine stack answers and takes events in, measured from outside. `make bench` prints the table.

Only wrong answers fail these tests; whether a target is met is for the reader of the table, who knows what else the
machine was doing (its load average is in the last column).
"""

from __future__ import annotations

import json
import random
import time
import uuid
from dataclasses import replace

import httpx
import psutil
import pytest
from bare_route import bare_route
from bench_report import Report
from open_load import Plan, Result, run
from replicas import without_model
from stack_load import measure, plan
from whole_stack import ROOT, Stack

pytestmark = [pytest.mark.bench, pytest.mark.timeout(0), pytest.mark.usefixtures("reference")]


def questions(stack: Stack, count: int, seed: int) -> list[str]:
    """Questions that nobody asked: the words of a runbook's title in another order each time."""
    titles = [book["title"] for book in stack.http.get("/runbooks", params={"limit": 100}).json()["runbooks"]]
    shuffle = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        words = shuffle.choice(titles).split()
        made[" ".join(shuffle.sample(words, len(words)))] = None
    return list(made)


def test_cached_answers(stack: Stack, report: Report) -> None:
    known = questions(stack, 20, seed=1)
    kept = [question for question in known if _is_kept(stack, question)]
    assert len(kept) > 10
    asked = plan(stack, "/ask", [{"question": question} for question in kept], rate=200, seconds=15)
    measure(report, "POST /ask, cached, through the gateway, 200/s", asked, p50_ms=5, p99_ms=20)


def _is_kept(stack: Stack, question: str) -> bool:
    stack.ask(question)
    return bool(stack.ask(question)["mode"] == "cached")


def test_search(stack: Stack, report: Report) -> None:
    searches = plan(
        stack, "/search", [{"query": query} for query in questions(stack, 200, seed=2)], rate=20, seconds=10
    )
    measure(report, "POST /search on the demo runbooks, all new, 20/s", searches)


def test_excerpts_when_the_model_is_dead(stack: Stack, report: Report) -> None:
    stack.model.stop()
    try:
        for question in questions(stack, 8, seed=3):
            stack.ask(question)
        assert stack.ask(questions(stack, 1, seed=4)[0])["degraded_reason"] == "circuit_open"
        asked = [{"question": question} for question in questions(stack, 200, seed=5)]
        load = plan(stack, "/ask", asked, rate=20, seconds=10)
        measure(report, "POST /ask, excerpts with a dead LLM (circuit open), all new, 20/s", load, p95_ms=60)
    finally:
        stack.model.start()


def test_excerpts_without_a_model(stack: Stack, report: Report) -> None:
    with without_model(stack) as url:
        asked = [{"question": question} for question in questions(stack, 200, seed=7)]
        load = replace(plan(stack, "/ask", asked, rate=20, seconds=10), url=f"{url}/ask")
        warm = replace(load, bodies=[json.dumps({"question": question}) for question in questions(stack, 40, seed=8)])
        run(replace(warm, seconds=2))
        measure(report, "POST /ask, excerpts, no LLM configured, all new, 20/s", load, p95_ms=60)


def test_processor_time(stack: Stack, report: Report) -> None:
    """Of a cached answer and of an empty route of FastAPI behind the same load: latencies depend on the neighbours."""
    kept = [question for question in questions(stack, 20, seed=1) if _is_kept(stack, question)]
    load = plan(stack, "/ask", [{"question": question} for question in kept], rate=100, seconds=10)
    with bare_route() as (process, url):
        bare = _milliseconds(process, replace(load, url=url))
    figures = {"bare_cpu_ms": bare}
    for name in ("gateway", "answerer"):
        spent = _milliseconds(psutil.Process(stack.state()[name]["pid"]), load)
        figures |= {f"{name}_cpu_ms": spent, f"{name}_times_bare": spent / bare}
    report.add("processor time of a cached answer", figures)


def _milliseconds(process: psutil.Process, load: Plan) -> float:
    """Processor time of `process` for one request of `load`."""
    run(replace(load, seconds=1))
    before = sum(process.cpu_times()[:2])
    done = run(load)
    return float(sum(process.cpu_times()[:2]) - before) / len(done.latencies) * 1000


def test_embedding(stack: Stack, report: Report) -> None:
    address = stack.state()["embedder"]["address"]
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        singles = []
        for question in questions(stack, 60, seed=6):
            begun = time.monotonic()
            assert client.post("/embed", json={"texts": [question], "kind": "query"}).status_code == 200
            singles.append(time.monotonic() - begun)
        texts = [text for path in sorted((ROOT / "data/runbooks").rglob("*.md")) for text in path.read_text().split("\n\n") if len(text) > 200][:96]  # fmt: skip
        nonce = uuid.uuid4().hex[:8]  # else Redis knows them
        begun = time.monotonic()
        for start in range(0, len(texts), 32):
            batch = [f"{nonce} {text[:700]}" for text in texts[start : start + 32]]
            answer = client.post("/embed", json={"texts": batch, "kind": "passage", "truncate": True})
            assert answer.status_code == 200
        spent = time.monotonic() - begun
    report.add_load("embedder, one new query, one at a time", Result(singles, {}, {}, 0.0, []))
    report.add("embedder, passages in batches of 32", {"chunks_per_second": len(texts) / spent})
