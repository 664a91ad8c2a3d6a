// SPDX-License-Identifier: Apache-2.0
#include "axi.h"

#include <algorithm>
#include <cstdio>

namespace {

constexpr uint64_t BOUNDARY = 4096;
constexpr uint64_t INCREMENTING = 1;

std::string hexadecimal(uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

void complain(std::string& message, const std::string& text) {
    if (message.empty()) message = text;  // the first is the cause
}

}  // namespace

void AxiMemory::wrong(std::string& message, const char* channel, const std::string& what) const {
    complain(message, std::string(p_.name) + ", " + channel + ": " + what);
}

AxiMemory::Burst AxiMemory::burst(const Wire& id, const Wire& address, const Wire& len,
                                  const Wire& size, const Wire& kind, const char* channel,
                                  std::string& message) const {
    const Burst found{id.get(), address.get(), len.get() + 1, 0, 0, {}};
    const std::string where = " (address " + hexadecimal(found.address) + ", " +
                              std::to_string(found.beats) + " beats)";
    if (kind.get() != INCREMENTING) wrong(message, channel, "a burst is not INCR" + where);
    if (p_.beat_bytes >> size.get() != 1) {
        wrong(message, channel, "beats are not as wide as the bus" + where);
    }
    if (found.beats > behaviour_.longest_burst) {
        wrong(message, channel, "a burst is longer than allowed" + where);
    }
    const uint64_t first = found.address - found.address % p_.beat_bytes;
    if (first % BOUNDARY + found.beats * p_.beat_bytes > BOUNDARY) {
        wrong(message, channel, "a burst crosses 4 KiB" + where);
    }
    return found;
}

/// Set when the beats of a burst are due.
void AxiMemory::time_read(Burst& burst, uint64_t now) {
    burst.due = now + behaviour_.read_latency;
    if (!ddr4) return;
    const uint64_t line = ddr4->line_bytes();
    const uint64_t first = burst.address / line;
    const uint64_t at = burst.address - burst.address % p_.beat_bytes;
    const uint64_t last = (at + burst.beats * p_.beat_bytes - 1) / line;
    for (uint64_t i = first; i <= last; ++i) {
        burst.later.push_back(ddr4->access(i * line, false, now) + behaviour_.read_latency);
    }
    std::reverse(burst.later.begin(), burst.later.end());
    burst.due = burst.later.back();
    burst.later.pop_back();
}

void AxiMemory::write(const uint8_t* data, const uint8_t* strobe, bool last, uint64_t now,
                      std::string& message) {
    Burst& head = writes_.front();
    const uint64_t at = head.address - head.address % p_.beat_bytes;
    const int response = memory_.response(at, p_.beat_bytes);
    if (response > head.response) head.response = response;
    for (size_t i = 0; i < p_.beat_bytes; ++i) {
        if (!(strobe[i / 8] >> i % 8 & 1)) continue;
        if (at + i < head.address) {
            wrong(message, "W", "a strobe below the first address " + hexadecimal(head.address));
        }
        ++traffic.write_bytes;
        if (!response) memory_.store(at + i, data + i, 1);
    }
    ++traffic.write_beats;
    head.address = at + p_.beat_bytes;
    --head.beats;
    if (ddr4 && (!head.beats || last || !(head.address % ddr4->line_bytes()))) {
        head.due = ddr4->access(at, true, now);
    }
    if (last != !head.beats) {
        wrong(message, "W", last ? "wlast before the last beat" : "the last beat has no wlast");
        head.beats = 0;
    }
    if (!head.beats) {
        const uint64_t written = std::max(now, head.due);
        responses_.push_back({head.id, written + behaviour_.write_latency, head.response});
        writes_.pop_front();
    }
}

void AxiMemory::sample(uint64_t now, std::string& message) {
    const bool ar = p_.arvalid.get(), aw = p_.awvalid.get(), w = p_.wvalid.get();
    const bool ar_ready = p_.arready.get(), aw_ready = p_.awready.get(), w_ready = p_.wready.get();
    if (auto* what = read_address_.check(ar, ar_ready)) wrong(message, "AR", what);
    if (auto* what = write_address_.check(aw, aw_ready)) wrong(message, "AW", what);
    if (auto* what = write_data_.check(w, w_ready)) wrong(message, "W", what);

    r_taken_ = p_.rvalid.get() && p_.rready.get();
    if (r_taken_) {
        Burst& head = reads_.front();
        head.address = head.address - head.address % p_.beat_bytes + p_.beat_bytes;
        ++traffic.read_beats;
        if (ddr4 && !head.later.empty() && !(head.address % ddr4->line_bytes())) {
            head.due = head.later.back();
            head.later.pop_back();
        }
        if (!--head.beats) reads_.pop_front();
    }
    b_taken_ = p_.bvalid.get() && p_.bready.get();
    if (b_taken_) responses_.pop_front();
    if (ar && ar_ready) {
        reads_.push_back(
            burst(p_.arid, p_.araddr, p_.arlen, p_.arsize, p_.arburst, "AR", message));
        time_read(reads_.back(), now);
        ++traffic.read_bursts;
    }
    if (aw && aw_ready) {
        writes_.push_back(
            burst(p_.awid, p_.awaddr, p_.awlen, p_.awsize, p_.awburst, "AW", message));
        ++traffic.write_bursts;
    }
    while (!early_.empty() && !writes_.empty()) {
        const Beat beat = std::move(early_.front());
        early_.pop_front();
        write(beat.data.data(), beat.strobe.data(), beat.last, now, message);
    }
    if (w && w_ready) {
        auto* data = static_cast<const uint8_t*>(p_.wdata.at);
        auto* strobe = static_cast<const uint8_t*>(p_.wstrb.at);
        if (writes_.empty()) {
            early_.push_back({{data, data + p_.beat_bytes},
                              {strobe, strobe + (p_.beat_bytes + 7) / 8},
                              p_.wlast.get() != 0});
        } else {
            write(data, strobe, p_.wlast.get(), now, message);
        }
    }
}

void AxiMemory::drive(uint64_t now) {
    // A beat or a response that waits is not touched.
    if (r_taken_) p_.rvalid.set(0);
    if (b_taken_) p_.bvalid.set(0);
    if (!p_.rvalid.get() && !reads_.empty() && reads_.front().due <= now &&
        !stalls_.idle(behaviour_.read_stalls)) {
        const Burst& head = reads_.front();
        const uint64_t at = head.address - head.address % p_.beat_bytes;
        const int response = memory_.response(at, p_.beat_bytes);
        if (response) {
            memset(p_.rdata.at, 0, p_.rdata.bytes);
        } else {
            memory_.load(at, p_.rdata.at, p_.beat_bytes);
        }
        p_.rid.set(head.id);
        p_.rresp.set(static_cast<uint64_t>(response));
        p_.rlast.set(head.beats == 1);
        p_.rvalid.set(1);
    }
    if (!p_.bvalid.get() && !responses_.empty() && responses_.front().due <= now &&
        !stalls_.idle(behaviour_.write_stalls)) {
        const Response& head = responses_.front();
        p_.bid.set(head.id);
        p_.bresp.set(static_cast<uint64_t>(head.response));
        p_.bvalid.set(1);
    }
    const uint32_t room = behaviour_.outstanding;
    p_.arready.set(reads_.size() < room && !stalls_.idle(behaviour_.read_stalls));
    p_.awready.set(writes_.size() + responses_.size() < room &&
                   !stalls_.idle(behaviour_.write_stalls));
    p_.wready.set(early_.size() < 256 && !stalls_.idle(behaviour_.write_stalls));
}

void AxiLiteMaster::wrong(std::string& message, const char* what) const {
    complain(message, std::string(p_.name) + ", " + what);
}

void AxiLiteMaster::sample(std::string& message) {
    const bool b = p_.bvalid.get(), r = p_.rvalid.get();
    const bool b_ready = p_.bready.get(), r_ready = p_.rready.get();
    if (write_answer_.check(b, b_ready)) wrong(message, "B: a waiting response changed");
    if (read_answer_.check(r, r_ready)) wrong(message, "R: a waiting response changed");
    const Wire &address = reading_ ? p_.arvalid : p_.awvalid,
               &address_ready = reading_ ? p_.arready : p_.awready;
    // An answer may come once address and data are taken, not in the cycle in which they are.
    const bool asked = answer_left_ && !address_left_ && !data_left_;
    if ((b && (reading_ || !asked)) || (r && (!reading_ || !asked))) {
        wrong(message, b ? "B: a response to no write" : "R: a response to no read");
    }
    if (address.get() && address_ready.get()) address_left_ = false;
    if (p_.wvalid.get() && p_.wready.get()) data_left_ = false;
    if (reading_ ? r && r_ready : b && b_ready) {
        answer_left_ = false;
        response_ = static_cast<int>((reading_ ? p_.rresp : p_.bresp).get());
        value_ = static_cast<uint32_t>(p_.rdata.get());
        if (response_ == 1) wrong(message, "a response that AXI4-Lite does not have");
    }
}

void AxiLiteMaster::drive() {
    const uint32_t stalls = behaviour_.control_stalls;
    const Wire& address = reading_ ? p_.arvalid : p_.awvalid;
    // What is offered stays until it is taken.
    address.set(address_left_ && (address.get() || !stalls_.idle(stalls)));
    p_.wvalid.set(data_left_ && (p_.wvalid.get() || !stalls_.idle(stalls)));
    p_.bready.set(!reading_ && answer_left_ && !stalls_.idle(stalls));
    p_.rready.set(reading_ && answer_left_ && !stalls_.idle(stalls));
}
