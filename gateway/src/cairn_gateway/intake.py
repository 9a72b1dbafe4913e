"""From a delivery to kept events: prove, translate, accept; and count what came of it."""

from __future__ import annotations

import asyncio
import dataclasses
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from cairn_gateway.accept import Accepter
from cairn_gateway.metrics import Metrics
from cairn_gateway.ports import Names, Resolves
from cairn_gateway.sources import alertmanager, cloud_events, github, gitlab, jira, pagerduty, signatures
from cairn_gateway.sources.errors import Malformed, NotConfigured
from cairn_gateway.sources.incoming import counted_as
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_gateway.sources.signatures import Check, Secrets
from cairn_shared.errors import CairnError, InvalidInput, TooLarge, Unauthenticated
from cairn_shared.events import Event
from cairn_shared.logging import get_logger

log = get_logger(__name__)

BIG = 64 * 1024
"""Bodies over so many bytes are translated in a thread, so that other requests go on."""

MAX_NOTES = 20
"""So many fields that were left out are named in an answer; the metric counts them all."""

Translate = Callable[[Delivery, RunbookRepositories], Translation]
Declared = Callable[[], Awaitable[RunbookRepositories]]


@dataclass(frozen=True)
class Source:
    """How the deliveries of one source are proven and read. `declared`: whether runbook repositories matter to it."""

    name: str
    check: Check
    translate: Translate
    declared: bool = False


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source("github", signatures.check_github, github.translate, declared=True),
        Source("gitlab", signatures.check_gitlab, gitlab.translate, declared=True),
        Source("jira", signatures.check_jira, lambda delivery, _: jira.translate(delivery)),
        Source("alertmanager", signatures.check_alertmanager, lambda delivery, _: alertmanager.translate(delivery)),
        Source("pagerduty", signatures.check_pagerduty, lambda delivery, _: pagerduty.translate(delivery)),
    )
}


@dataclass(frozen=True)
class Taken:
    """What a delivery came to."""

    event_ids: list[str]
    ignored: str | None
    notes: list[str]


@dataclass
class History:
    """What payloads of the past came to; `rejected` by their index."""

    events: list[Event] = field(default_factory=list)
    ignored: int = 0
    rejected: dict[int, InvalidInput] = field(default_factory=dict)


class Intake:
    """Takes deliveries of every source. Nothing is kept of one that is not wholly good."""

    def __init__(
        self,
        accepter: Accepter,
        *,
        secrets: dict[str, Secrets],
        declared: Declared,
        resolves: Resolves,
        names: Names,
        metrics: Metrics,
    ) -> None:
        self._accepter = accepter
        self._secrets = secrets
        self._declared = declared
        self._resolves = resolves
        self._names = names
        self._metrics = metrics

    async def webhook(self, name: str, delivery: Delivery) -> Taken:
        """Take a delivery of a source that proves itself by its secret.

        Raises:
            NotConfigured, Unauthenticated: it is not proven.
            InvalidInput: it cannot be read, or a field is wrong.
            Unavailable: its events could not be kept.
        """
        source = SOURCES[name]

        async def translated() -> Translation:
            source.check(delivery.headers, delivery.body, self._secrets[name])
            repositories = await self._declared() if source.declared else RunbookRepositories()
            translation = await _in_thread_if_big(delivery, lambda: source.translate(delivery, repositories))
            if translation.asks and (names := await self._names.recall(name, translation.asks)):
                translation = jira.translate(delivery, names)
            if translation.tellings:
                known = await self._resolves.recall({one.subject for one in translation.tellings if not one.over})
                events = alertmanager.informed(translation, known, delivery.received_at)
                translation = dataclasses.replace(translation, events=events)
            return translation

        return await self._take(name, translated)

    async def history(self, name: str, deliveries: Sequence[Delivery]) -> History:
        """Take payloads of a source's past from somebody with an API key; one that cannot be read harms no other.

        Raises:
            Unavailable: the events could not be kept.
        """
        source = SOURCES[name]

        def translate() -> History:
            found = History()
            for index, delivery in enumerate(deliveries):
                try:
                    translation = source.translate(delivery, RunbookRepositories())
                except InvalidInput as exc:
                    found.rejected[index] = exc
                else:
                    found.events += translation.events
                    found.ignored += not translation.events
            return found

        found = await asyncio.to_thread(translate)
        if found.events:
            await self._accepter.accept(found.events)
        for event in found.events:
            self._metrics.source_events.labels(name, event.type).inc()
        return found

    async def events(self, delivery: Delivery) -> Taken:
        """Take CloudEvents of somebody with an API key."""
        return await self._take("events", lambda: _in_thread_if_big(delivery, lambda: cloud_events.translate(delivery)))

    async def logs(self, delivery: Delivery, read: Callable[[], Translation]) -> Taken:
        """Take log lines of somebody with an API key; `read` translates them, in a thread."""
        return await self._take("logs", lambda: _in_thread_if_big(delivery, read))

    async def _take(self, name: str, translated: Callable[[], Awaitable[Translation]]) -> Taken:
        outcome = "unavailable"
        try:
            translation = await translated()
            if translation.events:
                await self._accepter.accept(translation.events)
            await self._names.remember(name, translation.names)
            await self._resolves.remember({one.subject: one.sender for one in translation.tellings if one.over})
            outcome = "accepted" if translation.events else "ignored"
        except CairnError as exc:
            outcome = _outcome(exc)
            raise
        finally:
            self._metrics.deliveries.labels(name, outcome).inc()
        for event in translation.events:
            self._metrics.source_events.labels(name, event.type).inc()
        if translation.cut:
            self._metrics.cut_pushes.labels(name, translation.cut).inc()
        for one in translation.left_out:
            self._metrics.left_out.labels(name, counted_as(one)).inc()
        notes = [*translation.notes, *(f"left out: {one}" for one in translation.left_out[:MAX_NOTES])]
        if notes:
            log.warning("delivery", source=name, notes=notes)
        if translation.ignored:
            log.debug("delivery ignored", source=name, reason=translation.ignored)
        return Taken([str(event.event_id) for event in translation.events], translation.ignored, notes)


def unzipped(body: bytes, encoding: str, limit: int) -> bytes:
    """The body as it was before `Content-Encoding: gzip` (RFC 9110 §8.4).

    Raises:
        InvalidInput: another encoding.
        Malformed: it is not gzip, or ends too soon.
        TooLarge: it is over `limit` bytes unpacked; no more than that is ever held.
    """
    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        return body
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise InvalidInput("Content-Encoding: gzip or none is taken", field="Content-Encoding")
    # 32: gzip or zlib, by the header
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        plain = inflater.decompress(body, limit + 1)
    except zlib.error as exc:
        raise Malformed("the body is not gzip", field="body") from exc
    if len(plain) > limit:
        raise TooLarge(f"the body is over {limit} bytes unpacked", field="body")
    if not inflater.eof:
        raise Malformed("the gzip stream ends too soon", field="body")
    return plain


async def _in_thread_if_big(delivery: Delivery, work: Callable[[], Translation]) -> Translation:
    return await asyncio.to_thread(work) if len(delivery.body) > BIG else work()


def _outcome(exc: CairnError) -> str:
    if isinstance(exc, (Unauthenticated, NotConfigured)):
        return "refused"
    return "malformed" if isinstance(exc, InvalidInput) else "unavailable"
