# SPDX-License-Identifier: Apache-2.0
"""Jobs of an engine around a stream core: where its rows lie, and what its registers then hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hwgen.core.schedule.memory import SIZE_BITS
from hwgen.errors import InputError
from hwgen.families.stream_engine.registers import ENTRY_BYTES, MOST_PAGES, STRIDE_BITS

if TYPE_CHECKING:
    from hwgen.core.schedule.memory import Access, CoreJob
    from hwgen.families.stream_engine.params import StreamEngineConfig

TAIL = "tail"
"""Where what follows the rows of results goes, beside the names of ports."""


def leaves_bytes(page_bytes: int, pages: int, skip: int, last: int) -> bool:
    """Return whether there are bytes of each page to be read; see `RowRegion`."""
    begins = skip if pages == 1 else 0
    return 0 <= skip < page_bytes and begins < last <= page_bytes


@dataclass(frozen=True)
class RowRegion:
    """Rows in memory.

    Parameters
    ----------
    address : int
        Byte address of the first row, of any alignment.
    row_bytes, rows, blocks, stride, step : int
        See `hwgen.core.schedule.memory.Access`.
    table : int
        Where a table of pages lies; 0: there is none.
    pages : tuple of int
        Where each page begins, in bytes behind the address; a block is a row, which is a page.
    skip, last : int
        Bytes of the first page that are skipped, and bytes of the last one up to which it is read.
    """

    address: int
    row_bytes: int
    rows: int = 1
    stride: int = 0
    blocks: int = 1
    step: int = 0
    table: int = 0
    pages: tuple[int, ...] = ()
    skip: int = 0
    last: int = 0

    @classmethod
    def paged(
        cls, address: int, page_bytes: int, pages: Sequence[int], table: int, **ends: int
    ) -> RowRegion:
        """Return the region of pages; `ends` are `skip` and `last`, by default whole pages."""
        result = {"skip": 0, "last": page_bytes, **ends}
        return cls(
            address, page_bytes, blocks=len(pages), table=table, pages=tuple(pages), **result
        )

    @classmethod
    def of(cls, access: Access, base: int) -> RowRegion:
        """Return the region of rows of an array that begins at `base`."""
        return cls(
            base + access.offset, access.row_bytes, access.rows, access.stride, access.blocks,
            access.step,
        )  # fmt: skip

    def spans(self) -> list[tuple[int, int]]:
        """Return the address and bytes of each row, in order; of pages the part that is read."""
        if not self.table:
            return [(address, self.row_bytes) for address in self.addresses()]
        starts = [self.skip, *[0] * (self.blocks - 1)]
        ends = [*[self.row_bytes] * (self.blocks - 1), self.last]
        return [
            (self.address + page + start, end - start)
            for page, start, end in zip(self.pages, starts, ends, strict=True)
        ]

    def addresses(self) -> list[int]:
        """Return the address of each row, in order; pages are `spans`."""
        return [
            self.address + block * self.step + row * self.stride
            for block in range(self.blocks)
            for row in range(self.rows)
        ]

    def entries(self, unit: int) -> bytes:
        """Return the table of pages, in units of so many bytes."""
        return b"".join((page // unit).to_bytes(ENTRY_BYTES, "little") for page in self.pages)

    def registers(self, name: str) -> dict[str, int]:
        """Return the register contents of a port, pages aside."""
        return {
            f"{name}_ADDRESS": self.address,
            f"{name}_BYTES": self.row_bytes,
            f"{name}_ROWS": self.rows,
            f"{name}_BLOCKS": self.blocks,
            f"{name}_STRIDE": self.stride,
            f"{name}_STEP": self.step,
        }


@dataclass(frozen=True)
class StreamJob:
    """One job of the core, in memory.

    Parameters
    ----------
    config : StreamEngineConfig
    commands : mapping of bytes
        The beats of ports that take one a job.
    regions : mapping of RowRegion
        Of each other port that the job uses, by name, and `TAIL`.
    after : bool
        Whether the job waits for all earlier ones, because it reads what one of them writes.

    Raises
    ------
    InputError
        If a number does not fit its register, or something lies outside the address space.
    """

    config: StreamEngineConfig
    commands: Mapping[str, bytes]
    regions: Mapping[str, RowRegion]
    after: bool = False

    def __post_init__(self) -> None:
        space = 1 << self.config.memory.address_width
        for name, region in self.regions.items():
            limits = {
                "row_bytes": SIZE_BITS, "rows": SIZE_BITS, "blocks": SIZE_BITS,
                "stride": STRIDE_BITS, "step": STRIDE_BITS,
            }  # fmt: skip
            for field, bits in limits.items():
                least = 0 if field in ("stride", "step") else 1
                if not least <= getattr(region, field) < 1 << bits:
                    raise InputError(
                        f"{name}.{field}: must be {least}..{(1 << bits) - 1}, not"
                        f" {getattr(region, field)}"
                    )
            if region.table:
                self._check_pages(name, region)
            end = max(map(sum, region.spans()))
            if region.address < 0 or end > space:
                raise InputError(
                    f"{name}.address: rows would end at {end:#x}, beyond the"
                    f" {self.config.memory.address_width} bits of an address"
                )

    def _check_pages(self, name: str, region: RowRegion) -> None:
        """Refuse pages that the hardware would not find."""
        unit = self.config.memory_bytes
        beats = {port.name: port.beat_bytes for port in self.config.tables}
        if name not in beats:
            raise InputError(
                f"{name}: its rows cannot lie in pages; name it in `paged` of the configuration"
            )
        if not leaves_bytes(region.row_bytes, region.blocks, region.skip, region.last):
            raise InputError(
                f"{name}: pages of {region.row_bytes} bytes cannot be read from byte {region.skip}"
                f" of the first to byte {region.last} of the last"
            )
        if region.blocks != len(region.pages) or region.blocks > MOST_PAGES:
            raise InputError(f"{name}.blocks: must be the number of pages, up to {MOST_PAGES}")
        for field in ("row_bytes", "skip", "last"):
            if getattr(region, field) % beats[name]:
                raise InputError(
                    f"{name}.{field}: must be a multiple of a beat, {beats[name]} bytes, in pages,"
                    f" not {getattr(region, field)}"
                )
        for page in region.pages:
            if page % unit or not 0 <= page // unit < 1 << 8 * ENTRY_BYTES:
                raise InputError(
                    f"{name}.pages: must lie multiples of {unit} bytes behind the address, the next"
                    f" {1 << 8 * ENTRY_BYTES} of them, not {page}"
                )
        end = region.table + ENTRY_BYTES * region.blocks
        if region.table % ENTRY_BYTES or end > 1 << self.config.memory.address_width:
            raise InputError(
                f"{name}.table: must be a multiple of {ENTRY_BYTES} below the end of the address"
                f" space, not {region.table:#x}"
            )

    @classmethod
    def of(
        cls,
        config: StreamEngineConfig,
        job: CoreJob,
        bases: Mapping[str, int],
        *,
        after: bool = False,
    ) -> StreamJob:
        """Return the job of a plan whose arrays begin at `bases`, by name."""
        regions = {name: RowRegion.of(each, bases[each.array]) for name, each in job.reads.items()}
        regions[config.results[0].name] = RowRegion.of(job.result, bases[job.result.array])
        if job.tail is not None:
            regions[TAIL] = RowRegion.of(job.tail, bases[job.tail.array])
        return cls(config, job.commands, regions, after)

    def moved(self, regions: Mapping[str, RowRegion]) -> StreamJob:
        """Return the same job with rows elsewhere."""
        return replace(self, regions={**self.regions, **regions})

    def registers(self) -> dict[str, int]:
        """Return the contents of the job window by register; addresses are whole numbers."""
        contents: dict[str, int] = {"JOB_FLAGS": int(self.after)}
        for port in self.config.commands:
            beat = self.commands[port.name]
            for word in range(-(-len(beat) // 4)):
                part = beat[4 * word : 4 * word + 4]
                contents[f"{port.name.upper()}_{word}"] = int.from_bytes(part, "little")
        nowhere = dict.fromkeys(RowRegion(0, 0).registers(""), 0)
        names = [port.name for port in (*self.config.operands, *self.config.results)]
        if self.config.results[0].tail_bytes:
            names.append(TAIL)
        for name in names:
            of_port = {f"{name.upper()}{key}": value for key, value in nowhere.items()}
            if name in self.regions:
                of_port = self.regions[name].registers(name.upper())
            contents |= of_port
        for port in self.config.tables:
            region = self.regions.get(port.name, RowRegion(0, 0))
            for key in ("table", "skip", "last"):
                contents[f"{port.name}_{key}".upper()] = getattr(region, key) if region.table else 0
        return contents

    def writes(self) -> list[tuple[int, int]]:
        """Return the writes to the job window: offset and contents of each register."""
        contents = self.registers()
        writes = []
        for register in self.config.job_interface.window:
            name, _, part = register.name.rpartition("_")
            if part in ("LOW", "HIGH"):
                value = contents[name] >> (32 * (part == "HIGH"))
            else:
                value = contents[register.name]
            writes.append((register.offset, value & 0xFFFFFFFF))
        return writes

    def register_values(self) -> dict[str, int]:
        """Return the contents of each register of the job window."""
        names = {register.offset: register.name for register in self.config.job_interface.window}
        return {names[offset]: value for offset, value in self.writes()}

    def written(self) -> list[tuple[int, int]]:
        """Return the rows that the job writes: address and bytes of each."""
        result = []
        for name in (self.config.results[0].name, TAIL):
            if name in self.regions:
                region = self.regions[name]
                result += [(address, region.row_bytes) for address in region.addresses()]
        return result
