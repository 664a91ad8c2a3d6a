# SPDX-License-Identifier: Apache-2.0
"""Sweeps: every configuration of a space by the cost model, and the ones that nothing beats.

`document` reads a sweep file into a `plan.Plan`; `engine` runs it; `table`, `results` and
`report` write what is left.  The cost model comes in as a function (`plan.Evaluate`).
"""
