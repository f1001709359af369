"""Serves the metrics over HTTP on a port of its own, in a thread of its own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, start_http_server

from capplan.server.errors import AddressInUseError


class MetricsServer:
    """Answers ``GET /metrics``."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        """Start to listen.

        Raises:
            AddressInUseError: the address cannot be had.
        """
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=registry)
        except OSError as error:
            raise AddressInUseError("metrics", f"{host}:{port}") from error

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.server_port

    def close(self) -> None:
        """Stop to listen."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
