"""The HTTP server of a process that decides for itself when to stop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import uvicorn

from cns_common.configuration.settings import Settings
from cns_server.server_tls import ServerTls

TICKS_PER_RELOAD = 10
"""uvicorn ticks ten times a second."""


class QuietServer(uvicorn.Server):
    """Leaves signals alone, and serves TLS as the settings say."""

    def __init__(self, settings: Settings, app: Any, **options: Any) -> None:
        """`options` are uvicorn's."""
        self._tls = tls = None if settings.tls_cert is None else ServerTls(settings)
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ssl_context_factory=None if tls is None else lambda _config, _default: tls.context,
                **options,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        if self._tls is not None and counter % TICKS_PER_RELOAD == 0:
            self._tls.reload()
        return await super().on_tick(counter)
