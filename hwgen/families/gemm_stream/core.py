# SPDX-License-Identifier: Apache-2.0
"""The core of the GEMM streaming family: a memory engine that multiplies matrices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

from hwgen.core.core import CONTRACT, Core
from hwgen.core.cycles.basis import Cycles
from hwgen.core.cycles.unit_job import UnitJob
from hwgen.core.golden.integer import accumulated_product
from hwgen.core.golden.post import apply
from hwgen.core.lists.golden import Memory
from hwgen.core.memories import Buffer, Use
from hwgen.core.operation import RECORDS, Array, Arrays, Job
from hwgen.core.post.records import Columns
from hwgen.core.post.settings import PostSettings
from hwgen.core.registry import core_of
from hwgen.core.schedule.stream import RAW_RESULTS
from hwgen.families.gemm_stream.cycles.job import job_cycles
from hwgen.families.gemm_stream.cycles.registers import register_cycles
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.gemm_stream.schedule import Block, Plan, plan_of
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _totals(plan: Plan, a: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    """Return the product, shape (m, n), as the accumulators have it."""
    if not plan.config.in_blocks:
        return accumulated_product(plan, a, w)
    core = core_of(plan.config.compute)
    job = core.gemm(plan.m, plan.k, plan.n)
    return core.golden(job, {"activations": a, "weights": w})["result"]


Size = tuple[int, int, int]
"""M, K and N of one product."""


def _accesses(plan: Plan) -> dict[str, tuple[int, int]]:
    """Return the words that are read, and written, by buffer, of all its memories."""
    config, walk, traffic = plan.config, plan.config.loop_nest, plan.traffic
    result = Counter[str]()
    results = 0
    for block, steps in _steps(plan):
        result["activations"] += steps * plan.beats(walk.act, block) * config.act_banks
        result["weights"] += steps * plan.beats(walk.wgt, block) * config.wgt_banks
        results += steps * plan.beats(walk.out, block)
    if config.in_blocks:  # once for all parts of a reduction
        results //= plan.blocks[1]
    # All beats are written; those of all steps of a reduction but the first are added to what was
    # there; what the last one leaves is read once more.
    written = {"results": results}
    result["results"] = results
    for name, moved, rows in (
        ("activations", traffic.activations, config.act_rows),
        ("weights", traffic.weights, config.wgt_rows),
    ):
        written[name] = -(-moved // rows.word_bytes)
    return {name: (count, written[name]) for name, count in result.items()}


def _steps(plan: Plan) -> Iterator[tuple[Block, int]]:
    """Yield a step of each shape, with how many there are of it."""
    axes = []
    for tiles, each, whole, size in zip(
        plan.tiles, plan.block_tiles, plan.block, (plan.m, plan.k, plan.n), strict=True
    ):
        full, rest = divmod(tiles, each)
        if rest == 0:
            full, rest = full - 1, each  # the last block may be ragged within its last tile
        axes.append([(whole, each, full), (size - full * whole, rest, 1)])
    for (m, mt, ms), (k, kt, ks), (n, nt, ns) in product(*axes):
        if steps := ms * ks * ns:
            yield Block(0, 0, 0, m, k, n, mt, kt, nt, True, True, True, True), steps


def _products(jobs: Sequence[Job]) -> Counter[tuple[Size, PostSettings]]:
    """Count the different products of jobs."""
    return Counter((job.gemm_size, job.post or RAW_RESULTS) for job in jobs)


@dataclass(frozen=True)
class _Product:
    """A product on an engine, equal to others by the digest of its configuration.

    Parameters
    ----------
    digest : str
    size : tuple of int
        M, K and N.
    post : PostSettings
    config : GemmStreamConfig
    """

    digest: str
    size: Size
    post: PostSettings
    config: GemmStreamConfig = field(compare=False)


@lru_cache(maxsize=4096)
def _cycles(product: _Product) -> int:
    """Return the cycles of a product; lists of a model ask for each several times."""
    return job_cycles(plan_of(product.config, *product.size, product.post))


class GemmStreamCore(Core[GemmStreamConfig]):
    """A memory engine around cores that multiply."""

    contract = CONTRACT
    summary = "memory-to-memory engine around any core: AXI4, any matrix size, post-processing"
    params_class = GemmStreamConfig

    def schedule(self, job: Job, *, least_traffic: bool = False) -> Plan:
        """Return the sizes, blocks and traffic of a product from memory to memory."""
        post = job.post or RAW_RESULTS
        return plan_of(self.params, *job.gemm_size, post, least_traffic=least_traffic)

    def golden(self, job: Job, operands: Arrays) -> dict[str, Array]:
        """Return the product as the engine computes it."""
        a, w = operands["activations"], operands["weights"]
        total = _totals(Plan(self.params, a.shape[0], a.shape[1], w.shape[1]), a, w)
        if job.post is not None:
            job.post.check(self.params.post_features)
            columns = Columns.decode(operands[RECORDS]) if RECORDS in operands else None
            total = apply(job.post, self.params.result, total, columns)
        return {"result": total}

    def cycles(self, jobs: Sequence[Job], operands: Sequence[Arrays] | None = None) -> Cycles:
        """Return the cycles of jobs that run one after the other, each on an idle engine.

        Counted while a job is unfinished, as the counter BUSY does, with aligned rows and a memory
        that answers in the next cycle and never pauses.
        """
        digest = self.params.digest
        return Cycles(
            sum(
                times * _cycles(_Product(digest, size, post, self.params))
                for (size, post), times in _products(jobs).items()
            )
        )

    def _plans(self, jobs: Sequence[Job]) -> Iterator[tuple[Plan, int]]:
        """Yield the plan of each different product, and how often it is among the jobs."""
        for (size, post), times in _products(jobs).items():
            yield plan_of(self.params, *size, post), times

    def register_cycles(self, registers: Mapping[str, int]) -> UnitJob:
        """Return the cycles and traffic of a job, by the contents of its job window."""
        return register_cycles(self.params, registers)

    def execute(self, registers: Mapping[str, int], memory: Memory) -> None:
        """Compute the job that the contents of a job window describe, in a memory.

        Raises
        ------
        MemoryFault
            By the memory, if something is read or written that is not there.
        ValueError
            If results are post-processed: only accumulators are computed here.
        InputError
            If the sizes are none of a product.
        """
        raw = RAW_RESULTS.registers(self.params.result)
        if any(registers[name] != value for name, value in raw.items()):
            raise ValueError("results of this job are post-processed")
        plan = Plan(self.params.of_job(registers), registers["M"], registers["K"], registers["N"])

        def rows(name: str, count: int, size: int) -> NDArray[np.uint8]:
            address = registers[f"{name}_ADDRESS_LOW"] | registers[f"{name}_ADDRESS_HIGH"] << 32
            stride = registers[f"{name}_STRIDE"]
            parts = [memory.read(address + row * stride, size) for row in range(count)]
            return np.frombuffer(b"".join(parts), np.uint8).reshape(count, size)

        lanes = rows("A", plan.m, plan.activation_row_bytes)
        a = plan.unpack_activations(lanes)
        w = plan.unpack_weights(rows("W", plan.weight_image_rows, plan.weight_row_bytes))
        total = _totals(plan, a, w)
        image = np.ascontiguousarray(total.astype(total.dtype.newbyteorder("<")))
        address = registers["C_ADDRESS_LOW"] | registers["C_ADDRESS_HIGH"] << 32
        for row, values in enumerate(image):
            memory.write(address + row * registers["C_STRIDE"], values.tobytes())

    def buffers(self) -> tuple[Buffer, ...]:
        """Return the buffers, each as the memories of its RTL."""
        return tuple(
            Buffer(shape.name, shape.memories, shape.words, shape.width)
            for shape in self.params.buffer_shapes.values()
        )

    def memory_use(self, jobs: Sequence[Job]) -> Use:
        """Return the accesses of products to the buffers and to the memory port, by their plans.

        The buffer of column records is not among the buffers.
        """
        moved, accesses, writes = 0, Counter[str](), Counter[str]()
        for plan, times in self._plans(jobs):
            moved += times * plan.traffic.total
            for name, (read, written) in _accesses(plan).items():
                accesses[name] += times * (read + written)
                writes[name] += times * written
        return Use(moved, accesses, writes)

    def weight_bytes(self, size: Size) -> int:
        """Return the bytes of the weights of a product in memory, each read once."""
        return Plan(self.params, *size).extent.w
