# SPDX-License-Identifier: Apache-2.0
"""Import of ONNX networks."""
