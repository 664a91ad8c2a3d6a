# SPDX-License-Identifier: Apache-2.0
"""The technologies that come with hwgen: a data file each, and the costs measured in it beside it.

No code lies here; `hwgen.technologies` reads the files.
"""
