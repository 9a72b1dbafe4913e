"""Fetch the models of the embedder into HF_HOME while its image is built; the default model comes as a package.

Each model is loaded once, so that exactly the files that the service reads are kept, and a name that is wrong fails
the build instead of the start. Code that a model brings along is not run here: such a model is mounted as a folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from sentence_transformers import CrossEncoder, SentenceTransformer

from cairn_embedder.adapters.sentence_transformer import BUNDLED

model, revision = os.environ["EMBEDDING_MODEL"], os.environ.get("EMBEDDING_REVISION") or None
reranker, reranker_revision = os.environ.get("RERANKER_MODEL"), os.environ.get("RERANKER_REVISION") or None
Path(os.environ["HF_HOME"]).mkdir(parents=True, exist_ok=True)

if model.startswith(("/", ".")):
    print(f"{model} is a folder: mount it into the container")
elif model.removeprefix("sentence-transformers/") == BUNDLED and revision is None:
    print(f"{model} is installed as a package")
else:
    SentenceTransformer(model, revision=revision, device="cpu")
if reranker and not reranker.startswith(("/", ".")):
    CrossEncoder(reranker, revision=reranker_revision, device="cpu")
