"""Bodies and answers that go past FastAPI's own conversion: large ones, and ones that are valid already."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import BaseModel


def as_json(answer: BaseModel) -> Response:
    """`answer` as it is; FastAPI would validate and convert it a second time."""
    return Response(answer.model_dump_json(), media_type="application/json")


def described(model: type[BaseModel], **others: Any) -> dict[str, Any]:
    """The description (`openapi_extra`) of a body that a route reads by itself, as JSON or as one of `others`."""
    content = {"application/json": {"schema": _inlined(model.model_json_schema())}, **others}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` with its definitions in place of the references to them; they do not refer to themselves."""
    definitions = schema.pop("$defs", {})

    def resolve(value: Any) -> Any:
        if isinstance(value, list):
            return [resolve(item) for item in value]
        if not isinstance(value, dict):
            return value
        if (reference := value.get("$ref")) is not None:
            return resolve(definitions[reference.rpartition("/")[2]])
        return {name: resolve(member) for name, member in value.items()}

    resolved: dict[str, Any] = resolve(schema)
    return resolved
