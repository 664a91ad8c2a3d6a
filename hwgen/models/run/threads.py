# SPDX-License-Identifier: Apache-2.0
"""Sums that do not depend on how many threads there are."""

from __future__ import annotations

from threadpoolctl import threadpool_limits


def one_thread() -> threadpool_limits:
    """Return a context in which products of matrices are computed by one thread.

    Their order of additions is otherwise another one with each number of threads, and what is
    rounded by such sums falls the other way here and there.
    """
    return threadpool_limits(limits=1, user_api="blas")
