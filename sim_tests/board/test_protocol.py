# SPDX-License-Identifier: Apache-2.0
"""Frames: every bit that is wrong is noticed, and garbage costs no frame after it."""

from __future__ import annotations

from binascii import crc_hqx

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwgen.board.protocol import CRC_START, REQUEST, RESPONSE, Frame, Identity, Parser, Status

FRAMES = st.builds(
    Frame, st.integers(0, 255), st.integers(0, 255), st.binary(max_size=255)
)  # fmt: skip


def test_the_crc_is_that_of_the_check_value() -> None:
    # "123456789" has the CRC 0x29B1.
    assert crc_hqx(b"123456789", CRC_START) == 0x29B1
    assert Frame(0x10, 1).encode() == bytes([REQUEST, 0x10, 1, 0, 0xBC, 0xCE])


# Examples are drawn as slowly as a loaded machine lets them.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(FRAMES, max_size=4), st.integers(1, 9))
def test_frames_in_pieces(frames: list[Frame], size: int) -> None:
    data = b"".join(frame.encode(RESPONSE) for frame in frames)
    parser, found = Parser(RESPONSE), []
    for at in range(0, len(data), size):
        found += parser.feed(data[at : at + size])
    assert found == frames


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(FRAMES, st.data())
def test_a_wrong_bit_is_noticed(frame: Frame, data: st.DataObject) -> None:
    sent = bytearray(frame.encode(RESPONSE))
    bit = data.draw(st.integers(0, 8 * len(sent) - 1))
    sent[bit // 8] ^= 1 << bit % 8
    assert frame not in Parser(RESPONSE).feed(sent)


def test_garbage_before_a_frame_is_skipped() -> None:
    frame = Frame(0, 7, b"abc")
    assert Parser(RESPONSE).feed(b"\x00\x5a\x5a\x00\x01\x00junk" + frame.encode(RESPONSE)) == [
        frame
    ]


def test_identity_and_status_survive_encoding() -> None:
    identity = Identity(1, bytes(range(8)), 512, (4, 300, 16))
    assert Identity.decode(identity.encode()) == identity
    status = Status(True, 1, 2, 3, 4, 500, (512, 0))
    assert Status.decode(status.encode()) == status
    for broken in (b"", b"HWGM" + identity.encode()[4:], identity.encode()[:-1]):
        with pytest.raises(ValueError, match="identity"):
            Identity.decode(broken)
    with pytest.raises(ValueError, match="no status"):
        Status.decode(b"\x00" * 6)
