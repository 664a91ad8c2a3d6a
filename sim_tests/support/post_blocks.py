# SPDX-License-Identifier: Apache-2.0
"""Simulation of post-processing with vectors of accumulators, settings and records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rtl_templates.post import Post
from sim_tests.support.post_vectors import Vectors
from sim_tests.support.stream_blocks import Streamed, run_stream


def run_post(vectors: Vectors, work: Path, **options: Any) -> Streamed:
    """Run vectors and fail if a result differs."""
    lanes = vectors.acc.shape[1]
    inputs = vectors.inputs(lanes)
    out = run_stream(Post(vectors.features, lanes), inputs, work, **options)
    assert not vectors.differences(out.outputs["o_data"])
    assert np.array_equal(out.outputs["o_count"], inputs["i_count"])
    assert np.array_equal(out.outputs["o_last"], inputs["i_last"])
    return out


def assert_full_rate(vectors: Vectors, work: Path) -> None:
    """Check that a word leaves in every cycle, after the latency that the block states."""
    report, (words, lanes) = run_post(vectors, work).report, vectors.acc.shape
    latency = Post(vectors.features, lanes).latency
    assert report["first_out"] - report["first_in"] == latency
    assert report["cycles"] == report["first_in"] + words + latency
