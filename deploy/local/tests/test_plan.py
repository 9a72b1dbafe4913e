from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from cairn_local import secrets_file
from cairn_local.home import Home, find
from cairn_local.plan import WEBHOOK_SECRETS, Plan, build, wanted_ports
from cairn_local.settings import StackSettings
from cairn_shared.settings import load


def plan(home: Path, environ: Mapping[str, str] | None = None, **settings: object) -> Plan:
    chosen = StackSettings.model_validate({"broker": "embedded", **settings})
    ports = {name: 40000 + number for number, name in enumerate(wanted_ports(chosen))}
    secrets = secrets_file.ensure(home / "env")
    return build(chosen, Home(home), ports, secrets, environ or {})


def env(plan: Plan, name: str) -> Mapping[str, str | None]:
    return next(unit.server.program.env for unit in plan.units if unit.name == name)


def test_the_number_of_consumers_is_a_setting_and_each_has_its_own_port(tmp_path: Path) -> None:
    made = plan(tmp_path, consumers=5)
    names = [unit.name for unit in made.units if unit.name.startswith("ingest-consumer")]
    assert names == [f"ingest-consumer-{number}" for number in range(1, 6)]
    assert len({env(made, name)["PORT"] for name in names}) == 5


def test_services_wait_for_their_stores_and_the_embedder_for_nobody(tmp_path: Path) -> None:
    needs = {unit.name: set(unit.needs) for unit in plan(tmp_path).units}
    assert needs["embedder"] == set()
    assert needs["retriever"] == {"postgres"}
    assert needs["ingest-consumer-1"] == {"postgres", "mongo", "kafka"}
    assert needs["gateway"] == {"mongo", "kafka"}


def test_secrets_go_only_where_they_are_used(tmp_path: Path) -> None:
    made = plan(tmp_path)
    secrets = secrets_file.read(tmp_path / "env")
    for unit in made.units:
        values = set(unit.server.program.env.values())
        for name in (*WEBHOOK_SECRETS, "CAIRN_API_KEY"):
            assert (secrets[name] in values) == (unit.name == "gateway"), (unit.name, name)
        knows_postgres = any(secrets["POSTGRES_PASSWORD"] in (value or "") for value in values)
        assert knows_postgres == unit.name.startswith(("retriever", "answerer", "ingest-consumer"))
        assert not any(secret in " ".join(unit.server.program.argv) for secret in secrets.values()), unit.name


def test_a_webhook_secret_of_the_user_goes_before_the_generated_one(tmp_path: Path) -> None:
    assert env(plan(tmp_path, {"JIRA_WEBHOOK_SECRET": "mine"}), "gateway")["JIRA_WEBHOOK_SECRET"] == "mine"


def test_accepted_events_are_stored_first_where_the_log_is_in_memory(tmp_path: Path) -> None:
    assert env(plan(tmp_path), "gateway")["INBOX"] == "always"


def test_a_durable_log_needs_the_inbox_only_as_a_fallback(tmp_path: Path) -> None:
    home = tmp_path / "kafka-home"
    (home / "bin").mkdir(parents=True)
    for script in ("kafka-server-start.sh", "kafka-storage.sh"):
        (home / "bin" / script).touch()
    made = plan(tmp_path, {}, broker="apache", kafka_home=home)
    assert env(made, "gateway")["INBOX"] == "fallback"
    assert made.broker == "apache kafka (durable)"


def test_apache_kafka_without_its_home_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    with pytest.raises(ValidationError, match="KAFKA_HOME"):
        StackSettings(broker="apache")
    monkeypatch.setenv("BROKER", "apache")
    with pytest.raises(SystemExit):
        load(StackSettings)
    assert capsys.readouterr().err.startswith("setting KAFKA_HOME: BROKER=apache needs KAFKA_HOME")


def test_a_folder_that_is_no_kafka_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"KAFKA_HOME: there is no bin/kafka-server-start.sh in"):
        plan(tmp_path, broker="apache", kafka_home=tmp_path)


def test_threads_are_few_so_that_processes_share_the_cores(tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert env(made, "embedder")["OMP_NUM_THREADS"] == "2"
    assert {env(made, name)["OMP_NUM_THREADS"] for name in ("retriever", "gateway", "ingest-consumer-2")} == {"1"}


def test_the_home_is_found_from_a_folder_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAIRN_HOME", raising=False)
    below = tmp_path / "project" / "docs"
    below.mkdir(parents=True)
    assert find(below).root == below / ".cairn"
    (tmp_path / "project" / ".cairn").mkdir()
    assert find(below).root == tmp_path / "project" / ".cairn"
    monkeypatch.setenv("CAIRN_HOME", str(tmp_path / "elsewhere"))
    assert find(below).root == tmp_path / "elsewhere"


def test_the_home_is_closed_to_others_but_keeps_the_right_to_pass_that_postgresql_was_given(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    assert {path.stat().st_mode & 0o777 for path in (home.root, home.logs)} == {0o700}
    home.root.chmod(0o755)
    home.logs.chmod(0o755)
    home.create()
    assert home.root.stat().st_mode & 0o777 == 0o711
    assert home.logs.stat().st_mode & 0o777 == 0o700
