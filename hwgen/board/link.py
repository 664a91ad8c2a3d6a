# SPDX-License-Identifier: Apache-2.0
"""The host's side of the serial link: jobs on a board, or on a simulated one.

```python
from hwgen.board import connect

board = connect("/dev/ttyUSB1", core)  # or a simulated board
results = board.run(core.gemm(8, 64, 32), {"activations": a, "weights": w})
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hwgen.board.datagrams import SCHEME, DatagramLine, UdpSocket
from hwgen.board.ports import BAUD, BoardError, SerialPort, SpiPort, Transport
from hwgen.board.protocol import (
    DIGEST_BYTES,
    MOST_PAYLOAD,
    VERSION,
    Code,
    Frame,
    Identity,
    Operation,
    Parser,
    Status,
    operation_byte,
)
from hwgen.core.operation import Arrays, Job, StreamPlan
from hwgen.errors import InputError
from hwgen.lazy import np

if TYPE_CHECKING:
    from hwgen.core.core import Core
    from hwgen.core.operation import Chunks

T = TypeVar("T")
L = TypeVar("L", bound="Link")


def connect(
    where: str | Transport,
    core: Core[Any],
    *,
    baud: int = BAUD,
    timeout: float = 0.2,
    retries: int = 4,
) -> Board:
    """Connect to the board that a core is on.

    Parameters
    ----------
    where : str or Transport
        A serial port; a bus whose name begins with ``/dev/spidev``; a board in a network, as
        ``udp://192.168.1.50``; or what carries bytes, such as
        `flows.board.simulation.SimulatedBoard`.
    core : Core
        Of the configuration that the bitstream was made of.
    baud : int
        Bits a second, those of the bitstream.
    timeout : float
        Seconds to wait for a response.
    retries : int
        How often a request is sent again.

    Raises
    ------
    BoardError
        If nothing answers, or the core on the board is of another configuration.
    InputError
        If the core has no stream ports.
    ToolMissing
        If pyserial or spidev is missing.
    """
    if core.buses or not core.ports:
        raise InputError(
            f"{core.name!r} has no stream ports: it works on memory"
            " (`hwgen.board.connect_engine` connects to it)"
        )
    return opened(Board, where, core, baud, timeout=timeout, retries=retries)


def opened(
    make: Callable[..., L], where: str | Transport, core: Core[Any], baud: int, **options: Any
) -> L:
    """Return a connection of a class; what carries its bytes is closed if there is none.

    Parameters
    ----------
    make : type
        A subclass of `Link`.
    where : str or Transport
        As that of `connect`.
    core : Core
    baud : int
        Bits a second of a port that is opened.
    **options
        Of the class.
    """
    transport = open_port(where, baud) if isinstance(where, str) else where
    try:
        return make(transport, core, **options)
    except BaseException:
        transport.close()
        raise


def open_port(name: str, baud: int) -> Transport:
    """Return a port by its name.

    One that begins with ``/dev/spidev`` is a bus, with ``udp://`` a board in a network; any other
    is a serial port.

    Raises
    ------
    BoardError
        If it cannot be opened.
    ToolMissing
        If pyserial or spidev is missing.
    """
    if name.startswith(SCHEME):
        return DatagramLine(UdpSocket(name))
    port = SpiPort if name.startswith(SpiPort.PREFIX) else SerialPort
    return port(name, baud)


class Feed:
    """Bytes for an input port, taken from chunks as they are needed.

    Parameters
    ----------
    chunks : iterable of (ndarray, bool)
        Beats of shape (count, bytes), and whether they end with ``tlast``.
    beat_bytes : int
    marks : bool
        Whether the port has ``tlast``.
    """

    def __init__(self, chunks: Chunks, beat_bytes: int, *, marks: bool) -> None:
        self._pieces = self._cut(chunks)
        self._beat_bytes, self._marks = beat_bytes, marks
        self._bytes, self._last = b"", False
        self._fill()

    def _cut(self, chunks: Chunks) -> Iterator[tuple[bytes, bool]]:
        for beats, last in chunks:
            yield np.ascontiguousarray(beats).tobytes(), last

    def _fill(self) -> None:
        """Hold more bytes, up to a beat that has ``tlast`` on a port that has it."""
        pieces = [self._bytes]
        size = len(self._bytes)
        while size < MOST_PAYLOAD and not self._last:
            following = next(self._pieces, None)
            if following is None:
                break
            pieces.append(following[0])
            size += len(following[0])
            self._last = self._marks and following[1]
        self._bytes = b"".join(pieces)

    @property
    def ended(self) -> bool:
        """Whether all has been sent."""
        return not self._bytes

    def peek(self, limit: int) -> tuple[bytes, bool]:
        """Return the next bytes, at most `limit`, and whether they end with ``tlast``."""
        payload = self._bytes[:limit]
        return payload, self._last and len(payload) == len(self._bytes)

    def advance(self, count: int) -> None:
        """Go on behind bytes that were sent."""
        self._bytes = self._bytes[count:]
        if not self._bytes:
            self._last = False
        if len(self._bytes) < MOST_PAYLOAD:
            self._fill()


class Link:
    """A connection to the bridge of a board.

    Parameters
    ----------
    transport : Transport
    core : Core
    timeout : float
        Seconds to wait for a response.
    retries : int
        How often a request is sent again.

    Attributes
    ----------
    identity : Identity
        What the bridge says of itself.
    resent : int
        Requests that were sent again.
    """

    def __init__(
        self, transport: Transport, core: Core[Any], *, timeout: float, retries: int
    ) -> None:
        self._transport, self._core = transport, core
        self._timeout, self._retries = timeout, retries
        self._parser, self._sequence = Parser(), 0
        self.resent = 0
        self.identity = self._identify()
        self.reset()

    def close(self) -> None:
        """End the connection."""
        self._transport.close()

    @property
    def transport(self) -> Transport:
        """The carrier of bytes to the board, such as a simulated board itself."""
        return self._transport

    def now(self) -> float:
        """Return the time in seconds, on a simulated board that of the simulation."""
        return self._transport.now()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Reset core and bridge: buffers and counters are cleared."""
        self._request(operation_byte(Operation.RESET))

    def status(self) -> Status:
        """Return counters and buffers of the bridge."""
        payload = self._request(operation_byte(Operation.STATUS)).payload
        return _decoded(Status.decode, payload)

    # -- transfers -------------------------------------------------------------------------------

    def transfer(
        self,
        feeds: Sequence[Feed],
        wanted: int,
        patience: float,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> bytes:
        """Send bytes to input ports, and return bytes of the output port.

        Parameters
        ----------
        feeds : sequence of Feed
            Bytes for each input port.
        wanted : int
            Bytes to return.
        patience : float
            Seconds in which something must move.
        on_progress : callable, optional
            Gets the bytes that have come, and in all.

        Raises
        ------
        BoardError
            If the board stops to answer, or nothing moves.  It is reset if it can be.
        """
        try:
            return self._moved(feeds, wanted, patience, on_progress)
        except BoardError:
            self._try_reset()
            raise

    def _moved(
        self,
        feeds: Sequence[Feed],
        wanted: int,
        patience: float,
        on_progress: Callable[[int, int], None] | None,
    ) -> bytes:
        size = self.identity.buffer_bytes
        free = [size] * len(feeds)
        result = bytearray()
        available, moved = 0, self._transport.now()
        while len(result) < wanted or not all(feed.ended for feed in feeds):
            ready = [port for port, feed in enumerate(feeds) if not feed.ended and free[port]]
            progress = False
            if ready and available < min(MOST_PAYLOAD, size // 2):
                port = max(ready, key=lambda each: free[each])
                progress, available, free[port] = self._write(port, feeds[port], free[port])
            else:
                data = self._read(min(MOST_PAYLOAD, max(1, wanted - len(result))))
                progress, available = bool(data), 0
                result += data
                if on_progress and data:
                    on_progress(len(result), wanted)
                if not data or not ready:
                    free = self._free(feeds, free)
                    progress = progress or any(
                        free[port] for port, feed in enumerate(feeds) if not feed.ended
                    )
            now = self._transport.now()
            if progress:
                moved = now
            elif now - moved > patience:
                raise BoardError(self._stalled(feeds, len(result), wanted))
        return bytes(result)

    def _write(self, port: int, feed: Feed, free: int) -> tuple[bool, int, int]:
        """Send bytes to a port; return whether it took them, results available, free bytes."""
        payload, last = feed.peek(min(free, MOST_PAYLOAD))
        answer = self._request(operation_byte(Operation.WRITE, port, last=last), payload)
        if len(answer.payload) != 4:
            raise BoardError(f"the board answers a write with {len(answer.payload)} bytes, not 4")
        available = int.from_bytes(answer.payload[:2], "little")
        free = int.from_bytes(answer.payload[2:], "little")
        if answer.head == Code.OK:
            feed.advance(len(payload))
        return answer.head == Code.OK, available, free

    def _read(self, count: int) -> bytes:
        return self._request(operation_byte(Operation.READ), bytes([count])).payload

    def _free(self, feeds: Sequence[Feed], free: list[int]) -> list[int]:
        """Return free bytes of the ports, which are asked for where a feed waits for some."""
        if all(feed.ended for feed in feeds):
            return free
        return list(self.status().free)

    def _stalled(self, feeds: Sequence[Feed], got: int, wanted: int) -> str:
        waiting = sum(not feed.ended for feed in feeds)
        status = self.status()
        return (
            f"the job has stopped: {got} of {wanted} bytes of results have come, {waiting} of"
            f" {len(feeds)} operands are not sent in full; {_described(status)}"
        )

    # -- requests --------------------------------------------------------------------------------

    def _identify(self) -> Identity:
        answer = self._request(operation_byte(Operation.IDENTIFY))
        identity = _decoded(Identity.decode, answer.payload)
        if identity.version != VERSION:
            raise BoardError(
                f"the board speaks version {identity.version} of the protocol, this hwgen"
                f" {VERSION}: build the bitstream again"
            )
        wanted = bytes.fromhex(self._core.digest)[:DIGEST_BYTES]
        if identity.digest != wanted:
            raise BoardError(
                f"the core on the board has the digest {identity.digest.hex()}, the configuration"
                f" {self._core.name!r} {wanted.hex()}: load the bitstream of this configuration and"
                " of this version of hwgen"
            )
        return identity

    def _request(self, head: int, payload: bytes = b"") -> Frame:
        """Send a request until it is answered."""
        self._sequence = (self._sequence + 1) & 0xFF
        data = Frame(head, self._sequence, payload).encode()
        for attempt in range(1 + self._retries):
            self.resent += attempt > 0
            self._parser.clear()
            self._transport.write(data)
            if (answer := self._answer()) is not None:
                break
        else:
            raise BoardError(
                f"the board does not answer ({1 + self._retries} attempts of {self._timeout:g} s):"
                " see that it is plugged in, that the bitstream is loaded, and that port and baud"
                " rate are right"
            )
        if answer.head == Code.UNKNOWN:
            raise BoardError(f"the board does not know the request {head:#04x}")
        if answer.head not in tuple(Code):
            raise BoardError(f"the board answers with the code {answer.head}, which there is not")
        return answer

    def _answer(self) -> Frame | None:
        """Return the response to the request under way; None if none came in time."""
        end = self._transport.now() + self._timeout
        while self._transport.now() <= end:
            data = self._transport.read(self._parser.missing, self._timeout)
            if not data:
                return None
            for frame in self._parser.feed(data):
                if frame.sequence == self._sequence:
                    return frame
        return None

    def _try_reset(self) -> None:
        """Reset the bridge if it still answers."""
        former = self._retries
        self._retries = 0
        try:
            self.reset()
        except BoardError:
            return
        finally:
            self._retries = former


class Board(Link):
    """A connected board with a core that has streams; see `connect`."""

    def run(
        self,
        job: Job,
        operands: Arrays,
        *,
        patience: float = 2.0,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Compute a job on the board.

        Parameters
        ----------
        job : Job
            As `Core.job` returns it.
        operands : mapping of ndarray
            By name.
        patience : float
            Seconds without a byte of results or a free byte of a buffer after which it fails.
        on_progress : callable, optional
            Gets the bytes of results that have come, and in all.

        Returns
        -------
        dict of ndarray
            Results by name, those of the golden model if the board is sound.

        Raises
        ------
        InputError
            If operands do not fit the job.
        BoardError
            If the board stops to answer or to compute. It is reset if it can be.
        """
        plan = self._core.schedule(job)
        assert isinstance(plan, StreamPlan)
        inputs = [port for port in self._core.ports if port.direction == "in"]
        (output,) = (port for port in self._core.ports if port.direction == "out")
        packed = plan.pack(operands)
        feeds = [Feed(packed[port.name], port.beat_bytes, marks=bool(port.last)) for port in inputs]
        wanted = plan.output_beats * output.beat_bytes
        image = self.transfer(feeds, wanted, patience, on_progress)
        beats = np.frombuffer(image, np.uint8).reshape(plan.output_beats, output.beat_bytes)
        return plan.unpack(beats)


def _decoded(decode: Callable[[bytes], T], payload: bytes) -> T:
    try:
        return decode(payload)
    except ValueError as error:
        raise BoardError(f"the board answers with {error}") from None


def _described(status: Status) -> str:
    names = {
        "crc_errors": "CRC errors",
        "overruns": "overruns",
        "framing_errors": "framing errors",
        "silences": "broken requests",
    }
    counters = ", ".join(f"{getattr(status, name)} {text}" for name, text in names.items())
    return f"the bridge has counted {counters}"
