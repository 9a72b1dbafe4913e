"""Pitfall 21: secrets in a question or alert reach neither the model, nor Redis, nor the log; commit hashes do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
from answerer_corpus import STEPS, make_hit, make_search
from answerer_servers import FakeRetriever, ScriptedModel, post, serving
from pydantic import SecretStr

from cairn_answerer.app import create_app
from cairn_answerer.settings import AnswererSettings
from cairn_shared.redis import open_redis
from cairn_shared.settings import RedisSettings

Settings = Callable[..., AnswererSettings]
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SHA = "3f9d0682b1a4c5d6e7f8091a2b3c4d5e6f708192"


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("refine", [False, True])
async def test_a_secret_in_the_question_stays_here(
    make_settings: Settings,
    retriever: FakeRetriever,
    model: ScriptedModel,
    redis_url: str,
    *,
    capfd: pytest.CaptureFixture[str],
    refine: bool,
) -> None:
    if refine:  # the question as asked is refused, its rewriting, which the model answers with, is not
        hits = (make_hit(1), make_hit(2))
        unsure = make_search(*hits, enough=False)
        assert unsure.gate.runbooks is not None
        unsure.gate.runbooks.confidence = 0.3
        retriever.answer = lambda asked: unsure if SHA in asked.query else make_search(*hits)
    async with serving(create_app(make_settings(llm_refine=refine, llm_refine_timeout=5.0))) as url:
        answer = await post(url, f"Push of {SHA} with {TOKEN} fails on the replica")
    assert len(model.calls) == 1 + refine
    await assert_kept_back(answer, model, redis_url, capfd)


async def test_a_secret_in_the_alert_stays_here(
    make_settings: Settings,
    index: asyncpg.Connection[asyncpg.Record],
    retriever: FakeRetriever,
    model: ScriptedModel,
    redis_url: str,
    *,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Nor is it filled into a command, for answers are kept."""
    text = f'{STEPS[0]}\n\n```bash\ncurl -H "X-Token: $TOKEN" http://<pod>/state\n```'
    retriever.answer = make_search(make_hit(1, text), make_hit(2))
    await index.execute("UPDATE steps SET body = $1 WHERE step_number = 1", text)
    alert = {
        "name": "ReplicaLag",
        "labels": {"pod": "pg-1", "token": TOKEN},
        "annotations": {"description": f"since {SHA}, see https://dba:{TOKEN}@git.example.com/pg"},
    }
    async with serving(create_app(make_settings())) as url:
        answer = await post(url, alert=alert)
    assert [one["text"] for one in answer["sources"][0]["commands"]][-1].endswith("http://pg-1/state")
    await assert_kept_back(answer, model, redis_url, capfd)


async def assert_kept_back(
    answer: dict[str, Any], model: ScriptedModel, redis_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The secret is nowhere, in an answer as good as any; what only looks like one came through."""
    assert answer["mode"] == "full"
    assert not [call for call in model.calls if TOKEN in call.prompt]
    assert SHA in model.calls[-1].prompt
    async with open_redis(RedisSettings(redis_url=SecretStr(redis_url)), "test") as client:
        stored = [await client.get(name) for name in await client.keys("*")]
    assert stored
    assert TOKEN.encode() not in b"".join(value for value in stored if isinstance(value, bytes))
    out, err = capfd.readouterr()
    assert TOKEN not in out + err + str(answer)
    assert "sk-test-key" not in out + err + str(answer)


def test_settings_do_not_show_the_key(make_settings: Settings) -> None:
    assert "sk-test-key" not in repr(make_settings())
