"""A server on the loopback address that ends by itself."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from easyfirst.review.guard import App, Guard
from easyfirst.tables.errors import OutputError

LOOPBACK = "127.0.0.1"
PATIENCE = 3  # seconds that open connections get at the end
TICK = 0.5  # seconds between two looks at the clock


class LoopbackServer:
    """Serves an application at an address with a secret in it, for this machine alone.

    Parameters
    ----------
    port
        Where to listen; 0 takes a free port.
    idle_seconds
        End after so long without a request; None never does.
    """

    def __init__(self, port: int = 0, idle_seconds: float | None = None) -> None:
        try:
            self._socket = socket.create_server((LOOPBACK, port))
        except OSError as error:
            raise OutputError(
                f"port {port} cannot be used: {error.strerror}; omit --port to use any free one"
            ) from error
        self._idle_seconds = idle_seconds
        self._server: uvicorn.Server | None = None

    def run(self, app: App, on_ready: Callable[[str], None]) -> None:
        """Serve until somebody ends it; `on_ready` is told the address."""
        port = self._socket.getsockname()[1]
        guard = Guard(app, port)
        config = uvicorn.Config(
            guard,
            access_log=False,
            date_header=False,
            http="h11",
            lifespan="off",
            log_level="error",
            loop="asyncio",
            server_header=False,
            timeout_graceful_shutdown=PATIENCE,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        on_ready(f"http://{LOOPBACK}:{port}/{guard.token}/")
        with self._socket:
            asyncio.run(self._serve(self._server, guard))

    def end(self) -> None:
        """End the server after what it is doing."""
        if self._server is not None:
            self._server.should_exit = True

    async def _serve(self, server: uvicorn.Server, guard: Guard) -> None:
        watch = asyncio.create_task(self._watch(guard))
        try:
            await server.serve(sockets=[self._socket])
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def _watch(self, guard: Guard) -> None:
        while self._idle_seconds is not None:
            await asyncio.sleep(TICK)
            if time.monotonic() - guard.last_heard > self._idle_seconds:
                self.end()
                return
