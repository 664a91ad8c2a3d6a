# SPDX-License-Identifier: Apache-2.0
"""Models: networks read from files, described by operations of accelerators.

A model is a directory: `model.json`, the description (`hwgen.models.graph.description`),
`weights.bin`, the numbers it refers to, and `tokenizer.json` if the file had one.  Everything
behind the import works on that directory alone, whatever the file was.
"""
