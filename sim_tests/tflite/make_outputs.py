# SPDX-License-Identifier: Apache-2.0
"""Outputs of TensorFlow Lite networks by the reference kernels of LiteRT, for the tests.

``python -m sim_tests.tflite.make_outputs`` needs the package `ai-edge-litert`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from sim_tests.support.paths import ROOT
from sim_tests.tflite.lite_files import drawn, random_net

FOLDER = ROOT / "sim_tests" / "data" / "tflite"
NETWORKS = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "vww_96_int8")
"""The int8 networks of MLPerf Tiny."""

FRAMES = 4
RANDOM = 200


def interpreted(content: bytes, frames: int, seed: int) -> np.ndarray:
    """Return the outputs of some random frames."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # an optional dependency

    network = Interpreter(
        model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    network.allocate_tensors()
    (before,), (after, *_) = network.get_input_details(), network.get_output_details()
    result = []
    for frame in range(frames):
        network.set_tensor(before["index"], drawn(seed + frame, tuple(before["shape"])))
        network.invoke()
        result.append(network.get_tensor(after["index"]).copy())
    return np.stack(result)


def main() -> int:
    """Write the outputs."""
    outputs: dict[str, Any] = {}
    for name in NETWORKS:
        content = Path(FOLDER / f"{name}.tflite").read_bytes()
        outputs[name] = interpreted(content, FRAMES, 0)
    np.savez_compressed(FOLDER / "outputs.npz", **outputs)
    random: dict[str, Any] = {
        str(seed): interpreted(random_net(seed)[0], 1, seed)[0] for seed in range(RANDOM)
    }
    np.savez_compressed(FOLDER / "random_outputs.npz", **random)
    sys.stdout.write(f"{len(outputs)} networks and {len(random)} random ones\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
