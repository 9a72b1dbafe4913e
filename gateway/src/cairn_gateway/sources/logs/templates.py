"""Folding log lines into templates.

First everything that varies by nature (times, addresses, numbers, ids) is masked, then Drain (He et al., ICWS 2017)
joins the masked lines of one service that differ in few words. A template's id is the digest of its own text and
nothing is remembered between batches, so every replica names the same template alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from drain3.drain import Drain
from drain3.masking import LogMasker, MaskingInstruction

from cairn_gateway.sources.logs.records import SEVERITIES, LogRecord

MAX_SAMPLES = 5
MAX_MASKED = 2_000
MAX_HOSTS = 20
MAX_COMPARED = 1_500
"""Different lines of one batch, after masking, that are compared with one another."""
MAX_ROUGH = 500
"""Templates of one batch that are made of two words only, because there is more than that."""

# Lines of one template agree in at least so many of their words. Drain's own 0.4 joins lines that mean different
# things ("connection refused by peer", "connection accepted by peer").
_SIMILARITY = 0.75
_DEPTH = 5

_EDGE, _END = r"(?<![A-Za-z0-9_])", r"(?![A-Za-z0-9_])"
_MASKS = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d)(?![\w:]))?", "TIME"),
    (r"\b\d{1,2}/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?: [+-]\d{4})?", "TIME"),
    (r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+", "TIME"),
    (r"\b[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d\b", "TIME"),
    (_EDGE + r"\d\d:\d\d:\d\d(?:[.,]\d+)?" + _END, "TIME"),
    (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "ID"),
    (_EDGE + r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}" + _END, "EMAIL"),
    (_EDGE + r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/\d{1,2})?" + _END, "IP"),
    (_EDGE + r"(?:[0-9a-fA-F]{1,4}:){3,7}:?[0-9a-fA-F]{0,4}" + _END, "IP"),
    # Pods of a ReplicaSet: name-template-suffix, in the alphabet that Kubernetes uses for both
    (r"(?<=[a-z0-9])-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-POD"),
    (_EDGE + r"0x[0-9a-fA-F]+" + _END, "HEX"),
    (_EDGE + r"(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{7,128}" + _END, "HEX"),
    # A number that is no part of a name: ORA-00600 and PROJ-123 stay.
    (r"(?<![A-Za-z0-9_-])[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?(?:%|[a-zA-Zµ]{1,3})?(?![A-Za-z0-9_])", "NUM"),
)
_MASKER = LogMasker([MaskingInstruction(pattern, name) for pattern, name in _MASKS], "<", ">")
_GRAVITY = {name: rank for rank, name in enumerate(dict.fromkeys(SEVERITIES.values()))}


@dataclass
class Template:
    """Lines of one service that say the same. `first_seen` and `last_seen` are None when no line had a time."""

    service: str | None
    text: str
    count: int = 0
    severity: str | None = None
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    samples: dict[str, None] = field(default_factory=dict)
    hosts: dict[str, None] = field(default_factory=dict)

    def id(self) -> str:
        """16 hex digits of the digest of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def mask(text: str) -> str:
    """`text` with everything that varies by nature replaced by its kind."""
    return str(_MASKER.mask(text[:MAX_MASKED]))


def fold(records: Iterable[LogRecord]) -> list[Template]:
    """The templates of `records`, by first appearance. The counts add up to the number of records.

    Comparing is quadratic in what is different, so there are limits: of a batch beyond them only lines that are masked
    alike are joined, then lines with the same two first words, and in the end all that is left of a service.
    """
    folding = _Folding()
    found: dict[tuple[str | None, int | str], Template] = {}
    for record in records:
        key = (record.service, folding.place(record.service, record.text))
        _count(found.setdefault(key, Template(record.service, text="")), record)
    for (service, place), template in found.items():
        template.text = folding.text(service, place)
    return list(found.values())


class _Folding:
    """One batch. A place is the number of a cluster, or the text of a template that was not compared."""

    def __init__(self) -> None:
        self._drains: dict[str | None, Drain] = {}
        # Identical lines, the usual case in a flood, are masked once, and lines masked alike compared once.
        self._by_line: dict[tuple[str | None, str], int | str] = {}
        self._by_mask: dict[tuple[str | None, str], int | str] = {}
        self._compared = 0
        self._rough: set[tuple[str | None, str]] = set()

    def place(self, service: str | None, line: str) -> int | str:
        """Where a line belongs."""
        known = self._by_line.get((service, line))
        if known is None:
            known = self._by_line[(service, line)] = self._place_of_mask(service, mask(line))
        return known

    def text(self, service: str | None, place: int | str) -> str:
        """The text of a template, once all lines are placed."""
        if isinstance(place, str):
            return place
        return str(self._drains[service].id_to_cluster[place].get_template())

    def _place_of_mask(self, service: str | None, masked: str) -> int | str:
        known = self._by_mask.get((service, masked))
        if known is None:
            known = self._by_mask[(service, masked)] = self._compare(service, masked)
        return known

    def _compare(self, service: str | None, masked: str) -> int | str:
        if self._compared < MAX_COMPARED:
            self._compared += 1
            drain = self._drains.get(service)
            if drain is None:
                drain = Drain(depth=_DEPTH, sim_th=_SIMILARITY, parametrize_numeric_tokens=False)
                self._drains[service] = drain
            return int(drain.add_log_message(masked)[0].cluster_id)
        rough = " ".join([*masked.split(maxsplit=2)[:2], "<*>"])
        if (service, rough) not in self._rough and len(self._rough) >= MAX_ROUGH:
            return "<*>"
        self._rough.add((service, rough))
        return rough


def _count(template: Template, record: LogRecord) -> None:
    template.count += 1
    if len(template.samples) < MAX_SAMPLES:
        template.samples[record.text] = None
    if record.host and len(template.hosts) < MAX_HOSTS:
        template.hosts[record.host] = None
    if record.severity and _GRAVITY[record.severity] >= _GRAVITY.get(template.severity or "", -1):
        template.severity = record.severity
    if record.at is not None:
        template.first_seen = min(template.first_seen or record.at, record.at)
        template.last_seen = max(template.last_seen or record.at, record.at)
