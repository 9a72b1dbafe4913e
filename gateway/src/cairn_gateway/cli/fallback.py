"""What an answer without a model must be: the runbook's own steps, word for word, soon, and saying why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

Json = dict[str, Any]
MODES = frozenset({"excerpts", "keyword"})
MODEL_REASONS = ("llm_", "circuit_open")


@dataclass(frozen=True)
class Check:
    """One property of the answer; `detail` says what was seen."""

    name: str
    ok: bool
    detail: str

    def to_json(self) -> Json:
        """For `--json`."""
        return asdict(self)


def judge(answer: Json, seconds: float, limit: float, runbooks: Mapping[str, Json]) -> list[Check]:
    """The checks of an answer that took `seconds`. `runbooks` are those it cites, as stored, by id."""
    cited = cited_steps(answer)
    reason = str(answer.get("degraded_reason") or "")
    away = any(part.strip().startswith(MODEL_REASONS) for part in reason.split(","))
    altered = [f"{step['runbook_id']} step {step['step']}" for step in cited if not _verbatim(step, runbooks)]
    foreign = sorted({_name(citation) for citation in _citations(answer)} - {_name(step) for step in cited})
    return [
        Check("mode", answer["mode"] in MODES, answer["mode"]),
        Check("reason", bool(answer.get("degraded")) and away, reason or "none given"),
        Check("cited", bool(cited), f"{len(cited)} steps"),
        Check("verbatim", bool(cited) and not altered, f"differ: {', '.join(altered)}" if altered else "as stored"),
        Check("citations", not foreign, f"of no source: {', '.join(foreign)}" if foreign else "all from the sources"),
        Check("time", seconds <= limit, f"{seconds:.2f} s of {limit:g} s"),
    ]


def cited_steps(answer: Json) -> list[Json]:
    """The runbook steps on which the answer rests."""
    return [
        step for step in answer.get("sources", []) if step.get("cited") and step.get("kind", "runbook") == "runbook"
    ]


def _citations(answer: Json) -> Iterable[Json]:
    return (citation for claim in answer.get("claims", []) for citation in claim.get("citations", []))


def _name(step: Json) -> str:
    return f"{step['runbook_id']} step {step['step']}"


def _verbatim(step: Json, runbooks: Mapping[str, Json]) -> bool:
    """Whether the step's text is that of the stored runbook."""
    stored = runbooks.get(step["runbook_id"], {}).get("steps", [])
    return any(item["number"] == step["step"] and item["body"].strip() == step["content"].strip() for item in stored)
