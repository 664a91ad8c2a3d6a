// SPDX-License-Identifier: Apache-2.0
// Commands of the model of DDR4 for accesses: from stdin its sizes and times, the clocks of a cycle,
// and for each access address, whether it writes, and cycle; prints the cycle after each.
#include <cstdio>

#include "ddr4.h"

int main() {
    hwgen_ddr4 times{};
    auto* values = reinterpret_cast<uint32_t*>(&times);
    for (size_t i = 0; i < sizeof times / sizeof *values; ++i) {
        if (scanf("%u", values + i) != 1) return 1;
    }
    double clocks;
    if (scanf("%lf", &clocks) != 1) return 1;
    Ddr4 ddr4(times, clocks, true);
    unsigned long long address, cycle;
    int write;
    while (scanf("%llu %d %llu", &address, &write, &cycle) == 3) {
        printf("%llu\n", static_cast<unsigned long long>(ddr4.access(address, write, cycle)));
    }
    for (const auto& each : ddr4.commands) {
        printf("%lld %d %u %u\n", static_cast<long long>(each.clock), each.code, each.bank, each.value);
    }
}
