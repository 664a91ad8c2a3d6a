# SPDX-License-Identifier: Apache-2.0
"""Networks of TensorFlow Lite: their files, and what their operators become."""
