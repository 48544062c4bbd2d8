"""A wire that can be cut: a TCP relay between the product and a service that must not really be stopped."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable


class Cut:
    """Listens on *port* and passes everything on; :meth:`off` resets what is open and refuses what comes.

    :meth:`freeze` is worse: everything is taken, nothing passed on, until :meth:`thaw`.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._pairs: list[socket.socket] = []
        self._lock = threading.Lock()
        self._flows = threading.Event()
        self._flows.set()
        self._server = self._listen(0)
        self.port: int = self._server.getsockname()[1]

    def _listen(self, port: int) -> socket.socket:
        server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()
        return server

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            far = socket.create_connection(self._target, timeout=5)
            far.settimeout(None)
            with self._lock:
                self._pairs += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def off(self) -> None:
        # A close alone leaves the socket listening while another thread waits in accept.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for sock in pairs:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def freeze(self) -> None:
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def on(self) -> None:
        self._server = self._listen(self.port)

    @staticmethod
    def within(seconds: float, check: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if check():
                return True
            time.sleep(0.05)
        return False

    def __enter__(self) -> "Cut":
        return self

    def __exit__(self, *exc: object) -> None:
        self.thaw()
        self.off()
