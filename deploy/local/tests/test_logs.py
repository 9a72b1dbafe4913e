from __future__ import annotations

from pathlib import Path

from cairn_local import logs


def test_tail_gives_the_last_lines_and_survives_bad_bytes(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"one\ntwo\n\xff three\n")
    assert logs.tail(file, 2) == ["two", "\ufffd three"]
    assert logs.tail(file, 0) == []
    assert logs.tail(tmp_path / "none.log", 5) == []


def test_tail_reads_only_the_end_of_a_large_file(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"x" * (logs.TAIL_BYTES * 2) + b"\nlast\n")
    assert logs.tail(file, 1) == ["last"]
    assert sum(len(line) for line in logs.tail(file, 10)) <= logs.TAIL_BYTES


def test_a_log_over_the_limit_moves_aside_while_its_writer_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    with file.open("ab", buffering=0) as writer:
        writer.write(b"old\n" * 10)
        assert not logs.rotate(file, limit=100)
        assert logs.rotate(file, limit=10)
        writer.write(b"new\n")
    assert file.read_bytes() == b"new\n"
    assert (tmp_path / "a.log.1").read_bytes() == b"old\n" * 10


def test_follow_gives_whole_lines_also_of_new_and_of_emptied_files(tmp_path: Path) -> None:
    known, later = tmp_path / "known.log", tmp_path / "later.log"
    known.write_text("before\n")
    steps = iter(
        [
            lambda: append(known, "ha"),
            lambda: append(known, "lf\nnext\n"),
            lambda: later.write_text("hello\n"),
            lambda: known.write_text("again\n"),
        ]
    )
    seen = logs.follow([known, later], sleep=lambda _: run(next(steps)))
    assert [next(seen) for _ in range(4)] == [
        (known, "half"),
        (known, "next"),
        (later, "hello"),
        (known, "again"),
    ]


def run(step: object) -> None:
    assert callable(step)
    step()


def append(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


def test_the_reason_of_an_end_is_an_error_and_the_last_line_of_a_traceback() -> None:
    lines = [
        '{"level": "info", "event": "starting"}',
        '{"level": "error", "event": "no stack", "reason": "postgres: no disk"}',
        '{"level": "critical", "event": "crashed", "exception": "Traceback ...\\n  File x\\nValueError: no"}',
    ]
    assert logs.reasons(lines) == ["no stack: postgres: no disk", "crashed: ValueError: no"]
    assert logs.reasons(["Traceback (most recent call last):", "  File x, line 1", "KeyError: 3"]) == ["KeyError: 3"]
    assert logs.reasons([lines[0]]) == ["it was killed, or ended without a word"]
