// SPDX-License-Identifier: Apache-2.0
// Sparse memory with 64-bit addresses, and what an access to it is answered.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

class Memory {
  public:
    void store(uint64_t address, const void* data, size_t bytes) {
        auto* from = static_cast<const uint8_t*>(data);
        while (bytes) {
            const size_t count = within_page(address, bytes);
            memcpy(page(address) + address % PAGE, from, count);
            address += count;
            from += count;
            bytes -= count;
        }
    }

    void load(uint64_t address, void* data, size_t bytes) {
        auto* to = static_cast<uint8_t*>(data);
        while (bytes) {
            const size_t count = within_page(address, bytes);
            memcpy(to, page(address) + address % PAGE, count);
            address += count;
            to += count;
            bytes -= count;
        }
    }

    /// Let the pages of a range exist: a beat may reach beyond what is asked for.
    void map(uint64_t address, uint64_t bytes) {
        if (bytes) mapped_.push_back({address & ~(PAGE - 1), (address + (bytes - 1)) | (PAGE - 1), 0});
    }

    void fault(uint64_t address, uint64_t bytes, int response) {
        if (bytes) faults_.push_back({address, address + (bytes - 1), response});
    }

    /// Response to an access of `bytes` bytes, at least 1, which do not cross a page.
    int response(uint64_t address, uint64_t bytes) const {
        const uint64_t end = address + (bytes - 1);
        for (auto range = faults_.rbegin(); range != faults_.rend(); ++range) {
            if (address <= range->last && range->first <= end) return range->response;
        }
        if (mapped_.empty()) return 0;
        for (const Range& range : mapped_) {
            if (range.first <= address && end <= range.last) return 0;
        }
        return 3;
    }

  private:
    static constexpr uint64_t PAGE = 4096;

    struct Range {
        uint64_t first, last;
        int response;
    };

    static size_t within_page(uint64_t address, size_t bytes) {
        const size_t room = PAGE - address % PAGE;
        return bytes < room ? bytes : room;
    }

    uint8_t* page(uint64_t address) {
        const uint64_t number = address / PAGE;
        if (!recent_ || number != recent_number_) {
            auto& found = pages_[number];
            if (!found) found.reset(new uint8_t[PAGE]());
            recent_ = found.get();
            recent_number_ = number;
        }
        return recent_;
    }

    std::unordered_map<uint64_t, std::unique_ptr<uint8_t[]>> pages_;
    uint8_t* recent_ = nullptr;
    uint64_t recent_number_ = 0;
    std::vector<Range> mapped_, faults_;
};
