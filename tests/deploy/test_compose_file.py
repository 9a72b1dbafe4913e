"""What can be said of docker-compose.yaml and .env without an engine; tests/compose says the rest with one."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
EXAMPLE = dict(
    line.split("=", 1) for line in (ROOT / ".env.example").read_text().splitlines() if line and not line.startswith("#")
)


def write_env(target: Path) -> dict[str, str]:
    subprocess.run(["sh", ROOT / "deploy" / "compose" / "env.sh", ROOT / ".env.example", target], check=True)
    lines = target.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_every_secret_is_generated_once_and_kept(tmp_path: Path) -> None:
    first = write_env(tmp_path / ".env")
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    secrets = [first[name] for name, value in EXAMPLE.items() if value == "generate"]
    assert all(re.fullmatch(r"[0-9a-f]{48}", secret) for secret in secrets)
    assert len(set(secrets)) == len(secrets)
    assert write_env(tmp_path / ".env") == first


def test_an_older_file_keeps_its_lines_and_gets_the_new_ones(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("LLM_MODEL=mine\nPOSTGRES_PASSWORD=a=b\n")
    values = write_env(tmp_path / ".env")
    assert (values["LLM_MODEL"], values["POSTGRES_PASSWORD"]) == ("mine", "a=b")
    assert EXAMPLE.keys() == values.keys()
    assert values["REDIS_PASSWORD"] != "generate"


def test_env_example_names_every_variable_of_the_file_and_no_other() -> None:
    used = set(re.findall(r"\$\{(\w+)", TEXT)) | set(re.findall(r"^      - ([A-Z_]+)(?: #.*)?$", TEXT, re.MULTILINE))
    assert used - {"COMPOSE_PROJECT_NAME"} == EXAMPLE.keys()


@pytest.mark.parametrize("name", OURS)
def test_a_service_can_write_nowhere_and_gain_nothing(name: str) -> None:
    service = OURS[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["deploy"]["resources"]["limits"]["memory"]
    assert service["restart"]


def test_only_the_gateway_and_the_tools_are_published_on_this_machine_alone() -> None:
    published = {name: port for name, service in SERVICES.items() for port in service.get("ports", ())}
    assert published.keys() == {"gateway", "prometheus", "grafana"}
    assert published["gateway"].startswith("${CAIRN_BIND:-127.0.0.1}:")
    assert all(port.startswith("127.0.0.1:") for name, port in published.items() if name != "gateway")
    stores = {"postgres", "redis", "mongo", "kafka"}
    assert all(SERVICES[name]["networks"] == ["stores"] for name in stores)


def test_every_secret_of_the_gateway_reaches_the_gateway_only() -> None:
    for name, service in SERVICES.items():
        told = " ".join(map(str, service.get("environment", ())))
        assert ("CAIRN_BOOTSTRAP_API_KEY" in told) == (name == "gateway")
        assert ("WEBHOOK_SECRET" in told) == (name == "gateway")


def test_a_build_sees_sources_only() -> None:
    """.dockerignore lists what may be seen: a file of secrets or a test put beside them stays out."""
    allowed = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert not [line for line in allowed if re.search(r"test|\.env|\.git|\.cairn|\.venv", line)]
    assert os.linesep.join(allowed).count("/src/**") == 7
