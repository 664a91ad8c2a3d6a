# SPDX-License-Identifier: Apache-2.0
"""Tokens that are marked as bytes in a vocabulary of SentencePiece."""

from __future__ import annotations

from hwgen.models.files.sentencepiece import SentencePieceTokenizer


def test_a_token_that_is_marked_as_a_byte_and_is_none_is_text() -> None:
    tokens = ["<unk>", "<0x41>", "<0xsB>", "a"]
    document = {"tokens": tokens, "scores": [0.0] * 4, "types": [2, 6, 6, 1], "model": "llama"}
    tokenizer = SentencePieceTokenizer(document)
    assert tokenizer.decode_bytes([1, 2, 3]) == b"A<0xsB>a"
