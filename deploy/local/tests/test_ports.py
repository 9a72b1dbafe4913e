from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from cairn_local import ports


def all_free(_: int) -> bool:
    return True


def test_the_wanted_port_is_taken_when_it_is_free() -> None:
    assert ports.assign({"gateway": 8000}, {}, free=all_free) == {"gateway": 8000}


def test_another_port_is_taken_when_something_listens_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        busy = other.getsockname()[1]
        chosen = ports.assign({"gateway": busy}, {})["gateway"]
    assert chosen != busy
    assert chosen in ports.OFFERED


def test_the_wanted_port_is_taken_again_once_it_is_free() -> None:
    assert ports.assign({"gateway": 8000}, {"gateway": 8123}, free=all_free) == {"gateway": 8000}


def test_the_port_of_the_last_run_goes_before_any_other_free_one() -> None:
    assert ports.assign({"gateway": 8000}, {"gateway": 8123}, free=lambda port: port != 8000) == {"gateway": 8123}


def test_the_file_of_ports_is_its_owners_alone_even_where_it_was_not(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    file.touch(mode=0o644)
    ports.save(file, {"gateway": 8123})
    assert file.stat().st_mode & 0o077 == 0


def test_two_processes_never_get_the_same_port() -> None:
    offers = iter([9000, 9000, 9001])
    given = ports.assign(
        {"a": 8000, "b": 8000, "c": 8000}, {}, free=lambda port: port >= 8000, offer=lambda: next(offers)
    )
    assert given == {"a": 8000, "b": 9000, "c": 9001}


def test_choices_are_kept_between_runs_and_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    assert ports.load(file) == {}
    ports.save(file, {"gateway": 8123})
    assert ports.load(file) == {"gateway": 8123}
    for damaged in ("{", "[1]", '{"gateway": "x"}'):
        file.write_text(damaged)
        assert ports.load(file) == {}


def test_free_ports_are_outside_the_range_of_outgoing_connections() -> None:
    assert {ports.free_port() for _ in range(20)} <= set(ports.OFFERED)
    assert ports.OFFERED.stop <= 32768


def test_no_free_port_is_an_error_that_says_where_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda *_: False)
    with pytest.raises(OSError, match="no free port between 20000 and 32000"):
        ports.free_port()


@pytest.mark.skipif(sys.platform != "linux", reason="claims need Linux's abstract sockets")
def test_a_claimed_port_is_not_given_to_another_stack_though_nothing_listens_yet() -> None:
    wanted = {"postgres": ports.free_port()}
    first, second = ports.Claims(), ports.Claims()
    assert ports.assign(wanted, {}, free=first.take) == wanted
    moved = ports.assign(wanted, {}, free=second.take)
    assert moved != wanted
    first.release()
    third = ports.Claims()
    assert ports.assign(wanted, moved, free=third.take) == wanted
    second.release()
    third.release()


def test_a_port_that_something_listens_on_is_not_claimed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        claims = ports.Claims()
        assert not claims.take(port)
    assert claims.take(port)
    claims.release()
