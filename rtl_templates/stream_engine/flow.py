# SPDX-License-Identifier: Apache-2.0
"""Everything between the memory port and the job queue of an engine around a stream core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring

from hwgen.families.stream_engine.params import ENTRY, TABLE_BEATS
from hwgen.families.stream_engine.registers import ENTRY_BITS, MISMATCH, SIZE_BITS
from rtl_templates.axi.job_flow import JobFlow
from rtl_templates.axi.reader import BurstReader
from rtl_templates.axi.scatter import Scatter
from rtl_templates.axi.writer import BurstWriter
from rtl_templates.hdl.core_block import Core
from rtl_templates.hdl.hierarchy import place
from rtl_templates.stream.stream import StreamFifo

from .drain import StreamDrain
from .feed import PortFeed
from .job import is_used
from .load import StreamLoader

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig

CONSUMERS = ("read", "command", "write", "finish")
"""Who takes the jobs of the queue, in the order in which a job goes through them."""

EVENTS = ("input_waits", "output_waits", "reads", "writes")
"""What is counted: cycles in which the core waits for operands, in which its results wait; beats on
the memory port."""


class StreamFlow(JobFlow):
    """Loads, the core and results; its reset ends whatever it is at.

    Parameters
    ----------
    config : StreamEngineConfig
    core : Component
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    those of `JobFlow`
    read_error, write_error, mismatch : Out(1)
        Pulses: an answer was an error; the numbers of a job do not agree.
    input_waits, output_waits, reads, writes : Out(1)
        See `EVENTS`.
    """

    CONSUMERS = CONSUMERS

    def __init__(self, config: StreamEngineConfig, core: wiring.Component, job: Any) -> None:
        super().__init__(
            "stream_engine", config, job, ("read_error", "write_error", MISMATCH, *EVENTS)
        )
        self.core = Core(core)

    def build(self, m: Module) -> None:
        self.core_ports = {
            name: Signal(member.shape, name=f"core_{name}")
            for name, member in self.core.ports.items()
        }
        place(m, "compute", self.core, **self.core_ports)
        self.moves: list[Value] = []
        self._command(m)
        reading, delivered = self._read(m)
        wrong, writing = self._write(m)
        self._finish(m, delivered, wrong, reading)
        m.d.comb += [
            self.busy.eq(reading | writing),
            self.reads.eq(self.r_valid & self.r_ready),
            self.writes.eq(self.w_valid & self.w_ready),
        ]

    def _moves(self, port: str) -> Value:
        """Return whether a beat goes through a port of the core."""
        return self.core_ports[f"{port}_valid"] & self.core_ports[f"{port}_ready"]

    # -- operands --------------------------------------------------------------------------

    def _command(self, m: Module) -> None:
        """Give the core the beats that the registers hold."""
        job = self.job_layout(self.command_job)
        given: list[Value] = []
        for port in self.config.commands:
            sent = Signal(name=f"{port.name}_sent")
            moves = self._moves(port.name)
            m.d.comb += [
                self.core_ports[f"{port.name}_data"].eq(getattr(job, port.name)),
                self.core_ports[f"{port.name}_valid"].eq(self.command_valid & ~sent),
            ]
            if port.last:
                m.d.comb += self.core_ports[f"{port.name}_last"].eq(1)
            m.d.sync += sent.eq((sent | moves) & ~self.command_done)
            given.append(sent | moves)
            self.moves.append(moves)
        m.d.comb += self.command_done.eq(self.command_valid & Cat(*given).all())

    def _read(self, m: Module) -> tuple[Value, Signal]:
        """Place what reads; return whether it is at work, and which ports' jobs are delivered."""
        config, memory = self.config, self.config.memory
        count, tables = len(config.operands), len(config.tables)
        loader = StreamLoader(config, self.job_layout)
        burst = {
            name: Signal(loader.width(name), name=f"burst_{name}")
            for name in ("address", "bytes", "port", "ends", "last")
        }
        valid, ready, popped = (
            Signal(name="burst_valid"),
            Signal(name="burst_ready"),
            Signal(count + tables),
        )
        entries = self._table_entries()
        place(m, "loader", loader, **self._job("read"), alone=self.alone, popped=popped,
              **burst, **entries, valid=valid, ready=ready)  # fmt: skip
        reader = BurstReader(
            memory.data_width, memory.address_width, memory.max_burst, memory.outstanding,
            loader.width("bytes"),
        )  # fmt: skip
        beat = {
            name: Signal(reader.width(f"o_{name}"), name=f"beat_{name}")
            for name in ("data", "first", "count", "last", "valid")
        }
        accepts, tracked, busy = (Signal(name=n) for n in ("reader_ready", "tracked", "reading"))
        m.d.comb += ready.eq(accepts & tracked)
        route = Signal(len(burst["port"]) + 2, name="route")
        place(
            m, "reader", reader,
            i_address=burst["address"], i_bytes=burst["bytes"], i_valid=valid & tracked,
            i_ready=accepts, **{f"o_{name}": each for name, each in beat.items()},
            o_ready=Const(1, 1), stop=self.stop, busy=busy, error=self.read_error,
            **self._channel("ar", "r"),
        )  # fmt: skip
        place(
            m, "routes", StreamFifo(len(route), config.requests_ahead),
            i_data=Cat(burst["ends"], burst["last"], burst["port"]), i_valid=valid & ready,
            i_ready=tracked, o_data=route, o_valid=Signal(name="routed"),
            o_ready=beat["valid"] & beat["last"],
        )  # fmt: skip
        delivered, waits = Signal(count, name="delivered"), Signal(count, name="port_waits")
        for i, port in enumerate(config.operands):
            stream = {
                key: self.core_ports[f"{port.name}_{key}"] for key in ("data", "valid", "ready")
            }
            ends = (
                self.core_ports[f"{port.name}_last"]
                if port.last
                else Signal(name=f"{port.name}_ends")
            )
            place(
                m, f"{port.name}_feed", PortFeed(config, port, config.buffers.port_beats),
                i_data=beat["data"], i_first=beat["first"], i_count=beat["count"],
                i_ends=beat["last"] & route[0], i_last=beat["last"] & route[1],
                i_valid=beat["valid"] & (route[2:] == i), popped=popped[i], o_ends=ends,
                **{f"o_{key}": each for key, each in stream.items()}, delivered=delivered[i],
            )  # fmt: skip
            self.moves.append(self._moves(port.name))
            m.d.comb += waits[i].eq(stream["ready"] & ~stream["valid"])
        for i, port in enumerate(config.tables):
            stream = {key: entries[f"{port.name}_entry{key}"] for key in ("", "_valid", "_ready")}
            place(
                m, f"{port.name}_table_feed", PortFeed(config, ENTRY, TABLE_BEATS),
                i_data=beat["data"], i_first=beat["first"], i_count=beat["count"],
                i_ends=beat["last"] & route[0], i_last=beat["last"] & route[1],
                i_valid=beat["valid"] & (route[2:] == count + i), popped=popped[count + i],
                o_data=stream[""], o_valid=stream["_valid"], o_ready=stream["_ready"],
                o_ends=Signal(name=f"{port.name}_table_ends"),
                delivered=Signal(name=f"{port.name}_table_delivered"),
            )  # fmt: skip
            self.moves.append(stream["_valid"] & stream["_ready"])
        m.d.comb += self.input_waits.eq(self.finish_valid & waits.any())
        return busy, delivered

    def _table_entries(self) -> dict[str, Signal]:
        """Return the streams of entries of tables, as the loader calls them."""
        found = {}
        for port in self.config.tables:
            for key, width in (("", ENTRY_BITS), ("_valid", 1), ("_ready", 1)):
                name = f"{port.name}_entry{key}"
                found[name] = Signal(width, name=name)
        return found

    # -- results ---------------------------------------------------------------------------

    def _write(self, m: Module) -> tuple[Value, Value]:
        """Place what writes; return whether results do not agree, and whether it is at work."""
        config, memory, port = self.config, self.config.memory, self.config.results[0]
        drain = StreamDrain(config, self.job_layout)
        row = {
            "address": Signal(memory.address_width, name="row_address"),
            "bytes": Signal(SIZE_BITS, name="row_bytes"),
            "valid": Signal(name="row_valid"),
            "ready": Signal(name="row_ready"),
        }
        piece = {
            name: Signal(drain.width(f"o_{name}"), name=f"piece_{name}")
            for name in ("data", "count", "last", "valid", "ready")
        }
        offset, written, wrong = Signal(len_of(config.memory_bytes)), Signal(), Signal()
        last = self.core_ports[f"{port.name}_last"] if port.last else Const(1, 1)
        place(
            m, "drain", drain, **self._job("write"), **row, i_last=last,
            **{f"i_{key}": self.core_ports[f"{port.name}_{key}"] for key in ("data", "valid", "ready")},
            **{f"o_{name}": each for name, each in piece.items()}, offset=offset,
            written=written, finished=self.finish_done, mismatch=wrong,
        )  # fmt: skip
        scatter = Scatter(memory.data_width, port.beat_bytes, 1)
        beat = {
            name: Signal(scatter.width(f"o_{name}"), name=f"write_{name}")
            for name in ("data", "strobe", "last", "valid", "ready")
        }
        place(m, "scatter", scatter, size=Const(0, 2), offset=offset,
              **{f"i_{name}": each for name, each in piece.items()},
              **{f"o_{name}": each for name, each in beat.items()})  # fmt: skip
        busy = Signal(name="writing")
        place(
            m, "writer",
            BurstWriter(memory.data_width, memory.address_width, memory.max_burst,
                        memory.outstanding, SIZE_BITS, reports=True),
            **{f"i_{name}": each for name, each in row.items()},
            **{f"d_{name}": each for name, each in beat.items()},
            stop=self.stop, busy=busy, error=self.write_error, done=written,
            **self._channel("aw", "w", "b"),
        )  # fmt: skip
        out = self.core_ports[f"{port.name}_valid"]
        m.d.comb += self.output_waits.eq(out & ~self.core_ports[f"{port.name}_ready"])
        self.moves.append(self._moves(port.name))
        return wrong, busy

    # -- ends of jobs ----------------------------------------------------------------------

    def _finish(self, m: Module, delivered: Signal, wrong: Value, reading: Value) -> None:
        """Find jobs whose operands are left over, and those that nothing moves any more."""
        config, job = self.config, self.job_layout(self.finish_job)
        left_over: list[Value] = []
        for i, port in enumerate(config.operands):
            ahead = Signal(range(config.queue + 2), name=f"{port.name}_delivered")
            used = Signal(name=f"{port.name}_used")
            m.d.comb += used.eq(is_used(job, port.name))
            m.d.sync += ahead.eq(ahead + delivered[i] - (self.finish_done & used))
            left_over.append(used & ~ahead.any())
        flying = Signal(range(config.memory.outstanding + 2), name="writes_flying")
        m.d.sync += flying.eq(
            flying + (self.aw_valid & self.aw_ready) - (self.b_valid & self.b_ready)
        )
        still = Signal(range(config.patience + 1), name="still_for")
        moving = Signal(name="moving")
        m.d.comb += moving.eq(
            Cat(*self.moves).any() | reading | flying.any() | self.aw_valid | self.w_valid
        )
        m.d.sync += still.eq(Mux(moving | ~self.finish_valid, 0, still + 1))
        m.d.comb += self.mismatch.eq(
            wrong | (self.finish_done & Cat(*left_over).any()) | (still == config.patience)
        )


def len_of(values: int) -> int:
    """Return the bits of a number below `values`."""
    return max(1, (values - 1).bit_length())
