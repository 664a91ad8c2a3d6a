# SPDX-License-Identifier: Apache-2.0
"""Vector unit: commands, the stages of a row, and the memories between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import wiring

from hwgen.families.vector.operations import CODES, Datapath, selects
from rtl_templates.arithmetic.float.multiplier import FloatMultiplier
from rtl_templates.arithmetic.float.real import REAL
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.shell import stream_members
from rtl_templates.hdl.streams import AnyStream, Fields, Stream, fields
from rtl_templates.stream.stream import StreamBuffer, StreamFifo, StreamStore, buffered

from .hadamard import HadamardBlock
from .lanes import NOTHING, ONE, ApplyLane, ValueLane, convert
from .online import OnlineWeights
from .reduce import RowMax, RowSum
from .rescaled import Rescaled
from .scale import ScaleChain

if TYPE_CHECKING:
    from hwgen.families.vector.params import VectorConfig

_SCALARS = 4
"""Entries of the queues of scalars of rows; at full rate at most two are used."""

_LEAST = 0xFF800000


def _beats(data: Value, end: Value, last: Value, valid: Value, ready: ValueLike = 1) -> Stream:
    """Return a stream of beats: ``data``, ``end`` of the elements, ``last`` of the row."""
    return Stream(fields(data=data, end=end, last=last), valid, ready)


def _extended(value: Value, width: int) -> Value:
    """Return a signed number with further bits of sign."""
    return Cat(value, value[-1].replicate(width - len(value)))


class VectorCore(wiring.Component):
    """Row operations between streams.

    Parameters
    ----------
    config : VectorConfig

    Members
    -------
    As the configuration's ports describe them.

    One job is executed at a time: the next command is popped when the last results of the one
    before are in the output's buffer.  The control signals of an operation are therefore constant
    while data move.
    """

    def __init__(self, config: VectorConfig) -> None:
        super().__init__(stream_members(config.ports))
        self.config = config
        self.level_bits = config.powers.level_bits if config.online else 0
        self.widths = {port.name: port.lanes * port.lane_width for port in config.ports}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self.m = m
        self.run_value = Signal(name="run_value")
        self.run_apply = Signal(name="run_apply")
        self.apply_ready = Signal(name="apply_ready")
        self.emitted = Signal(name="row_emitted")
        self._control(m)
        beats = self._feed(m)
        if self.config.hadamard_size:
            beats = self._rotate(m, beats)
        if self.config.has_first:
            beats = self._first(m, beats)
        else:
            self.a, self.a_valid = Const(0, 32), Const(1, 1)
        self._apply(m, self._value(m, beats))
        return m

    # -- commands --------------------------------------------------------------------------------

    def flag(self, test: Callable[[Datapath], Any], name: str) -> Value:
        """Return whether the datapath of the current operation passes a test."""
        datapaths = self.config.datapaths
        codes = [CODES[each] for each, path in datapaths.items() if test(path)]
        if len(codes) in (0, len(datapaths)):
            return Const(bool(codes), 1)
        flag = Signal(name=f"is_{name}", reset_less=True)
        with self.m.If(self.begins):
            self.m.d.sync += flag.eq(Cat(*(self.code == code for code in codes)).any())
        return flag

    def _control(self, m: Module) -> None:
        """Pop commands; answer a refused one with one beat of ones."""
        config = self.config
        command = self._pop_input(m, "cmd", Signal(name="cmd_pop"))
        head, valid = command.payload, command.valid
        code, rows, length, c1, c2 = (head.word_select(i, 32) for i in range(5))
        most = max(CODES[name] for name in config.datapaths)
        self.code = named(m, "code", code[: max(4, most.bit_length())])  # flags are stored
        self.begins = Signal(name="job_begins")
        self.rows = Signal(32, name="rows", reset_less=True)  # of which no beat has left
        self.left = Signal(32, name="rows_left", reset_less=True)  # whose last result has not left
        self.c1 = Signal(32, name="c1", reset_less=True)
        self.c2 = Signal(32, name="c2", reset_less=True)
        lanes, bits = config.array.lanes, config.lane_bits
        steps = -(-config.array.longest_row // lanes)
        self.steps = Signal(range(steps + 1), name="steps", reset_less=True)
        self.rest = Signal(max(1, bits), name="rest", reset_less=True)  # lanes of the last beat
        self.busy, self.refusing = Signal(name="busy"), Signal(name="refusing")

        def among(test: Callable[[Datapath], Any]) -> Value:
            """Return whether the datapath of the command passes a test."""
            codes = (CODES[name] for name, path in config.datapaths.items() if test(path))
            return Cat(*(code == each for each in codes)).any()

        supported = among(lambda path: True)
        fits = rows.any() & length.any() & (length <= config.array.longest_row)
        if 0 < config.stored_row < config.array.longest_row:
            fits = fits & ~(among(attrgetter("stores")) & (length > config.stored_row))
        if config.hadamard_size:
            rotated = among(attrgetter("hadamard"))
            fits = fits & ~(rotated & length[: config.hadamard_size.bit_length() - 1].any())
        idle = ~self.busy & ~self.refusing
        m.d.comb += [command.ready.eq(idle), self.begins.eq(idle & valid)]
        with m.If(self.begins):
            m.d.sync += [
                self.busy.eq(supported & fits),
                self.refusing.eq(~(supported & fits)),
                self.rows.eq(rows),
                self.left.eq(rows),
                self.steps.eq((length + (lanes - 1)) >> bits),
                self.rest.eq(length[:bits] if bits else 0),
                self.c1.eq(c1),
                self.c2.eq(c2),
            ]
        with m.If(self.emitted):
            m.d.sync += self.left.eq(self.left - 1)
            with m.If(self.left == 1):
                m.d.sync += self.busy.eq(0)

    def _pop_input(self, m: Module, name: str, pop: Value) -> Stream:
        """Return the beats of an input port after a buffer; its ready is `pop`."""
        port, width = getattr(self, name), self.widths[name]
        head = Stream(Signal(width, name=f"{name}_head"), Signal(name=f"{name}_valid"), pop)
        source = Stream(port.p.data[:width], port.valid, port.ready)
        place(m, f"{name}_buffer", StreamBuffer(width), i=source, o=head)
        return head

    def _masked(self, m: Module, name: str, beat: Fields, neutral: Value) -> Value:
        """Return the numbers of a beat, `neutral` in lanes without an element."""
        lanes, numbers = self.config.array.lanes, []
        for lane in range(lanes):
            none = self._empty(beat, lane)
            numbers.append(Mux(none, neutral, beat.data.word_select(lane, 32)))
        return named(m, name, Cat(*numbers))

    def _empty(self, beat: Fields, lane: int) -> Value:
        """Return whether a lane of a beat has no element."""
        none = beat.last & ~beat.end
        if lane:
            none = none | (beat.end & self.rest.any() & (self.rest <= lane))
        return none

    # -- from port x -----------------------------------------------------------------------------

    def _feed(self, m: Module) -> Stream:
        """Return the beats of rows from port ``x``."""
        x = self._pop_input(m, "x", Signal(name="x_pop"))
        tail = self.flag(lambda path: path.tail, "tailed")
        step = Signal(len(self.steps), name="step")
        after = named(m, "after", step == self.steps)
        end = named(m, "row_end", step + 1 == self.steps)
        last = named(m, "row_last", Mux(tail, after, end))
        fed, fire, ready = Signal(name="fed"), Signal(name="x_fire"), Signal(name="x_ready")
        valid = named(m, "beat_valid", self.busy & ~fed & (x.valid | after))
        m.d.comb += fire.eq(valid & ready)
        consumes = named(m, "x_consumes", fire & ~after)
        beat = x.payload
        if self.config.other_inputs:
            beat, consumes = self._elements(m, beat, consumes, end)
        m.d.comb += x.ready.eq(consumes)
        with m.If(~self.busy):
            m.d.sync += [step.eq(0), fed.eq(0)]
        with m.Elif(fire):
            m.d.sync += step.eq(Mux(last, 0, step + 1))
            with m.If(last):
                m.d.sync += [self.rows.eq(self.rows - 1), fed.eq(self.rows == 1)]
        return _beats(beat, end, last, valid, ready)

    def _elements(self, m: Module, word: Value, consumes: Value, end: Value) -> tuple[Value, Value]:
        """Return elements as wide as those of the input, and whether their word is used up.

        A word of narrow elements is several beats; what is behind the end of a row is left.
        """
        width, lanes = self.config.input.width, self.config.array.lanes
        beat, final = word, Value.cast(1)
        narrow = [fmt for fmt in self.config.other_inputs if fmt.width < width]
        if not narrow:
            return beat, consumes
        part = Signal(range(max(width // fmt.width for fmt in narrow)), name="part_of_word")
        for fmt in narrow:
            count = width // fmt.width
            asked = self.flag(selects("input", str(fmt)), f"of_{fmt}")
            bits = Array(
                Cat(*(
                    _extended(word.word_select(first * lanes + lane, fmt.width), width)
                    for lane in range(lanes)
                ))
                for first in range(count)
            )[part[: (count - 1).bit_length()]]  # fmt: skip
            beat = Mux(asked, bits, beat)
            final = Mux(asked, part == count - 1, final)
        final = named(m, "word_ends", final | end)
        with m.If(consumes):
            m.d.sync += part.eq(Mux(final, 0, part + 1))
        return named(m, "elements", beat), consumes & final

    def _rotate(self, m: Module, beats: Stream) -> Stream:
        """Apply the Hadamard rotation to the blocks of beats in operations that have it."""
        config, size, beat = self.config, self.config.hadamard_size, beats.payload
        run, ready = Signal(name="run_rotation"), Signal(name="rotation_ready")
        tokens = {"valid": beats.valid & run, "end": beat.end, "last": beat.last}
        tokens = self._later(m, "rotated", tokens, config.hadamard_latency, run)
        m.d.comb += [run.eq(~tokens["valid"] | ready), beats.ready.eq(run)]
        rotate = self.flag(lambda path: path.hadamard, "rotated")
        block = HadamardBlock(config)
        words = [
            place(
                m, f"rotation_{index}", block, run=run, rotate=rotate,
                i=beat.data.word_select(index, 32 * size),
            ).o
            for index in range(config.array.lanes // size)
        ]  # fmt: skip
        return _beats(Cat(*words), tokens["end"], tokens["last"], tokens["valid"], ready)

    # -- first stage -----------------------------------------------------------------------------

    def _first(self, m: Module, beats: Stream) -> AnyStream:
        """Reduce elements to ``a`` while they are stored; return them after the memory."""
        config, lanes, beat = self.config, self.config.array.lanes, beats.payload
        run = self.run_first = Signal(name="run_first")
        space = Signal(name="first_ready")
        fire = named(m, "first_fire", beats.valid & space & run)
        m.d.comb += beats.ready.eq(space & run)
        stored = buffered(
            m, "rows_0", Stream(beat, self._waiting(fire, beat), space),
            partial(StreamStore, depth=config.first_depth),
        )  # fmt: skip
        real = Cat(
            convert(m, f"first_convert_{lane}", config,
                    beat.data.word_select(lane, config.input.width), run)
            for lane in range(lanes)
        )  # fmt: skip
        cycles = config.pipeline.convert
        end, row_last = (
            delayed(m, f"first_{name}_late", getattr(beat, name), cycles, run)
            for name in ("end", "last")
        )
        any_first = self.flag(lambda path: path.first, "first")
        as_sum = self.flag(lambda path: path.first == "sum", "first_sum")
        as_size = self.flag(lambda path: path.first == "magnitude", "first_magnitude")
        neutral = Mux(as_sum | as_size, 0, _LEAST)
        masked = self._masked(m, "first_masked", fields(data=real, end=end, last=row_last), neutral)
        numbers = delayed(m, "first_numbers", masked, 1, run)
        valid = delayed(m, "first_valid", fire & any_first, 1 + cycles, run, token=True)
        last = delayed(m, "first_last", row_last, 1, run)
        a = self._reduced(m, _beats(numbers, Const(0, 1), last, valid), as_sum, as_size)
        m.d.comb += run.eq(~a.valid | a.ready)
        entries = buffered(m, "a_entries", a, partial(StreamFifo, depth=_SCALARS))
        self.a, self.a_valid, self.a_pop = entries.payload, entries.valid, entries.ready
        return stored

    def _waiting(self, fire: Value, beat: Fields) -> Value:
        """Return whether a beat waits for ``a``: of rows that are not stored, only the last one."""
        if not self.config.streams_rows:
            return fire
        alone = self.flag(lambda path: path.last_only, "position_alone")
        return fire & (~alone | beat.last)

    def _reduced(self, m: Module, beats: Stream, as_sum: Value, as_size: Value) -> Stream:
        """Return the stream of ``a`` of rows."""
        config, run, lanes = self.config, self.run_first, self.config.array.lanes
        words = fields(data=beats.payload.data, last=beats.payload.last)
        a: Value = Const(0, 32)
        valid: Value = Const(0, 1)
        if config.any_path(lambda path: path.first not in ("", "sum")):
            where = config.any_path(lambda path: path.first == "position")
            bits = max(1, (config.array.longest_row + lanes - 1).bit_length()) if where else 0
            largest = place(
                m, "max_of_row", RowMax(lanes, bits), run=run, magnitude=as_size,
                i=Stream(words, beats.valid & ~as_sum),
            ).o  # fmt: skip
            a, valid = largest.payload.data, largest.valid
            as_max = self.flag(lambda path: path.first == "max", "first_max")
            # Nothing is subtracted from elements that are all minus infinity.
            a = Mux(as_max & (a == _LEAST), 0, a)
            if where:
                asked = self.flag(lambda path: path.first == "position", "position")
                a = Mux(asked, largest.payload.position, a)
        if config.any_path(lambda path: path.first == "sum"):
            total = place(
                m, "sum_of_row", RowSum(lanes, config.pipeline.adder), run=run,
                i=Stream(words, beats.valid & as_sum),
            ).o  # fmt: skip
            cycles = config.pipeline.multiplier
            multiplier = FloatMultiplier(REAL, cycles, enabled=True)
            mean = place(m, "mean_of_row", multiplier, run=run, a=total.payload.data, b=self.c1).o
            averaged = delayed(m, "row_mean_valid", total.valid, cycles, run, token=True)
            a, valid = Mux(as_sum, mean, a), valid | averaged
        return Stream(named(m, "a_new", a), named(m, "a_new_valid", valid), Signal(name="a_ready"))

    # -- second stage ----------------------------------------------------------------------------

    def _value(self, m: Module, beats: AnyStream) -> AnyStream:
        """Compute ``v`` and, of each row, ``s``; return ``v`` after its memory."""
        beat = beats.payload
        config, run, lanes = self.config, self.run_value, self.config.array.lanes
        needs_a = self.flag(lambda path: path.first, "needing_a")
        begins, cycles = Signal(init=1, name="value_begins"), 1 + config.pipeline.convert
        of_rows = self.flag(lambda path: path.reads_r, "with_r")
        ready = run & (~needs_a | self.a_valid)
        if config.has_r:
            r = self._pop_input(m, "r", Signal(name="r_pop"))
            ready = ready & (~(of_rows & begins) | r.valid)
            self.r = delayed(m, "value_r", r.payload, cycles, run)
        m.d.comb += beats.ready.eq(ready)
        fire = named(m, "value_fire", beats.valid & beats.ready)
        if config.has_r:
            m.d.comb += r.ready.eq(fire & of_rows & begins)
        if config.has_first:
            m.d.comb += self.a_pop.eq(fire & beat.last & needs_a)
        tokens = {
            "valid": delayed(m, "value_valid", fire, cycles, run, token=True),
            "end": delayed(m, "value_end", beat.end, cycles, run),
            "last": delayed(m, "value_last", beat.last, cycles, run),
        }
        with m.If(fire):
            m.d.sync += begins.eq(beat.last)
        self.row_begins = delayed(m, "row_begins", begins, cycles, run)
        a = delayed(m, "value_a", self.a, cycles, run) if config.has_first else Const(0, 32)
        block = ValueLane(config)
        integers = {}
        if config.other_inputs:
            names = {str(fmt) for fmt in config.other_inputs}
            integers["is_integer"] = self.flag(lambda path: path.input in names, "integer")
        centred = self.flag(lambda path: path.centred, "centred")
        minus = named(m, "minus_a", Cat(a[:31], ~a[31]))
        placed = [
            place(
                m, f"value_{lane}", block, run=run, minus=minus, is_centred=centred,
                i=beat.data.word_select(lane, config.input.width), **integers,
            )
            for lane in range(lanes)
        ]  # fmt: skip
        outputs = {
            name: Cat(getattr(each, name) for each in placed)
            for name in ("element", "centred", "exp", "gate", "square")
            if name in block.members
        }
        plain = tokens
        if "centred" in outputs:
            tokens = self._later(m, "centred", plain, config.pipeline.adder, run, centred)
            squared = {name: Mux(centred, tokens[name], plain[name]) for name in plain}
            data = Mux(centred, outputs["centred"], outputs["element"])
        else:
            squared, data = plain, outputs["element"]
        value = squared
        for name, path_value in (("exp", "exp"), ("gate", "gate")):
            if name not in outputs:
                continue
            cycles = config.pipeline.function
            if name == "gate" and config.array.gate == "relu2":
                cycles = config.pipeline.multiplier
            source = tokens if name == "exp" else plain
            asked = self.flag(selects("value", path_value), name)
            late = self._later(m, name, source, cycles, run, asked)
            value = {key: Mux(asked, late[key], value[key]) for key in value}
            data = Mux(asked, outputs[name], data)
        if config.online:
            online = self.flag(selects("value", "power"), "online")
            late = self._later(m, "online", plain, config.weight_latency, run, online)
            value = {key: Mux(online, late[key], value[key]) for key in value}
            weights = self._online(m, beat.data, plain, outputs["element"], online)
            data = Mux(online, weights, data)
        values = _beats(
            named(m, "value", data),
            named(m, "v_end", value["end"]),
            named(m, "v_last", value["last"]),
            named(m, "v_valid", value["valid"]),
            self.apply_ready,
        )
        if not config.has_second:
            m.d.comb += run.eq(~values.valid | self.apply_ready)
            self.s, self.t, self.s_valid = Const(0, 32), Const(0, 32), Const(1, 1)
            return values
        return self._second(m, values, squared, outputs.get("square"), plain, a)

    def _online(
        self, m: Module, data: Value, plain: dict[str, Value], element: Value, online: Value
    ) -> Value:
        """Return exponentials over the running maximum, which becomes ``level``."""
        config, run, lanes = self.config, self.run_value, self.config.array.lanes
        elements = element
        if not config.powers.converted:
            elements = delayed(m, "online_element", data, 1 + config.pipeline.convert, run)
        beat = fields(data=Const(0, 0), end=plain["end"], last=plain["last"])
        used = Cat(*(~self._empty(beat, lane) for lane in range(lanes)))
        words = fields(data=elements, used=used, last=plain["last"])
        weights = place(
            m, "online", OnlineWeights(config), run=run, i=Stream(words, plain["valid"] & online)
        )
        level = weights.level.as_unsigned()
        self.level = named(m, "level", level & online.replicate(self.level_bits))
        return weights.o

    def _later(
        self,
        m: Module,
        name: str,
        tokens: dict[str, Value],
        cycles: int,
        run: Value,
        selected: Value | None = None,
    ) -> dict[str, Value]:
        """Return tokens as they were some cycles before.

        Those of operations that do not select the path do not enter it: the next command may begin
        before the path is empty, and would take what is left for its own.
        """
        if selected is not None:
            tokens = {**tokens, "valid": tokens["valid"] & selected}
        return {
            key: delayed(m, f"{name}_{key}", value, cycles, run, token=key == "valid")
            for key, value in tokens.items()
        }

    def _second(
        self,
        m: Module,
        value: Stream,
        centred: dict[str, Value],
        square: Value | None,
        plain: dict[str, Value],
        a: Value,
    ) -> Stream:
        """Reduce values to ``b`` and compute the scale of each row while they are stored."""
        config, run, lanes = self.config, self.run_value, self.config.array.lanes
        b: Value = a
        direct = self.flag(lambda path: path.direct, "direct")
        if config.has_r:
            b = Mux(self.flag(lambda path: path.reads_r, "of_rows"), self.r, a)
        b_valid = direct & plain["valid"] & self.row_begins
        level: Value = Const(0, 0)
        if config.any_path(attrgetter("summed")):
            source = value
            asked = self.flag(attrgetter("summed"), "summed")
            if square is not None:
                squares = self.flag(lambda path: path.second == "squares", "squared")
                cycles = config.pipeline.multiplier
                late = self._later(m, "square", centred, cycles, run, squares)
                source = _beats(
                    Mux(squares, square, value.payload.data),
                    Mux(squares, late["end"], value.payload.end),
                    Mux(squares, late["last"], value.payload.last),
                    Mux(squares, late["valid"], value.valid),
                )
            numbers = self._masked(m, "second_masked", source.payload, Const(0, 32))
            levels = {"level": self.level} if self.level_bits else {}
            words = fields(data=numbers, last=source.payload.last, **levels)
            total = place(
                m, "sum_of_values", RowSum(lanes, config.pipeline.adder, self.level_bits),
                run=run, i=Stream(words, source.valid & asked),
            ).o  # fmt: skip
            if self.level_bits:
                level = total.payload.level
            b, b_valid = Mux(direct, b, total.payload.data), b_valid | total.valid
        scale = place(
            m, "scale", ScaleChain(config), run=run, b=Stream(b, b_valid), c1=self.c1, c2=self.c2,
            epsilon=self.flag(lambda path: path.epsilon, "epsilon"),
            reciprocal=self.flag(lambda path: path.scale == "reciprocal", "reciprocal"),
            rsqrt=self.flag(lambda path: path.scale == "rsqrt", "rsqrt"),
            guarded=self.flag(attrgetter("exponential"), "guarded"),
            bounded=self.flag(attrgetter("tail"), "bounded"),
        ).o  # fmt: skip
        if self.level_bits:
            online = self.flag(selects("value", "power"), "rescaled")
            cycles = config.scale_latency(config.datapaths["softmax"])
            level = delayed(m, "s_level", level, cycles, run) & online.replicate(self.level_bits)
        return self._store_values(m, value, scale, level)

    def _store_values(self, m: Module, value: Stream, scale: AnyStream, level: Value) -> AnyStream:
        """Store values in the memory and scales in their queue; return the stored values."""
        config, run = self.config, self.run_value
        with_t = config.any_path(lambda path: path.tail or path.last_only)
        s_ready, v_ready = Signal(name="s_ready"), Signal(name="second_ready")
        m.d.comb += run.eq((~value.valid | v_ready) & (~scale.valid | s_ready))
        entry = {"s": scale.payload.s, **({"t": scale.payload.t} if with_t else {})}
        row = {name: getattr(value.payload, name) for name in ("data", "end", "last")}
        if self.level_bits:
            entry["level"], row["level"] = level, self.level
        scales = buffered(
            m, "s_entries", Stream(fields(**entry), scale.valid & run, s_ready),
            partial(StreamFifo, depth=_SCALARS),
        )  # fmt: skip
        stored = buffered(
            m, "rows_1", Stream(fields(**row), value.valid & run, v_ready),
            partial(StreamStore, depth=config.second_depth),
        )  # fmt: skip
        head = scales.payload
        self.s_valid, self.s_pop, self.v_pop = scales.valid, scales.ready, stored.ready
        self.s, self.t = head.s, head.t if with_t else Const(0, 32)
        if self.level_bits:
            down = Signal(self.level_bits, name="s_down")
            m.d.comb += down.eq(head.level - stored.payload.level)
            self.s = place(m, "rescale_s", Rescaled(self.level_bits), i=head.s, down=down).o
        return stored

    # -- last stage ------------------------------------------------------------------------------

    def _apply(self, m: Module, values: AnyStream) -> None:
        """Scale values, multiply and add operands, convert, and send the results."""
        config, run, lanes = self.config, self.run_apply, self.config.array.lanes
        value = values.payload
        needs_s = self.flag(lambda path: path.second, "needing_s")
        ready = run & (~needs_s | self.s_valid)
        fire, heads = Signal(name="apply_fire"), {}
        for name in ("y", "p"):
            if not getattr(config, f"has_{name}"):
                continue
            needs = self.flag(attrgetter(f"reads_{name}"), f"needing_{name}")
            operand = self._pop_input(m, name, fire & needs)
            heads[name] = operand.payload
            ready = ready & (~needs | operand.valid)
        m.d.comb += [fire.eq(values.valid & ready), self.apply_ready.eq(ready)]
        if config.has_second:
            m.d.comb += [self.v_pop.eq(ready), self.s_pop.eq(fire & value.last & needs_s)]
        alone = self.flag(lambda path: path.last_only, "last_only")
        apart = named(m, "apart", value.last & (~value.end | alone))
        s = named(m, "scale_now", Mux(needs_s, self.s, self.c1))
        formats = {
            f"in_{fmt}": self.flag(selects("output", str(fmt)), f"in_{fmt}")
            for fmt in config.other_outputs
        }
        results, real = self._lanes(m, value, s, apart, heads, formats)

        tokens = {"valid": fire, "end": value.end, "last": value.last, "apart": apart}
        cycles = config.apply_latency - 1
        if config.other_outputs:
            results, real = (
                delayed(m, name, value, 1, run)
                for name, value in (("whole_results", results), ("whole_first", real))
            )
        tokens = self._later(m, "apply", tokens, cycles, run)
        late = fields(data=results, end=tokens["end"], last=tokens["last"])
        width = config.output.lane_width
        words = []
        for lane in range(lanes):
            none = late.end & self.rest.any() & (self.rest <= lane) if lane else Const(0, 1)
            words.append(Mux(none, 0, results.word_select(lane, width)))
        beat = named(m, "results", Cat(*words))
        if lanes * width >= 32:
            if config.any_path(lambda path: path.exponent):
                real = Cat(real[23:31], Const(0, 24))
            beat = Mux(tokens["apart"], Cat(real, Const(0, lanes * width - 32)), beat)
        valid = tokens["valid"] & (~alone | late.last)
        if config.other_outputs:
            beat, valid = self._joined(m, beat, valid, late.end, tokens["apart"], formats)
        out = delayed(m, "out_beat", beat, 1, run)
        valid = delayed(m, "out_valid", valid, 1, run, token=True)
        last = delayed(m, "out_last", late.last, 1, run)
        self._push_output(m, out, last, valid)

    def _joined(
        self, m: Module, beat: Value, valid: Value, end: Value, apart: Value,
        formats: dict[str, Value],
    ) -> tuple[Value, Value]:  # fmt: skip
        """Return words of narrow results, and whether one is complete, or ends its row."""
        config, lanes, width = self.config, self.config.array.lanes, self.config.output.lane_width
        longest = max(width // fmt.lane_width for fmt in config.other_outputs)
        part = Signal(range(longest), name="part_of_result")
        before = Signal(lanes * width, name="results_before")
        joined, final = beat, Value.cast(1)
        for fmt in config.other_outputs:
            size, count = lanes * fmt.lane_width, width // fmt.lane_width
            asked = formats[f"in_{fmt}"]
            bits = Cat(*(beat.word_select(lane, width)[: fmt.lane_width] for lane in range(lanes)))
            word = Cat(*(
                Mux(part == index, bits, before.word_select(index, size)) for index in range(count)
            ))  # fmt: skip
            joined = Mux(asked, word, joined)
            final = Mux(asked, part == count - 1, final)
        parted = named(m, "in_parts", Cat(*formats.values()).any() & ~apart)
        joined = named(m, "joined", Mux(apart, beat, joined))
        final = named(m, "result_complete", final | end | apart)
        with m.If(valid & self.run_apply & parted):
            m.d.sync += [part.eq(Mux(final, 0, part + 1)), before.eq(Mux(final, 0, joined))]
        return joined, valid & final

    def _lanes(
        self, m: Module, value: Fields, s: Value, apart: Value, heads: dict[str, Value],
        formats: dict[str, Value],
    ) -> tuple[Value, Value]:  # fmt: skip
        """Return the results of the lanes, and of the first one before it is rounded."""
        config, run, lanes = self.config, self.run_apply, self.config.array.lanes
        blocks = [ApplyLane(config), ApplyLane(config, odd=True)]
        width = config.output.lane_width
        results, real = Signal(lanes * width, name="lane_results"), Signal(32, name="first_result")
        scaled = Signal(32 * lanes, name="lanes_scaled")
        flags = {
            **{f"factor_{n}": self.flag(selects("factor", n), f"factor_{n}")
               for n in blocks[0].factors},
            **{f"term_{n}": self.flag(selects("term", n), f"term_{n}")
               for n in blocks[0].terms},
            **formats,
        }  # fmt: skip
        rope = self.flag(lambda path: path.factor == "rotate", "rope")
        for lane in range(lanes):
            v = value.data.word_select(lane, 32)
            factor = s
            if lane == 0:  # a result of the row passes the lane unchanged: times one, plus zero
                v, factor = Mux(apart, self.t, v), Mux(apart, ONE, s)
            ports: dict[str, Value] = {**flags}
            if "p" in heads:
                ports |= self._parameters(heads["p"], lane, rope)
            if "y" in heads:
                ports["y"] = heads["y"].word_select(lane, config.input.width)
            if blocks[0].rope_pairs:
                ports |= {"rope": rope, "scaled": scaled.word_select(lane, 32),
                          "other": scaled.word_select(lane ^ 1, 32)}  # fmt: skip
            odd = lane % 2 if blocks[0].rope_pairs else 0
            place(m, f"apply_{lane}", blocks[odd], run=run, v=v, s=factor,
                  o=results.word_select(lane, width),
                  o_real=real if lane == 0 else Signal(32, name=f"result_{lane}"),
                  **ports)  # fmt: skip
        return results, real

    def _parameters(self, head: Value, lane: int, rope: Value) -> dict[str, Value]:
        """Return the two numbers of port ``p`` for a lane."""
        config, lanes = self.config, self.config.array.lanes
        width = config.parameters.width
        p, q = head.word_select(lane, width), Const(0, width)
        if config.p_lanes > lanes:
            q = head.word_select(lanes + lane, width)
        if config.any_path(lambda path: path.factor == "rotate"):
            pair = lane & ~1
            p = Mux(rope, head.word_select(pair, width), p)
            q = Mux(rope, head.word_select(pair + 1, width), q)
        return {"p": p, "q": q}

    def _push_output(self, m: Module, beat: Value, last: Value, valid: Value) -> None:
        """Push results, or the answer to a refused command, to port ``out``."""
        width, ready = self.widths["out"], Signal(name="out_ready")
        m.d.comb += [
            self.run_apply.eq(~valid | ready),
            self.emitted.eq(valid & ready & last),
        ]
        with m.If(self.refusing & ready):
            m.d.sync += self.refusing.eq(0)
        data = Signal(len(self.out.p.data), name="out_data")
        ones = Const((2 << width) - 1, width + 1)
        word = Mux(self.refusing, ones, Cat(beat, last))
        place(
            m, "out_buffer", StreamBuffer(width + 1),
            i=Stream(word, valid | self.refusing, ready),
            o=Stream(Cat(data[:width], self.out.p.last), self.out.valid, self.out.ready),
        )  # fmt: skip
        m.d.comb += self.out.p.data.eq(data)


__all__ = ["NOTHING", "VectorCore"]
