# SPDX-License-Identifier: Apache-2.0
"""Row operations as vector units carry them out, bit for bit.

Everything between input and output is in single precision, each operation rounded to nearest, ties
to even; functions are those of the configuration's units.  Blocks are turned by stages: the first
adds and subtracts neighbours, the next elements at distance 2, and so on; results are not scaled.
The order of a row's additions:

- *beat*: the lanes of a beat by a balanced tree, neighbours first; lanes behind the end of the row
  count as +0;
- *row*: beat `i` is added to partial sum `i mod n`, which starts from +0, with `n` the registers of
  an adder and one more (`VectorConfig.partial_sums`);
- *end*: the partial sums by a balanced tree, neighbours first; an odd one at the end moves up.

Of softmax in one pass, see `hwgen.families.vector.functions`, what a number is over, the largest
``k`` so far, stands beside it.  Before a beat is added to a partial sum, and before partial sums
are added up, they are rescaled to the larger ``k``.

The largest element does not depend on an order: a NaN is larger than anything, zeros are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hwgen.arithmetic.float_arithmetic import add, multiply
from hwgen.arithmetic.hadamard import in_stages
from hwgen.families.vector.functions import rescaled
from hwgen.families.vector.operations import CODES
from hwgen.families.vector.schedule import beats_of_row, constants
from hwgen.formats import NumberFormat
from hwgen.formats.floating import FLOATS
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Operation
    from hwgen.families.vector.operations import Datapath
    from hwgen.families.vector.params import VectorConfig

    Bits = NDArray[np.uint32]

REAL = FLOATS["fp32"]
NOTHING = 0x80000000
"""Minus zero, which leaves every number as it is when it is added."""

SMALLEST_NORMAL = 0x00800000

EXPONENTS = np.uint32(0x7F800000)
LARGEST_POWER = np.uint32(0x7F000000)
"""Bits of 2**127: the exponents of a power of two and of its inverse add up to its exponent."""

LEAST = 0xFF800000
"""Minus infinity."""


def operate(
    config: VectorConfig,
    operation: Operation,
    operands: Mapping[str, NDArray[Any]],
    scalars: Mapping[str, float],
) -> dict[str, NDArray[Any]]:
    """Return the results of a row operation by name.

    Parameters
    ----------
    config : VectorConfig
    operation : Operation
    operands : mapping of ndarray
        As the operation names them.
    scalars : mapping of float

    Raises
    ------
    InputError
        If operands or scalars do not fit the operation.
    """
    path = config.datapaths[operation.name]
    results = _operate(config, operation, operands, scalars)
    if not path.last_only:
        results["result"] = _narrow(config.output_of(path), results["result"])
    return results


def unrounded(
    config: VectorConfig,
    operation: Operation,
    operands: Mapping[str, NDArray[Any]],
    scalars: Mapping[str, float],
) -> NDArray[np.float64] | None:
    """Return the results of a row operation in single precision, before they are rounded.

    Parameters
    ----------
    config, operation, operands, scalars
        As of `operate`.

    Returns
    -------
    ndarray or None
        None if the results are positions.

    Raises
    ------
    InputError
        If operands or scalars do not fit the operation.
    """
    if config.datapaths[operation.name].last_only:
        return None
    return REAL.to_float64(_operate(config, operation, operands, scalars)["result"])


def _operate(
    config: VectorConfig,
    operation: Operation,
    operands: Mapping[str, NDArray[Any]],
    scalars: Mapping[str, float],
) -> dict[str, NDArray[Any]]:
    """Return the results of a row operation by name, the elements in single precision."""
    sizes = operation.check_operands(operands)
    scalar_values = operation.check_scalars(scalars)
    path = config.datapaths[operation.name]
    pair = np.array(constants(config, operation, sizes["length"], scalar_values), np.float32)
    lines = [operands[t.name] for t in operation.operands if t.port == "p"]
    numbers = np.stack(np.broadcast_arrays(*lines)) if lines else None
    return _computed(config, path, operands, pair.view(np.uint32), numbers)


def _computed(
    config: VectorConfig,
    path: Datapath,
    operands: Mapping[str, NDArray[Any]],
    pair: Bits,
    numbers: NDArray[Any] | None,
) -> dict[str, NDArray[Any]]:
    """Return the results of a datapath by name, the elements as bits of single precision.

    Parameters
    ----------
    config : VectorConfig
    path : Datapath
    operands : mapping of ndarray
        ``x`` and perhaps ``y`` and ``row_scales``.
    pair : ndarray of uint32, shape (2,)
        Bits of `c1` and `c2`.
    numbers : ndarray or None
        What port ``p`` gives: factors, then perhaps terms, each (length,) or (rows, length).
    """
    c1, c2 = pair[:, None]
    x = reals(config.input_of(path), operands["x"])
    if config.hadamard_size:  # elements of other operations pass it unchanged
        x = (
            _transform_blocks(x, config.hadamard_size)
            if path.hadamard
            else add(REAL, x, np.full_like(x, NOTHING))
        )
    a = _first(config, path.first, x)
    if path.last_only:
        return {"positions": a.astype(np.int32)}
    if path.mean:
        a = multiply(REAL, a, c1)
    if path.first == "max":  # of a row with nothing but minus infinity nothing is subtracted
        a = np.where(a == LEAST, np.uint32(0), a)
    v = x if not path.centred else add(REAL, x, a[:, None] ^ np.uint32(REAL.sign_mask))
    if path.value == "exp":
        v = _evaluated(config, "exp", v)
    elif path.value == "power":
        v, level = _powers(config, operands["x"])
    elif path.value == "gate":
        v = _gate(config, v)
    results = {}
    s: Bits = np.full(len(x), c1, np.uint32)
    if path.second:
        b = a
        if path.reads_r:
            b = reals(REAL, operands["row_scales"])
        elif path.second == "rescaled":
            b = row_sums(config, v, level)
        elif not path.direct:
            b = row_sums(config, multiply(REAL, v, v) if path.second == "squares" else v)
        t = multiply(REAL, b, c1)
        if path.tail:  # the reciprocal of a smaller scale is not finite
            tiny = (t & np.uint32(REAL.magnitude_mask)) < SMALLEST_NORMAL
            t = np.where(tiny & (b != 0), np.uint32(SMALLEST_NORMAL), t)
        if path.exponent:
            t = t & EXPONENTS
        u = add(REAL, t, c2) if path.epsilon else t
        s = _evaluated(config, path.scale, u) if path.evaluated else u
        if path.exponent:  # one over a power of two
            s = (LARGEST_POWER - t) & EXPONENTS
        if path.exponential:
            s = np.where(b == 0, np.uint32(0), s)
        if path.exponent:
            results["scales"] = (t >> np.uint32(REAL.mantissa_bits)).astype(np.uint8)
        elif path.tail:
            results["scales"] = REAL.decode(t)
    each = s[:, None]
    if path.second == "rescaled":
        each = rescaled(each, level[:, -1:] - level)
    o = multiply(REAL, v, each)
    parameters = [] if numbers is None else [reals(config.parameters, each) for each in numbers]
    if path.factor == "rotate":
        o = _rotate_pairs(o, np.broadcast_to(parameters[0], o.shape))
    else:
        if path.factor == "y":
            o = multiply(REAL, o, reals(config.input, operands["y"]))
        elif path.factor == "p":
            o = multiply(REAL, o, parameters[0])
        if path.term == "y":
            o = add(REAL, o, reals(config.input, operands["y"]))
        elif path.term == "p":
            o = add(REAL, o, parameters[1])
    return {"result": o, **results}


def respond(config: VectorConfig, beats: Mapping[str, NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Return the beats of results of a command, shape (count, bytes).

    Parameters
    ----------
    config : VectorConfig
    beats : mapping of ndarray of uint8, shape (count, bytes)
        Those of each input port; of ports that the operation does not use they are not looked at.

    Raises
    ------
    ValueError
        If the command is refused, or beats are missing or left over.
    """
    head = np.ascontiguousarray(beats["cmd"][0]).view("<u4")
    code, rows, length = (int(word) for word in head[:3])
    name = next((name for name in config.datapaths if CODES[name] == code), None)
    path = config.datapaths[name] if name is not None else None
    if path is None or not rows or not 1 <= length <= config.row_limit(path)[1]:
        raise ValueError(f"command {code} of {rows} rows of {length} is refused")
    if path.hadamard and length % config.hadamard_size:
        raise ValueError(f"rows of {length} are no whole blocks of {config.hadamard_size}; refused")
    ports = {port.name: config.port_of(path, port.name) for port in config.ports}
    steps = beats_of_row(config, length)
    words = -(-length // ports["x"].lanes)
    needs = {"x": words, "y": steps * path.reads_y, "p": steps * path.reads_p, "r": path.reads_r}
    for port, wanted in needs.items():
        if wanted and len(beats[port]) != rows * wanted:
            raise ValueError(f"{len(beats[port])} beats at port {port}, not {rows * wanted}")

    def elements(port: str) -> NDArray[Any]:
        return ports[port].unpack(beats[port]).reshape(rows, needs[port], -1)

    operands = {name: elements(name).reshape(rows, -1)[:, :length] for name in ("x", "y")
                if name == "x" or path.reads_y}  # fmt: skip
    if path.reads_r:
        operands["row_scales"] = ports["r"].unpack(beats["r"]).reshape(rows)
    numbers = None
    if path.reads_p:  # factors of the lanes, and behind them terms
        each = elements("p").reshape(rows, steps, -1, config.array.lanes).swapaxes(0, 2)
        numbers = each.swapaxes(1, 2).reshape(each.shape[0], rows, -1)[..., :length]
    result = _computed(config, path, operands, head[3:].astype(np.uint32), numbers)
    out, size = ports["out"], ports["out"].beat_bytes
    if path.last_only:
        image = np.zeros((rows, size), np.uint8)
        image[:, :4] = result["positions"].astype("<u4").view(np.uint8).reshape(rows, 4)
        return image
    made = -(-length // out.lanes)
    narrow = _narrow(config.output_of(path), result["result"])
    padded = np.zeros((rows, made * out.lanes), narrow.dtype)
    padded[:, :length] = narrow
    image = out.pack(padded.reshape(rows, made, out.lanes))
    if path.tail:
        tails = np.zeros((rows, 1, size), np.uint8)
        scales = result["scales"].astype("<u4" if path.exponent else "<f4")
        tails[:, 0, :4] = np.ascontiguousarray(scales).view(np.uint8).reshape(rows, 4)
        image = np.concatenate([image, tails], axis=1)
    return image.reshape(-1, size)


def reals(fmt: Any, values: NDArray[Any]) -> Bits:
    """Return numbers in single precision."""
    return REAL.encode(values)


def _transform_blocks(x: Bits, size: int) -> Bits:
    """Return blocks of elements times a Hadamard matrix, see `hwgen.arithmetic.hadamard`."""

    def sums(u: Bits, w: Bits) -> tuple[Bits, Bits]:
        return add(REAL, u, w), add(REAL, u, w ^ np.uint32(REAL.sign_mask))

    return in_stages(x, size, sums)


def row_sums(config: VectorConfig, v: Bits, level: NDArray[np.int64] | None = None) -> Bits:
    """Return the sums of rows, shape (rows,), added up in the order of the hardware.

    Parameters
    ----------
    config : VectorConfig
    v : ndarray of uint32, shape (rows, length)
    level : ndarray of int64, shape (rows, length), optional
        What numbers are over, as a power of two; it never falls along a row, and the sum is over
        the last one.
    """
    lanes, count = config.array.lanes, config.partial_sums
    steps = beats_of_row(config, v.shape[1])
    padded = np.zeros((len(v), steps * lanes), np.uint32)
    padded[:, : v.shape[1]] = v
    beats = _tree(padded.reshape(len(v), steps, lanes))
    partial = np.zeros((len(v), count), np.uint32)
    over = np.zeros((len(v), count), np.int64)
    for step in range(steps):
        total = partial[:, step % count]
        if level is not None:
            total = rescaled(total, level[:, step * lanes] - over[:, step % count])
            over[:, step % count] = level[:, step * lanes]
        partial[:, step % count] = add(REAL, total, beats[:, step])
    if level is not None:
        partial = rescaled(partial, level[:, -1:] - over)
    return _tree(partial)


def _powers(config: VectorConfig, x: NDArray[Any]) -> tuple[Bits, NDArray[np.int64]]:
    """Return exponentials over powers of two, and these, both of the shape of `x`.

    A power's exponent is the largest of the row up to the element's beat.
    """
    powers, lanes = config.powers, config.array.lanes
    raw = reals(config.input, x) if powers.converted else config.input.encode(x)
    power, own = powers.evaluate(raw)
    rows, length = x.shape
    padded = np.full((rows, beats_of_row(config, length) * lanes), powers.least)
    padded[:, :length] = own
    largest = padded.reshape(rows, -1, lanes).max(axis=2)
    level = np.repeat(np.maximum.accumulate(largest, axis=1), lanes, axis=1)[:, :length]
    return rescaled(power, level - own), level


def _tree(values: Bits) -> Bits:
    """Return the sums over the last axis by a balanced tree."""
    while values.shape[-1] > 1:
        pairs = values.shape[-1] // 2 * 2
        sums = add(REAL, values[..., :pairs:2], values[..., 1:pairs:2])
        values = np.concatenate([sums, values[..., pairs:]], axis=-1)
    return np.asarray(values[..., 0])


def _first(config: VectorConfig, reduction: str, x: Bits) -> Bits:
    """Return ``a`` of each row, shape (rows,)."""
    if not reduction:
        return np.zeros(len(x), np.uint32)
    if reduction == "sum":
        return row_sums(config, x)
    magnitudes = (x & np.uint32(REAL.magnitude_mask)).astype(np.int64)
    if reduction == "magnitude":
        return np.asarray(magnitudes.max(axis=1), np.uint32)
    keys = np.where(x >> np.uint32(31), -magnitudes, magnitudes)
    if reduction == "position":
        return np.asarray(keys.argmax(axis=1), np.uint32)
    largest = keys.max(axis=1)
    sign = np.where(largest < 0, REAL.sign_mask, 0)
    return np.asarray(np.abs(largest) | sign, np.uint32)


def _evaluated(config: VectorConfig, function: str, bits: Bits) -> Bits:
    result: Bits = config.functions[function].evaluate(bits).astype(np.uint32)
    return result


def _gate(config: VectorConfig, bits: Bits) -> Bits:
    if config.array.gate != "relu2":
        return _evaluated(config, config.array.gate, bits)
    positive = np.where(bits >> np.uint32(31), np.uint32(0), bits)
    return np.asarray(multiply(REAL, positive, positive))


def _rotate_pairs(o: Bits, angles: Bits) -> Bits:
    """Return pairs of neighbours rotated: (u c - w s, w c + u s)."""
    sign = np.uint32(REAL.sign_mask)
    cosines, sines = angles[:, ::2], angles[:, 1::2]
    even, odd = o[:, ::2], o[:, 1::2]
    result = np.empty_like(o)
    result[:, ::2] = add(REAL, multiply(REAL, even, cosines), multiply(REAL, odd, sines ^ sign))
    result[:, 1::2] = add(REAL, multiply(REAL, odd, cosines), multiply(REAL, even, sines))
    return result


def _narrow(fmt: NumberFormat, bits: Bits) -> NDArray[Any]:
    """Return results: rounded to nearest, ties to even; integers saturate, and a NaN gives 0."""
    return fmt.nearest(REAL.to_float64(bits))
