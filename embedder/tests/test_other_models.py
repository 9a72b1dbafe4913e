"""Other models than the default one, by settings alone: prefixes, cut vectors, storage, and what is refused at start."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import sentence_transformer

from cairn_embedder import dimensions, prefixes
from cairn_embedder.adapters.sentence_transformer import ModelChoice, SentenceTransformerEncoder, load
from cairn_embedder.errors import WrongSetting
from cairn_embedder.model import Kind, Vector
from cairn_embedder.prefixes import Prefixes
from cairn_embedder.settings import EmbedderSettings

PROMPTS = {"query": "query: ", "document": "passage: "}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ModelChoice:
    return ModelChoice(str(sentence_transformer(tmp_path_factory.mktemp("tiny"), 24, prompts=PROMPTS)), threads=1)


def embed(encoder: SentenceTransformerEncoder, text: str, kind: Kind) -> Vector:
    vectors: Vector = encoder.encode([one.ids for one in encoder.tokenize([text], kind)])[0]
    return vectors


class TestPrefixes:
    @pytest.mark.parametrize(
        ("prompts", "default", "settings", "expected"),
        [
            ({}, None, {}, Prefixes()),
            ({"query": "q: ", "document": ""}, None, {}, Prefixes("q: ")),
            ({"query": "q: ", "passage": "p: ", "document": "d: "}, None, {}, Prefixes("q: ", "p: ")),
            ({"all": "a: "}, "all", {}, Prefixes("a: ", "a: ")),
            ({"query": "q: ", "all": "a: "}, "all", {}, Prefixes("q: ", "a: ")),
            ({"query": "q: ", "document": "d: "}, None, {"query": "Q: ", "passage": "none"}, Prefixes("Q: ")),
            ({}, None, {"query": "query: ", "passage": "passage: "}, Prefixes("query: ", "passage: ")),
        ],
    )
    def test_settings_come_before_what_the_model_says(
        self, prompts: dict[str, str | None], default: str | None, settings: dict[str, str], expected: Prefixes
    ) -> None:
        assert prefixes.choose(prompts, default, **settings) == expected

    def test_a_vector_is_of_prefix_and_text(self, tiny: ModelChoice) -> None:
        ours, bare = load(tiny), load(replace(tiny, query_prefix="none", passage_prefix="none"))
        kinds: tuple[Kind, ...] = ("query", "passage")
        for kind in kinds:
            assert np.allclose(embed(ours, "disk full", kind), embed(bare, f"{kind}: disk full", kind), atol=1e-6)
            assert not np.allclose(embed(ours, "disk full", kind), embed(bare, "disk full", kind), atol=1e-3)
            reference = ours._model.encode("disk full", prompt=f"{kind}: ", normalize_embeddings=True)
            assert float(embed(ours, "disk full", kind) @ reference) > 0.99999

    def test_a_text_has_the_room_that_the_prefix_leaves(self, tiny: ModelChoice) -> None:
        encoder = load(tiny)
        assert (encoder.info.max_tokens, encoder.info.prompt_tokens) == (61, 3)
        words = "disk " * (encoder.info.max_tokens - encoder.info.special_tokens)
        assert not encoder.tokenize([words], "passage")[0].truncated, "what the consumer may cut is never refused"
        assert encoder.tokenize([words + "disk disk"], "passage")[0].truncated


class TestFingerprint:
    @pytest.mark.parametrize(
        "changed",
        [
            {"query_prefix": "none"},
            {"passage_prefix": "passage: disk "},
            {"dimensions": 16},
            {"storage": "halfvec"},
            {"max_tokens": 32},
            {"dtype": "bfloat16"},
        ],
        ids=str,
    )
    def test_it_has_all_that_changes_a_vector(self, tiny: ModelChoice, changed: dict[str, Any]) -> None:
        assert load(tiny).info.fingerprint == load(replace(tiny)).info.fingerprint
        assert load(replace(tiny, **changed)).info.fingerprint != load(tiny).info.fingerprint

    def test_other_weights_and_other_prompts_of_the_same_name(self, tiny: ModelChoice, tmp_path: Path) -> None:
        names = {
            load(
                ModelChoice(str(sentence_transformer(tmp_path / str(number), 24, prompts=prompts, seed=seed)))
            ).info.fingerprint
            for number, (prompts, seed) in enumerate([(PROMPTS, 7), (PROMPTS, 8), ({"query": "q "}, 7)])
        }
        assert len(names) == 3
        assert load(tiny).info.fingerprint in names, "wherever the files are"


class TestDimensions:
    def test_a_cut_vector_is_the_beginning_at_unit_length(self, tiny: ModelChoice) -> None:
        whole, cut = load(tiny), load(replace(tiny, dimensions=16))
        assert cut.info.dimension == 16
        start = embed(whole, "disk full", "query")[:16]
        assert np.allclose(embed(cut, "disk full", "query"), start / np.linalg.norm(start), atol=1e-6)

    @pytest.mark.parametrize(
        ("own", "wanted", "storage", "expected"),
        [
            (384, None, None, 384),
            (1024, 256, None, 256),
            (2000, None, "vector", 2000),
            (4000, None, None, 4000),
            (4096, 4000, "halfvec", 4000),
            (384, 512, None, "EMBEDDING_DIMENSIONS: 512 is more than the 384"),
            (2001, None, "vector", "EMBEDDING_STORAGE: .* at most 2000 dimensions, not 2001: use halfvec"),
            (4096, None, "halfvec", "EMBEDDING_MODEL: .* at most 4000 dimensions, not 4096: .* EMBEDDING_DIMENSIONS"),
            (4096, None, "vector", "EMBEDDING_MODEL: .* at most 4000"),
        ],
    )
    def test_limits_of_the_index(self, own: int, wanted: int | None, storage: Any, expected: int | str) -> None:
        if isinstance(expected, int):
            assert dimensions.checked(own, wanted, storage) == expected
            return
        with pytest.raises(WrongSetting, match=expected):
            dimensions.checked(own, wanted, storage)

    def test_a_setting_that_can_be_known_wrong_is_refused_before_anything_loads(self) -> None:
        with pytest.raises(ValueError, match="EMBEDDING_STORAGE"):
            EmbedderSettings.model_validate({"port": 0, "embedding_dimensions": 2500, "embedding_storage": "vector"})


@pytest.mark.slow
def test_a_setting_that_the_model_shows_to_be_wrong_ends_the_process(tiny: ModelChoice) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cairn_embedder"],
        env={"EMBEDDING_MODEL": tiny.name, "EMBEDDING_DIMENSIONS": "512", "PORT": "0", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert (done.returncode, done.stderr.strip().splitlines()[-1]) == (
        2,
        "setting EMBEDDING_DIMENSIONS: 512 is more than the 24 that the model has",
    )
