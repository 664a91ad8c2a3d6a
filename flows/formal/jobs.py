# SPDX-License-Identifier: Apache-2.0
"""Properties of the job queue: a job that is accepted is answered, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value

from flows.formal.checker import Port
from flows.formal.registers import RegisterRules, write_probes


class JobChecker(RegisterRules):
    """Follows an arbitrarily chosen job from its submission through all consumers to its end.

    Parameters
    ----------
    ports : mapping
    queue : int
        Jobs that wait or run, at most.
    consumers : sequence of str
        In the order in which a job goes through them.
    faults : sequence of str
        Inputs that end all jobs.
    submit : int
        Offset of the register that submits.
    unfinished : int
        Code of the state of a job that has not ended.
    state_bits : int
        Bits of the code.
    window : mapping
        Bits of each register of the job window.
    descriptor : callable
        Returns the descriptor that the contents of these registers make.
    """

    def __init__(
        self,
        ports: Mapping[str, Port],
        queue: int,
        consumers: Sequence[str],
        faults: Sequence[str],
        submit: int,
        unfinished: int,
        state_bits: int,
        window: Mapping[str, int],
        descriptor: Callable[[dict[str, Signal]], Value],
    ) -> None:
        self.queue, self.consumers, self.faults = queue, consumers, faults
        self.submit, self.unfinished = submit, unfinished
        self.window, self.descriptor = window, descriptor
        bits, payload = queue.bit_length(), ports[f"{consumers[0]}_job_data"].width
        probes = {
            **{f"{name}_pointer": (f"{name}_pointer", bits) for name in ("submit", *consumers)},
            **{f"state_{slot}": (f"state_{slot}", state_bits) for slot in range(queue)},
            **self._memory(payload),
            "pending": ("pending", 2),
            "life": ("life_state", 2),
            "code": ("code", state_bits),
            "submitted": ("submitted", 32),
            "finished": ("finished", 32),
        }
        super().__init__(ports, {**probes, **write_probes(ports)})

    def _memory(self, payload: int) -> dict[str, tuple[str, int]]:
        """Return the nets that store jobs: a memory, or else the job window for a register."""
        if self.queue == 1:
            return {f"window_{name}": (f"job_{name.lower()}", bits)
                    for name, bits in self.window.items() if bits}  # fmt: skip
        words = {f"job_{slot}": (f"jobs.words[{slot}]", payload) for slot in range(self.queue)}
        return {**words, "new_job": ("jobs.w_data", payload)}

    def _new_job(self) -> Value:
        """Return the descriptor that is stored when a job is submitted."""
        if self.queue > 1:
            return self.probed["new_job"]
        nets = {name: self.probed[f"window_{name}"] if bits else Signal(0)
                for name, bits in self.window.items()}  # fmt: skip
        return self.descriptor(nets)

    def check(self, m: Module) -> None:
        """State the rules of submission, of each consumer, and of the end of jobs."""
        self.writes(m)
        self.write_lemmas()
        probe, queue, stop, flush = self.probed, self.queue, self["stop"], self["flush"]
        ready = {name: self[f"{name}_job_ready"] for name in self.consumers}
        valid = {name: self[f"{name}_job_valid"] for name in self.consumers}
        last = self.consumers[-1]
        accepted = Signal()
        m.d.comb += accepted.eq(
            self.answered & (self.address == self.submit // 4) & (self["bus_bresp"] == 0)
        )
        fault = Cat(self[name] for name in self.faults).any()
        # The effect of a cycle on the jobs is seen in the next one.
        claims, flushed = Signal(), Signal()
        m.d.sync += [claims.eq(ready[last] & ~stop & ~fault), flushed.eq(flush)]
        retired = Signal()
        m.d.comb += retired.eq(claims & ~stop)
        jobs, before = Signal(range(2 * queue)), Signal(range(2 * queue))
        m.d.comb += jobs.eq(Mux(flushed, 0, before - retired) + accepted)
        m.d.sync += before.eq(jobs)
        self._order(m, valid, ready, jobs, retired, flushed)
        self.require("no overflow", jobs <= queue, f"at most {queue} jobs are unfinished")
        self.require(
            "counted", (probe["submitted"] - probe["finished"])[:32] == jobs,
            "SUBMITTED less FINISHED is the number of unfinished jobs",
        )  # fmt: skip
        self._endings(m, fault, jobs, retired, flushed)
        self._follow(m, valid, jobs, before, accepted, retired, flushed)

    def _order(
        self,
        m: Module,
        valid: Mapping[str, Value],
        ready: Mapping[str, Value],
        jobs: Value,
        retired: Value,
        flushed: Value,
    ) -> None:
        """Count the jobs that each consumer has finished and the last one has not."""
        self.done: dict[str, Signal] = {}
        stop = self["stop"]
        for name in self.consumers:
            done = Signal(range(2 * self.queue), name=f"{name}_done")
            self.done[name] = done
            self.assume(
                f"{name} has a job", ~ready[name] | valid[name],
                f"{name} finishes only a job that it has",
            )  # fmt: skip
            if name == self.consumers[-1]:
                m.d.comb += done.eq(0)
                continue
            advances, counted = Signal(name=f"{name}_advances"), Signal.like(done)
            m.d.sync += advances.eq(ready[name] & ~stop)
            m.d.comb += done.eq(Mux(flushed, 0, counted + advances - retired))
            m.d.sync += counted.eq(done)
        for name, after in zip(self.consumers, self.consumers[1:], strict=False):
            self.assume(
                f"{name} before {after}",
                ~ready[after] | (self.done[name] + ready[name] > self.done[after]),
                f"{after} finishes a job not before {name} has",
            )
        for name in self.consumers:
            self.require(
                f"{name} has a job", valid[name] == (self.done[name] < jobs),
                f"{name} is offered exactly the jobs that it has not finished",
            )  # fmt: skip
        self.require(
            "alone", self["alone"] == (self.done[self.consumers[0]] == 0),
            "the first consumer is told whether its job is the oldest",
        )  # fmt: skip

    def _endings(
        self, m: Module, fault: Value, jobs: Value, retired: Value, flushed: Value
    ) -> None:
        """State how a fault ends all jobs, and that ends are reported."""
        stop, flush, busy, probe = self["stop"], self["flush"], self["busy"], self.probed
        failed, stopping, answered, many = Signal(), Signal(), Signal(), Signal()
        m.d.sync += [
            failed.eq(fault & ~stop),
            stopping.eq(stop & ~flush & busy),
            answered.eq(stop & ~flush & ~busy),
            many.eq(jobs != 0),
        ]
        self.require("fault stops", ~failed | (stop & ~flush), "an error stops the engine")
        self.require(
            "stop waits", ~stopping | (stop & ~flush), "it stops until every request is answered"
        )
        self.require(
            "stop ends", ~answered | (stop & flush), "then the flow of data is reset for one cycle"
        )
        self.require(
            "errors end jobs", ~flushed | ((jobs == 0) & ~stop), "then no job is unfinished"
        )
        self.require(
            "ends reported", (~retired | probe["pending"][0])
            & (~(flushed & many) | probe["pending"][1]),
            "the end of a job is pending as an interrupt",
        )  # fmt: skip
        if self.queue > 1:
            self.cover("an error ends two jobs", flush & (jobs == 2), "with two jobs in the queue")
        else:
            self.cover("an error ends a job", flush & (jobs == 1), "with one job in the queue")

    def _follow(
        self,
        m: Module,
        valid: Mapping[str, Value],
        jobs: Value,
        before: Value,
        accepted: Value,
        retired: Value,
        flushed: Value,
    ) -> None:
        """Follow an arbitrarily chosen job."""
        probe, queue = self.probed, self.queue
        new_job = Signal.like(self[f"{self.consumers[0]}_job_data"], name="new_job")
        m.d.sync += new_job.eq(self._new_job())
        chosen, followed, ahead = Signal(), Signal(), Signal(range(2 * queue))
        slot, descriptor = Signal(range(queue)), Signal.like(new_job)
        newest = (probe["submit_pointer"] - 1)[: len(slot)]
        m.d.comb += chosen.eq(accepted & ~followed & self.choose("chosen"))
        # As of this cycle, with the ends of the one before.
        now, position = Signal(), Signal.like(ahead)
        job, where = Signal.like(new_job), Signal.like(slot)
        ends = Signal()
        m.d.comb += [
            ends.eq(followed & (flushed | (retired & (ahead == 0)))),
            now.eq(chosen | (followed & ~ends)),
            position.eq(Mux(chosen, jobs - 1, ahead - retired)),
            job.eq(Mux(chosen, new_job, descriptor)),
            where.eq(Mux(chosen, newest, slot)),
        ]
        m.d.sync += [
            followed.eq(now), ahead.eq(position), descriptor.eq(job), slot.eq(where)
        ]  # fmt: skip
        for name in self.consumers:
            here = now & (self.done[name] == position)
            self.require(
                f"{name} job", ~here | (valid[name] & (self[f"{name}_job_data"] == job)),
                f"{name} is offered the chosen job once, after those before it, as submitted",
            )  # fmt: skip
        states = Array(probe[f"state_{each}"] for each in range(queue))
        state = states[where]
        self.require(
            "status unfinished", ~now | (state == self.unfinished),
            "JOB_STATUS of the chosen job is unfinished until it ends",
        )  # fmt: skip
        self.require(
            "status ended", ~(ends & ~(accepted & (newest == slot)))
            | (states[slot] != self.unfinished),
            "JOB_STATUS of the chosen job says how it ended",
        )  # fmt: skip
        self._lemmas(m, jobs, now, position, where, job)
        most = min(2, queue)
        self.cover(
            "a chosen job ends after another", ends & retired & (before == most), "jobs in order"
        )

    def _lemmas(
        self, m: Module, jobs: Value, now: Value, position: Value, where: Value, job: Value
    ) -> None:
        probe, queue = self.probed, self.queue
        submit = probe["submit_pointer"]
        stored = self[f"{self.consumers[0]}_job_data"]
        words = Array(probe.get(f"job_{slot}", stored) for slot in range(queue))
        last = probe[f"{self.consumers[-1]}_pointer"]
        pointers = (submit - last)[: len(submit)] == jobs
        for name in self.consumers:
            pointer = probe[f"{name}_pointer"]
            pointers = pointers & ((pointer - last)[: len(submit)] == self.done[name])
            pointers = pointers & (self.done[name] <= jobs)
        for name, after in zip(self.consumers, self.consumers[1:], strict=False):
            pointers = pointers & (self.done[after] <= self.done[name])
        self.require("lemma pointers", pointers, "pointers count jobs")
        self.require(
            "lemma job",
            ~now
            | (
                (position < jobs)
                & ((last + position)[: len(where)] == where)
                & (words[where] == job)
            ),
            "the chosen job is in its slot",
        )
        life, code = probe["life"], probe["code"]
        self.require(
            "lemma life", (life == 0) | ((life < 3) & (code != self.unfinished)),
            "the engine runs, or stops and ends jobs for a reason",
        )  # fmt: skip
        as_jobs = Cat(
            (probe[f"state_{slot}"] == self.unfinished) == ((slot - last)[: len(submit) - 1] < jobs)
            for slot in range(queue)
        )
        self.require("lemma states", as_jobs.all(), "the states are those of the jobs")
