"""Small sentence-transformers models with random weights, made on the spot: what is tested is how they are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEXT = (
    "query : passage , . disk full replica lag node drain cordon it knead the dough bread certificate renew expired "
    "free space on a volume is behind its primary storage has run out of room wait"
)
LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789"]


def _tokenizer(folder: Path) -> int:
    """A WordPiece tokenizer in `folder`; the size of its vocabulary."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import BertProcessing
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    names = [*special, *TEXT.split(), *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    vocabulary = {name: number for number, name in enumerate(dict.fromkeys(names))}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        **{f"{name[1:-1].lower()}_token": name for name in special},
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)
    return len(vocabulary)


def _config(vocabulary: int, dimension: int, **more: Any) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=dimension,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        **more,
    )


def sentence_transformer(
    folder: Path, dimension: int, *, prompts: Mapping[str, str] | None = None, seed: int = 7, limit: int = 64
) -> Path:
    """A model of `dimension` numbers whose configuration has `prompts`, saved in `folder`."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    torch.manual_seed(seed)
    base = folder / "base"
    BertModel(_config(_tokenizer(base), dimension)).save_pretrained(base)
    modules = [Transformer(str(base), max_seq_length=limit), Pooling(dimension, pooling_mode="mean")]
    model = SentenceTransformer(modules=modules, device="cpu", prompts=dict(prompts or {}))
    model.save(str(folder / "model"))
    return folder / "model"


def cross_encoder(folder: Path, *, seed: int = 7) -> Path:
    """A reranker with one score, saved in `folder`."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(seed)
    config = _config(_tokenizer(folder), 16, num_labels=1)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder
