"""What a model wants in front of a text: `query: `, `passage: `, an instruction. Pure.

Models tell it in `config_sentence_transformers.json` under `prompts`, by names that differ; those that do not tell it
(the E5 family) need the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cairn_embedder.model import Kind

NOTHING = "none"
"""As a setting: no prefix although the model names one. An empty variable counts as unset."""

_NAMES: Mapping[Kind, tuple[str, ...]] = {"query": ("query",), "passage": ("passage", "document")}


@dataclass(frozen=True)
class Prefixes:
    """The text in front of a query and of a passage, each maybe empty."""

    query: str = ""
    passage: str = ""

    def of(self, kind: Kind) -> str:
        """The prefix for `kind`."""
        return self.query if kind == "query" else self.passage

    def named(self) -> dict[str, str]:
        """Those that there are: part of what decides a vector."""
        return {name: text for name, text in (("passage", self.passage), ("query", self.query)) if text}


def choose(
    prompts: Mapping[str, str | None], default: str | None, *, query: str | None = None, passage: str | None = None
) -> Prefixes:
    """The model's own `prompts`, `default` naming the one for whatever is not named, under the settings' texts."""
    own = {kind: _own(prompts, default, names) for kind, names in _NAMES.items()}
    return Prefixes(_set(query, own["query"]), _set(passage, own["passage"]))


def unused(prompts: Mapping[str, str | None], prefixes: Prefixes) -> list[str]:
    """Names of the model's prompts of which no kind uses the text: somebody should look at them."""
    return sorted(name for name, text in prompts.items() if text and text not in (prefixes.query, prefixes.passage))


def _own(prompts: Mapping[str, str | None], default: str | None, names: tuple[str, ...]) -> str:
    for name in (*names, default):
        if name is not None and name in prompts and prompts[name] is not None:
            return prompts[name] or ""
    return ""


def _set(setting: str | None, own: str) -> str:
    if setting is None:
        return own
    return "" if setting == NOTHING else setting
