"""The judged metrics, with a scripted judge in place of a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import eval_judge_run
import httpx
import pytest
from eval_judge import MOST_CONTEXTS, Judge, Judged, context_precision, read_object, scores_of
from rich.console import Console

from cairn_shared.api.ask import AskResponse, Source

VERDICT = {
    "relevant": [True, False, True],
    "reference_statements": 4,
    "reference_supported": 3,
    "answer_claims": 2,
    "answer_supported": 2,
    "answer_relevance": 0.9,
}
CASE = Judged("q", "r", ["a", "b", "c"], "answer")
Script = Callable[[Iterator[str]], list[dict[str, Any]]]


@pytest.fixture(name="script")
def _script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Let the judge say one thing after another; what it was sent is in the list."""

    def install(replies: Iterator[str]) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = []

        def reply(request: httpx.Request) -> httpx.Response:
            assert str(request.url) == "http://model/v1/chat/completions"
            assert request.headers["authorization"] == "Bearer key"
            asked.append(json.loads(request.content))
            return httpx.Response(200, json={"choices": [{"message": {"content": next(replies)}}]})

        real = httpx.AsyncClient
        monkeypatch.setattr(httpx, "AsyncClient", lambda **fields: real(transport=httpx.MockTransport(reply), **fields))
        return asked

    return install


def test_scores() -> None:
    assert scores_of(VERDICT, 3) == pytest.approx(
        {"context precision": (1 + 2 / 3) / 2, "context recall": 0.75, "faithfulness": 1.0, "answer relevance": 0.9}
    )


def test_an_answer_without_claims_has_no_faithfulness() -> None:
    assert "faithfulness" not in scores_of(VERDICT | {"answer_claims": 0}, 3)


@pytest.mark.parametrize(
    "change", [{"relevant": [True]}, {"answer_relevance": 7}, {"answer_supported": 5}, {"answer_claims": "two"}]
)
def test_nonsense_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        scores_of(VERDICT | change, 3)


def test_context_precision_rewards_the_front() -> None:
    assert context_precision([True, False]) > context_precision([False, True]) > context_precision([False, False])


def test_object_among_words() -> None:
    assert read_object('Sure! ```json\n{"a": 1}\n``` done') == {"a": 1}
    with pytest.raises(ValueError):
        read_object("no")


async def test_garbled_verdicts_say_so_and_are_left_out(script: Script) -> None:
    script(iter([json.dumps(VERDICT), "I would rather not.", json.dumps({"relevant": []})]))
    verdicts = await Judge("http://model/v1", "m", "key").judge([CASE] * 3)
    assert sorted(bool(one.scores) for one in verdicts) == [False, False, True]
    assert sum(one.unusable is not None for one in verdicts) == 2


async def test_results_are_a_table_json_and_a_plot(script: Script, tmp_path: Path) -> None:
    """Four questions: three verdicts of which two differ, and one that cannot be used."""
    poor = VERDICT | {"relevant": [False], "answer_claims": 0, "answer_relevance": 0.1}
    good = VERDICT | {"relevant": [True]}
    asked = script(iter([json.dumps(good), json.dumps(poor), json.dumps(good), "no"]))
    questions = eval_judge_run.chosen(4)
    assert len({question.kind for question in questions}) > 1, "not all of one kind"
    source = Source(runbook_id="x", title="t", step=1, label="1", section="", score=1, content="Look.")
    responses = [AskResponse(answer="Look.", mode="full", sources=[source])] * 4
    cases = eval_judge_run.cases_of(questions, responses)
    assert all(case.reference for case in cases)
    verdicts = await Judge("http://model/v1", "m", "key").judge(cases)
    assert '<context number="1">\nLook.' in asked[0]["messages"][0]["content"]
    results = eval_judge_run.results_of("m", questions, responses, verdicts)
    assert (results["questions"], results["unusable"], results["modes"]) == (4, 1, {"full": 4})
    relevance, faithfulness = results["metrics"]["answer relevance"], results["metrics"]["faithfulness"]
    assert (relevance["n"], faithfulness["n"]) == (3, 2)
    assert relevance["value"] == pytest.approx(1.9 / 3)
    assert relevance["low"] < relevance["value"] < relevance["high"]
    console = Console(record=True, width=120)
    eval_judge_run.show(console, results)
    shown = console.export_text()
    assert "judged by m: 4 answers (4 full), 1 verdicts unusable" in shown
    assert "faithfulness" in shown
    assert "no JSON object" in shown
    eval_judge_run.plot(tmp_path / "p.png", results)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_as_many_contexts_are_judged_as_an_answer_is_written_from() -> None:
    assert MOST_CONTEXTS >= 20


def test_the_judge_may_be_another_model_than_the_one_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    for prefix in ("JUDGE", "LLM"):
        for name in ("BASE_URL", "API_KEY", "MODEL"):
            monkeypatch.delenv(f"{prefix}_{name}", raising=False)
    assert Judge.from_environment() is None
    monkeypatch.setenv("LLM_MODEL", "small")
    monkeypatch.setenv("LLM_BASE_URL", "http://small/v1/")
    assert Judge.from_environment() == Judge("http://small/v1", "small", None)
    monkeypatch.setenv("JUDGE_MODEL", "large")
    monkeypatch.setenv("JUDGE_API_KEY", "k")
    assert Judge.from_environment() == Judge("https://api.openai.com/v1", "large", "k")
