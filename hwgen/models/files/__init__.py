# SPDX-License-Identifier: Apache-2.0
"""Model files: GGUF, safetensors, tokenizers, and imported models on disk."""
