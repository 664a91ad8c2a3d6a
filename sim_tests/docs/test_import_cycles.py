# SPDX-License-Identifier: Apache-2.0
"""No module imports itself through others; the layers are checked by ``make lint``."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

PACKAGES = ("hwgen", "rtl_templates", "cost_model", "flows", "sim_tests")


def test_there_are_no_import_cycles() -> None:
    """Imports for type checkers and imports inside functions count, too."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' <- '.join(error.args[1])}")
