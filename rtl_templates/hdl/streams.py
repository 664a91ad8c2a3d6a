# SPDX-License-Identifier: Apache-2.0
"""Streams between blocks: their ports, their signals, and how they are connected.

A stream is an `amaranth.lib.stream.Interface`.  Each field of its payload is a signal of its own,
so that fields are ports of their own in the Verilog and are driven one by one:

==================================  ==================================================
member of a block                   ports of its module
==================================  ==================================================
``i: In(Signature(8))``             ``i_data``, ``i_valid``, ``i_ready``
``i: In(Signature(StructLayout))``  ``i_FIELD`` for each field, ``i_valid``, ``i_ready``
with ``always_ready=True``          without ``i_ready``
``mem: Out(wiring.Signature)``      the ports of each of its members, called ``mem_...``
==================================  ==================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from amaranth.hdl import (
    Cat,
    Const,
    Module,
    Shape,
    ShapeLike,
    Signal,
    Value,
    ValueCastable,
    ValueLike,
)
from amaranth.hdl._ast import Assign
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import Member, Out

DATA = "data"
"""Name of the port of a payload without fields."""


@dataclass(frozen=True)
class Stream:
    """A stream made of values, for a block whose stream is a part of another, or is gated.

    Parameters
    ----------
    payload, valid, ready : ValueLike
        Where the block drives `payload` and `valid`, or `ready`, they are signals.
    """

    payload: ValueLike
    valid: ValueLike
    ready: ValueLike = 1


AnyStream: TypeAlias = stream.Interface | Stream


class Fields(ValueCastable):
    """A payload made of values, its fields; each is an attribute.

    Parameters
    ----------
    layout : StructLayout
    parts : mapping
        Value of each field, the first in the least significant bits.
    """

    def __init__(self, layout: data.StructLayout, parts: Mapping[str, Value]) -> None:
        self._layout, self._parts = layout, parts

    def shape(self) -> data.StructLayout:
        """Return the layout."""
        return self._layout

    def as_value(self) -> Value:
        """Return all fields as one value."""
        return Cat(*self._parts.values())

    def eq(self, value: ValueLike) -> Assign:
        """Assign all fields."""
        return self.as_value().eq(value)

    def __getattr__(self, name: str) -> Value:
        try:
            return self._parts[name]
        except KeyError:
            raise AttributeError(
                f"the payload has no field {name!r}, only {', '.join(self._parts)}"
            ) from None


def fields(**values: ValueLike) -> Fields:
    """Return a payload made of values by name, the first in the least significant bits."""
    parts = {name: Value.cast(value) for name, value in values.items()}
    return Fields(data.StructLayout({name: len(part) for name, part in parts.items()}), parts)


def gated(source: AnyStream, condition: Value) -> Stream:
    """Return a stream that is valid only while a condition holds; its source's ready is as is."""
    return Stream(source.payload, source.valid & condition, source.ready)


def transfers(source: AnyStream) -> Value:
    """Return whether a beat is transferred in this cycle."""
    return source.valid & source.ready


def new_stream(name: str, shape: ShapeLike) -> stream.Interface:
    """Return a stream with signals of its own, called ``NAME_FIELD``."""
    return create(name, Out(stream.Signature(shape)))


def connect(m: Module, source: AnyStream, sink: AnyStream) -> None:
    """Let `source` drive `sink`; fields are matched by their place in the payload."""
    payload = Value.cast(source.payload)
    if len(payload) != len(Value.cast(sink.payload)):
        raise ValueError(
            f"a stream of {len(payload)} bits cannot drive one of {len(Value.cast(sink.payload))}"
        )
    shape = sink.payload.shape()
    if isinstance(shape, data.StructLayout):
        start = 0
        for name, field in shape.members.items():
            width = Shape.cast(field).width
            m.d.comb += getattr(sink.payload, name).eq(payload[start:][:width])
            start += width
    else:
        m.d.comb += Value.cast(sink.payload).eq(payload)
    m.d.comb += Value.cast(sink.valid).eq(source.valid)
    if not isinstance(ready := Value.cast(source.ready), Const):
        m.d.comb += ready.eq(sink.ready)


def ports_of(members: Mapping[str, Member]) -> dict[str, Member]:
    """Return the ports of members by name, all with plain shapes."""
    return {port: each for name, member in members.items() for port, each in _ports(name, member)}


def create(name: str, member: Member) -> object:
    """Return a signal for a member with a plain shape, else an interface made of signals."""
    signals = {
        port: Signal(each.shape, name=port, init=each.init or 0)
        for port, each in _ports(name, member)
    }
    return assemble(name, member, signals)


def assemble(name: str, member: Member, signals: Mapping[str, Value]) -> object:
    """Return a member made of the signals of its ports, by name."""
    if member.is_port:
        return signals[name]
    signature = _outward(member)
    interface = signature.create(path=(name,))
    if not isinstance(signature, stream.Signature):
        for inner, each in signature.members.items():
            setattr(interface, inner, assemble(f"{name}_{inner}", each, signals))
        return interface
    shape = signature.members["payload"].shape
    parts = {field: signals[f"{name}_{field}"] for field, _ in _fields(shape)}
    if isinstance(shape, data.StructLayout):
        interface.payload = Fields(shape, parts)
    elif parts:
        interface.payload = parts[DATA]
    if not signature.always_valid:
        interface.valid = signals[f"{name}_valid"]
    if not signature.always_ready:
        interface.ready = signals[f"{name}_ready"]
    return interface


def connections_of(name: str, member: Member, value: object) -> Iterator[tuple[str, Value]]:
    """Yield the name and the value of each port of a member that is connected to `value`.

    Raises
    ------
    TypeError
        If the value has no such part.
    ValueError
        If the width of a port is not that of its value.
    """
    if member.is_port:
        yield name, _of_width(name, value, Shape.cast(member.shape).width)
        return
    signature = _outward(member)
    if not isinstance(signature, stream.Signature):
        for inner, each in signature.members.items():
            yield from connections_of(f"{name}_{inner}", each, _part(value, inner, name))
        return
    shape = signature.members["payload"].shape
    payload = _part(value, "payload", name)
    whole = _of_width(name, payload, Shape.cast(shape).width)
    if isinstance(payload, Fields) and payload.shape() == shape:
        yield from ((f"{name}_{field}", getattr(payload, field)) for field in shape.members)
    else:
        start = 0
        for field, field_shape in _fields(shape):
            width = Shape.cast(field_shape).width
            yield f"{name}_{field}", whole if width == len(whole) else whole[start:][:width]
            start += width
    for handshake, always in (("valid", signature.always_valid), ("ready", signature.always_ready)):
        if not always:
            part = _part(value, handshake, name)
            yield f"{name}_{handshake}", _of_width(f"{name}_{handshake}", part, 1)


def _part(value: object, part: str, name: str) -> object:
    try:
        return getattr(value, part)
    except AttributeError:
        raise TypeError(f"{name!r} must be connected to a stream, not {value!r}") from None


def _of_width(name: str, value: object, width: int) -> Value:
    result = Value.cast(value)
    if len(result) != width:
        raise ValueError(f"port {name!r} is {width} bits wide, not {len(result)}")
    return result


def _outward(member: Member) -> wiring.Signature:
    """Return the signature of a member as it is declared, whichever way the member faces."""
    return member.signature if member.flow == Out else member.signature.flip()


def _fields(shape: ShapeLike) -> list[tuple[str, ShapeLike]]:
    """Return the names and the shapes of the ports of a payload, least significant first."""
    if isinstance(shape, data.StructLayout):
        return list(shape.members.items())
    return [(DATA, shape)] if Shape.cast(shape).width else []


def _ports(name: str, member: Member) -> Iterator[tuple[str, Member]]:
    if member.is_port:
        yield name, member
        return
    signature, flow = _outward(member), member.flow
    if isinstance(signature, stream.Signature):
        for field, shape in _fields(signature.members["payload"].shape):
            yield f"{name}_{field}", flow(shape)
        if not signature.always_valid:
            yield f"{name}_valid", flow(1)
        if not signature.always_ready:
            yield f"{name}_ready", flow.flip()(1)
        return
    for inner, each in signature.members.items():
        yield from _ports(f"{name}_{inner}", each if flow == Out else each.flip())
