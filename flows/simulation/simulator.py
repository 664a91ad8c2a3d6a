# SPDX-License-Identifier: Apache-2.0
"""Start the simulator; run as ``python -m flows.simulation.simulator REQUEST``.

A process of its own, because cocotb's runner waits without a limit and leaves the environment
changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(text: str) -> None:
    """Run the simulation that a JSON request describes."""
    from cocotb_tools.runner import get_runner

    request = json.loads(text)
    work = Path(request["work"]).resolve()
    get_runner("verilator").test(
        test_module=request["module"],
        hdl_toplevel=request["top"],
        hdl_toplevel_lang="verilog",
        build_dir=request["build_dir"],
        test_dir=work,
        results_xml=str(work / "results.xml"),
        seed=request["seed"],
        # Registers without a reset start at random: nothing may depend on how they start.
        plusargs=["+verilator+rand+reset+2", f"+verilator+seed+{request['seed'] + 1}"],
        waves=request["waves"],
    )


if __name__ == "__main__":
    main(sys.argv[1])
