# SPDX-License-Identifier: Apache-2.0
"""The vector unit: commands, the stages that a row passes, and the memories between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring

from hwgen.families.vector.operations import CODES, Way, going
from rtl_templates.arithmetic.float.multiplier import FloatMultiplier
from rtl_templates.arithmetic.float.real import REAL
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.arithmetic.registry import arithmetic
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.shell import stream_members
from rtl_templates.stream.stream import StreamBuffer, StreamFifo, StreamStore

from .hadamard import HadamardBlock
from .lanes import NOTHING, ONE, ApplyLane, ValueLane
from .online import OnlineWeights
from .reduce import RowMax, RowSum
from .rescaled import Rescaled
from .scale import ScaleChain

if TYPE_CHECKING:
    from hwgen.families.vector.params import VectorConfig

_SCALARS = 4
"""Scalars of rows that may wait; at full rate there are two at most."""

_LEAST = 0xFF800000


@dataclass(frozen=True)
class Beat:
    """A beat between stages, with what it is of its row: the end of the elements, the last beat."""

    data: Value
    end: Value
    last: Value
    valid: Value


class VectorCore(wiring.Component):
    """Row operations between streams.

    Parameters
    ----------
    config : VectorConfig

    Members
    -------
    As the configuration's ports describe them.

    A job is worked on alone: the next command is taken when the last results of the one before are
    in the output's buffer.  What an operation needs is therefore decided by signals that stand
    still while data move.
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
        beat, taken = self._feed(m)
        if self.config.turns:
            beat, taken = self._turn(m, beat, taken)
        if self.config.has_first:
            beat, taken = self._first(m, beat, taken)
        else:
            self.a, self.a_there = Const(0, 32), Const(1, 1)
        value = self._value(m, beat, taken)
        self._apply(m, value)
        return m

    # -- commands --------------------------------------------------------------------------------

    def flag(self, test: Callable[[Way], Any], name: str) -> Value:
        """Return whether the operation that is worked on goes a way like that."""
        ways = self.config.ways
        codes = [CODES[each] for each, way in ways.items() if test(way)]
        if len(codes) in (0, len(ways)):
            return Const(bool(codes), 1)
        found = Signal(name=f"is_{name}")
        terms = [self.code == code for code in codes]
        self.m.d.comb += found.eq(Cat(*terms).any())
        return found

    def _control(self, m: Module) -> None:
        """Take commands; refuse what cannot be done with one beat of ones."""
        config = self.config
        head, valid, take = Signal(self.widths["cmd"], name="cmd_head"), Signal(), Signal()
        self._buffered(m, "cmd", head, valid, take)
        code, rows, length, c1, c2 = (head.word_select(i, 32) for i in range(5))
        self.code = Signal(4, name="code", reset_less=True)
        self.rows = Signal(32, name="rows", reset_less=True)  # of which no beat was sent yet
        self.left = Signal(32, name="rows_left", reset_less=True)  # whose last result is to come
        self.c1 = Signal(32, name="c1", reset_less=True)
        self.c2 = Signal(32, name="c2", reset_less=True)
        lanes, bits = config.array.lanes, config.lane_bits
        steps = -(-config.array.longest_row // lanes)
        self.steps = Signal(range(steps + 1), name="steps", reset_less=True)
        self.rest = Signal(max(1, bits), name="rest", reset_less=True)  # lanes of the last beat
        self.busy, self.refusing = Signal(name="busy"), Signal(name="refusing")
        known = Cat(*(code == CODES[name] for name in config.ways)).any()
        fits = rows.any() & length.any() & (length <= config.array.longest_row)
        if config.turns:
            turned = Cat(*(code == CODES[n] for n, way in config.ways.items() if way.turned)).any()
            fits = fits & ~(turned & length[: config.turns.bit_length() - 1].any())
        idle = ~self.busy & ~self.refusing
        m.d.comb += take.eq(idle)
        with m.If(idle & valid):
            m.d.sync += [
                self.busy.eq(known & fits),
                self.refusing.eq(~(known & fits)),
                self.code.eq(code),
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

    def _buffered(self, m: Module, name: str, head: Signal, valid: Value, ready: Value) -> None:
        """Put a buffer behind an input port."""
        port, width = getattr(self, name), self.widths[name]
        place(
            m, f"{name}_buffer", StreamBuffer(width),
            i_data=port.p.data[:width], i_valid=port.valid, i_ready=port.ready,
            o_data=head, o_valid=valid, o_ready=ready,
        )  # fmt: skip

    def _masked(self, m: Module, name: str, beat: Beat, neutral: Value) -> Value:
        """Return the numbers of a beat, something neutral in lanes that hold no element."""
        lanes, found = self.config.array.lanes, []
        for lane in range(lanes):
            none = self._empty(beat, lane)
            found.append(Mux(none, neutral, beat.data.word_select(lane, 32)))
        return named(m, name, Cat(*found))

    def _empty(self, beat: Beat, lane: int) -> Value:
        """Return whether a lane of a beat holds no element."""
        none = beat.last & ~beat.end
        if lane:
            none = none | (beat.end & self.rest.any() & (self.rest <= lane))
        return none

    # -- from port x -----------------------------------------------------------------------------

    def _feed(self, m: Module) -> tuple[Beat, Signal]:
        """Return the beats of rows from port ``x``, and the signal that takes them."""
        x, there, take = Signal(self.widths["x"], name="x_head"), Signal(), Signal()
        self._buffered(m, "x", x, there, take)
        tail = self.flag(lambda way: way.tail, "tailed")
        step = Signal(len(self.steps), name="step")
        after = named(m, "after", step == self.steps)
        end = named(m, "row_end", step + 1 == self.steps)
        last = named(m, "row_last", Mux(tail, after, end))
        fed, fire, taken = Signal(name="fed"), Signal(name="x_fire"), Signal(name="x_taken")
        valid = named(m, "x_there", self.busy & ~fed & (there | after))
        m.d.comb += [fire.eq(valid & taken), take.eq(fire & ~after)]
        with m.If(~self.busy):
            m.d.sync += [step.eq(0), fed.eq(0)]
        with m.Elif(fire):
            m.d.sync += step.eq(Mux(last, 0, step + 1))
            with m.If(last):
                m.d.sync += [self.rows.eq(self.rows - 1), fed.eq(self.rows == 1)]
        return Beat(x, end, last, valid), taken

    def _turn(self, m: Module, beat: Beat, taken: Signal) -> tuple[Beat, Signal]:
        """Turn the blocks of beats, which pass as they are in operations without that."""
        config, size = self.config, self.config.turns
        run, next_taken = Signal(name="run_turn"), Signal(name="turn_taken")
        tokens = {"valid": beat.valid & run, "end": beat.end, "last": beat.last}
        tokens = self._later(m, "turned", tokens, config.turn_latency, run)
        m.d.comb += [run.eq(~tokens["valid"] | next_taken), taken.eq(run)]
        turn = self.flag(lambda way: way.turned, "turned")
        data, block = Signal(len(beat.data), name="turned_data"), HadamardBlock(config)
        for index in range(config.array.lanes // size):
            place(m, f"turn_{index}", block, run=run, turn=turn,
                  i=beat.data.word_select(index, 32 * size), o=data.word_select(index, 32 * size),
                  )  # fmt: skip
        return Beat(data, tokens["end"], tokens["last"], tokens["valid"]), next_taken

    # -- first stage -----------------------------------------------------------------------------

    def _first(self, m: Module, beat: Beat, taken: Signal) -> tuple[Beat, Signal]:
        """Reduce elements to ``a`` while they wait in a memory; return them behind it."""
        config, lanes = self.config, self.config.array.lanes
        run = self.run_first = Signal(name="run_first")
        room = Signal(name="first_room")
        fire = named(m, "first_fire", beat.valid & room & run)
        m.d.comb += taken.eq(room & run)
        width = self.widths["x"] + 2
        held, there, next_taken = Signal(width, name="waiting"), Signal(), Signal(name="first_take")
        place(
            m, "rows_0", StreamStore(width, config.first_depth),
            i_data=Cat(beat.data, beat.end, beat.last), i_valid=fire, i_ready=room,
            o_data=held, o_valid=there, o_ready=next_taken,
            level=Signal(range(config.first_depth + 2), name="first_level"),
        )  # fmt: skip
        real = Signal(32 * lanes, name="first_real")
        for lane in range(lanes):
            place(m, f"first_convert_{lane}", arithmetic(config.input).to_real(config.input),
                  i=beat.data.word_select(lane, config.input.width),
                  o=real.word_select(lane, 32))  # fmt: skip
        any_first = self.flag(lambda way: way.first, "first")
        as_sum = self.flag(lambda way: way.first == "sum", "first_sum")
        as_size = self.flag(lambda way: way.first == "magnitude", "first_magnitude")
        neutral = Mux(as_sum | as_size, 0, _LEAST)
        masked = self._masked(m, "first_masked", Beat(real, beat.end, beat.last, fire), neutral)
        numbers = delayed(m, "first_numbers", masked, 1, run)
        valid = delayed(m, "first_valid", fire & any_first, 1, run, token=True)
        last = delayed(m, "first_last", beat.last, 1, run)
        a, found = self._reduced(m, numbers, valid, last, as_sum, as_size)
        enough = Signal(name="a_room")
        self.a, self.a_there, self.a_taken = (
            Signal(32, name="a"), Signal(name="a_there"), Signal(name="a_taken"),
        )  # fmt: skip
        m.d.comb += run.eq(~found | enough)
        place(m, "a_entries", StreamFifo(32, _SCALARS), i_data=a, i_valid=found, i_ready=enough,
              o_data=self.a, o_valid=self.a_there, o_ready=self.a_taken)  # fmt: skip
        return Beat(held[:-2], held[-2], held[-1], there), next_taken

    def _reduced(
        self, m: Module, numbers: Value, valid: Value, last: Value, as_sum: Value, as_size: Value
    ) -> tuple[Value, Value]:
        """Return ``a`` of rows and whether there is one."""
        config, run, lanes = self.config, self.run_first, self.config.array.lanes
        a: Value = Const(0, 32)
        there: Value = Const(0, 1)
        if config.any_way(lambda way: way.first not in ("", "sum")):
            where = config.any_way(lambda way: way.first == "position")
            bits = max(1, (config.array.longest_row + lanes - 1).bit_length()) if where else 0
            a, there = Signal(32, name="row_max"), Signal(name="row_max_there")
            position = {"o_position": Signal(bits, name="row_position")} if where else {}
            place(m, "max_of_row", RowMax(lanes, bits), run=run, magnitude=as_size, i=numbers,
                  i_valid=valid & ~as_sum, i_last=last, o=a, o_valid=there,
                  **position)  # fmt: skip
            as_max = self.flag(lambda way: way.first == "max", "first_max")
            # Nothing is subtracted from elements that are all minus infinity.
            a = Mux(as_max & (a == _LEAST), 0, a)
            if where:
                asked = self.flag(lambda way: way.first == "position", "position")
                a = Mux(asked, position["o_position"], a)
        if config.any_way(lambda way: way.first == "sum"):
            total, summed = Signal(32, name="row_total"), Signal(name="row_total_there")
            place(m, "sum_of_row", RowSum(lanes, config.pipeline.adder), run=run, i=numbers,
                  i_valid=valid & as_sum, i_last=last, o=total, o_valid=summed)  # fmt: skip
            cycles = config.pipeline.multiplier
            mean = Signal(32, name="row_mean")
            place(m, "mean_of_row", FloatMultiplier(REAL, cycles, enabled=True), run=run,
                  a=total, b=self.c1, o=mean)  # fmt: skip
            averaged = delayed(m, "row_mean_there", summed, cycles, run, token=True)
            a, there = Mux(as_sum, mean, a), there | averaged
        return named(m, "a_found", a), named(m, "a_is_found", there)

    # -- second stage ----------------------------------------------------------------------------

    def _value(self, m: Module, beat: Beat, taken: Signal) -> Beat:
        """Compute ``v`` and, of each row, ``s``; return ``v`` behind the memory where it waits."""
        config, run, lanes = self.config, self.run_value, self.config.array.lanes
        needs_a = self.flag(lambda way: way.first, "needing_a")
        begins = Signal(init=1, name="value_begins")
        given = self.flag(lambda way: way.takes_r, "given")
        ready = run & (~needs_a | self.a_there)
        if config.takes_r:
            r, r_there, take_r = Signal(32, name="r_head"), Signal(), Signal(name="take_r")
            self._buffered(m, "r", r, r_there, take_r)
            ready = ready & (~(given & begins) | r_there)
            self.given = delayed(m, "value_r", r, 1, run)
        m.d.comb += taken.eq(ready)
        fire = named(m, "value_fire", beat.valid & taken)
        if config.takes_r:
            m.d.comb += take_r.eq(fire & given & begins)
        if config.has_first:
            m.d.comb += self.a_taken.eq(fire & beat.last & needs_a)
        tokens = {
            "valid": delayed(m, "value_valid", fire, 1, run, token=True),
            "end": delayed(m, "value_end", beat.end, 1, run),
            "last": delayed(m, "value_last", beat.last, 1, run),
        }
        with m.If(fire):
            m.d.sync += begins.eq(beat.last)
        self.row_begins = delayed(m, "row_begins", begins, 1, run)
        a = delayed(m, "value_a", self.a, 1, run) if config.has_first else Const(0, 32)
        block = ValueLane(config)
        outputs = {
            name: Signal(32 * lanes, name=f"lanes_{name}")
            for name in ("element", "centred", "exp", "gate", "square") if name in block.members
        }  # fmt: skip
        centred = self.flag(lambda way: way.centred, "centred")
        minus = named(m, "minus_a", Cat(a[:31], ~a[31]))
        for lane in range(lanes):
            place(m, f"value_{lane}", block, run=run, minus=minus, is_centred=centred,
                  i=beat.data.word_select(lane, config.input.width),
                  **{name: each.word_select(lane, 32) for name, each in outputs.items()},
                  )  # fmt: skip
        plain = tokens
        if "centred" in outputs:
            tokens = self._later(m, "centred", tokens, config.pipeline.adder, run)
            squared = {name: Mux(centred, tokens[name], plain[name]) for name in plain}
            data = Mux(centred, outputs["centred"], outputs["element"])
        else:
            squared, data = plain, outputs["element"]
        value = squared
        for name, way_value in (("exp", "exp"), ("gate", "gate")):
            if name not in outputs:
                continue
            cycles = config.pipeline.function
            if name == "gate" and config.array.gate == "relu2":
                cycles = config.pipeline.multiplier
            source = tokens if name == "exp" else plain
            late = self._later(m, name, source, cycles, run)
            asked = self.flag(going("value", way_value), name)
            value = {key: Mux(asked, late[key], value[key]) for key in value}
            data = Mux(asked, outputs[name], data)
        if config.online:
            online = self.flag(going("value", "power"), "online")
            late = self._later(m, "online", plain, config.weight_latency, run)
            value = {key: Mux(online, late[key], value[key]) for key in value}
            data = Mux(online, self._online(m, beat, plain, outputs["element"], online), data)
        found = Beat(
            named(m, "value", data),
            *(named(m, f"v_{key}", value[key]) for key in ("end", "last", "valid")),
        )
        if not config.has_second:
            m.d.comb += run.eq(~found.valid | self.apply_ready)
            self.s, self.t, self.s_there = Const(0, 32), Const(0, 32), Const(1, 1)
            return found
        return self._second(m, found, squared, outputs.get("square"), plain, a)

    def _online(
        self, m: Module, beat: Beat, plain: dict[str, Value], element: Value, online: Value
    ) -> Value:
        """Return exponentials over the running maximum, which becomes ``level``."""
        config, run, lanes = self.config, self.run_value, self.config.array.lanes
        elements = element
        if not config.powers.converted:
            elements = delayed(m, "online_element", beat.data, 1, run)
        here = Beat(Const(0, 32 * lanes), plain["end"], plain["last"], plain["valid"])
        holds = Cat(*(~self._empty(here, lane) for lane in range(lanes)))
        weights = Signal(32 * lanes, name="online_weights")
        level = Signal(self.level_bits, name="online_level")
        place(m, "online", OnlineWeights(config), run=run, i=elements, holds=holds,
              i_valid=plain["valid"] & online, i_last=plain["last"], o=weights,
              level=level)  # fmt: skip
        self.level = named(m, "level", level & online.replicate(self.level_bits))
        return weights

    def _later(
        self, m: Module, name: str, tokens: dict[str, Value], cycles: int, run: Value
    ) -> dict[str, Value]:
        """Return tokens as they were some cycles before."""
        return {
            key: delayed(m, f"{name}_{key}", value, cycles, run, token=key == "valid")
            for key, value in tokens.items()
        }

    def _second(
        self,
        m: Module,
        value: Beat,
        centred: dict[str, Value],
        square: Value | None,
        plain: dict[str, Value],
        a: Value,
    ) -> Beat:
        """Reduce values to ``b`` and find the scale of each row while they wait in a memory."""
        config, run, lanes = self.config, self.run_value, self.config.array.lanes
        b: Value = a
        direct = self.flag(lambda way: way.direct, "direct")
        if config.takes_r:
            b = Mux(self.flag(lambda way: way.takes_r, "of_rows"), self.given, a)
        b_there = direct & plain["valid"] & self.row_begins
        level: Value = Const(0, 0)
        if config.any_way(attrgetter("summed")):
            source = value
            asked = self.flag(attrgetter("summed"), "summed")
            if square is not None:
                squares = self.flag(lambda way: way.second == "squares", "squared")
                late = self._later(m, "square", centred, config.pipeline.multiplier, run)
                source = Beat(
                    Mux(squares, square, value.data),
                    *(Mux(squares, late[key], getattr(value, key))
                      for key in ("end", "last", "valid")),
                )  # fmt: skip
            numbers = self._masked(m, "second_masked", source, Const(0, 32))
            total, there = Signal(32, name="second_total"), Signal(name="second_total_there")
            over = {}
            if self.level_bits:
                level = Signal(self.level_bits, name="total_level")
                over = {"i_level": self.level, "o_level": level}
            place(m, "sum_of_values", RowSum(lanes, config.pipeline.adder, self.level_bits),
                  run=run, i=numbers, i_valid=source.valid & asked, i_last=source.last, o=total,
                  o_valid=there, **over)  # fmt: skip
            b, b_there = Mux(direct, b, total), b_there | there
        s, t, found = (Signal(n, name=x) for n, x in ((32, "s_new"), (32, "t_new"), (1, "s_found")))
        place(
            m, "scale", ScaleChain(config), run=run, b=b, b_valid=b_there, c1=self.c1, c2=self.c2,
            epsilon=self.flag(lambda way: way.epsilon, "epsilon"),
            reciprocal=self.flag(lambda way: way.scale == "reciprocal", "reciprocal"),
            rsqrt=self.flag(lambda way: way.scale == "rsqrt", "rsqrt"),
            guarded=self.flag(attrgetter("exponential"), "guarded"),
            s=s, t=t, valid=found,
        )  # fmt: skip
        if self.level_bits:
            online = self.flag(going("value", "power"), "rescaled")
            cycles = config.scale_latency(config.ways["softmax"])
            level = delayed(m, "s_level", level, cycles, run) & online.replicate(self.level_bits)
        return self._waiting(m, value, s, t, found, level)

    def _waiting(
        self, m: Module, value: Beat, s: Value, t: Value, found: Value, level: Value
    ) -> Beat:
        """Put values into the memory and scales into their queue; return what comes out of both."""
        config, run = self.config, self.run_value
        beside = config.any_way(lambda way: way.tail or way.last_only)
        entry = Cat(s, t) if beside else s
        if self.level_bits:
            entry = Cat(entry, level)
        enough, room = Signal(name="s_room"), Signal(name="second_room")
        m.d.comb += run.eq((~value.valid | room) & (~found | enough))
        head, self.s_there, self.s_taken = (
            Signal(len(entry), name="scale_head"), Signal(name="s_there"), Signal(name="s_taken"),
        )  # fmt: skip
        place(m, "s_entries", StreamFifo(len(entry), _SCALARS), i_data=entry, i_valid=found & run,
              i_ready=enough, o_data=head, o_valid=self.s_there, o_ready=self.s_taken)  # fmt: skip
        self.s, self.t = head[:32], head[32:64] if beside else Const(0, 32)
        width = 32 * config.array.lanes + 2 + self.level_bits
        row = [value.data, value.end, value.last, *([self.level] if self.level_bits else [])]
        held, there, self.v_taken = Signal(width, name="v"), Signal(), Signal(name="v_taken")
        place(
            m, "rows_1", StreamStore(width, config.second_depth),
            i_data=Cat(*row), i_valid=value.valid & run, i_ready=room,
            o_data=held, o_valid=there, o_ready=self.v_taken,
            level=Signal(range(config.second_depth + 2), name="second_level"),
        )  # fmt: skip
        if self.level_bits:
            held, over = held[: -self.level_bits], held[-self.level_bits :]
            down, scale = Signal(self.level_bits, name="s_down"), Signal(32, name="s_of_beat")
            m.d.comb += down.eq(head[-self.level_bits :] - over)
            place(m, "rescale_s", Rescaled(self.level_bits), i=head[:32], down=down, o=scale)
            self.s = scale
        return Beat(held[:-2], held[-2], held[-1], there)

    # -- last stage ------------------------------------------------------------------------------

    def _apply(self, m: Module, value: Beat) -> None:
        """Scale values, multiply and add operands, convert, and send the results."""
        config, run, lanes = self.config, self.run_apply, self.config.array.lanes
        needs_s = self.flag(lambda way: way.second, "needing_s")
        ready = run & (~needs_s | self.s_there)
        fire, heads = Signal(name="apply_fire"), {}
        for name in ("y", "p"):
            if not getattr(config, f"takes_{name}"):
                continue
            needs = self.flag(attrgetter(f"takes_{name}"), f"needing_{name}")
            heads[name], there = Signal(self.widths[name], name=f"{name}_head"), Signal()
            self._buffered(m, name, heads[name], there, fire & needs)
            ready = ready & (~needs | there)
        m.d.comb += [fire.eq(value.valid & ready), self.apply_ready.eq(ready)]
        if config.has_second:
            m.d.comb += [self.v_taken.eq(ready), self.s_taken.eq(fire & value.last & needs_s)]
        alone = self.flag(lambda way: way.last_only, "last_only")
        apart = named(m, "apart", value.last & (~value.end | alone))
        s = named(m, "scale_now", Mux(needs_s, self.s, self.c1))
        results, real = self._lanes(m, value, s, apart, heads)

        tokens = {"valid": fire, "end": value.end, "last": value.last, "apart": apart}
        cycles = config.apply_latency - 1
        tokens = self._later(m, "apply", tokens, cycles, run)
        late = Beat(results, tokens["end"], tokens["last"], tokens["valid"])
        width = config.output.width
        kept = []
        for lane in range(lanes):
            none = late.end & self.rest.any() & (self.rest <= lane) if lane else Const(0, 1)
            kept.append(Mux(none, 0, results.word_select(lane, width)))
        beat = named(m, "results", Cat(*kept))
        if lanes * width >= 32:
            beat = Mux(tokens["apart"], Cat(real, Const(0, lanes * width - 32)), beat)
        out = delayed(m, "out_beat", beat, 1, run)
        there = late.valid & (~alone | late.last)
        valid = delayed(m, "out_valid", there, 1, run, token=True)
        last = delayed(m, "out_last", late.last, 1, run)
        self._send(m, out, last, valid)

    def _lanes(
        self, m: Module, value: Beat, s: Value, apart: Value, heads: dict[str, Signal]
    ) -> tuple[Value, Value]:
        """Return the results of the lanes, and of the first one before it is rounded."""
        config, run, lanes = self.config, self.run_apply, self.config.array.lanes
        blocks = [ApplyLane(config), ApplyLane(config, odd=True)]
        width = config.output.width
        results, real = Signal(lanes * width, name="lane_results"), Signal(32, name="first_result")
        scaled = Signal(32 * lanes, name="lanes_scaled")
        flags = {
            **{f"factor_{n}": self.flag(going("factor", n), f"factor_{n}")
               for n in blocks[0].factors},
            **{f"term_{n}": self.flag(going("term", n), f"term_{n}")
               for n in blocks[0].terms},
        }  # fmt: skip
        turn = self.flag(lambda way: way.factor == "turn", "turning")
        for lane in range(lanes):
            v = value.data.word_select(lane, 32)
            factor = s
            if lane == 0:  # what goes apart passes the lane as it is: times one, plus nothing
                v, factor = Mux(apart, self.t, v), Mux(apart, ONE, s)
            ports: dict[str, Value] = {**flags}
            if "p" in heads:
                ports |= self._parameters(heads["p"], lane, turn)
            if "y" in heads:
                ports["y"] = heads["y"].word_select(lane, config.input.width)
            if blocks[0].turns:
                ports |= {"turn": turn, "scaled": scaled.word_select(lane, 32),
                          "other": scaled.word_select(lane ^ 1, 32)}  # fmt: skip
            odd = lane % 2 if blocks[0].turns else 0
            place(m, f"apply_{lane}", blocks[odd], run=run, v=v, s=factor,
                  o=results.word_select(lane, width),
                  o_real=real if lane == 0 else Signal(32, name=f"result_{lane}"),
                  **ports)  # fmt: skip
        return results, real

    def _parameters(self, head: Value, lane: int, turn: Value) -> dict[str, Value]:
        """Return the two numbers of port ``p`` for a lane."""
        config, lanes = self.config, self.config.array.lanes
        width = config.parameters.width
        p, q = head.word_select(lane, width), Const(0, width)
        if config.p_lanes > lanes:
            q = head.word_select(lanes + lane, width)
        if config.any_way(lambda way: way.factor == "turn"):
            pair = lane & ~1
            p = Mux(turn, head.word_select(pair, width), p)
            q = Mux(turn, head.word_select(pair + 1, width), q)
        return {"p": p, "q": q}

    def _send(self, m: Module, beat: Value, last: Value, valid: Value) -> None:
        """Put results, or the answer to what is refused, into the buffer of port ``out``."""
        width, room = self.widths["out"], Signal(name="out_room")
        m.d.comb += [
            self.run_apply.eq(~valid | room),
            self.emitted.eq(valid & room & last),
        ]
        with m.If(self.refusing & room):
            m.d.sync += self.refusing.eq(0)
        data = Signal(len(self.out.p.data), name="out_data")
        place(
            m, "out_buffer", StreamBuffer(width + 1),
            i_data=Mux(self.refusing, Const((2 << width) - 1, width + 1), Cat(beat, last)),
            i_valid=valid | self.refusing, i_ready=room,
            o_data=Cat(data[:width], self.out.p.last), o_valid=self.out.valid,
            o_ready=self.out.ready,
        )  # fmt: skip
        m.d.comb += self.out.p.data.eq(data)


__all__ = ["NOTHING", "VectorCore"]
