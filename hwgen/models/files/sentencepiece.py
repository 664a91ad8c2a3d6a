# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of SentencePiece (Kudo and Richardson 2018, arXiv 1808.06226).

A text is written with U+2581 in place of blanks and cut into pieces of a vocabulary: by merging
neighbours, the piece of the highest score first (BPE), or as the pieces of the highest sum of
scores (unigram).  Characters that no piece has become bytes, or the unknown token.
"""

from __future__ import annotations

import heapq
import re
from functools import cached_property
from typing import Any

from hwgen.errors import InputError
from hwgen.models.files.tokenizer import any_of, encode_pieces, token_number

BLANK = "\u2581"

ALGORITHMS = {"llama": "bpe", "t5": "unigram"}
"""Algorithms by the names of tokenizers in GGUF files."""

_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = range(1, 7)  # types of tokens
_PENALTY = 10.0  # of an unknown character, below the lowest score
_MOST_PIECE = 1 << 10  # characters
_BYTE_PIECE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class SentencePieceTokenizer:
    """A tokenizer of a model.

    Parameters
    ----------
    document : dict
        Of `tokenizer.json`, as an import writes it: ``tokens``, their ``scores`` and ``types``.

    Attributes
    ----------
    tokens : list of str
    end : int or None
        Token that ends a text.
    begin : int or None
        Token that every text begins with, if there is one.
    chat_template : str

    Raises
    ------
    InputError
        If its parts do not fit, or it normalises texts.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._unigram = ALGORITHMS[str(document["model"])] == "unigram"
        if document.get("normalises"):
            raise InputError(
                "tokenizer: it normalises texts by a table of its own, which is not supported; save"
                " the tokenizer as tokenizer.json beside safetensors, or give tokens by number with"
                " --prompt-tokens"
            )
        tokens, scores = document.get("tokens"), document.get("scores")
        types = document.get("types")
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise InputError("tokenizer: tokens must be a list of texts")
        for name, values, kinds in (("scores", scores, (int, float)), ("types", types, (int,))):
            if (
                not isinstance(values, list)
                or len(values) != len(tokens)
                or not all(isinstance(value, kinds) for value in values)
            ):
                raise InputError(f"tokenizer: {name} must be {len(tokens)} numbers, one a token")
        assert scores is not None
        assert types is not None
        self.tokens: list[str] = tokens
        self._scores: list[float] = scores
        self._types: list[int] = types
        self._numbers = {
            token: number
            for number, (token, kind) in enumerate(zip(tokens, types, strict=True))
            if kind in (_NORMAL, _USER) and 0 < len(token) <= _MOST_PIECE
        }
        self._bytes = {
            token: number
            for number, token in enumerate(tokens)
            if types[number] == _BYTE and _BYTE_PIECE.fullmatch(token)
        }
        self._prefix = document.get("add_space") is not False
        self._strip = document.get("remove_blanks") is True
        self.end = token_number(document, "end", len(tokens))
        self._unknown = token_number(document, "unknown", len(tokens))
        begin = token_number(document, "begin", len(tokens))
        self.begin = begin if document.get("add_begin") is not False else None
        self.chat_template = str(document.get("chat_template", ""))

    # -- texts into tokens -----------------------------------------------------------------

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text.

        Parameters
        ----------
        text : str
            Bytes that are no UTF-8 are surrogates.
        special : bool
            Whether special tokens that stand in it are taken for these.

        Raises
        ------
        InputError
            If a character cannot be written by the model's tokens.
        """
        begin = [] if self.begin is None else [self.begin]
        return begin + encode_pieces(
            text, self._cut if special else None, self._special, self._plain
        )

    @cached_property
    def _special(self) -> dict[str, int]:
        """Control tokens, which stand for themselves in a text."""
        pairs = enumerate(zip(self.tokens, self._types, strict=True))
        return {token: number for number, (token, kind) in pairs if kind == _CONTROL and token}

    @cached_property
    def _cut(self) -> re.Pattern[str] | None:
        return any_of(self._special)

    @cached_property
    def _whole(self) -> re.Pattern[str] | None:
        """Pieces of the user, which are cut out before all others."""
        pairs = zip(self.tokens, self._types, strict=True)
        return any_of([token for token, kind in pairs if kind == _USER and token])

    def _plain(self, text: str) -> list[int]:
        """Return the tokens of a text without special ones."""
        if self._strip:
            text = re.sub(" +", " ", text.strip(" "))
        if not text:
            return []
        text = text.replace(" ", BLANK)
        if self._prefix:
            text = BLANK + text
        parts: list[tuple[str, bool]] = []
        at = 0
        for match in self._whole.finditer(text) if self._whole else ():
            parts += [(text[at : match.start()], False), (match[0], True)]
            at = match.end()
        parts.append((text[at:], False))
        result: list[int] = []
        unknown = False
        for piece in self._pieces([part for part in parts if part[0]]):
            numbers = self._token(piece)
            if numbers == [self._unknown] and unknown:
                continue  # neighbours that are unknown are one token
            unknown = numbers == [self._unknown]
            result += numbers
        return result

    def _token(self, piece: str) -> list[int]:
        """Return the token of a piece, or those of its bytes."""
        if piece in self._numbers:
            return [self._numbers[piece]]
        data = piece.encode("utf-8", "surrogateescape")
        numbers = [self._bytes.get(f"<0x{byte:02X}>") for byte in data]
        if all(number is not None for number in numbers):
            return [number for number in numbers if number is not None]
        if self._unknown is None:
            raise InputError(f"the model has no token for {piece!r:.20} of the text")
        return [self._unknown]

    def _pieces(self, parts: list[tuple[str, bool]]) -> list[str]:
        """Return the pieces of parts of a text, of which some stay whole."""
        if self._unigram:
            return [
                piece
                for part, whole in parts
                for piece in ([part] if whole else self._most_likely(part))
            ]
        symbols: list[str] = []
        fixed: list[bool] = []
        for part, whole in parts:
            symbols += [part] if whole else part
            fixed += [whole] * (len(symbols) - len(fixed))
        return self._merged(symbols, fixed)

    def _merged(self, symbols: list[str], fixed: list[bool]) -> list[str]:
        """Return symbols after merging neighbours, those of the highest score first."""
        count = len(symbols)
        following, before = [*range(1, count + 1)], [*range(-1, count - 1)]
        heap: list[tuple[float, int, str, int]] = []

        def offer(left: int) -> None:
            if left < 0 or following[left] >= count:
                return
            right = following[left]
            if fixed[left] or fixed[right]:
                return
            both = symbols[left] + symbols[right]
            number = self._numbers.get(both)
            if number is not None:
                heapq.heappush(heap, (-self._scores[number], left, both, right))

        for left in range(count - 1):
            offer(left)
        while heap:
            _, left, both, right = heapq.heappop(heap)
            if following[left] != right or symbols[left] + symbols[right] != both:
                continue  # one of them was merged before
            symbols[left], symbols[right] = both, ""
            following[left] = following[right]
            if following[left] < count:
                before[following[left]] = left
            following[right] = -1
            offer(before[left])
            offer(left)
        return [symbol for symbol in symbols if symbol]

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._numbers), default=1)

    def _most_likely(self, text: str) -> list[str]:
        """Return the pieces of the highest sum of scores."""
        lowest = min((self._scores[n] for n in self._numbers.values()), default=0.0) - _PENALTY
        best = [0.0] + [float("-inf")] * len(text)
        last = [0] * (len(text) + 1)
        for start in range(len(text)):
            for end in range(start + 1, min(len(text), start + self._longest) + 1):
                number = self._numbers.get(text[start:end])
                if number is None and end > start + 1:
                    continue
                score = best[start] + (lowest if number is None else self._scores[number])
                if score > best[end]:
                    best[end], last[end] = score, start
        result, end = [], len(text)
        while end:
            result.append(text[last[end] : end])
            end = last[end]
        return result[::-1]

    # -- tokens into texts -----------------------------------------------------------------

    def decode_bytes(self, tokens: list[int]) -> bytes:
        """Return the bytes that tokens stand for; special ones stand for themselves."""
        result = bytearray()
        for number in tokens:
            token = self.tokens[number] if 0 <= number < len(self.tokens) else ""
            if token in self._bytes:
                result.append(int(token[3:5], 16))
            else:
                result += token.replace(BLANK, " ").encode("utf-8", "surrogateescape")
        return bytes(result)

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens that follow others; other bytes become U+FFFD."""
        return self.decode_bytes(tokens).decode("utf-8", "replace")
