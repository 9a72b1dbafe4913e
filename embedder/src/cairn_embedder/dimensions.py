"""How long vectors are, and how they are stored. Pure.

The limits are those of pgvector's HNSW index (its README, "HNSW"): 2,000 dimensions of `vector`, 4,000 of `halfvec`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from cairn_embedder.errors import WrongSetting
from cairn_embedder.model import Vector

Storage: TypeAlias = Literal["vector", "halfvec"]

LIMITS: dict[Storage, int] = {"vector": 2000, "halfvec": 4000}


def checked(own: int, wanted: int | None, storage: Storage | None) -> int:
    """The dimensions that vectors will have: `wanted` of the model's `own`. Without `storage` the index chooses.

    Raises:
        WrongSetting: the model has fewer, or the index cannot take so many.
    """
    if wanted is not None and wanted > own:
        raise WrongSetting("EMBEDDING_DIMENSIONS", f"{wanted} is more than the {own} that the model has")
    dimension = wanted or own
    limit = LIMITS[storage or "halfvec"]
    if dimension <= limit:
        return dimension
    if dimension <= LIMITS["halfvec"]:
        raise WrongSetting(
            "EMBEDDING_STORAGE", f"an index of `vector` takes at most {limit} dimensions, not {dimension}: use halfvec"
        )
    raise WrongSetting(
        "EMBEDDING_DIMENSIONS" if wanted else "EMBEDDING_MODEL",
        f"an index takes at most {LIMITS['halfvec']} dimensions, not {dimension}: where the model allows to cut its"
        " vectors (Matryoshka), set EMBEDDING_DIMENSIONS",
    )


def of_unit_length(vectors: Vector, dimension: int) -> Vector:
    """The first `dimension` numbers of each row, of unit length again (Kusupati et al. 2022, Matryoshka
    Representation Learning); shape (texts, dimension). A zero row stays one: the caller refuses it.
    """
    cut = vectors[:, :dimension].astype(np.float32)
    lengths = np.linalg.norm(cut, axis=1, keepdims=True)
    cut /= np.where(lengths > 0, lengths, 1)
    return cut


def suffix(own: int, dimension: int, storage: Storage | None) -> str:
    """What the fingerprint says of both, empty for a model as it comes."""
    return (f":d{dimension}" if dimension != own else "") + (f":{storage}" if storage else "")
