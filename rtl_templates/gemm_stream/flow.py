# SPDX-License-Identifier: Apache-2.0
"""Everything between the memory port and the job queue of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring

from hwgen.core.post.records import RECORD_BYTES
from hwgen.families.gemm_stream.params import ROWS_AHEAD
from rtl_templates.axi.gather import Gather
from rtl_templates.axi.job_flow import JobFlow
from rtl_templates.axi.reader import BurstReader
from rtl_templates.axi.scatter import Scatter
from rtl_templates.axi.writer import BurstWriter
from rtl_templates.hdl.hierarchy import place
from rtl_templates.post import Post
from rtl_templates.stream.stream import StreamFifo

from .buffer import OperandBuffer
from .collect import ResultBuffer
from .cores import CoreArray
from .drain import ColumnBuffer, ResultDrain, offsets
from .formats import format_bits
from .job import post_field
from .load import ACT, COLUMNS, WGT, Loader

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

CONSUMERS = ("load", "act", "wgt", "collect", "drain")
"""Who takes the jobs of the queue, in the order in which a job goes through them."""

EVENTS = ("load_waits", "compute_waits", "drain_waits", "reads", "writes")
"""What is counted: cycles without a free buffer for a load, without operands, without room for
results; beats on the memory port."""


def length_width(config: GemmStreamConfig) -> int:
    """Return the bits of the length of a row of a block in bytes."""
    longest = max(
        *(2 * each.act_depth * each.act_rows.word_bytes for each in config.formats),
        *(2 * each.wgt_depth * each.wgt_rows.word_bytes for each in config.formats),
        config.out_depth * config.n_lanes * 8,
        config.column_groups * config.post_lanes * RECORD_BYTES,
    )
    return longest.bit_length()


class Flow(JobFlow):
    """Loads, cores and results; its reset ends whatever it is at.

    Parameters
    ----------
    config : GemmStreamConfig
    core : Component
        One core.
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    those of `JobFlow`
    read_error, write_error : Out(1)
        Pulses: an answer was an error.
    load_waits, compute_waits, drain_waits, reads, writes : Out(1)
        See `EVENTS`.
    """

    CONSUMERS = CONSUMERS

    def __init__(self, config: GemmStreamConfig, core: wiring.Component, job: Any) -> None:
        super().__init__("engine", config, job, ("read_error", "write_error", *EVENTS))
        self.core = core

    def build(self, m: Module) -> None:
        columns = self.config.post.columns
        m.d.comb += [
            self.reads.eq(self.r_valid & self.r_ready),
            self.writes.eq(self.w_valid & self.w_ready),
        ]
        words = self._read(m, columns)
        self._compute(m, words)
        self._write(m, columns, words)

    # -- memory to buffers -----------------------------------------------------------------

    def _read(self, m: Module, columns: bool) -> dict[str, Any]:
        """Place loader, reader and what turns its beats into words; return the words."""
        config, memory = self.config, self.config.memory
        rows = config.rows_in_flight
        bits = length_width(config)
        formats = format_bits(config)
        route, routed, tracked = (
            Signal(2 + formats, name="route"),
            Signal(name="routed"),
            Signal(name="tracked"),
        )
        of_formats = {"format": formats} if formats else {}
        request = _group(
            "row", address=memory.address_width, bytes=bits, what=2, final=1, **of_formats
        )
        valid, ready = Signal(name="row_valid"), Signal(name="row_ready")
        room, take, whole = Signal(3, name="room"), Signal(3, name="take"), Signal(2, name="whole")
        place(
            m, "loader", Loader(config, self.job_layout, bits),
            **self._job("load"), alone=self.alone, room=room, take=take, whole=whole,
            **request, valid=valid, ready=ready, starved=self.load_waits,
        )  # fmt: skip

        # A row goes to the reader, to the queue of where its beats belong, and to its buffer.
        reader_ready, busy = Signal(name="reader_ready"), Signal(name="reader_busy")
        buffer_ready = {ACT: Signal(name="act_row_ready"), WGT: Signal(name="wgt_row_ready")}
        buffer_takes_row = Signal(name="row_place")
        m.d.comb += buffer_takes_row.eq(1)
        for operand, known in buffer_ready.items():
            with m.If(request["what"] == operand):
                m.d.comb += buffer_takes_row.eq(known)
        m.d.comb += ready.eq(reader_ready & tracked & buffer_takes_row)
        going = valid & tracked & buffer_takes_row
        beat = _group(
            "beat",
            o_data=memory.data_width,
            o_first=(memory.data_width // 8 - 1).bit_length(),
            o_count=(memory.data_width // 8).bit_length(),
            o_last=1,
        )
        beat_valid, beat_ready = Signal(name="beat_valid"), Signal(name="beat_ready")
        place(
            m, "reader",
            BurstReader(memory.data_width, memory.address_width, memory.max_burst,
                        memory.outstanding, bits),
            i_address=request["address"], i_bytes=request["bytes"], i_valid=going,
            i_ready=reader_ready, **beat, o_valid=beat_valid, o_ready=beat_ready,
            stop=self.stop, busy=busy, error=self.read_error, **self._channel("ar", "r"),
        )  # fmt: skip
        place(
            m, "routes", StreamFifo(len(route), rows),
            i_data=Cat(request["what"], *(request[name] for name in of_formats)),
            i_valid=ready & valid, i_ready=tracked,
            o_data=route, o_valid=routed, o_ready=beat_valid & beat_ready & beat["o_last"],
        )  # fmt: skip
        words: dict[str, Any] = {"busy": busy, "room": room, "take": take, "whole": whole}
        gathered = Signal(3)
        for operand, name, word in self._gathered(
            m, columns, beat, beat_valid & routed, route, gathered
        ):
            words[name] = word
            if operand in buffer_ready:
                words[name] |= {
                    "row_final": request["final"],
                    "row_valid": valid & ready & (request["what"] == operand),
                    "row_ready": buffer_ready[operand],
                }
        m.d.comb += beat_ready.eq(routed & gathered.bit_select(route[:2], 1))
        return words

    def _gathered(
        self,
        m: Module,
        columns: bool,
        beat: dict[str, Any],
        valid: Value,
        route: Value,
        ready: Signal,
    ) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Place what turns beats into words, and yield of each operand number, name and words."""
        config = self.config
        data_width = config.memory.data_width
        kinds: list[tuple[int, str, Gather, Any]] = []
        for operand, name in ((ACT, "act"), (WGT, "wgt")):
            rows = getattr(config, f"{name}_rows")
            if rows.held_bits:
                lengths = tuple(getattr(each, f"{name}_rows").word_bytes for each in config.formats)
                gather = Gather(data_width, 1, 8, max(lengths), lengths=lengths)
                kinds.append((operand, name, gather, None))
            else:
                gather = Gather(data_width, rows.item_bytes, rows.item_bits, rows.items)
                kinds.append((operand, name, gather, rows.order))
        if columns:
            lanes = config.post_lanes * config.record_groups
            gather = Gather(data_width, RECORD_BYTES, 8 * RECORD_BYTES, lanes)
            kinds.append((COLUMNS, "columns", gather, None))
        for operand, name, gather, order in kinds:
            word = _group(name, o_data=gather.width("o_data"), o_last=1, o_valid=1)
            of_row = {"i_kind": route[2:]} if "i_kind" in gather.members else {}
            place(
                m,
                f"{name}_gather",
                gather,
                **{key.replace("o_", "i_"): value for key, value in beat.items()},
                **of_row,
                i_valid=valid & (route[:2] == operand),
                i_ready=ready[operand],
                **word,
            )
            given = {key.replace("o_", "i_"): value for key, value in word.items()}
            if order is not None:
                given["i_data"] = Signal(len(order), name=f"{name}_beats")
                bits = (Const(0) if bit is None else word["o_data"][bit] for bit in order)
                m.d.comb += given["i_data"].eq(Cat(*bits))
            yield operand, name, given

    # -- the cores -------------------------------------------------------------------------

    def _compute(self, m: Module, words: dict[str, Any]) -> None:
        config = self.config
        rows = config.rows_in_flight
        cores = CoreArray(config, self.core)
        hungry: list[Signal] = []
        ports: dict[str, Signal] = {}
        for operand, name in ((ACT, "act"), (WGT, "wgt")):
            stream = _group(
                f"{name}_beat",
                data=cores.width(f"{name}_data"),
                last=1,
                valid=1,
                ready=1,
            )
            hungry.append(Signal(name=f"{name}_hungry"))
            place(
                m, f"{name}_buffer", OperandBuffer(config, name, rows, self.job_layout),
                **self._job(name), take=words["take"][operand], room=words["room"][operand],
                whole=words["whole"][operand],
                **words[name], hungry=hungry[-1],
                **{f"o_{key}": value for key, value in stream.items()},
            )  # fmt: skip
            ports |= {f"{name}_{key}": value for key, value in stream.items()}
        sums = _group("sums", data=cores.width("out_data"), valid=1, ready=1)
        place(m, "cores", cores, **ports, **{f"out_{key}": value for key, value in sums.items()})
        block = _group("block", full=1, leave=1, address=_bits(config.out_depth), read=1,
                           data=cores.width("out_data"), free=1)  # fmt: skip
        place(
            m,
            "results",
            ResultBuffer(config, self.job_layout),
            **self._job("collect"),
            **{f"i_{key}": value for key, value in sums.items()},
            **block,
            blocked=self.drain_waits,
        )
        m.d.comb += self.compute_waits.eq(hungry[0] | hungry[1])
        words["block"] = block

    # -- results to memory -----------------------------------------------------------------

    def _write(self, m: Module, columns: bool, words: dict[str, Any]) -> None:
        config, memory, lanes = self.config, self.config.memory, self.config.post_lanes
        bits, offset_bits = length_width(config), (config.memory_bytes - 1).bit_length()
        row = _group("result_row", address=memory.address_width, bytes=bits, valid=1)
        row_ready, rows_ready, queue_ready, writer_ready = (
            Signal(name=f"{who}_takes_row") for who in ("all", "rows", "offsets", "writer")
        )
        records = _group("records", full=1, free=1, address=_bits(config.column_groups))
        item = _group(
            "item",
            data=lanes * config.result.width,
            count=_bits(lanes + 1),
            last=1,
            valid=1,
            ready=1,
        )
        writer_busy, waiting = Signal(name="writer_busy"), Signal(name="row_waits")
        place(
            m, "drain", ResultDrain(config, self.job_layout, bits),
            **self._job("drain"), **words["block"],
            **{f"columns_{key}": value for key, value in records.items()},
            **{f"row_{key}": value for key, value in row.items()}, row_ready=row_ready,
            **{f"o_{key}": value for key, value in item.items()}, idle=~(writer_busy | waiting),
        )  # fmt: skip
        done = self._post(m, columns, words, records, item)
        last_taken = done["valid"] & done["ready"] & done["last"]
        m.d.comb += row_ready.eq(rows_ready & queue_ready)
        # Rows are announced while the ones before are still on their way through `post`.
        announced = Signal(len(row["address"]) + bits, name="announced_row")
        place(
            m, "rows", StreamFifo(len(announced), ROWS_AHEAD),
            i_data=Cat(row["address"], row["bytes"]), i_valid=row["valid"] & queue_ready,
            i_ready=rows_ready, o_data=announced, o_valid=waiting, o_ready=writer_ready,
        )  # fmt: skip
        offset = offsets(
            m,
            row["address"][:offset_bits],
            push=row["valid"] & row_ready,
            pop=last_taken,
            depth=ROWS_AHEAD,
            ready=queue_ready,
        )
        self._store(m, done, offset, announced, waiting, writer_ready, writer_busy)
        m.d.comb += self.busy.eq(words["busy"] | writer_busy)

    def _post(
        self,
        m: Module,
        columns: bool,
        words: dict[str, Any],
        records: dict[str, Signal],
        item: dict[str, Signal],
    ) -> dict[str, Signal]:
        """Place the post-processing of what leaves; return the stream of results."""
        lanes = self.config.post_lanes
        parameters = {}
        if columns:
            parameters = {"i_records": Signal(8 * RECORD_BYTES * lanes, name="parameters")}
            place(
                m, "columns", ColumnBuffer(self.config),
                take=words["take"][COLUMNS], room=words["room"][COLUMNS], **words["columns"],
                **records, read=words["block"]["read"], data=parameters["i_records"],
            )  # fmt: skip
        job = self.job_layout(self.drain_job)
        post = Post(self.config.post_features, lanes)
        done = _group(
            "done", data=post.width("o_data"), count=_bits(lanes + 1), last=1, valid=1, ready=1
        )
        place(
            m,
            "post",
            post,
            settings=job.post,
            **parameters,
            **{f"i_{key}": value for key, value in item.items()},
            **{f"o_{key}": value for key, value in done.items()},
        )
        return done

    def _store(
        self,
        m: Module,
        done: dict[str, Signal],
        offset: Value,
        announced: Signal,
        waiting: Signal,
        writer_ready: Signal,
        writer_busy: Signal,
    ) -> None:
        """Place what packs results into beats of memory, and the writer of announced rows."""
        config, memory, lanes = self.config, self.config.memory, self.config.post_lanes
        bits = length_width(config)
        beat = _group(
            "write", data=memory.data_width, strobe=config.memory_bytes, last=1, valid=1, ready=1
        )
        lane_bytes = len(done["data"]) // lanes // 8
        place(
            m,
            "scatter",
            Scatter(memory.data_width, lanes, lane_bytes),
            size=post_field(self.job_layout(self.drain_job), "size"),
            offset=offset,
            **{f"i_{key}": value for key, value in done.items()},
            **{f"o_{key}": value for key, value in beat.items()},
        )
        place(
            m, "writer",
            BurstWriter(memory.data_width, memory.address_width, memory.max_burst,
                        memory.outstanding, bits),
            i_address=announced[: memory.address_width], i_bytes=announced[-bits:],
            i_valid=waiting, i_ready=writer_ready,
            **{f"d_{key}": value for key, value in beat.items()},
            stop=self.stop, busy=writer_busy, error=self.write_error,
            **self._channel("aw", "w", "b"),
        )  # fmt: skip


def _group(stem: str, **widths: int) -> dict[str, Signal]:
    """Return signals called ``STEM_NAME`` by name."""
    return {name: Signal(width, name=f"{stem}_{name}") for name, width in widths.items()}


def _bits(values: int) -> int:
    """Return the bits of a number below `values`."""
    return max(1, (max(values, 2) - 1).bit_length())
