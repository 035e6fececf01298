"""What the service counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("heedful_requests", "Requests answered", ["path", "model", "status"], registry=registry)
        self.latency = Histogram(
            "heedful_request_seconds", "Time to answer", ["path", "model"], buckets=SECONDS, registry=registry
        )
        self.queue = Gauge("heedful_queue_length", "Texts that wait for a worker", registry=registry)
        self.running = Gauge("heedful_requests_running", "Requests being answered", registry=registry)
        self.batch = Histogram("heedful_batch_size", "Rows of a step", ["model"], buckets=SIZES, registry=registry)
        self.tokens = Counter("heedful_tokens", "Tokens written", ["model"], registry=registry)
        self.deaths = Counter("heedful_worker_deaths", "Workers that died and were replaced", registry=registry)

    def batches(self, model: str, sizes: list[int]) -> None:
        """Note the sizes of some batches."""
        histogram = self.batch.labels(model)
        for size in sizes:
            histogram.observe(size)

    def text(self) -> bytes:
        """Everything in Prometheus' format."""
        return generate_latest(self.registry)
