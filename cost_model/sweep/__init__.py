# SPDX-License-Identifier: Apache-2.0
"""Sweeps: every configuration of a space by the cost model, and the Pareto-optimal ones.

`document` reads a sweep file into a `plan.Plan`; `engine` runs it; `table` and
`output` write its results.  The cost model comes in as a function (`plan.Evaluate`).
"""
