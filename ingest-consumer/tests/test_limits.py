from __future__ import annotations

import pytest

from cairn_ingest_consumer.limits import PoisonLimit, PoisonPolicy
from cairn_shared.kafka.errors import ConsumptionHalted
from cairn_shared.kafka.records import Partition

A, B = Partition("t", 0), Partition("t", 1)


def test_a_run_of_dead_letters_stops_before_the_next_one() -> None:
    limit = PoisonLimit(PoisonPolicy(max_run=3))
    for _ in range(3):
        limit.check(A)
        limit.died(A)
    with pytest.raises(ConsumptionHalted, match=r"t\[0\]: 3 records in a row"):
        limit.check(A)
    limit.check(B)


def test_a_good_record_ends_the_run() -> None:
    limit = PoisonLimit(PoisonPolicy(max_run=3))
    for _ in range(10):
        limit.check(A)
        limit.died(A)
        limit.passed(A, 2)


def test_a_share_of_dead_letters_stops_too_once_enough_was_seen() -> None:
    limit = PoisonLimit(PoisonPolicy(max_run=100, max_share=0.5, window=10))
    for _ in range(6):
        limit.check(A)
        limit.died(A)
    limit.passed(A, 4)
    with pytest.raises(ConsumptionHalted, match="6 of the last 10"):
        limit.check(A)
    limit.passed(A, 5)
    limit.check(A)


def test_asking_does_not_count() -> None:
    limit = PoisonLimit(PoisonPolicy(max_run=1))
    for _ in range(5):
        limit.check(A)
