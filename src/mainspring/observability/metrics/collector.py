"""`Metrics`: the metrics of one Scheduler's process, as a collector of prometheus-client.

    metrics = Metrics(scheduler)            # before scheduler.start()
    app.mount("/metrics", metrics.asgi())

The registry is its own; `your_registry.register(metrics)` adds the metrics to another one. The shared facts of the
database are read by `render`, `asgi` and the server of `server.py`; another registry shows them as they were last read.
"""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mainspring.client.scheduler import Scheduler, check_async, core_of
from mainspring.observability.extras import needs_extra
from mainspring.observability.metrics import catalogue
from mainspring.observability.metrics.catalogue import COUNTER, Metric
from mainspring.observability.metrics.shared_facts import SharedReader
from mainspring.observability.metrics.tallies import Histogram, Tallies

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.core import Metric as Family
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise needs_extra("metrics", error) from None

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Labelled = Iterable[tuple[tuple[str, ...], float]]


class Metrics(Collector):
    """The metrics of one Scheduler's process. Make it before the Scheduler starts.

    With `shared`, it shows the facts about queues, workers and schedules in any case, and not only if a worker with the
    lock of the chores runs here: the service does so.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        shared: bool = False,
        most_names: int = catalogue.MOST_NAMES,
        most_queues: int = catalogue.MOST_QUEUES,
    ) -> None:
        check_async(scheduler, "Metrics()")
        self._core = core_of(scheduler)
        self.tallies = Tallies(most_names, most_queues)
        self.tallies.follow(self._core)
        self._shared = SharedReader(scheduler, always=shared)
        self.registry = CollectorRegistry()
        self.registry.register(self)

    async def refresh(self) -> None:
        """Read the shared facts, unless they are fresh; on the event loop of the Scheduler."""
        await self._shared.refresh()

    async def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition, and its content type, which `accept` of the scraper decides."""
        await self.refresh()
        return self.expose(accept)

    def expose(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition with the shared facts as they were last read; from any thread."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type

    def asgi(self) -> Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]:
        """The exposition as an ASGI application, which answers every path. It checks no key: mount it where only your
        scraper reaches it."""

        async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return
            headers = {name.lower(): value for name, value in scope.get("headers", ())}
            body, content_type = await self.render(headers.get(b"accept", b"").decode("latin-1"))
            given = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": given})
            await send({"type": "http.response.body", "body": body})

        return app

    # -- collecting ------------------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Family]:
        """All metrics; prometheus-client calls it, from any thread."""
        yield from self._of_process()
        yield from self._of_worker()
        yield from self._of_database()

    def _of_process(self) -> Iterator[Family]:
        tallies = self.tallies
        kinds, queues = list(tallies.kinds.items()), list(tallies.queues.items())
        yield _family(catalogue.JOBS_SCHEDULED, ((key, one.scheduled) for key, one in kinds))
        yield _family(catalogue.JOBS_FINISHED, _by_outcome((key, one.finished) for key, one in kinds))
        yield _family(catalogue.ATTEMPTS, _by_outcome((key, one.attempts) for key, one in kinds))
        yield _histogram(catalogue.RUN_SECONDS, [(key, one.run) for key, one in kinds])
        yield _histogram(catalogue.WAIT_SECONDS, [((queue,), one.wait) for queue, one in queues])
        yield _family(catalogue.CLAIMS_LOST, (((queue,), one.lost) for queue, one in queues))
        yield _family(catalogue.JOBS_RESCUED, (((queue,), one.rescued) for queue, one in queues))
        yield _family(catalogue.SCHEDULE_LATE, (((key,), n) for key, n in list(tallies.late.items())))
        yield _family(catalogue.SCHEDULE_MISSED, (((key,), n) for key, n in list(tallies.missed.items())))
        yield _family(catalogue.SCHEDULE_SKIPPED, (((key,), n) for key, n in list(tallies.skipped.items())))
        yield _family(catalogue.ERRORS, [((), tallies.errors)])
        yield _family(catalogue.BUILD_INFO, [((_version(), platform.python_version()), 1)])

    def _of_worker(self) -> Iterator[Family]:
        worker = self._core.worker.current
        if worker is None:
            return
        vitals = worker.vitals
        idle = max(0, vitals.concurrency - vitals.running)
        yield _family(catalogue.WORKER_SLOTS, [(("busy",), vitals.running), (("idle",), idle)])
        yield _family(catalogue.WORKER_CLAIMED, [((), vitals.claimed)])
        yield _family(catalogue.WORKER_BEAT_AGE, [((), vitals.beat_age)])
        yield _family(catalogue.WORKER_LOOP_HELD, [((), vitals.loop_held)])

    def _of_database(self) -> Iterator[Family]:
        facts = self._shared.facts
        if facts is None:
            return
        yield _family(catalogue.DATABASE_UP, [((), facts.up)])
        if not facts.up:
            return
        yield _family(catalogue.WORKERS, [((), facts.workers)])
        yield _family(catalogue.SCHEDULE_OVERDUE, [((), facts.overdue)])
        yield _family(catalogue.BREAKER_OPEN, (((target,), is_open) for target, is_open in facts.breakers.items()))
        queues = facts.queues
        yield _family(catalogue.QUEUE_READY, (((one.name,), one.due) for one, _ in queues))
        yield _family(catalogue.QUEUE_CAPPED, (((one.name,), one.due >= one.counted) for one, _ in queues))
        yield _family(catalogue.QUEUE_SCHEDULED, (((one.name,), one.scheduled) for one, _ in queues))
        yield _family(catalogue.QUEUE_WAITING, (((one.name,), one.waiting) for one, _ in queues))
        yield _family(catalogue.QUEUE_RUNNING, (((one.name,), one.running) for one, _ in queues))
        yield _family(catalogue.QUEUE_OLDEST, (((one.name,), age) for one, age in queues))
        yield _family(catalogue.QUEUE_WORKERS, (((one.name,), one.workers) for one, _ in queues))
        yield _family(catalogue.QUEUE_PAUSED, (((one.name,), one.paused is not None) for one, _ in queues))


def _by_outcome(counts: Iterable[tuple[tuple[str, str], Mapping[str, int]]]) -> _Labelled:
    return [((*key, outcome), number) for key, outcomes in counts for outcome, number in list(outcomes.items())]


def _family(metric: Metric, values: _Labelled) -> Family:
    family: CounterMetricFamily | GaugeMetricFamily
    if metric.kind == COUNTER:
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    else:
        family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in values:
        family.add_metric(labels, float(value))
    return family


def _histogram(metric: Metric, values: Iterable[tuple[tuple[str, ...], Histogram]]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, histogram in values:
        family.add_metric(labels, histogram.buckets(), histogram.sum)
    return family


def _version() -> str:
    try:
        return version("mainspring")
    except PackageNotFoundError:
        return "0"
