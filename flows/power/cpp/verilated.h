// SPDX-License-Identifier: Apache-2.0
// What the simulation harnesses include of Verilator; see gates.h.
#pragma once
#include "gates.h"
