"""Settings are checked at start, by name."""

from __future__ import annotations

import pytest

from cairn_answerer.settings import AnswererSettings
from cairn_shared.settings import load

NEEDED = {
    "PG_DSN": "postgresql://u:p@h/d",
    "REDIS_URL": "redis://h/0",
    "RETRIEVER_URL": "http://h:8002",
}


def set_all(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name in ("LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**NEEDED, **values}.items():
        monkeypatch.setenv(name, value)


def test_no_model_is_a_supported_way_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, LLM_BASE_URL="", LLM_API_KEY="")
    assert load(AnswererSettings).llm_endpoint is None


def test_a_key_alone_means_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, LLM_API_KEY="sk-x", LLM_MODEL="m")
    assert load(AnswererSettings).llm_endpoint == "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"LLM_BASE_URL": "http://h/v1"}, "LLM_MODEL"),
        ({"LLM_BASE_URL": "h/v1", "LLM_MODEL": "m"}, "LLM_BASE_URL"),
        (
            {"LLM_BASE_URL": "http://h/v1", "LLM_MODEL": "m", "ASK_DEADLINE": "5", "LLM_ATTEMPT_TIMEOUT": "6"},
            "ASK_DEADLINE",
        ),
        ({"LLM_ATTEMPT_TIMEOUT": "soon"}, "LLM_ATTEMPT_TIMEOUT"),
        ({"RETRIEVER_URL": ""}, "RETRIEVER_URL"),
    ],
)
def test_a_wrong_setting_stops_the_process_with_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], values: dict[str, str], message: str
) -> None:
    set_all(monkeypatch, **values)
    with pytest.raises(SystemExit) as stopped:
        load(AnswererSettings)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
