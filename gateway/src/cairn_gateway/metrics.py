"""Every metric of the gateway."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cairn_shared.clock import Clock

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The metrics, on the registry of this process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.http_requests = Counter(
            "cairn_http_requests_total",
            "Requests by route and status.",
            ("route", "method", "status"),
            registry=registry,
        )
        self.http_seconds = Histogram(
            "cairn_http_request_seconds",
            "Time until the answer is sent, by route.",
            ("route", "method"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.asked = Counter(
            "cairn_gateway_asked_total",
            "Questions by the mode of their answer; `stream` for streamed ones.",
            ("mode",),
            registry=registry,
        )
        self.questions = Counter(
            "cairn_questions_logged_total",
            "Questions by whether the question log has them: recorded, dropped.",
            ("outcome",),
            registry=registry,
        )
        self.accepted = Counter(
            "cairn_events_accepted_total",
            "Events accepted, by what keeps them: kafka or inbox.",
            ("kept_by",),
            registry=registry,
        )
        self.deliveries = Counter(
            "cairn_deliveries_total",
            "Deliveries by source and outcome: accepted, ignored, refused, malformed, unavailable.",
            ("source", "outcome"),
            registry=registry,
        )
        self.source_events = Counter(
            "cairn_source_events_total",
            "Events made of deliveries, by source and type.",
            ("source", "type"),
            registry=registry,
        )
        self.left_out = Counter(
            "cairn_source_fields_left_out_total",
            "Fields of deliveries that could not be read and were not needed; `*` stands for the number of an item.",
            ("source", "field"),
            registry=registry,
        )
        self.cut_pushes = Counter(
            "cairn_cut_pushes_total",
            "Pushes whose sender did not list every commit: the rest is fetched, or left for want of a host to ask.",
            ("source", "outcome"),
            registry=registry,
        )
        self.published = Counter(
            "cairn_relay_published_total",
            "Entries that the relay took to Kafka, or could not: published, refused, failed.",
            ("queue", "outcome"),
            registry=registry,
        )
        self.publish_seconds = Histogram(
            "cairn_relay_publish_seconds",
            "From the commit of an entry to its acknowledgement by Kafka.",
            ("queue",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.again = Counter(
            "cairn_relay_published_again_total",
            "Entries published once more, not settled in time.",
            ("queue",),
            registry=registry,
        )
        self.leader = Gauge("cairn_relay_leader", "1 where the relay of this process leads.", registry=registry)
        self.pending = Gauge(
            "cairn_queue_pending", "Entries that wait for Kafka (set by the leader).", ("queue",), registry=registry
        )
        self.oldest = Gauge(
            "cairn_queue_oldest_seconds",
            "Age of the oldest that waits (set by the leader).",
            ("queue",),
            registry=registry,
        )
        self.unsettled = Gauge(
            "cairn_queue_unsettled",
            "Entries on Kafka that the index has not confirmed (INBOX=always; set by the leader).",
            ("queue",),
            registry=registry,
        )
        self.refused = Gauge(
            "cairn_queue_refused",
            "Entries that Kafka can never take (set by the leader).",
            ("queue",),
            registry=registry,
        )
        self.letters = Counter(
            "cairn_dead_letters_indexed_total",
            "Dead letters that were new to the workbench, by topic, stage and class.",
            ("topic", "stage", "class"),
            registry=registry,
        )
        self.replays = Counter(
            "cairn_dead_letter_replays_total",
            "Replays by what became of them: sent, resolved, failed_again.",
            ("outcome",),
            registry=registry,
        )
        self.letter_states = Gauge(
            "cairn_dead_letters", "Dead letters by state (set by the leader).", ("state",), registry=registry
        )
        self.oldest_letter = Gauge(
            "cairn_dead_letters_oldest_seconds",
            "Since the oldest open letter failed first (set by the leader).",
            registry=registry,
        )
        self.differences = Gauge(
            "cairn_reconcile_differences", "Differences of the last comparison, by kind.", ("kind",), registry=registry
        )
        self.repaired = Counter("cairn_reconcile_repaired_total", "Differences published again.", registry=registry)


class RequestMetrics:
    """Counts and times requests by the route's template, never by the address that was asked."""

    def __init__(self, app: ASGIApp, metrics: Metrics, clock: Clock) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = self._clock.monotonic()
        status = 499  # as nginx says it: the client went away before an answer began

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            self._metrics.http_requests.labels(route, scope["method"], status).inc()
            self._metrics.http_seconds.labels(route, scope["method"]).observe(self._clock.monotonic() - started)
