"""The server of these tests must not drift from the gateway: both sides of its talk are held against the OpenAPI."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
from typer.testing import Result

from cairn_gateway.app import create_app
from cairn_gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from gateway.tests.cli.conftest import FakeGateway, Reply, Seen

Run = Callable[..., Result]
Json = dict[str, Any]
_LITERAL = re.compile(r"\d+|true|false")
NOWHERE = {
    "MONGO_URI": "mongodb://127.0.0.1:1",
    "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "REDIS_URL": "redis://127.0.0.1:1",
    "RETRIEVER_URL": "http://127.0.0.1:1",
    "ANSWERER_URL": "http://127.0.0.1:1",
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("import", "books", "--prefix", "x-", "--source", "wiki", "--wait"),
    ("seed",),
    ("ask", "why", "-k", "3", "--service", "redis", "--alert", "alert.json"),
    ("search", "x", "--kind", "event", "-k", "3", "--mode", "keyword", "--fusion", "rrf", "--explain", "--source", "s",
     "--service", "redis", "--since", "2026-01-01T00:00:00Z", "--until", "2026-02-01T00:00:00+01:00"),
    ("status",),
    ("runbooks", "ls", "--service", "redis", "--tag", "wal", "--q", "lag"),
    ("runbooks", "put", "books/a.md", "--id", "one", "--path", "x/a.md"),
    ("runbooks", "show", "one"),
    ("runbooks", "show", "one", "--markdown"),
    ("runbooks", "rm", "one"),
    ("verify", "--repair"),
    ("indexes",),
    ("users", "ls"),
    ("users", "add", "user-a", "--name", "A", "--role", "editor", "--email", "a@example.com", "--team", "t"),
    ("users", "key", "user-a", "--label", "laptop"),
    ("users", "revoke", "user-a", "k1"),
    ("executions", "--runbook", "redis-down", "--user", "user-a", "--limit", "7"),
    ("repos", "add", "books", "https://git.example.com/team/books", "--branch", "dev", "--include", "*.md", "--exclude", "a/**",
     "--provider", "gitea"),
    ("repos", "ls"),
    ("repos", "show", "books"),
    ("sync", "--wait"),
    ("repos", "rm", "books", "--keep"),
    ("executions", "record", "redis-down", "2", "worked", "--note", "n", "--incident", "i"),
)  # fmt: skip


@pytest.fixture(scope="module")
def openapi() -> Iterator[Json]:
    """The gateway's own description of its routes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in NOWHERE.items():
            patch.setenv(name, value)
        yield create_app(GatewaySettings()).openapi()


@pytest.fixture
def talk(gateway: FakeGateway, cairn: Run, tmp_path: Path) -> list[tuple[Seen, Reply]]:
    """What every command says and is told."""
    for folder in ("books", "data/runbooks"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.md").write_text("# A\n")
    (tmp_path / "alert.json").write_text('{"labels": {"alertname": "RedisDown"}}')
    user = {"id": "user-b", "name": "B", "role": "reader", "email": "b@example.com", "team": "t"}
    (tmp_path / "data" / "users.json").write_text(json.dumps([user]))
    done = {"id": "e1", "runbook_id": "a", "step": 1, "user_id": "user-b", "outcome": "worked", "note": "n"}
    times = {"started_at": "2026-01-11T02:14:00Z", "finished_at": "2026-01-11T02:17:00Z"}
    (tmp_path / "data" / "executions.json").write_text(json.dumps([done | times]))
    for command in COMMANDS:
        result = cairn(*command)
        assert result.exit_code in {0, 1}, f"{command}: {result.stderr}"
    return gateway.talk


def test_what_the_command_line_sends_is_what_the_gateway_takes(openapi: Json, talk: list[tuple[Seen, Reply]]) -> None:
    for seen, _ in talk:
        operation = _operation(openapi, seen)
        parameters = {item["name"]: item["schema"] for item in operation.get("parameters", []) if item["in"] == "query"}
        assert set(seen.query) <= set(parameters), seen
        for name, value in seen.query.items():
            _check(openapi, parameters[name], json.loads(value) if _LITERAL.fullmatch(value) else value, seen)
        if seen.body:
            kind = seen.headers["content-type"].partition(";")[0]
            schema = operation["requestBody"]["content"][kind]["schema"]
            _check(openapi, schema, seen.json() if kind == "application/json" else seen.body.decode(), seen)


def test_what_these_tests_answer_is_what_the_gateway_answers(openapi: Json, talk: list[tuple[Seen, Reply]]) -> None:
    partial = _without_required(openapi)
    answers = 0
    for seen, reply in talk:
        documented = _operation(openapi, seen)["responses"]
        assert str(reply.status) in documented, (seen, reply.status)
        content = documented[str(reply.status)].get("content", {})
        if isinstance(reply.body, dict) and reply.status < 400:
            _check(partial, content["application/json"]["schema"], reply.body, seen)
            answers += 1
    assert answers >= len(COMMANDS)


def test_a_wrong_member_would_be_noticed(openapi: Json) -> None:
    partial = _without_required(openapi)
    schema = {"$ref": "#/components/schemas/RunbookPage"}
    with pytest.raises(AssertionError, match="colour"):
        _check(partial, schema, {"runbooks": [{"id": "a", "colour": "red"}]}, None)
    with pytest.raises(AssertionError, match="runbooks"):
        _check(openapi, schema, {"next": None}, None)


def _operation(openapi: Json, seen: Seen) -> Json:
    for template, operations in sorted(openapi["paths"].items(), key=lambda item: "{" in item[0]):
        pattern = re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, seen.path) and seen.method.lower() in operations:
            return dict(operations[seen.method.lower()])
    raise AssertionError(f"the gateway has no {seen.method} {seen.path}")


def _check(openapi: Json, schema: Json, value: Any, seen: Seen | None) -> None:
    validator = jsonschema_rs.validator_for(schema | {"components": openapi["components"]}, validate_formats=True)
    problems = [f"{list(error.instance_path)}: {error.message}" for error in validator.iter_errors(value)]
    assert not problems, (seen and f"{seen.method} {seen.path}", problems)


def _without_required(openapi: Json) -> Json:
    """The same schemas, where members may be missing, but none may be unknown: these tests answer only what is read."""
    loose = copy.deepcopy(openapi)
    for schema in loose["components"]["schemas"].values():
        schema.pop("required", None)
        if "properties" in schema:
            schema["additionalProperties"] = False
    return loose
