// SPDX-License-Identifier: Apache-2.0
// Both ends of an engine's buses: memory behind an AXI4 manager, a manager of its registers.
//
// An object looks at the signals before a clock edge (`sample`), when everything has settled, and
// changes those it drives after it (`drive`).
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "ddr4.h"
#include "memory.h"

/// A signal of the model, of any width.
struct Wire {
    void* at = nullptr;
    size_t bytes = 0;

    uint64_t get() const {
        uint64_t value = 0;
        memcpy(&value, at, bytes < sizeof value ? bytes : sizeof value);
        return value;
    }

    void set(uint64_t value) const { memcpy(at, &value, bytes < sizeof value ? bytes : sizeof value); }
};

template <class T>
Wire wire(T& signal) {
    return {&signal, sizeof signal};
}

/// Random idle cycles; a xorshift generator.
class Stalls {
  public:
    explicit Stalls(uint32_t seed) : state_(0x9e3779b97f4a7c15ull * (seed + 1ull) | 1) {}

    bool idle(uint32_t per_thousand) {
        if (!per_thousand) return false;
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return (state_ >> 20) % 1000 < per_thousand;
    }

  private:
    uint64_t state_;
};

/// Watches that a beat which waits stays as it is.
class Waiting {
  public:
    explicit Waiting(std::vector<Wire> payload) : payload_(std::move(payload)) {
        size_t bytes = 0;
        for (const Wire& signal : payload_) bytes += signal.bytes;
        held_.resize(bytes);
    }

    /// Return what is wrong, or nullptr.
    const char* check(bool valid, bool ready) {
        const char* wrong = nullptr;
        if (waits_ && !valid) wrong = "valid fell before ready";
        if (valid && (waits_ || !ready)) {
            uint8_t* held = held_.data();
            for (const Wire& signal : payload_) {
                if (waits_ && memcmp(held, signal.at, signal.bytes)) wrong = "a waiting beat changed";
                memcpy(held, signal.at, signal.bytes);
                held += signal.bytes;
            }
        }
        waits_ = valid && !ready;
        return wrong;
    }

    void reset() { waits_ = false; }

  private:
    std::vector<Wire> payload_;
    std::vector<uint8_t> held_;
    bool waits_ = false;
};

/// How memory behaves; see model.h.
struct Behaviour {
    uint32_t read_latency = 4, write_latency = 4, outstanding = 64, longest_burst = 256;
    uint32_t read_stalls = 0, write_stalls = 0, control_stalls = 0;
};

struct Traffic {
    uint64_t read_bursts = 0, read_beats = 0, write_bursts = 0, write_beats = 0, write_bytes = 0;
};

/// Signals of an AXI4 port, by their names in the standard.
struct Axi4 {
    const char* name;
    Wire awid, awaddr, awlen, awsize, awburst, awvalid, awready;
    Wire wdata, wstrb, wlast, wvalid, wready;
    Wire bid, bresp, bvalid, bready;
    Wire arid, araddr, arlen, arsize, arburst, arvalid, arready;
    Wire rid, rdata, rresp, rlast, rvalid, rready;
    size_t beat_bytes;
};

class AxiMemory {
  public:
    AxiMemory(const Axi4& port, Memory& memory, const Behaviour& behaviour, uint32_t seed)
        : p_(port),
          memory_(memory),
          behaviour_(behaviour),
          stalls_(seed),
          read_address_({p_.arid, p_.araddr, p_.arlen, p_.arsize, p_.arburst}),
          write_address_({p_.awid, p_.awaddr, p_.awlen, p_.awsize, p_.awburst}),
          write_data_({p_.wdata, p_.wstrb, p_.wlast}) {
        reset();
    }

    /// Forget all bursts.
    void reset() {
        reads_.clear();
        writes_.clear();
        early_.clear();
        responses_.clear();
        for (Waiting* channel : {&read_address_, &write_address_, &write_data_}) channel->reset();
        for (const Wire& signal : {p_.arready, p_.awready, p_.wready, p_.rvalid, p_.bvalid}) {
            signal.set(0);
        }
    }

    bool requests() const { return p_.arvalid.get() || p_.awvalid.get() || p_.wvalid.get(); }

    /// Look at cycle `now`; the first thing that is wrong goes into `message`.
    void sample(uint64_t now, std::string& message);
    /// Set the signals for cycle `now`.
    void drive(uint64_t now);

    Traffic traffic;
    Ddr4* ddr4 = nullptr;  // takes the time of accesses, if there is one

  private:
    struct Burst {
        uint64_t id, address, beats, due;
        int response = 0;
        std::vector<uint64_t> later;  // when the next lines of DDR4 are due, the last one first
    };

    struct Response {
        uint64_t id, due;
        int response;
    };

    struct Beat {
        std::vector<uint8_t> data, strobe;
        bool last;
    };

    Burst burst(const Wire& id, const Wire& address, const Wire& len, const Wire& size,
                const Wire& kind, const char* channel, std::string& message) const;
    void time_read(Burst& burst, uint64_t now);
    void write(const uint8_t* data, const uint8_t* strobe, bool last, uint64_t now,
               std::string& message);
    void wrong(std::string& message, const char* channel, const std::string& what) const;

    Axi4 p_;
    Memory& memory_;
    const Behaviour& behaviour_;
    Stalls stalls_;
    Waiting read_address_, write_address_, write_data_;
    bool r_taken_ = false, b_taken_ = false;  // in the cycle that was looked at last
    std::deque<Burst> reads_, writes_;
    std::deque<Beat> early_;  // data that came before its address
    std::deque<Response> responses_;
};

/// Signals of an AXI4-Lite port.
struct AxiLite {
    const char* name;
    Wire awaddr, awprot, awvalid, awready, wdata, wstrb, wvalid, wready, bresp, bvalid, bready;
    Wire araddr, arprot, arvalid, arready, rdata, rresp, rvalid, rready;
};

/// One access of a register at a time.
class AxiLiteMaster {
  public:
    AxiLiteMaster(const AxiLite& port, const Behaviour& behaviour, uint32_t seed)
        : p_(port),
          behaviour_(behaviour),
          stalls_(~seed),
          read_answer_({p_.rdata, p_.rresp}),
          write_answer_({p_.bresp}) {
        reset();
    }

    void reset() {
        for (const Wire& signal :
             {p_.awprot, p_.arprot, p_.awvalid, p_.wvalid, p_.bready, p_.arvalid, p_.rready}) {
            signal.set(0);
        }
        address_left_ = data_left_ = answer_left_ = false;
        read_answer_.reset();
        write_answer_.reset();
    }

    void start_write(uint64_t address, uint32_t value) {
        p_.awaddr.set(address);
        p_.wdata.set(value);
        p_.wstrb.set(0xf);
        reading_ = false;
        address_left_ = data_left_ = answer_left_ = true;
    }

    void start_read(uint64_t address) {
        p_.araddr.set(address);
        reading_ = true;
        address_left_ = answer_left_ = true;
        data_left_ = false;
    }

    bool busy() const { return address_left_ || data_left_ || answer_left_; }
    int response() const { return response_; }
    uint32_t value() const { return value_; }

    void sample(std::string& message);
    void drive();

  private:
    void wrong(std::string& message, const char* what) const;

    AxiLite p_;
    const Behaviour& behaviour_;
    Stalls stalls_;
    Waiting read_answer_, write_answer_;
    bool reading_ = false, address_left_ = false, data_left_ = false, answer_left_ = false;
    int response_ = 0;
    uint32_t value_ = 0;
};

/// What an engine has.
struct Ports {
    std::vector<Axi4> memories;
    std::vector<AxiLite> controls;  // one or none
    Wire interrupt;                 // at nullptr if there is none
};

/// The output `interrupt`, which Verilator renames because some C++ compilers reserve the word.
template <class Top>
auto interrupt_of(Top& top, int) -> decltype(wire(top.interrupt)) {
    return wire(top.interrupt);
}

template <class Top>
auto interrupt_of(Top& top, long) -> decltype(wire(top.__SYM__interrupt)) {
    return wire(top.__SYM__interrupt);
}
