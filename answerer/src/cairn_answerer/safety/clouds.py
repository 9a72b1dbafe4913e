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
_CLOUD_CHANGE_PREFIXES = (
    "create", "update", "modify", "put", "set", "add", "start", "stop", "run", "restart", "reboot", "reset", "attach",
    "detach", "enable", "disable", "apply", "edit", "send", "resize", "scale", "restore", "import", "exec", "invoke",
)  # fmt: skip


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
    # The first verb counts: what follows it are names, which may begin like another one.
    for place, verb in enumerate(leading[:5]):
        if place and verb.startswith(_CLOUD_CHANGE_PREFIXES):
            return CHANGES
        if verb.startswith(_CLOUD_READ_PREFIXES):
            return READ_ONLY
    return CHANGES
