# SPDX-License-Identifier: Apache-2.0
"""Properties of a memory port that several managers share: nobody waits for ever."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from flows.formal.checker import Checker, Port


class ShareChecker(Checker):
    """Bursts are granted in rounds, and answers go to the managers that requested them.

    Parameters
    ----------
    ports : mapping
    managers : int
    outstanding : int
        Bursts in flight in each direction.
    ahead : bool
        Whether a manager is chosen a cycle before it is served.
    """

    def __init__(
        self, ports: Mapping[str, Port], managers: int, outstanding: int, *, ahead: bool = False
    ) -> None:
        self.managers, self.outstanding, self.ahead = managers, outstanding, ahead
        bits = (managers - 1).bit_length()
        address = max(1, (outstanding - 1).bit_length())
        probes: dict[str, tuple[str, int]] = {}
        for name in ("ar", "aw"):
            probes[f"{name}_last"] = (f"{name}_chosen" if ahead else f"{name}_last", bits)
            if ahead:
                probes[f"{name}_waits"] = (f"{name}_waits", 1)
                probes[f"{name}_served"] = (f"{name}_served", managers)
                probes[f"{name}_later"] = (f"{name}_after_chosen", managers)
        for name in ("r", "w", "b"):
            queue = f"{name}_order"
            probes |= {
                f"{name}_level": (f"{queue}.level", outstanding.bit_length()),
                f"{name}_produce": (f"{queue}.entries.w_addr", address),
                f"{name}_consume": (f"{queue}.entries.r_addr", address),
            }
            probes |= {
                f"{name}_word_{i}": (f"{queue}.entries.words[{i}]", bits)
                for i in range(outstanding)
            }
        super().__init__(ports, probes)

    def check(self, m: Module) -> None:
        """State that grants go round, and that the port goes on."""
        for channel in ("ar", "aw"):
            self._grants(m, channel)
            if self.ahead:
                self._ahead(m, channel)
        self._goes_on(m, *self._count(m))

    def _each(self, name: str) -> list[Value]:
        return [self[f"M{i}_{name}"] for i in range(self.managers)]

    def _moves(self, channel: str) -> list[Value]:
        pairs = zip(self._each(f"{channel}_valid"), self._each(f"{channel}_ready"), strict=True)
        return [valid & ready for valid, ready in pairs]

    def _grants(self, m: Module, channel: str) -> None:
        """Require that nobody is overtaken by the same manager twice."""
        asks, grants = self._each(f"{channel}_valid"), self._moves(channel)
        count, last = self.managers, self.probed[f"{channel}_last"]
        self.require(
            f"one {channel.upper()} at a time",
            ~Cat(a & b for i, a in enumerate(grants) for b in grants[i + 1 :]).any(),
            "one manager is granted at a time",
        )
        fair: list[Value] = []
        waiting: list[Value] = []
        for i, asking in enumerate(asks):
            others = Cat(grant for j, grant in enumerate(grants) if j != i).any()
            passed = Signal(range(count + 1), name=f"{channel}_passed_{i}")
            with m.If(~asking | grants[i]):
                m.d.sync += passed.eq(0)
            with m.Elif(others & (passed != count)):
                m.d.sync += passed.eq(passed + 1)
            fair.append(passed < count)
            # Managers between the last one that was granted and this one.
            before = Signal(range(count), name=f"{channel}_before_{i}")
            for number in range(count):
                with m.If(last == number):
                    m.d.comb += before.eq((i - number - 1) % count)
            if self.ahead:
                chosen = self.probed[f"{channel}_waits"] & (last == i)
                before_it = Mux(chosen, 0, before + self.probed[f"{channel}_waits"])
                waiting.append(passed + before_it < count)
            else:
                waiting.append(passed + before < count)
        self.require(
            f"{channel.upper()} in rounds", Cat(fair).all(),
            f"a manager that requests waits for no more than {count - 1} bursts of others",
        )  # fmt: skip
        self.require(
            f"lemma {channel} rounds", Cat(waiting).all() & (last < count), "grants go round"
        )

    def _ahead(self, m: Module, channel: str) -> None:
        """State what is known of the manager that is chosen; assume that requests stay."""
        asks, readies = self._each(f"{channel}_valid"), self._each(f"{channel}_ready")
        held = Signal(self.managers, name=f"{channel}_held")
        m.d.sync += held.eq(Cat(asks) & ~Cat(readies))
        self.assume(
            f"{channel.upper()} held", (held & ~Cat(asks)) == 0,
            "a manager requests until it is granted",
        )  # fmt: skip
        last, waits = (self.probed[f"{channel}_{name}"] for name in ("last", "waits"))
        one, later = Signal(self.managers, name=f"{channel}_one"), Const(0, self.managers)
        for i in range(self.managers):
            above = (1 << self.managers) - (2 << i)
            later = Mux(last == i, above, later)
            m.d.comb += one[i].eq(waits & (last == i))
        self.require(
            f"lemma {channel} chosen",
            (self.probed[f"{channel}_served"] == one)
            & (self.probed[f"{channel}_later"] == later)
            & ((one & ~Cat(asks)) == 0),
            "the manager that is chosen requests",
        )

    def _count(self, m: Module) -> list[Value]:
        """Return the numbers of bursts to be read, to be written and to be answered.

        The memory is assumed to answer only those; who gets answers is required.
        """
        r_last = self["mem_r_valid"] & self["mem_r_ready"] & self["mem_r_last"]
        w_last = self["mem_w_valid"] & self["mem_w_ready"] & self["mem_w_last"]
        most = range(2 * self.outstanding + 2)
        counts: list[Value] = []
        for name, channel, queue, ends in (
            ("reads", "ar", "r", r_last),
            ("writes", "aw", "w", w_last),
            ("answers", "aw", "b", self["mem_b_valid"] & self["mem_b_ready"]),
        ):
            counted = Signal(most, name=f"{name}_granted")
            m.d.sync += counted.eq(counted + Cat(self._moves(channel)).any() - ends)
            level = self.probed[f"{queue}_level"]
            self.require(f"lemma {name}", level == counted, "granted bursts are in a queue")
            counts.append(counted)
        for name in ("r", "w", "b"):
            self._queue(m, name)
        for channel, level in (("r", counts[0]), ("b", counts[2])):
            valid = self[f"mem_{channel}_valid"]
            self.assume(
                f"{channel.upper()} of bursts", ~valid | (level != 0),
                "the memory answers only bursts that were granted",
            )  # fmt: skip
            got = self._each(f"{channel}_valid")
            self.require(
                f"{channel.upper()} to one manager",
                (Cat(got).any() == valid)
                & ~Cat(a & b for i, a in enumerate(got) for b in got[i + 1 :]).any(),
                "an answer goes to exactly one manager",
            )
        return counts

    def _queue(self, m: Module, name: str) -> None:
        """State that a queue is a ring, and that its entries are numbers of managers."""
        probe, depth = self.probed, self.outstanding
        level, consume = probe[f"{name}_level"], probe[f"{name}_consume"]
        end = Signal(range(2 * depth), name=f"{name}_end")
        m.d.comb += end.eq(consume + level)
        good: Value = (level <= depth) & (consume < depth)
        good = good & (probe[f"{name}_produce"] == Mux(end >= depth, end - depth, end))
        for i in range(depth):
            after = Signal(range(2 * depth), name=f"{name}_after_{i}")
            m.d.comb += after.eq(Mux(consume <= i, i - consume, i + depth - consume))
            good = good & ((after >= level) | (probe[f"{name}_word_{i}"] < self.managers))
        self.require(f"lemma {name} queue", good, "the queue has numbers of managers")

    def _goes_on(self, m: Module, reads: Value, writes: Value, answers: Value) -> None:
        """Require that a request is granted unless memory or a manager does not answer."""
        for name, channel, levels in (("reads", "ar", (reads,)),
                                      ("writes", "aw", (writes, answers))):  # fmt: skip
            asks = Cat(self._each(f"{channel}_valid")).any()
            full = Cat(level == self.outstanding for level in levels).any()
            stalled = self[f"mem_{channel}_valid"] & ~self[f"mem_{channel}_ready"]
            chosen: Value = Const(1, 1)
            if self.ahead:
                waits, asked = self.probed[f"{channel}_waits"], Signal(name=f"{channel}_asked")
                m.d.sync += asked.eq(asks & ~waits)
                asks, chosen = waits, ~asked | waits
            self.require(
                f"{name} go on",
                (~asks | full | stalled | Cat(self._moves(channel)).any()) & chosen,
                "a burst is granted in each cycle with a request, unless the memory does not accept"
                " the one before, or as many as may be are in flight",
            )
        ready = self._each("r_ready")
        self.require(
            "answers go on",
            (~self["mem_r_valid"] | self["mem_r_ready"] | ~Cat(ready).all())
            & (~self["mem_b_valid"] | self["mem_b_ready"] | ~Cat(self._each("b_ready")).all())
            & (~Cat(self._each("w_valid")).all() | (writes == 0) | self["mem_w_valid"]),
            "answers and data are held up only by a manager that does not accept or send",
        )
        self.cover(
            "a manager waits for another",
            Mux(self["M0_aw_valid"] & self["M1_aw_valid"], self._moves("aw")[1], 0),
            "two managers write at once",
        )  # fmt: skip
