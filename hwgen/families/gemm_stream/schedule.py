# SPDX-License-Identifier: Apache-2.0
"""Division of a product into blocks, and the reads, writes and cycles that follow.

A *block* of C, `mb` x `nb`, stays in the output buffer while its reduction goes over blocks of
`kb` terms of A and W; then it is written.  One loop over blocks of C is inside the other; a block
of A or W that the next step needs as well is not read again, so with the whole reduction in one
block the operand of the outer loop is read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from hwgen.core.post import PostSettings, element_bytes
from hwgen.core.post.records import RECORD_BYTES
from hwgen.core.register_map import FORMAT
from hwgen.core.registry import core_of
from hwgen.core.schedule.checks import check_operand
from hwgen.core.schedule.product import Product
from hwgen.core.schedule.stream import RAW_RESULTS
from hwgen.errors import InputError
from hwgen.families.gemm_stream.blocks import Blocks, Extent, choose, limits_of, reads
from hwgen.formats import Format
from hwgen.lazy import NDArray, np

if TYPE_CHECKING:
    from hwgen.core.loop_nest import Loops
    from hwgen.core.port import Beats
    from hwgen.families.gemm_stream.params import GemmStreamConfig


MAX_SIZE = (1 << 24) - 1
"""Largest M, K and N of a job."""


@dataclass(frozen=True)
class Block:
    """One step of a plan: a block of A times a block of W.

    Parameters
    ----------
    row, term, column : int
        Where it begins.
    m, k, n : int
        Rows, terms and columns, those of the edge blocks being what is left.
    m_tiles, k_tiles, n_tiles : int
        The same in tiles of the cores.
    loads_a, loads_w : bool
        Whether the block of A, of W, is read; else it is that of the step before.
    first, last : bool
        Whether the step begins, ends the reduction of its block of C.
    """

    row: int
    term: int
    column: int
    m: int
    k: int
    n: int
    m_tiles: int
    k_tiles: int
    n_tiles: int
    loads_a: bool
    loads_w: bool
    first: bool
    last: bool


@dataclass(frozen=True)
class Traffic:
    """Bytes that a plan moves over the memory port, and what no plan can do without.

    Parameters
    ----------
    activations, weights, parameters, results : int
        Bytes read of A, W and the parameters of the columns; bytes written of C.
    compulsory : int
        Bytes if everything is moved once.
    bound : int
        Lower bound for the buffers at hand: see `Plan.traffic`.
    """

    activations: int
    weights: int
    parameters: int
    results: int
    compulsory: int
    bound: int

    @property
    def total(self) -> int:
        """All bytes."""
        return self.activations + self.weights + self.parameters + self.results


@dataclass(frozen=True)
class Plan(Product):
    """One product on an engine, cut into blocks; see `Product` for its parameters.

    Parameters
    ----------
    record_bytes : int
        Bytes of parameters that are read for each column, 0 without.
    result_bytes : int
        Bytes of an element of C in memory, 0 for those of an accumulator.
    least_traffic : bool
        Whether blocks of A or of W may take all of their buffer: larger blocks, so fewer bytes,
        but the cores wait while such a block is loaded.
    """

    config: GemmStreamConfig
    record_bytes: int = field(default=0, kw_only=True)
    result_bytes: int = field(default=0, kw_only=True)
    least_traffic: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._check_reduction()
        super().__post_init__()
        for name, size in (("M", self.m), ("N", self.n)):
            if size > MAX_SIZE:
                raise InputError(f"{name} must be at most {MAX_SIZE}, not {size}")
        if not self.result_bytes:
            size = 4 if self.config.result.width <= 32 else 8
            object.__setattr__(self, "result_bytes", size)

    def _check_reduction(self) -> None:
        """Refuse a reduction that buffers cannot hold, of cores that sum blocks."""
        config = self.config
        if config.max_k < self.k <= config.compute.max_k:
            raise InputError(
                f"K = {self.k} is longer than the buffers hold, {config.stored_k}: sums of blocks"
                " are rounded, so a reduction stays whole; raise buffers.activation_kib and"
                " buffers.weight_kib"
            )

    # -- tiles and blocks ------------------------------------------------------------------

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Tiles of the cores along M, K and N."""
        c = self.config
        return -(-self.m // c.m_lanes), -(-self.k // c.k_lanes), -(-self.n // c.n_lanes)

    @cached_property
    def _chosen(self) -> Blocks:
        return choose(limits_of(self.config), self.extent, least_traffic=self.least_traffic)

    def cut(self, blocks: Blocks) -> Self:
        """Return the same product, cut as given and not as this module would."""
        plan = replace(self)
        plan.__dict__["_chosen"] = blocks
        return plan

    @property
    def extent(self) -> Extent:
        """Extent of the whole product."""
        return Extent(
            *self.tiles,
            rows=self.m,
            columns=self.n,
            c=self.m * self.n * self.result_bytes,
            a_row=self.activation_row_bytes,
            w_rows=self.weight_image_rows,
            w_row=self.weight_row_bytes,
            p=self.n * self.record_bytes,
        )

    @property
    def m_inner(self) -> bool:
        """Whether the loop over rows of blocks is inside that over columns of blocks."""
        return self._chosen.m_inner

    @property
    def a_whole(self) -> bool:
        """Whether a block of A takes all of its buffer."""
        return self._chosen.a_whole

    @property
    def w_whole(self) -> bool:
        """Whether a block of W takes all of its buffer."""
        return self._chosen.w_whole

    @property
    def block_tiles(self) -> tuple[int, int, int]:
        """Tiles of a block along M, K and N."""
        return self._chosen.m, self._chosen.k, self._chosen.n

    @property
    def block(self) -> tuple[int, int, int]:
        """Rows, terms and columns of a block."""
        c, (m, k, n) = self.config, self.block_tiles
        return m * c.m_lanes, k * c.k_lanes, n * c.n_lanes

    @property
    def blocks(self) -> tuple[int, int, int]:
        """Blocks along M, K and N."""
        m, k, n = (
            -(-all_ // each) for all_, each in zip(self.tiles, self.block_tiles, strict=True)
        )
        return m, k, n

    def steps(self) -> Iterator[Block]:
        """Yield the steps in the order in which the engine takes them."""
        sizes = [
            _cut(size, tiles, block, lanes)
            for size, tiles, block, lanes in zip(
                (self.m, self.k, self.n), self.tiles, self.block_tiles, self._lanes, strict=True
            )
        ]
        ms, ks, ns = sizes
        mb, kb, nb = self.block
        held_a = held_w = (-1, -1)
        pairs = (
            ((mi, ni) for ni in range(len(ns)) for mi in range(len(ms)))
            if self.m_inner
            else ((mi, ni) for mi in range(len(ms)) for ni in range(len(ns)))
        )
        for mi, ni in pairs:
            for ki in range(len(ks)):
                (m, mt), (k, kt), (n, nt) = ms[mi], ks[ki], ns[ni]
                yield Block(
                    mi * mb, ki * kb, ni * nb, m, k, n, mt, kt, nt,
                    held_a != (mi, ki), held_w != (ki, ni), ki == 0, ki == len(ks) - 1,
                )  # fmt: skip
                held_a, held_w = (mi, ki), (ki, ni)

    @property
    def _lanes(self) -> tuple[int, int, int]:
        return self.config.m_lanes, self.config.k_lanes, self.config.n_lanes

    # -- traffic ---------------------------------------------------------------------------

    @property
    def activation_row_bytes(self) -> int:
        """Bytes of a row of A."""
        c = self.config
        if c.in_blocks:  # whole tiles
            return self.tiles[1] * c.a_tile_bytes
        return self.k * c.activation_bytes

    @property
    def weight_row_bytes(self) -> int:
        """Bytes of a row of W, of its image, or of its columns."""
        c = self.config
        if c.loop_nest.weight_columns:
            return self.tiles[1] * c.w_tile_bytes
        if c.loop_nest.image:
            return self.tiles[2] * c.loop_nest.weight_beats * c.weight_beat
        return self.n * c.weight_bytes

    @property
    def weight_image_rows(self) -> int:
        """Rows of W, or of its image; its columns, where W lies column by column."""
        if self.config.loop_nest.weight_columns:
            return self.n
        return self.tiles[1] if self.config.loop_nest.image else self.k

    @cached_property
    def traffic(self) -> Traffic:
        """Bytes over the memory port.

        Notes
        -----
        The bound: everything moves at least once. Where no operand fits into the S elements that
        a chip holds, at least ``2 M K N / sqrt(S)`` elements of A and W move, less what S holds
        (Smith, Lowery, Langou and van de Geijn, arXiv 1702.02017, section 3). Sums of fewer than
        ``2 sqrt(S)`` products need not wait in S: S elements that are read, with the S that are
        there, complete ``S S / K K`` of them at most, and ``M K N K / S`` elements move. S are
        elements of the narrowest operand in all buffers, and in two tiles of each operand in the
        core: one in use, and one that is being loaded.
        """
        c, all_ = self.config, self.extent
        ms, ks, ns = self.blocks
        a_times, w_times = reads(self.m_inner, ms, ks, ns)
        compulsory = all_.a + all_.w + all_.c + all_.p
        b = c.buffers
        bits = min(c.activation.width, c.weight.width, c.result.width)
        m_lanes, k_lanes, n_lanes = self._lanes
        tiles = m_lanes * k_lanes + k_lanes * n_lanes + m_lanes * n_lanes
        capacity = (b.activation_kib + b.weight_kib + b.output_kib) * 8192 / bits + 2 * tiles
        element = min(all_.a / (self.m * self.k), all_.w / (self.k * self.n))
        reads_per_mac = min(2 / capacity**0.5, self.k / capacity)
        inner = (self.macs * reads_per_mac - 2 * capacity) * element
        smallest = min(self.m * self.k, self.k * self.n, self.m * self.n)
        bound = compulsory if smallest <= capacity else max(compulsory, int(inner) + all_.c)
        return Traffic(all_.a * a_times, all_.w * w_times, all_.p * ms, all_.c, compulsory, bound)

    # -- beats -----------------------------------------------------------------------------

    def beats(self, loops: Loops, block: Block) -> int:
        """Return the beats of a port for a step."""
        nest, beats = self.config.loop_nest, 1
        counts = {
            "rows": block.m,
            "row_tiles": block.m_tiles,
            "tile_rows": nest.m_lanes,
            "k_tiles": block.k_tiles,
            "k_beats": block.k_tiles * nest.k_beats,
            "weight_rows": block.k_tiles * nest.weight_rows,
            "column_tiles": block.n_tiles,
            "weight_beats": block.n_tiles * nest.weight_beats,
        }
        for count, _ in loops:
            beats *= counts[count]
        return beats

    @property
    def key(self) -> tuple[int, int]:
        """Bits of what memory has together of W, a key of an image or a block, and its weights."""
        c = self.config
        if c.in_blocks:
            return c.wgt_rows.item_bits, c.wgt_rows.item_terms
        port = next(port for port in c.compute.ports if port.name == "wgt")
        return port.lane_width, int(c.compute.array.group_size) if c.loop_nest.image else 1

    # -- memory ----------------------------------------------------------------------------

    def pack_activations(self, a: NDArray[np.integer]) -> Beats:
        """Return A, shape (m, k), as the bytes of its rows, shape (m, bytes)."""
        fmt: Format = self.config.activation
        check_operand("activations", a, (self.m, self.k), fmt)
        if self.config.in_blocks:
            return fmt.pack_lines(a, self.tiles[1] * self.config.k_lanes)
        return _bytes(a, fmt.dtype)

    def unpack_activations(self, rows: Beats) -> NDArray[Any]:
        """Return A, shape (m, k), from what `pack_activations` made."""
        fmt: Format = self.config.activation
        if self.config.in_blocks:
            return fmt.unpack_lines(rows, self.k)
        values: NDArray[Any] = rows.view(fmt.dtype.newbyteorder("<")).astype(fmt.dtype)
        return values

    def pack_weights(self, w: NDArray[np.integer]) -> Beats:
        """Return W, shape (k, n), as the bytes of its rows, or of its image's, in memory.

        Returns
        -------
        ndarray of uint8, shape (`weight_image_rows`, `weight_row_bytes`)
        """
        check_operand("weights", w, (self.k, self.n), self.config.weight)
        if self.config.in_blocks:
            fmt: Format = self.config.weight
            return fmt.pack_lines(w.T, self.tiles[1] * self.config.k_lanes)
        if not self.config.loop_nest.image:
            return _bytes(w, self.config.weight.dtype)
        c, (_, kt, nt) = self.config, self.tiles
        padded = np.full((kt * c.k_lanes, nt * c.n_lanes), c.weight.zero, w.dtype)
        padded[: self.k, : self.n] = w
        beats = self._core_plan(padded.shape).pack_weights(padded)
        cascade, blocks, planes = c.array.cascade, c.array.blocks, c.loop_nest.weight_beats
        beats = beats.reshape(kt, cascade, nt, blocks, planes, -1)
        return np.ascontiguousarray(beats.transpose(0, 2, 4, 1, 3, 5)).reshape(kt, -1)

    def unpack_weights(self, image: Beats) -> NDArray[np.integer]:
        """Return W, shape (k, n), from what `pack_weights` made, in any shape.

        Raises
        ------
        InputError
            If the number of bytes is not what `pack_weights` makes, or a value is not a weight.
        """
        rows, size = self.weight_image_rows, self.weight_row_bytes
        if image.size != rows * size:
            raise InputError(
                f"packed weights: must be {rows} x {size} = {rows * size} bytes (rows x bytes),"
                f" found {image.size}"
            )
        c = self.config
        if c.in_blocks:
            w = np.ascontiguousarray(c.weight.unpack_lines(image.reshape(rows, size), self.k).T)
        elif not c.loop_nest.image:
            dtype = c.weight.dtype.newbyteorder("<")
            w = np.ascontiguousarray(image).reshape(-1).view(dtype).reshape(self.k, self.n)
            w = w.astype(c.weight.dtype)
        else:
            _, kt, nt = self.tiles
            cascade, blocks, planes = c.array.cascade, c.array.blocks, c.loop_nest.weight_beats
            beats = image.reshape(kt, nt, planes, cascade, blocks, -1).transpose(0, 3, 1, 4, 2, 5)
            plan = self._core_plan((kt * c.k_lanes, nt * c.n_lanes))
            w = np.ascontiguousarray(plan.unpack_weights(beats)[: self.k, : self.n])
        check_operand("packed weights", w, (self.k, self.n), c.weight)
        return w

    def _core_plan(self, shape: tuple[int, ...]) -> Any:
        """Return the plan of a core for weights of a shape, whatever its `max_k`."""
        core = self.config.compute
        longest = max(core.max_k, shape[0])
        core = core.model_copy(update={"max_k": longest})
        return core_of(core).schedule(core_of(core).gemm(1, shape[0], shape[1]))


def _bytes(matrix: NDArray[Any], dtype: np.dtype[Any]) -> Beats:
    rows = np.ascontiguousarray(matrix.astype(dtype.newbyteorder("<")))
    return rows.view(np.uint8).reshape(matrix.shape[0], -1)


def _cut(size: int, tiles: int, block: int, lanes: int) -> list[tuple[int, int]]:
    """Return the elements and the tiles of each block along an axis."""
    return [
        (min(size - start * lanes, block * lanes), min(tiles - start, block))
        for start in range(0, tiles, block)
    ]


"""The plan of ``C[m,n] = A[m,k] . W[k,n]`` on the engine."""


if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

    JobEngine = GemmStreamConfig
    """Configuration of an engine whose jobs are products."""

__all__ = ["Job", "Plan", "plan_of", "weight_stride"]


@dataclass(frozen=True)
class Job:
    """One product in memory.

    Parameters
    ----------
    plan : Plan
        Its sizes and blocks; see `job_of`.
    a_address, w_address, c_address : int
        Byte addresses of the first elements of A, of W or its image, and of C; any alignment.
    p_address : int
        Byte address of the column records, if ``settings.columns``.
    a_stride, w_stride, c_stride : int, optional
        Bytes from one row to the next; by default rows follow each other.
    settings : PostSettings
        Post-processing.
    after : bool
        Whether the job waits for all earlier ones, because it reads what one of them writes.

    Raises
    ------
    InputError
        If the engine has no such post-processing, or something lies outside the address space,
        or rows overlap.
    """

    plan: Plan
    a_address: int
    w_address: int
    c_address: int
    p_address: int = 0
    a_stride: int | None = None
    w_stride: int | None = None
    c_stride: int | None = None
    settings: PostSettings = field(default=RAW_RESULTS)
    after: bool = False

    def __post_init__(self) -> None:
        config = self.plan.config
        self.settings.check(config.post_features)
        space = 1 << config.memory.address_width
        for name, (rows, row_bytes, stride, address) in self.regions.items():
            if rows > 1 and name == "C" and stride < row_bytes:
                raise InputError(
                    f"{name.lower()}_stride: must be at least the {row_bytes} bytes of a row, not"
                    f" {stride}"
                )
            if not 0 <= stride < 1 << 32:
                raise InputError(f"{name.lower()}_stride: must be 0..{(1 << 32) - 1}, not {stride}")
            end = address + (rows - 1) * stride + row_bytes
            if address < 0 or end > space:
                raise InputError(
                    f"{name.lower()}_address: {name} would end at {end:#x}, beyond the"
                    f" {config.memory.address_width} bits of an address"
                )

    @property
    def regions(self) -> dict[str, tuple[int, int, int, int]]:
        """Rows, bytes of a row, stride and address of A, W, C and, if needed, the records (P)."""
        plan = self.plan
        a, w = plan.activation_row_bytes, plan.weight_row_bytes
        c = plan.n * plan.result_bytes
        regions = {
            "A": (plan.m, a, a if self.a_stride is None else self.a_stride, self.a_address),
            "W": (
                plan.weight_image_rows,
                w,
                w if self.w_stride is None else self.w_stride,
                self.w_address,
            ),
            "C": (plan.m, c, c if self.c_stride is None else self.c_stride, self.c_address),
        }
        if self.settings.columns:
            size = plan.n * RECORD_BYTES
            regions["P"] = (1, size, size, self.p_address)
        return regions

    def registers(self) -> dict[str, int]:
        """Return the contents of the job window by register; addresses are whole numbers."""
        plan, config = self.plan, self.plan.config
        m, k, n = plan.tiles
        mbt, kbt, nbt = plan.block_tiles
        mb, kb, nb = plan.block
        stride = {name: values[2] for name, values in self.regions.items()}
        nest = config.loop_nest
        weight_rows = nb if nest.weight_columns else kbt if nest.image else kb
        flags = {
            "m_inner": plan.m_inner,
            "after": self.after,
            "a_whole": plan.a_whole,
            "w_whole": plan.w_whole,
            FORMAT: config.format_number,
        }
        return {
            "A_ADDRESS": self.a_address,
            "W_ADDRESS": self.w_address,
            "C_ADDRESS": self.c_address,
            "P_ADDRESS": self.p_address,
            "A_STRIDE": stride["A"],
            "W_STRIDE": stride["W"],
            "C_STRIDE": stride["C"],
            "M": plan.m,
            "N": plan.n,
            "K": plan.k,
            "MT": m,
            "NT": n,
            "KT": k,
            "MB": mb,
            "NB": nb,
            "KB": kb,
            "MBT": mbt,
            "NBT": nbt,
            "KBT": kbt,
            "A_M_STEP": mb * stride["A"],
            "W_K_STEP": weight_rows * stride["W"],
            "C_M_STEP": mb * stride["C"],
            "JOB_FLAGS": sum(
                flags[flag.name] << flag.offset for flag in config.job_interface.flags
            ),
            **self.settings.registers(config.result),
        }

    def writes(self) -> list[tuple[int, int]]:
        """Return the writes to the job window: offset and contents of each register."""
        contents = self.registers()
        writes = []
        for register in self.plan.config.job_interface.window:
            name, _, part = register.name.rpartition("_")
            if part in ("LOW", "HIGH"):
                value = contents[name] >> (32 * (part == "HIGH"))
            else:
                value = contents[register.name]
            writes.append((register.offset, value & 0xFFFFFFFF))
        return writes


def plan_of(
    config: GemmStreamConfig,
    m: int,
    k: int,
    n: int,
    settings: PostSettings = RAW_RESULTS,
    *,
    least_traffic: bool = False,
) -> Plan:
    """Return the plan of a product whose results are post-processed; see `Plan`."""
    records = RECORD_BYTES if settings.columns else 0
    size = element_bytes(settings.output, config.result)
    return Plan(
        config, m, k, n, record_bytes=records, result_bytes=size, least_traffic=least_traffic
    )


def weight_stride(plan: Plan) -> int:
    """Return the bytes from a row of weights in memory to the next: whole beats."""
    width: int = plan.config.memory_bytes
    return -(-plan.weight_row_bytes // width) * width
