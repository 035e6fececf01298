"""The server process: listens, starts the workers, answers signals, and stops without dropping what has begun."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn

from heedful.errors import HeedfulError
from heedful.serving.app import create_app
from heedful.serving.connection import protocol
from heedful.serving.edge import Edge, LogFormat, logger
from heedful.serving.metrics import Metrics
from heedful.serving.pool import Pool
from heedful.serving.settings import KEYS_VARIABLE, Keys, ServeSettings

LOOPBACK = ("127.", "localhost", "::1")
FILES = 8192  # open files wanted, for many connections


def serve(models: dict[str, Path], settings: ServeSettings) -> None:
    """Serve models until a signal ends it."""
    keys = Keys.read(settings.api_keys)
    start_log(settings.log_json)
    raise_file_limit()
    listener = listen(settings)
    metrics = Metrics()
    pool = Pool(models, settings.workers, settings.device, settings.max_queue, metrics, settings.backend)
    address = address_of(settings.host, listener.getsockname()[1])

    config = uvicorn.Config(
        create_app(pool, settings, keys, metrics),
        http=protocol(settings),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=max(1, round(settings.grace)),
    )
    server = Server(config)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: pool.spawn(pool.reload_all()) if pool.started else None)
        loading = asyncio.ensure_future(load(pool, server, lambda: announce(pool, settings, keys, address)))
        try:
            await server.serve(sockets=[listener])
        finally:
            loading.cancel()
            await pool.stop()
        if loading.done() and not loading.cancelled():
            loading.result()  # why no model could be loaded

    asyncio.run(run())


async def load(pool: Pool, server: Server, announce_it: Callable[[], None]) -> None:
    """Load the models while the service already says that it is not ready; stop it when one cannot be loaded."""
    try:
        await pool.start()
    except HeedfulError:
        server.should_exit = True
        raise
    announce_it()


class Server(uvicorn.Server):
    """Uvicorn, which lets begun requests end and refuses new ones when it is stopped."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        """The first signal refuses new requests; begun ones get their time. A second Ctrl-C ends at once."""
        edge = self.config.app
        assert isinstance(edge, Edge)
        if not edge.stopping:
            logger.warning("stopping: %d requests are being answered", edge.running)
        elif sig == signal.SIGINT:
            self.force_exit = True
        edge.stopping = self.should_exit = True


def listen(settings: ServeSettings) -> socket.socket:
    """A listening socket; an error in words when the address cannot be used."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, asyncio sends small packets at once; otherwise every answer would wait 40 ms for Nagle's algorithm.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        hint = "; choose another with --port" if "in use" in str(error) else ""
        raise HeedfulError(f"cannot listen at {settings.host} port {settings.port}: {error.strerror or error}{hint}") from error
    listener.listen(2048)
    listener.setblocking(False)
    return listener


def address_of(host: str, port: int) -> str:
    """Where a browser on this machine finds the service."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def announce(pool: Pool, settings: ServeSettings, keys: Keys, address: str) -> None:
    """Say what is served where, and warn of what may not be meant."""
    for model in pool.models.values():
        logger.warning("%s: %s", model.name, model.facts["what"])
    if not keys and not settings.host.startswith(LOOPBACK):
        logger.warning(
            "warning: everybody who can reach %s can use the service; give keys with --api-keys FILE or $%s",
            settings.host,
            KEYS_VARIABLE,
        )
    logger.warning("serving at %s  (documentation: %s/docs)", address, address)


def start_log(as_json: bool) -> None:
    """Log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormat(as_json))
    for name in ("heedful.serve", "uvicorn.error"):
        one = logging.getLogger(name)
        one.handlers, one.propagate = [handler], False
    logging.getLogger("heedful.serve").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns of what callers send


def raise_file_limit() -> None:
    """Allow many connections at one time, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
