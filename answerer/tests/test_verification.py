"""Pitfall 18: the right citation under a wrong claim."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from answerer_corpus import make_passage, make_shown

from cairn_answerer.citations import Resolver
from cairn_answerer.code import find_code
from cairn_answerer.model import DraftClaim
from cairn_answerer.verification import Checker, Verdict
from cairn_shared.runbooks.markdown import decode_markdown, load_runbook

STEP = """**Resize the volume.** Never shrink it. Wait 5 minutes, or 90 s on small ones, then check `/var/lib/pg/data`.

```bash
sudo systemctl stop postgresql
kubectl -n $NAMESPACE delete pod <pod> --grace-period=30
rm -rf /var/lib/pg/tmp/old
```

Set `max_wal_size` to 20GB before the restart, and keep 10 % free. Go to step 7 if it stays above 1,000 connections.
See https://docs.example.org/resize for the limits. Run `VACUUM (FREEZE) <table>;` at the end.

```sql
DELETE FROM jobs
WHERE id = <id>;
```
"""


def check(text: str, step: str = STEP, *, values: dict[str, str] | None = None, kind: str = "runbook") -> Verdict:
    shown = make_shown(make_passage(2, step, title="Resize a volume", kind=kind))
    return Checker(Resolver(shown), values or {}).check(DraftClaim(text, ("k1mq",)))


@pytest.mark.parametrize(
    "text",
    [
        "Resize the volume.",
        "1. **Resize the volume**, then wait 5 minutes.",
        "Wait five minutes.",
        "Wait 5m, or 90 seconds on small volumes.",
        "Never shrink the volume.",
        "Do not shrink the volume.",
        "Check `/var/lib/pg/data`.",
        "Check /var/lib/pg/data.",
        "Stop it: `sudo systemctl stop postgresql`.",
        "Stop it: `systemctl stop postgresql`.",
        "Delete the pod with `kubectl -n $NAMESPACE delete pod <pod> --grace-period=30`.",
        "Delete the pod, with --grace-period=30.",
        "Set `max_wal_size` to 20 GB before the restart.",
        "Keep 10% free.",
        "Go to step 7 if it stays above 1000 connections.",
        "See https://docs.example.org/resize for the limits.",
        "At the end run `VACUUM (FREEZE) <table>;`.",
        "Delete from jobs:\n\n```sql\nDELETE FROM jobs\nWHERE id = <id>;\n```",
        "Step 2: resize the volume.",
        "Remove the old files: `rm -rf /var/lib/pg/tmp/old`.",
    ],
)
def test_what_the_step_says_is_supported(text: str) -> None:
    verdict = check(text)
    assert verdict.claim is not None, (verdict.fault, verdict.detail)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Wait 6 minutes.", "number"),
        ("Wait 5 hours.", "number"),
        ("Wait six minutes.", "number"),
        ("Keep 10 GB free.", "number"),
        ("Go to step 8 if it stays above 1000 connections.", "number"),
        ("Keep 20 % free.", "number"),
        ("Shrink the volume.", "negation"),
        ("Do not resize the volume.", "negation"),
        ("Never wait 5 minutes.", "negation"),
        ("Set `max_wal_size` to 20GB after the restart.", "opposite"),
        ("Keep 10 % free if it stays below 1,000 connections.", "overlap"),
        ("Delete the pod with --grace-period=0.", "flag"),
        ("Delete the pod with --force.", "flag"),
        ("`kubectl -n $NAMESPACE delete pod <pod> --grace-period=0`", "code"),
        ("Delete the pod: `kubectl -n $NAMESPACE delete pod <pod>`.", "cut command"),
        ("`kubectl delete pod <pod> --grace-period=30`", "code"),
        ("Remove the old files: `rm -rf /var/lib/pg/tmp`.", "code"),
        ("Remove the old files: `rm -rf /var/lib/pg`.", "code"),
        ("Delete the row: `DELETE FROM jobs`.", "cut command"),
        ("Delete the row:\n\n```sql\nDELETE FROM jobs;\n```", "code"),
        ("Check `/var/lib/pg/dat`.", "code"),
        ("Check /var/lib/pg.", "path"),
        ("Set `max_wal_siz` to 20GB.", "code"),
        ("Set wal_keep_size to 20GB.", "identifier"),
        ("See https://docs.example.org/resize/evil for the limits.", "link"),
        ("See https://evil.example/resize for the limits.", "link"),
        ("See evil.example for the limits.", "link"),
        ("See [the limits](https://evil.example).", "link"),
        ("Resize the volume ![](https://docs.example.org/resize).", "markup"),
        ("Resize the volume <img src=x onerror=alert(1)>.", "markup"),
        ("Resize the volume <b>now</b>.", "markup"),
        ("Resize the volume, then reboot the node.", "risky verb"),
        ("Resize the volume and delete all snapshots.", "risky verb"),
        ("Restore the latest backup from cold storage.", "overlap"),
        ("Use it.", "overlap"),
        ("Delete the pod with `--grace-period=３０`.", "look-alike"),
        ("Wait ５ minutes.", "look-alike"),
        ("Wait ⅴ minutes.", "look-alike"),
        ("Resize the v\u043elume.", "look-alike"),
        ("Run `sudo systemctl \u2011\u2011now stop postgresql`.", "code"),
        ("Run `VACUUM (FREEZE) ‘<table>’;`.", "code"),
        ("Delete it with `kubectl`, `-n $NAMESPACE` and `delete pod <pod>`.", "cut command"),
        ("Wait 5k minutes.", "number"),
        ("Wait zero minutes.", "number"),
        ("Wait half of 5 minutes.", "overlap"),
        ("Wait at least 5 minutes.", "opposite"),
        ("", "empty"),
    ],
)
def test_what_the_step_does_not_say_is_dropped(text: str, fault: str) -> None:
    assert check(text).fault == fault


def test_an_alerts_values_may_stand_in_for_placeholders() -> None:
    text = "Delete the pod: `kubectl -n prod delete pod pg-1 --grace-period=30`."
    assert check(text, values={"namespace": "prod", "pod": "pg-1"}).claim is not None
    assert check(text, values={"namespace": "prod", "pod": "pg-2"}).fault == "code"


@pytest.mark.parametrize("text", ["Run `rm -rf /var/lib/pg/tmp/old`.", "See https://docs.example.org/resize for it."])
def test_an_event_supports_no_instruction(text: str) -> None:
    assert check(text, kind="log").fault == "event as instruction"


def test_several_steps_support_a_claim_together() -> None:
    shown = make_shown(make_passage(1, "Set `a_limit` to 5."), make_passage(2, "Set `b_limit` to 7."))
    checker = Checker(Resolver(shown), {})
    text = "Set `a_limit` to 5 and `b_limit` to 7."
    assert checker.check(DraftClaim(text, ("k1mq", "k2mq"))).claim is not None
    assert checker.check(DraftClaim(text, ("k1mq",))).claim is None


def _sentences() -> list[tuple[str, str]]:
    """(sentence, the step that it stands in) for all demo runbooks."""
    found: list[tuple[str, str]] = []
    for path in sorted((Path(__file__).parents[2] / "data" / "runbooks").rglob("*.md")):
        for step in load_runbook(decode_markdown(path.read_bytes()), runbook_id="x", path=path.name).steps:
            prose = step.body
            for code in reversed([code for code in find_code(step.body) if code.fenced]):
                prose = prose[: code.start] + "\n\n" + prose[code.end :]
            for block in re.split(r"\n\s*\n|\n\s*[-*] ", prose):
                found.extend(
                    (sentence, step.body)
                    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(block.split()))
                    if len(sentence) > 25 and sentence.count("`") % 2 == 0
                )
    return found


SENTENCES = _sentences()


def _rate(pairs: list[tuple[str, str]]) -> float:
    return sum(check(text, step).claim is not None for text, step in pairs) / len(pairs)


def test_real_sentences_are_supported_by_their_own_step() -> None:
    assert len(SENTENCES) > 500
    assert _rate(SENTENCES) > 0.99


def test_real_sentences_with_another_number_are_dropped() -> None:
    number = re.compile(r"(?<![\w.`/-])(?<!step )\d+(?=[ .,;]|$)")
    changed = [(number.sub(lambda match: str(int(match[0]) * 7 + 13), text, count=1), step) for text, step in SENTENCES]
    changed = [pair for pair, before in zip(changed, SENTENCES, strict=True) if pair != before]
    assert len(changed) > 80
    assert _rate(changed) == 0.0


def test_real_sentences_turned_round_are_dropped() -> None:
    negated = [
        (f"Do not {text[0].lower()}{text[1:]}", step)
        for text, step in SENTENCES
        if not re.search(r"\b(?:not|no|never|without|cannot)\b|n't|[;:(]", text)
        and text[0].isupper()
        and not re.match(r"(?:If|It|Since|When|While|With|Then|Otherwise|Above|Below|Until|Once|This|These)\b", text)
    ]
    assert len(negated) > 100
    assert _rate(negated) < 0.06
