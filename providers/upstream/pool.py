"""The resting connections of one native client: last in, first out, bounded, per way to an upstream."""

from typing import TYPE_CHECKING

from providers.upstream.interface import IDLE_PER_HOST, IDLE_TOTAL

if TYPE_CHECKING:
    from providers.upstream.proxies import Proxy
    from providers.upstream.wire import Connection


class Lane:
    """One way to an upstream: its scheme, host, port and proxy, and the connections resting on it."""

    __slots__ = ("absolute", "host", "idle", "name", "port", "proxy", "scheme")

    def __init__(self, scheme: str, host: str, port: int, proxy: "Proxy | None") -> None:
        self.scheme = scheme
        self.host = host
        self.port = port
        self.proxy = proxy
        self.name = f"{host}:{port}"
        self.idle: list[Connection] = []
        #: Requests name the whole URL: plain HTTP through a proxy.
        self.absolute = proxy is not None and scheme == "http"


class Pool:
    """*live* holds every open connection, *resting* those without an exchange, the longest resting first."""

    def __init__(self) -> None:
        self.live: set[Connection] = set()
        self.resting: dict[Connection, None] = {}
        self.closed = False

    def take(self, lane: Lane) -> "Connection | None":
        """The connection used last: it is the likeliest to be alive."""
        idle = lane.idle
        while idle:
            connection = idle.pop()
            del self.resting[connection]
            if not (connection.dead or connection.transport.is_closing()):
                return connection
        return None

    def put(self, connection: "Connection") -> bool:
        """False when it may not rest here. Makes room by dropping the longest resting one."""
        if self.closed:
            return False
        idle = connection.lane.idle
        if len(idle) >= IDLE_PER_HOST:
            self._evict(idle[0])
        elif len(self.resting) >= IDLE_TOTAL:
            self._evict(next(iter(self.resting)))
        idle.append(connection)
        self.resting[connection] = None
        return True

    def _evict(self, connection: "Connection") -> None:
        connection.lane.idle.remove(connection)
        del self.resting[connection]
        connection.drop()

    def lost(self, connection: "Connection") -> None:
        self.live.discard(connection)
        if connection in self.resting:
            connection.lane.idle.remove(connection)
            del self.resting[connection]
