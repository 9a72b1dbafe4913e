"""`POST /v1/embeddings` and `GET /v1/models`."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from cairn_gateway.compat.chat import MODEL
from cairn_gateway.compat.errors import UnknownModel
from cairn_shared.api.embedding import ModelInfo
from cairn_shared.errors import InvalidInput

MAX_INPUTS = 2048
"""OpenAI's own limit of one request."""

OWNER = "cairn"


class EmbeddingsRequest(BaseModel):
    """Texts to embed; other parameters are accepted and have no effect."""

    model: Annotated[str, Field(description="The embedding model, as `GET /v1/models` names it.")]
    input: Annotated[Any, Field(description="A text, or up to 2048 texts.", examples=["the replica lags"])]
    encoding_format: Annotated[
        Literal["float", "base64"] | None, Field(description="`base64`: little-endian float32.")
    ] = None
    dimensions: Annotated[int | None, Field(description="The model's own.")] = None


class EmbeddingObject(BaseModel):
    """One vector, of unit length."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsUsage(BaseModel):
    """Tokens as the model counts them, its special tokens included."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(BaseModel):
    """Vectors in the order of the texts."""

    object: Literal["list"] = "list"
    data: list[EmbeddingObject]
    model: str
    usage: EmbeddingsUsage


class EmbeddingModel(BaseModel):
    """What to know of the embedding model. Vectors of different fingerprints must not be compared."""

    dimension: int
    max_tokens: int
    fingerprint: str


class ModelObject(BaseModel):
    """A model. When it was created is not known."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = OWNER
    cairn: EmbeddingModel | None = None


class ModelList(BaseModel):
    """The models."""

    object: Literal["list"] = "list"
    data: list[ModelObject]


def models_of(embedding: ModelInfo | None) -> ModelList:
    """What can be asked for: `cairn`, and the embedding model where there is one."""
    models = [ModelObject(id=MODEL)]
    if embedding is not None:
        about = EmbeddingModel(
            dimension=embedding.dimension, max_tokens=embedding.max_tokens, fingerprint=embedding.fingerprint
        )
        models.append(ModelObject(id=embedding.name, cairn=about))
    return ModelList(data=models)


def texts_of(request: EmbeddingsRequest) -> list[str]:
    """The texts to embed.

    Raises:
        InvalidInput: they are no texts, or too many.
    """
    given = request.input
    if isinstance(given, str):
        return [_checked(given, "input")]
    if not isinstance(given, list) or not given:
        raise InvalidInput("input: send a text or a list of texts", field="input")
    if len(given) > MAX_INPUTS:
        raise InvalidInput(f"input: {len(given)} texts are more than {MAX_INPUTS}; send them in parts", field="input")
    if isinstance(given[0], int | list):
        raise InvalidInput("input: tokens are not understood, as each model has its own; send texts", field="input")
    return [_checked(text, f"input.{number}") for number, text in enumerate(given)]


def check_model(request: EmbeddingsRequest, model: ModelInfo) -> None:
    """Refuse what this model cannot do.

    Raises:
        UnknownModel: another one is asked for: its vectors would not fit.
        InvalidInput: it has another dimension.
    """
    if request.model not in {model.name, model.name.rpartition("/")[2]}:
        raise UnknownModel(
            f"model: there is no embedding model {request.model[:100]!r} here; use {model.name!r}", field="model"
        )
    if request.dimensions not in {None, model.dimension}:
        raise InvalidInput(f"dimensions: {model.name} has {model.dimension}; leave it out", field="dimensions")


def to_embeddings(
    request: EmbeddingsRequest, model: ModelInfo, vectors: Sequence[bytes], tokens: int
) -> EmbeddingsAnswer:
    """The answer. Each of `vectors` is `model.dimension` little-endian float32."""
    as_text = request.encoding_format == "base64"
    return EmbeddingsAnswer(
        data=[
            EmbeddingObject(
                index=index,
                embedding=base64.b64encode(vector).decode() if as_text else _floats(vector, model.dimension),
            )
            for index, vector in enumerate(vectors)
        ],
        model=model.name,
        usage=EmbeddingsUsage(prompt_tokens=tokens, total_tokens=tokens),
    )


def _floats(vector: bytes, dimension: int) -> list[float]:
    return list(struct.unpack(f"<{dimension}f", vector))


def _checked(text: Any, field: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"{field}: it is no text", field=field)
    if not text.strip():
        raise InvalidInput(f"{field}: it is blank; leave it out", field=field)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{field}: it has half a surrogate pair", field=field) from None
    return text
