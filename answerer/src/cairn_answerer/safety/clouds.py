"""Command lines of cloud providers and code forges: thousands of subcommands, told apart by their verbs."""

from __future__ import annotations

from collections.abc import Sequence

from cairn_answerer.safety.level import CHANGES, DESTRUCTIVE, READ_ONLY, Safety
from cairn_answerer.words import word_set

CLOUDS = word_set("aws gcloud az gsutil doctl gh glab openstack hcloud ibmcloud rosa")
_CLOUD_READ_PREFIXES = (
    "describe",
    "list",
    "get",
    "show",
    "head",
    "ls",
    "wait",
    "tail",
    "view",
    "lookup",
    "read",
    "filter",
)
_CLOUD_DESTROY_PREFIXES = (
    "delete",
    "terminate",
    "remove",
    "rm",
    "rb",
    "destroy",
    "purge",
    "deregister",
    "drop",
    "release",
)


def classify_cloud(words: Sequence[str]) -> Safety:
    """`aws SERVICE VERB-NOUN`, `gcloud GROUP ... VERB`, `az GROUP VERB`: by the verb among the leading words."""
    leading: list[str] = []
    for word in words:
        if word.startswith("-"):
            break
        leading.append(word)
    for verb in leading[:5]:
        if verb.startswith(_CLOUD_DESTROY_PREFIXES):
            return DESTRUCTIVE
    return READ_ONLY if any(verb.startswith(_CLOUD_READ_PREFIXES) for verb in leading[:5]) else CHANGES
