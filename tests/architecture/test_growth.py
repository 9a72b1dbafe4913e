"""The check that others rely on to find slow patterns finds one."""

from __future__ import annotations

import re

import pytest
from growth import assert_linear


def test_a_pattern_that_backtracks_is_found() -> None:
    with pytest.raises(AssertionError, match="sizes 5000 and 20000 took"):
        assert_linear(lambda size: re.search(r"a*c", "a" * size), 20_000)


def test_a_plain_pattern_passes() -> None:
    assert_linear(lambda size: re.search("c", "a" * size), 1_000_000)
