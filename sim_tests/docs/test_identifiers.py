# SPDX-License-Identifier: Apache-2.0
"""Identifiers use the terms of the glossary, and docstrings say what something is or does."""

from __future__ import annotations

import pytest

from sim_tests.docs.identifiers import (
    PACKAGES,
    avoided_words,
    is_avoided,
    of_source,
    of_verilog,
    question_openings,
    words,
)

SOURCE = of_source()


def test_words_of_identifiers() -> None:
    assert words("row_ofPlaces_2") == ["row", "of", "places"]
    assert words("AXIReadPath") == ["axi", "read", "path"]
    assert words("PlaceAndRouteJob") == ["job"]
    avoided = avoided_words()
    assert {"bill", "room", "kept", "place"} <= avoided.keys()
    assert is_avoided("kept_rows", "hwgen", avoided, verb=True)
    assert not is_avoided("place_block", "hwgen", avoided, verb=True)
    assert is_avoided("place_block", "hwgen", avoided, verb=False)
    assert is_avoided("short", "rtl_templates", avoided, verb=False)
    assert not is_avoided("short", "hwgen", avoided, verb=False)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_identifier_has_a_word_to_avoid(package: str) -> None:
    assert SOURCE.get(package, set()) == set()


@pytest.mark.slow
@pytest.mark.rotate(8)
def test_no_name_in_verilog_has_a_word_to_avoid() -> None:
    assert of_verilog() == set()


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    assert not question_openings(), "docstrings open with a question word"
