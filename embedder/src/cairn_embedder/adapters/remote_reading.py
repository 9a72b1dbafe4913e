"""How text is counted and cut for a model that is elsewhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from cairn_embedder import dimensions
from cairn_embedder.dimensions import Storage
from cairn_embedder.errors import WrongSetting
from cairn_embedder.model import Kind, Tokens
from cairn_embedder.prefixes import Prefixes
from cairn_shared.api.embedding import ModelInfo
from cairn_shared.redaction import redact

_NO_PREFIXES = Prefixes()


@dataclass(frozen=True)
class RemoteChoice:
    """Which model of the endpoint, and how it is asked; see the settings of the same names."""

    name: str
    revision: str | None = None
    max_tokens: int = 512
    dimensions: int | None = None
    storage: Storage | None = None
    prefixes: Prefixes = _NO_PREFIXES
    tokenizer: str | None = None


class RemoteReading:
    """The port `Reading`, with the model's tokenizer or an estimate.

    `own` is the length of the vectors that the endpoint gives.
    """

    def __init__(self, choice: RemoteChoice, own: int) -> None:
        tokenizer = load_tokenizer(choice.tokenizer) if choice.tokenizer else estimate()
        self._tokenizer = tokenizer
        self._prefixes = choice.prefixes
        self._limit = choice.max_tokens
        self.tokenizer_json: str = tokenizer.to_str()
        texts = [text for text in (choice.prefixes.query, choice.prefixes.passage) if text]
        prompt_tokens = max(
            (len(tokenizer.encode(text, add_special_tokens=False).ids) + 1 for text in texts), default=0
        )
        if prompt_tokens >= self._limit // 2:
            raise WrongSetting("EMBEDDING_MAX_TOKENS", f"the prefixes alone take {prompt_tokens} of {self._limit}")
        dimension = dimensions.checked(own, choice.dimensions, choice.storage)
        self.info = ModelInfo(
            name=choice.name,
            revision=choice.revision or "unpinned",
            dimension=dimension,
            max_tokens=self._limit - prompt_tokens,
            special_tokens=int(tokenizer.num_special_tokens_to_add(is_pair=False)),
            prompt_tokens=prompt_tokens,
            storage=choice.storage,
            fingerprint=f"{choice.name.rsplit('/', 1)[-1]}@{_digest(choice)}:remote:{self._limit}:d{dimension}"
            + (f":{choice.storage}" if choice.storage else ""),
        )

    def tokenize(self, texts: Sequence[str], kind: Kind) -> list[Tokens]:
        # What is indexed was redacted long ago; what somebody pastes into a question leaves the machine only here.
        shown = [redact(text) for text in texts] if kind == "query" else texts
        inputs = [self._prefixes.of(kind) + text for text in shown]
        return [self._cut(text, encoding) for text, encoding in zip(inputs, self._encoded(inputs), strict=True)]

    def _encoded(self, inputs: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        return [(encoding.ids, encoding.offsets) for encoding in self._tokenizer.encode_batch(list(inputs))]

    def _cut(self, text: str, encoding: tuple[list[int], list[tuple[int, int]]]) -> Tokens:
        ids, offsets = encoding
        if len(ids) <= self._limit:
            return Tokens(tuple(ids), len(ids), text)
        room = self._limit - self.info.special_tokens
        end = max((stop for _, stop in offsets[:room]), default=0)
        return Tokens(tuple(ids[: self._limit]), len(ids), text[:end])


def estimate() -> Tokenizer:
    """A counter for models whose tokenizer is not at hand: four Latin letters or digits, or any other sign, are one.

    Vocabularies of 30,000 pieces and more need fewer for words, and rarely more than one for a sign.
    """
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106 - not a password
    tokenizer.pre_tokenizer = Split(Regex(r"[\p{Latin}\p{N}]{1,4}|\S"), behavior="removed", invert=True)
    return tokenizer


def load_tokenizer(where: str) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, or of the folder that it is in, without truncation and padding.

    Raises:
        WrongSetting: there is none.
    """
    path = Path(where)
    try:
        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json" if path.is_dir() else path))
    except Exception as exc:  # the library raises bare Exception
        raise WrongSetting("EMBEDDINGS_TOKENIZER", "no tokenizer.json can be read there") from exc
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _digest(choice: RemoteChoice) -> str:
    """What decides a vector as far as it can be known from here. Not where the endpoint is: that may move."""
    known = [choice.name, choice.revision, choice.prefixes.named()]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:12]
