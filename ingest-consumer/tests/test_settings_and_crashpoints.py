from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from cairn_ingest_consumer.settings import IngestSettings
from cairn_shared.crashpoints import CRASHPOINTS, Crasher

REQUIRED = {
    "KAFKA_BOOTSTRAP_SERVERS": "broker:9092",
    "PG_DSN": "postgresql://u:p@h/d",
    "EMBEDDER_URL": "http://embedder:8001",
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in REQUIRED.items():
        monkeypatch.setenv(name, value)


def test_the_policy_follows_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_RECORDS", "50")
    monkeypatch.setenv("BUFFER_RECORDS", "20")
    monkeypatch.setenv("CONSUMER_PROTOCOL", "consumer")
    monkeypatch.setenv("CONSUMER_TOPICS", '["a", "b"]')
    settings = IngestSettings()
    policy = settings.policy()
    assert settings.consumer_topics == ("a", "b")
    assert (policy.batch_records, policy.buffer_records, policy.protocol) == (50, 50, "consumer")
    assert policy.drain_timeout < settings.shutdown_timeout < policy.max_poll_interval


def test_a_missing_setting_is_named_and_the_process_ends_with_2() -> None:
    environment = {name: value for name, value in REQUIRED.items() if name != "PG_DSN"}
    done = subprocess.run(
        [sys.executable, "-m", "cairn_ingest_consumer"], env=environment, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 2
    assert "PG_DSN" in done.stderr


def test_secrets_do_not_show() -> None:
    assert "u:p@h" not in repr(IngestSettings())


@pytest.mark.parametrize("name", CRASHPOINTS)
def test_a_crash_point_kills_at_the_wanted_pass_and_not_before(name: str) -> None:
    program = (
        "from cairn_shared.crashpoints import crash_at, CRASHPOINTS\n"
        "for other in CRASHPOINTS:\n"
        f"    if other != {name!r}: crash_at(other)\n"
        f"crash_at({name!r}); print('alive', flush=True); crash_at({name!r}); print('still', flush=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"CAIRN_CRASHPOINT": f"{name}:2"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "alive\n")


def test_an_unknown_crash_point_is_refused() -> None:
    with pytest.raises(ValueError, match="no point 'nowhere'"):
        Crasher("nowhere")
