"""A TCP proxy before a server that misbehaves on demand: stalls, resets, swallows an answer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

COMMITTED = (b"UPDATE 1\0", b"COMMIT\0")
"""Bytes in the server's answer to the end of a batch."""


class Proxy:
    """Forwards connections to a server's Unix socket, or to a port of this machine.

    Attributes:
        url: what to connect to, if the server is PostgreSQL.
        port: of the same.
        swallowed: how many answers to a batch's COMMIT were swallowed.
        stalled: set when a text of `stall_at` has come.
        requests: what clients have sent, if a test has put a bytearray here.
    """

    def __init__(self, target: str | int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._open = threading.Event()
        self._open.set()
        self._swallow, self._leaves = 0, False
        self._stalls_at: dict[bool, bytes] = {}
        self._refuses = False
        self.swallowed = 0
        self.stalled = threading.Event()
        self.requests: bytearray | None = None
        host, self.port = self._listener.getsockname()
        self.url = f"postgresql://postgres@{host}:{self.port}/postgres"
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self, *, refuses: bool = False) -> None:
        """Hold back what comes in either direction, until `resume`.

        Args:
            refuses: whether new connections are ended at once; default they are held back too.
        """
        self._refuses = refuses
        self._open.clear()

    def stall_at(self, text: bytes, answered: bool) -> None:
        """Stall when a client, or the server, sends a text; it is held back with what follows.

        Args:
            answered: whether the text is looked for in what the server answers.
        """
        self.stalled.clear()
        self._stalls_at[answered] = text

    def let_new_ones_in(self) -> None:
        """Hold back what is stalled for ever, and let through what comes over new connections."""
        self._open = threading.Event()
        self._open.set()

    def resume(self) -> None:
        """Let everything through again."""
        self._stalls_at, self._refuses = {}, False
        self._open.set()
        if self._listener.fileno() < 0:  # after `leave`
            self._listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._accept, daemon=True).start()

    def leave(self) -> None:
        """Break every connection, and refuse others until `resume`: the server is gone."""
        self._stop()
        self.reset()

    def reset(self) -> int:
        """Break every connection that there is; returns how many."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _end(*pair)
        return len(pairs)

    def swallow_commits(self, count: int, *, leave: bool = False) -> None:
        """Break the connection instead of delivering the answer to a batch's COMMIT, so often.

        Args:
            leave: whether to take no connection any more after the first.
        """
        self._swallow, self._leaves = count, leave

    def close(self) -> None:
        """Stop."""
        self._stop()
        self._open.set()
        self.reset()

    def _stop(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refuses:
                    client.close()
                    continue
                try:
                    server = self._connect()
                except OSError:  # the server is away
                    client.close()
                    continue
                self._pairs.append((client, server))
                for pair in ((client, server), (server, client)):
                    answers = pair[0] is server
                    threading.Thread(target=self._pump, args=(*pair, answers), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, int):
            return socket.create_connection(("127.0.0.1", self._target))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._target)
        except OSError:
            server.close()
            raise
        return server

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        gate = self._open
        with suppress(OSError):
            while data := source.recv(65_536):
                if self.requests is not None and not answers:
                    self.requests += data
                mark = self._stalls_at.get(answers)
                if mark is not None and mark in data:
                    del self._stalls_at[answers]
                    self.stalled.set()
                    gate.clear()
                gate.wait()
                if answers and self._swallow and all(text in data for text in COMMITTED):
                    self._swallow -= 1
                    self.swallowed += 1
                    if self._leaves:
                        self._stop()
                    break
                sink.sendall(data)
        _end(source, sink)


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@contextmanager
def mute() -> Iterator[str]:
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        host, port = listener.getsockname()
        yield f"postgresql://postgres@{host}:{port}/postgres"


@contextmanager
def proxied(target: str | int) -> Iterator[Proxy]:
    """A proxy before a server's socket or port, until the block ends."""
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
