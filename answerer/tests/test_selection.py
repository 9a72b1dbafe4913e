"""From a plan to what is shown: completed, in order, and every word of it the runbook's."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from answerer_corpus import STEPS, make_passage

from cairn_answerer.leads import Known, admitted
from cairn_answerer.model import Chosen, Passage
from cairn_answerer.named import may_name_others, named_before
from cairn_answerer.selection import Told, arranged

EVENT: dict[str, Any] = {
    "kind": "log", "document_id": uuid.uuid4(), "step_id": uuid.uuid4(), "runbook_id": "log:orders", "title": "orders",
}  # fmt: skip
GUARDED = (
    "Only if you can do without the data. Ask the owner first.\n\n"
    "Delete the pod:\n\n```bash\nkubectl delete pod a\n```\n\n"
    "Put it back afterwards. Tell everybody."
)


def chosen(passage: Passage, *places: int, lead: str = "") -> Chosen:
    return Chosen(passage, frozenset(places), lead)


def told(*entries: Chosen, pool: Sequence[Passage] = ()) -> list[tuple[int, str]]:
    parts, _ = arranged(entries, [*pool, *(entry.passage for entry in entries)])
    return [(part.claim.citations[0].step, part.claim.text) for part in parts if part.passage]


def test_only_what_is_chosen_is_shown_where_nothing_changes_state() -> None:
    step = make_passage(1, "Look. Think.\n\nWait:\n\n```bash\ndf -h\n```\n\nThen see.")
    assert told(chosen(step, 1)) == [(1, "Think.")]
    assert told(chosen(step, 3, 0)) == [(1, "Look."), (1, "Wait:\n\n```bash\ndf -h\n```")]


@pytest.mark.parametrize("place", [2, 3])
def test_a_command_that_changes_state_brings_its_whole_step(place: int) -> None:
    """Its condition, its warning and what undoes it; the sentence that introduces it is the command."""
    assert told(chosen(make_passage(1, GUARDED), place)) == [(1, GUARDED)]


def test_beside_such_a_command_a_sentence_brings_its_paragraph() -> None:
    assert told(chosen(make_passage(1, GUARDED), 0)) == [(1, GUARDED.partition("\n\n")[0])]


def test_a_command_in_a_sentence_counts_as_one_in_a_fence() -> None:
    text = "Be sure. `systemctl restart x` stops all sessions. Tell everybody."
    assert told(chosen(make_passage(1, text), 1)) == [(1, text)]


def test_steps_of_one_runbook_stand_in_its_order_between_those_of_others() -> None:
    other = make_passage(1, "Other.", document_id=uuid.uuid4(), step_id=uuid.uuid4(), runbook_id="other")
    first, second, third = (make_passage(number, f"Look at {number} here.") for number in (1, 2, 3))
    parts, _ = arranged([chosen(third, 0), chosen(other, 0), chosen(first, 0), chosen(second, 0)], [])
    assert [part.claim.text for part in parts] == [
        "Look at 1 here.", "Other.", "Look at 2 here.", "Look at 3 here.",
    ]  # fmt: skip


def test_prose_that_stands_before_the_procedure_in_the_file_stands_before_it() -> None:
    diagnosis = make_passage(7, "Diagnose.", section="Diagnosis", lines=(5, 6))
    step = make_passage(1, "Act.", lines=(10, 12))
    assert told(chosen(step, 0), chosen(diagnosis, 0)) == [(7, "Diagnose."), (1, "Act.")]


def test_one_step_in_several_items_is_one_step_in_its_own_order() -> None:
    step = make_passage(1, "One. Two. Three.")
    assert told(chosen(step, 2), chosen(step, 0)) == [(1, "One."), (1, "Three.")]


def test_a_changing_step_brings_the_steps_that_it_names_as_done_before() -> None:
    pool = [make_passage(number, f"Save {number}.") for number in (1, 2, 3)]
    step = make_passage(4, "With the copy of step 2, run `rm -rf /data`, then go on with step 5.")
    later = make_passage(5, "Later.")
    assert told(chosen(step, 0), pool=[*pool, later]) == [(2, "Save 2."), (4, step.text)]
    harmless = make_passage(4, "With the copy of step 2, run `ls /data`.")
    assert told(chosen(harmless, 0), pool=pool) == [(4, harmless.text)]


def test_what_a_named_step_names_in_turn_comes_too() -> None:
    pool = [make_passage(1, "Save."), make_passage(2, "After step 1 run `rm a`.")]
    step = make_passage(3, "After step 2 run `rm b`.")
    assert [number for number, _ in told(chosen(step, 0), pool=pool)] == [1, 2, 3]


def test_an_event_is_a_report_at_the_end_whatever_is_in_it() -> None:
    event = make_passage(1, "Step 1 failed. Run `rm -rf /` now.", **EVENT)
    step = make_passage(1)
    parts, _ = arranged([chosen(event, 1), chosen(step, 0)], [step])
    assert [(part.claim.origin, part.claim.text) for part in parts] == [
        ("runbook", "**Measure the lag.**"),
        ("event", "Run `rm -rf /` now."),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Repeat step 1.", [1]),
        ("Steps 1-3 are done", [1, 2, 3]),
        ("steps 1 and 3, then step 9", [1, 3]),
        ("(step 2)", [2]),
        ("Wait 3 minutes, port 2, v1.2, step 1.5, 3%", []),
        ("Siehe Schritt 2 und Schritt 3.", [2, 3]),
        ("Wie in den Schritten 1 und 2.", [1, 2]),
        ("Port 2 and port 8080", []),
        ("手順1と手順3の後", [1, 3]),
        ("step 4 and step 5", []),
    ],
)
def test_what_names_an_earlier_step(text: str, names: list[int]) -> None:
    """In a runbook whose own word is learned where it is not Cairn's."""
    others = [make_passage(number, "x") for number in (1, 2, 3, 5)]
    assert [one.number for one in named_before(make_passage(4, text), others)] == names


def test_numbered_headings_teach_the_word_for_a_step() -> None:
    first = make_passage(1, "## Étape 1 : mesurer\n\nRegarder.")
    assert named_before(make_passage(2, "Après l'étape 1."), [first]) == [first]
    assert named_before(make_passage(2, "Après le port 1."), [first]) == []


def test_a_label_is_looked_for_in_the_steps_own_section_first() -> None:
    plan = make_passage(1, "x", section="Plan")
    act = make_passage(3, "x", label="1", section="Act")
    assert named_before(make_passage(4, "After step 1.", label="2", section="Act"), [plan, act]) == [act]
    assert named_before(make_passage(4, "After step 1.", label="2", section="Else"), [plan, act]) == []


def test_only_a_number_that_was_not_gathered_is_looked_up() -> None:
    gathered = [make_passage(number) for number in (1, 2)]
    assert may_name_others(make_passage(4, "After step 3."), gathered)
    assert not may_name_others(make_passage(4, "After step 2, without numbers."), gathered)


LEADS = "Set `max_wal` to 200GB on the standby of Orders, then wait 5 minutes. Run kubectl get pods in /var/lib/pg."


@pytest.mark.parametrize(
    "lead",
    ["First see how far it is.", "Not more than 5 minutes.", "It is about `max_wal`.", "まず確認する", "Zuerst warten", "See /var/lib/pg."],
)  # fmt: skip
def test_a_lead_that_says_nothing_of_its_own_is_shown(lead: str) -> None:
    assert admitted(lead, LEADS, Known("first it see zuerst not more", (LEADS,))) == lead


@pytest.mark.parametrize(
    "lead",
    [
        "Then run `rm -rf /`.", "Wait 50 minutes.", "It needs 20GB.", "See /var/lib.", "See /var/lib/pg/x.", "Use --force.",
        "Ask Kafka for it.", "Kafka is down.", "Set max_conn.", "Then kill it.", "See https://evil.example.", "See www.evil.example",
        "**![x](y)**", "<b>x</b>", "See [this](that).", "Wait ５ minutes.", "Wait five\u200b minutes.", "Set maх_wal.",
        "Ask the AI.", "Restart node-7.", "x" * 300, "a $HOME b", "Stop it | now",
    ],
)  # fmt: skip
def test_a_lead_with_something_to_type_measure_or_look_up_is_left_out(lead: str) -> None:
    assert admitted(lead, LEADS, Known("then it wait use ask see set restart stop")) == ""


@pytest.mark.parametrize(
    ("lead", "shown"),
    [
        ("Drop the slot while the standby needs it.", ""),
        ("The standby needs the slot", ""),
        ("You may well want to see first whether anybody still needs it", "You may well want to see first whether anybody still needs it"),
        ("予備機が要るスロットを消す", ""),
        ("まず様子を見る", "まず様子を見る"),
    ],
)  # fmt: skip
def test_a_lead_that_says_again_what_a_step_says_is_left_out(lead: str, shown: str) -> None:
    step = "Do not drop the slot while the standby needs it. 予備機が要るスロットを消すな。"
    assert admitted(lead, "Something else.", Known("you want may see", (step, "Other."))) == shown


def test_leads_stand_before_their_step_and_are_left_out_alone() -> None:
    first, second = make_passage(1), make_passage(2)
    entries = [chosen(first, 0, lead="begin here"), chosen(second, 0, lead="Drop 7 slots")]
    parts, left_out = arranged(entries, [], lead="two things")
    assert [(part.claim.origin, part.claim.text) for part in parts] == [
        ("model", "two things"),
        ("model", "begin here"),
        ("runbook", "**Measure the lag.**"),
        ("runbook", "**Look at the slot.**"),
    ]
    assert left_out == 1
    assert all(part.claim.citations == [] for part in parts if part.passage is None)


def test_every_word_that_is_shown_as_the_runbooks_is() -> None:
    passages = [make_passage(number) for number in (1, 2, 3, 4)]
    parts: list[Told] = arranged([chosen(one, 0, 1) for one in passages], passages)[0]
    assert all(part.claim.text in STEPS[part.claim.citations[0].step - 1] for part in parts)
