# SPDX-License-Identifier: Apache-2.0
"""Data flow of an engine around a stream core, between its memory port and its job queue."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from hwgen.core.schedule.memory import SIZE_BITS
from hwgen.families.stream_engine.params import ENTRY, TABLE_BEATS
from hwgen.families.stream_engine.registers import ENTRY_BITS, MISMATCH
from rtl_templates.axi.job_flow import JobFlow
from rtl_templates.axi.reader import BurstReader
from rtl_templates.axi.scatter import Scatter
from rtl_templates.axi.writer import BurstWriter
from rtl_templates.hdl.core_block import Core
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.streams import Stream, create, fields, new_stream, transfers
from rtl_templates.stream.stream import StreamFifo, buffered

from .drain import StreamDrain
from .feed import PortFeed
from .job import is_used
from .load import StreamLoader

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig

CONSUMERS = ("read", "command", "write", "finish")
"""Consumers of the queue, in the order in which a job goes through them."""

EVENTS = ("input_waits", "output_waits", "reads", "writes")
"""Counted events: cycles in which the core waits for operands, in which its results wait; beats on
the memory port."""


class StreamFlow(JobFlow):
    """Loads, the core and results; its reset ends all that is in progress.

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
        Pulses: an answer was an error; the registers of a job do not match.
    input_waits, output_waits, reads, writes : Out(1)
        See `EVENTS`.
    """

    CONSUMERS = CONSUMERS

    def __init__(
        self, config: StreamEngineConfig, core: wiring.Component, job: data.StructLayout
    ) -> None:
        super().__init__(
            "stream_engine", config, job, ("read_error", "write_error", MISMATCH, *EVENTS)
        )
        self.core = Core(core)

    def build(self, m: Module) -> None:
        self.streams: dict[str, Any] = {
            name: create(f"core_{name}", member) for name, member in self.core.members.items()
        }
        place(m, "compute", self.core, **self.streams)
        self.moves: list[Value] = []
        self._send_commands(m)
        reading, delivered = self._read(m)
        wrong, writing = self._write(m)
        self._finish(m, delivered, wrong, reading)
        m.d.comb += [
            self.busy.eq(reading | writing),
            self.reads.eq(transfers(self.mem.r)),
            self.writes.eq(transfers(self.mem.w)),
        ]

    # -- operands --------------------------------------------------------------------------

    def _send_commands(self, m: Module) -> None:
        """Send the core the beats of the job's registers."""
        job = self.job_layout(self.command_job.payload)
        done: list[Value] = []
        for port in self.config.commands:
            command = self.streams[port.name]
            sent = Signal(name=f"{port.name}_sent")
            moves = transfers(command)
            m.d.comb += [
                command.payload.data.eq(getattr(job, port.name)),
                command.valid.eq(self.command_job.valid & ~sent),
            ]
            if port.last:
                m.d.comb += command.payload.last.eq(1)
            m.d.sync += sent.eq((sent | moves) & ~self.command_job.ready)
            done.append(sent | moves)
            self.moves.append(moves)
        m.d.comb += self.command_job.ready.eq(self.command_job.valid & Cat(*done).all())

    def _read(self, m: Module) -> tuple[Value, Signal]:
        """Read operands; return whether reads are busy, and the ports whose job is delivered."""
        config, memory = self.config, self.config.memory
        count, tables = len(config.operands), len(config.tables)
        popped = Signal(count + tables)
        entries = {port.name: new_stream(f"{port.name}_entry", ENTRY_BITS)
                   for port in config.tables}  # fmt: skip
        loader = place(
            m, "loader", StreamLoader(config, self.job_layout), job=self.read_job,
            alone=self.alone, popped=popped,
            **{f"{name}_entry": entry for name, entry in entries.items()},
        )  # fmt: skip
        burst, request = loader.burst, loader.burst.payload
        reader_ready, routes_ready = Signal(name="reader_ready"), Signal(name="routes_ready")
        m.d.comb += burst.ready.eq(reader_ready & routes_ready)
        beat_ready = Const(1, 1)  # a burst is requested only if its buffer has space
        length_width = len(request.bytes)
        block = BurstReader(memory.data_width, memory.address_width, memory.max_burst,
                            memory.outstanding, length_width)  # fmt: skip
        beats = new_stream("beat", block.payload("o"))
        reader = place(
            m, "reader", block, stop=self.stop, error=self.read_error,
            i=Stream(
                fields(address=request.address, bytes=request.bytes),
                burst.valid & routes_ready, reader_ready,
            ),
            ar=self.mem.ar, r=self.mem.r, o=Stream(beats.payload, beats.valid, beat_ready),
        )  # fmt: skip
        beat = beats.payload
        source = fields(ends=request.ends, last=request.last, port=request.port)
        route = buffered(
            m, "routes", Stream(source, burst.valid & burst.ready, routes_ready),
            partial(StreamFifo, depth=config.requests_ahead),
        )  # fmt: skip
        m.d.comb += route.ready.eq(beats.valid & beat.last)

        def routed(port: int) -> Stream:
            payload = fields(
                data=beat.data, first=beat.first, count=beat.count,
                ends=beat.last & route.payload.ends, last=beat.last & route.payload.last,
            )  # fmt: skip
            return Stream(payload, beats.valid & (route.payload.port == port))

        delivered, waits = Signal(count, name="delivered"), Signal(count, name="port_waits")
        for i, port in enumerate(config.operands):
            operand = self.streams[port.name]
            last = operand.payload.last if port.last else Signal(name=f"{port.name}_ends")
            place(
                m, f"{port.name}_feed", PortFeed(config, port, config.buffers.port_beats),
                i=routed(i), popped=popped[i],
                o=Stream(
                    fields(data=operand.payload.data, ends=last), operand.valid, operand.ready
                ),
                delivered=delivered[i],
            )  # fmt: skip
            self.moves.append(transfers(operand))
            m.d.comb += waits[i].eq(operand.ready & ~operand.valid)
        for i, port in enumerate(config.tables):
            entry, ends = entries[port.name], Signal(name=f"{port.name}_table_ends")
            place(
                m, f"{port.name}_table_feed", PortFeed(config, ENTRY, TABLE_BEATS),
                i=routed(count + i), popped=popped[count + i],
                o=Stream(fields(data=entry.payload, ends=ends), entry.valid, entry.ready),
            )  # fmt: skip
            self.moves.append(transfers(entry))
        m.d.comb += self.input_waits.eq(self.finish_job.valid & waits.any())
        return reader.busy, delivered

    # -- results ---------------------------------------------------------------------------

    def _write(self, m: Module) -> tuple[Value, Value]:
        """Write results; return whether they do not match their job, and if writes are busy."""
        config, memory, port = self.config, self.config.memory, self.config.results[0]
        results, mem = self.streams[port.name], self.mem
        last = results.payload.last if port.last else Const(1, 1)
        written = Signal(name="written")
        drain = place(
            m, "drain", StreamDrain(config, self.job_layout), job=self.write_job,
            i=Stream(fields(data=results.payload.data, last=last), results.valid, results.ready),
            written=written, finished=self.finish_job.ready,
        )  # fmt: skip
        scatter = Scatter(memory.data_width, port.beat_bytes, 1)
        beats = place(m, "scatter", scatter, i=drain.o, size=Const(0, 2), offset=drain.offset).o
        writer = place(
            m, "writer",
            BurstWriter(memory.data_width, memory.address_width, memory.max_burst,
                        memory.outstanding, SIZE_BITS, reports=True),
            i=drain.request, d=beats, aw=mem.aw, w=mem.w, b=mem.b,
            stop=self.stop, error=self.write_error, done=written,
        )  # fmt: skip
        m.d.comb += self.output_waits.eq(results.valid & ~results.ready)
        self.moves.append(transfers(results))
        return drain.mismatch, writer.busy

    # -- ends of jobs ----------------------------------------------------------------------

    def _finish(self, m: Module, delivered: Signal, wrong: Value, reading: Value) -> None:
        """Detect jobs with operands left over, and jobs that make no progress."""
        config, mem, finish = self.config, self.mem, self.finish_job
        job = self.job_layout(finish.payload)
        left_over: list[Value] = []
        for i, port in enumerate(config.operands):
            ahead = Signal(range(config.queue + 2), name=f"{port.name}_delivered")
            used = Signal(name=f"{port.name}_used")
            m.d.comb += used.eq(is_used(job, port.name))
            m.d.sync += ahead.eq(ahead + delivered[i] - (finish.ready & used))
            left_over.append(used & ~ahead.any())
        flying = Signal(range(config.memory.outstanding + 2), name="writes_flying")
        m.d.sync += flying.eq(flying + transfers(mem.aw) - transfers(mem.b))
        still = Signal(range(config.patience + 1), name="still_for")
        moving = Signal(name="moving")
        m.d.comb += moving.eq(
            Cat(*self.moves).any() | reading | flying.any() | mem.aw.valid | mem.w.valid
        )
        m.d.sync += still.eq(Mux(moving | ~finish.valid, 0, still + 1))
        if config.memory.registered:  # a job ends many cycles behind its last beat
            late = Signal(name="wrong_beat")
            m.d.sync += late.eq(wrong)
            wrong = late
        m.d.comb += self.mismatch.eq(
            wrong | (finish.ready & Cat(*left_over).any()) | (still == config.patience)
        )
