"""A judge's server for the heterogeneous job: ``fake_server.py PORT``."""

import sys
import threading

from tests.models.lying_server import LyingServer


class FakeServer(LyingServer):
    """Answers honestly, at a port of our choice."""

    def server_bind(self) -> None:
        self.server_address = ("127.0.0.1", int(sys.argv[1]))
        super().server_bind()


if __name__ == "__main__":
    FakeServer()
    threading.Event().wait()
