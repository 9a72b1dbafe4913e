"""The evaluation's own arithmetic; and with `make eval`, the evaluation."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from eval_gate import Case, Fit, curve, fit, operating_point, probabilities, rates, validated
from eval_metrics import measure
from eval_run import Outcome
from eval_sets import (
    CHECKOUT,
    Question,
    alerts,
    corpora,
    golden,
    identifier_documents,
    identifier_questions,
    without_name,
)
from rich.console import Console

from cairn_shared.api.search import Gate, SearchResponse


def outcome(answer: str | None, documents: list[str], steps: list[int] | None = None, right: int = 1) -> Outcome:
    gate = Gate(
        best_cosine=None, best_coverage=0, identifiers_asked=[], identifiers_found=[], routed=False, enough=False
    )
    response = SearchResponse(results=[], mode="hybrid", gate=gate, epoch=0, fingerprint=None, timings={})
    question = Question(str(uuid.uuid4()), "kind", "?", answer, frozenset({right}))
    return Outcome(question, documents, list(zip(documents, steps or [1] * len(documents), strict=True)), response)


class TestSets:
    def test_demo_set_is_what_was_promised(self) -> None:
        questions = golden()
        assert sum(question.answer is not None for question in questions) >= 80
        assert sum(question.answer is None for question in questions) >= 20
        assert all(question.steps for question in questions if question.answer is not None)
        assert len({question.id for question in questions}) == len(questions)

    def test_every_identifier_question_has_its_document(self) -> None:
        ids = {(one.row, one.id) for one in identifier_documents()}
        assert all((question.source, question.answer) in ids for question in identifier_questions())

    def test_halves_are_fixed_and_about_equal(self) -> None:
        halves = [question.half for question in golden()]
        assert 0.35 < halves.count("dev") / len(halves) < 0.65
        assert halves == [question.half for question in golden()]

    @pytest.mark.parametrize(
        ("text", "left"),
        [
            ("Pod {{ $labels.pod }} is\ndown.", "Pod is down."),
            ('DiskFull fired: disk {{printf "%.2f" $value}}% used', "fired: disk % used"),
            ("see diskfull", "see"),
        ],
    )
    def test_neither_name_nor_template_is_left(self, text: str, left: str) -> None:
        assert without_name(text, "DiskFull") == left

    @pytest.mark.skipif(corpora() is None, reason="the public corpora are not here: set CAIRN_CORPORA")
    def test_no_alert_tells_its_name(self) -> None:
        folder = corpora()
        assert folder is not None
        for question in alerts(folder):
            assert question.id.casefold() not in question.text.casefold()
            assert "{{" not in question.text


class TestPitfalls:
    def test_every_pitfall_has_a_test_that_exists(self) -> None:
        """The table in docs/retrieval.md names files, classes and functions."""
        text = (CHECKOUT / "docs" / "retrieval.md").read_text().partition("## Pitfalls and their tests")[2]
        rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", text, re.MULTILINE)
        assert [int(number) for number, _ in rows] == list(range(1, 17))
        folders = ("embedder/tests", "shared/tests", "ingest-consumer/tests", "tests/eval", "retriever/tests")
        files = {file.name: file.read_text() for one in folders for file in (CHECKOUT / one).glob("**/test_*.py")}
        for number, tests in rows:
            name = ""
            assert "test_" in tests, number
            for path, parts in re.findall(r"`([\w/-]*\.py)?((?:::\w+)*)`", tests):
                name = path.rpartition("/")[2] or name
                for part in parts.split("::")[1:]:
                    assert re.search(rf"(?:class|def) {part}\b", files[name]), f"{number}: {part} in {name}"
                assert name in files, f"{number}: {name}"


class TestMetrics:
    def test_known_values(self) -> None:
        figures = measure([outcome("a", ["a", "b"]), outcome("a", ["b", "a"]), outcome("a", ["b", "c"])])
        assert figures["R@1"].value == pytest.approx(1 / 3)
        assert figures["R@5"].value == pytest.approx(2 / 3)
        assert figures["MRR"].value == pytest.approx((1 + 1 / 2 + 0) / 3)
        assert figures["nDCG@10"].value == pytest.approx((1 + 1 / np.log2(3) + 0) / 3)

    def test_nothing_found_counts_as_nought(self) -> None:
        assert measure([outcome("a", []), outcome("a", ["a"])])["MRR"].value == 0.5

    def test_questions_without_an_answer_do_not_count(self) -> None:
        assert measure([outcome(None, ["a"]), outcome("a", ["a"])])["R@1"].value == 1.0
        assert measure([outcome(None, ["a"])]) == {}

    def test_right_step_among_the_first_three(self) -> None:
        right = outcome("a", ["a", "a", "a", "a"], [7, 8, 2, 9], right=2)
        late = outcome("a", ["a", "a", "a", "a"], [7, 8, 9, 2], right=2)
        other = outcome("a", ["b"], [2], right=2)
        assert measure([right, late, other])["step@3"].value == pytest.approx(1 / 3)

    def test_interval_holds_the_mean(self) -> None:
        figure = measure([outcome("a", ["a"] if i % 3 else ["b"]) for i in range(90)])["R@1"]
        assert figure.low < figure.value < figure.high
        assert figure.high - figure.low < 0.25


def case(answerable: bool, features: tuple[float, float, float], confidence: float = 0.5, exact: bool = False) -> Case:
    return Case("id", "dev", answerable, exact, False, features, confidence, enough=confidence >= 0.5)


class TestGate:
    CASES = (
        case(answerable=True, features=(0, 0, 0), confidence=0.9),
        case(answerable=True, features=(0, 0, 0), confidence=0.4),
        case(answerable=False, features=(0, 0, 0), confidence=0.6),
        case(answerable=False, features=(0, 0, 0), confidence=0.1),
    )

    def test_rates_as_it_stands(self) -> None:
        assert rates(self.CASES) == (0.5, 0.5)

    def test_curve_trades_one_for_the_other(self) -> None:
        points = curve(self.CASES)
        assert [point.false_answers for point in points] == sorted((p.false_answers for p in points), reverse=True)
        assert [point.false_refusals for point in points] == sorted(p.false_refusals for p in points)
        assert (points[0].false_answers, points[0].false_refusals) == (1.0, 0.0)

    def test_what_is_exact_passes_at_any_threshold(self) -> None:
        points = curve([case(answerable=True, features=(0, 0, 0), confidence=0.0, exact=True)])
        assert {point.false_refusals for point in points} == {0.0}

    def test_operating_point_keeps_to_its_limit(self) -> None:
        point = operating_point(curve(self.CASES), most_refusals=0.05)
        assert point.false_refusals == 0.0
        assert point.false_answers == 0.5

    def test_fit_finds_the_model_that_made_the_data(self) -> None:
        random = np.random.default_rng(3)
        features = random.random((4000, 3))
        true = Fit(-3.0, (4.0, 1.0, 2.0))
        answers = random.random(4000) < true.probability(features)
        cases = [case(bool(a), (f[0], f[1], f[2])) for a, f in zip(answers, features.tolist(), strict=True)]
        found = fit(cases)
        assert found.weights == pytest.approx(true.weights, abs=0.6)

    def test_validation_judges_questions_by_models_that_do_not_know_them(self) -> None:
        """Labels by chance: a model believes the ones it was fitted to, and no others."""
        random = np.random.default_rng(5)
        features = random.random((60, 3))
        answers = random.random(60) < 0.5
        cases = [
            Case(
                str(i),
                "dev",
                bool(a),
                exact=False,
                foreign=False,
                features=(f[0], f[1], f[2]),
                confidence=0,
                enough=False,
            )
            for i, (a, f) in enumerate(zip(answers, features.tolist(), strict=True))
        ]

        def separation(values: list[float]) -> float:
            of = np.array(values)
            return float(of[answers].mean() - of[~answers].mean())

        assert separation(validated(cases)) < separation(probabilities(fit(cases), cases))


@pytest.mark.eval
async def test_targets_are_reached() -> None:
    """Everything: builds the indexes, asks all questions of all systems, shows, keeps and compares the results."""
    from eval_suite import Suite, Wanted

    folder = CHECKOUT / ".cairn" / "eval"
    suite = Suite(Console(width=200), Path(folder), datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))
    results = await suite.run(Wanted(calibrate=True))
    assert results["missed"] == []
