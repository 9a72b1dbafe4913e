"""Runbooks in, cited steps and answers out, over the real processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import httpx
import pytest
from whole_stack import ROOT, Stack, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
QUESTION = "How do I recover a PostgreSQL replica that has fallen behind on WAL?"
WAL = "postgresql-replica-behind-on-wal"


@pytest.fixture(scope="module", name="seeded")
def _seeded(stack: Stack) -> Stack:
    stack.run("cairn", "seed")
    return stack


def test_seeding_again_changes_nothing(seeded: Stack) -> None:
    again = seeded.run("cairn", "seed")
    assert "30 unchanged" in again.stdout + again.stderr


def test_every_claim_of_an_answer_names_a_real_step(seeded: Stack) -> None:
    answer = seeded.ask(QUESTION)
    assert answer["mode"] in {"full", "cached"}  # other tests of the stack may have asked it; only full ones are kept
    assert answer["claims"]
    runbook = seeded.http.get(f"/runbooks/{answer['claims'][0]['citations'][0]['runbook_id']}").json()
    for claim in answer["claims"]:
        for citation in claim["citations"]:
            assert citation["marker"] == f"[{citation['title']}, Step {citation['step']}]"
            if citation["runbook_id"] == runbook["id"]:
                assert citation["step"] in {step["number"] for step in runbook["steps"]}
    assert any(source["cited"] and source["runbook_id"] == WAL for source in answer["sources"])


def test_without_the_model_the_same_question_gives_the_steps_in_order(seeded: Stack) -> None:
    """The model server really stops; another wording, because the first answer is rightly cached."""
    seeded.model.stop()
    begun = time.monotonic()
    answer = seeded.ask("How can a PostgreSQL replica that fell behind on WAL be recovered?")
    assert time.monotonic() - begun < 20
    assert (answer["mode"], answer["degraded"]) == ("excerpts", True)
    assert answer["degraded_reason"].startswith("llm_unreachable")
    steps = [source["step"] for source in answer["sources"] if source["cited"] and source["runbook_id"] == WAL]
    assert steps == sorted(steps)
    assert f"[PostgreSQL replica has fallen behind on WAL, Step {steps[0]}]" in answer["answer"]


def test_a_question_that_no_runbook_covers_is_refused(seeded: Stack) -> None:
    answer = seeded.ask("how do I unjam the office printer on the third floor")
    assert (answer["mode"], answer["answer"]) == ("refused", "I don't have a runbook covering that")
    assert answer["claims"] == []


PAGE = """---
title: Harbour crane controller does not answer
service: cranes
---
## Steps

1. Check the interlock relay with `cranectl relay status --zone {zone}`.
2. Call the yard supervisor before the hoist is moved.
3. Restart the controller with `systemctl restart crane-controller`.
"""


def test_an_edited_step_replaces_the_old_one_and_nothing_else_is_embedded_again(stack: Stack) -> None:
    first = stack.put("crane", PAGE.format(zone="amber"))
    assert stack.settled(first["event_id"]) == "searchable"
    assert "amber" in stack.search("cranectl relay status --zone amber")[0]["text"]
    embedder = stack.processes()["embedder"]["address"]
    before = stack.metric(embedder, "cairn_embedder_texts_total")
    edited = stack.put("crane", PAGE.format(zone="indigo"))
    assert edited["revision"] == first["revision"] + 1
    assert stack.settled(edited["event_id"]) == "searchable"
    passages = stack.metric(embedder, "cairn_embedder_texts_total") - before
    assert passages == 1
    hits = stack.search("cranectl relay status --zone")
    assert "indigo" in hits[0]["text"]
    assert not any("amber" in hit["text"] for hit in hits)


def test_a_deleted_runbook_is_gone_from_search_and_from_the_list(stack: Stack) -> None:
    stored = stack.put("crane-old", PAGE.format(zone="ochre").replace("Harbour", "Abandoned"))
    stack.settled(stored["event_id"])
    deleted = stack.http.delete("/runbooks/crane-old").json()
    assert stack.settled(deleted["event_id"]) == "searchable"
    assert not any(hit["runbook_id"] == "crane-old" for hit in stack.search("abandoned crane controller ochre", k=50))
    assert stack.http.get("/runbooks/crane-old").status_code == 404


def test_the_index_equals_the_runbooks_after_all_of_it(seeded: Stack) -> None:
    seeded.run("cairn", "verify")


def folder(path: Path, count: int) -> Path:
    """Generated runbooks, each with a word that only it has."""
    path.mkdir()
    for number in range(count):
        (path / f"unit-{number:03}.md").write_text(
            f"# Pump unit {number:03} lost pressure\n\n1. Read gauge `pumpctl gauge --unit u{number:03}q`.\n"
            f"2. Open valve {number} slowly and wait for two minutes.\n"
        )
    return path


KILLED = ("gateway", "ingest-consumer-1", "ingest-consumer-2", "embedder", "retriever", "answerer")
STORES = ("postgres", "redis", "mongo", "kafka")


def test_killing_every_process_once_during_an_import_loses_nothing(stack: Stack, tmp_path: Path) -> None:
    """SIGKILL, one process after the other, stores too; the stack heals and the index ends as the folder."""
    source = folder(tmp_path / "pumps", 120)
    for name in KILLED + STORES:
        process = stack.processes()[name]
        for path in sorted(source.iterdir())[:: len(KILLED + STORES)]:
            path.write_text(path.read_text() + f"\nSeen again when {name} had died.\n")
        os.kill(process["pid"], signal.SIGKILL)
        until(
            lambda: stack.run("cairn", "import", str(source), "--prefix", "pump-", check=False).returncode == 0,
            "import",
            90,
        )
        until(lambda name=name, pid=process["pid"]: _is_back(stack, name, pid), f"{name} to come back", 90)  # type: ignore[misc]
    until(lambda: stack.run("cairn", "verify", check=False).returncode == 0, "the index to equal the runbooks", 120)
    for number in (0, 37, 119):
        assert stack.search(f"pumpctl gauge --unit u{number:03}q")[0]["runbook_id"] == f"pump-unit-{number:03}"


def _is_back(stack: Stack, name: str, pid: int) -> bool:
    process = stack.processes()[name]
    return bool(process["status"] == "ready" and process["pid"] != pid)


@pytest.mark.parametrize("corpus", ["prometheus-operator-runbooks"])
def test_every_file_of_a_real_corpus_is_indexed_or_named_with_a_reason(stack: Stack, corpus: str) -> None:
    path = Path(os.environ.get("CAIRN_CORPORA", ROOT.parent / "shared" / "corpora")) / corpus
    if not path.is_dir():
        pytest.skip("the public corpora are not beside this checkout")
    files = [file for file in path.rglob("*.md") if file.is_file()]
    command = ("cairn", "import", str(path), "--prefix", f"{corpus}-", "--source", corpus, "--json")
    first = stack.run(*command, "--wait", "--wait-limit", "200", timeout=360)
    summary = httpx.Response(200, content=first.stdout).json()
    results = summary["files"]
    assert len(results) == len(files)
    assert all(result["status"] != "rejected" or result["reason"] for result in results)
    again = stack.run(*command)
    assert {result["status"] for result in httpx.Response(200, content=again.stdout).json()["files"]} <= {
        "unchanged",
        "rejected",
    }
    stack.run("cairn", "verify")


def test_an_alert_name_alone_finds_its_page(stack: Stack) -> None:
    if not (ROOT.parent / "shared" / "corpora").is_dir():
        pytest.skip("the public corpora are not beside this checkout")
    answer = stack.ask("KubePodCrashLooping")
    cited = [source["runbook_id"] for source in answer["sources"] if source["cited"]]
    assert cited, answer
    assert cited[0].endswith("KubePodCrashLooping")
