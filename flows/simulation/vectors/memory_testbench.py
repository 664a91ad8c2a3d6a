# SPDX-License-Identifier: Apache-2.0
"""A self-checking testbench in Verilog-2005 for an engine that works on memory through AXI.

It has a memory behind the AXI4 port, a host at the AXI4-Lite port, and compares the whole memory
at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from flows.simulation.vectors.testbench import COMMANDS, RANDOM
from hwgen.core.bus import BusPort

MEMORY, EXPECTED, HOST = "memory.hex", "expected.hex", "host.hex"
"""Names of the files that the testbench reads."""


def memory_testbench(
    name: str, buses: Sequence[BusPort], *, base: int, words: int, actions: int, limit: int
) -> str:
    """Return the testbench of an engine, module ``NAME_tb``.

    Parameters
    ----------
    name : str
        Of the engine.
    buses : sequence of BusPort
        One AXI4 port, one AXI4-Lite port, and an interrupt.
    base : int
        Address of the first word of memory.
    words : int
        Words of memory, each a beat of the port.
    actions : int
        Lines of the host's script.
    limit : int
        Cycles without any transfer after which the simulation ends with FAIL.
    """
    memory = next(bus for bus in buses if bus.protocol == "axi4")
    control = next(bus for bus in buses if bus.protocol == "axi_lite")
    widths = {signal: width for signal, _, width in memory.signals}
    width = memory.data_width
    driven = {"m": "mem", "c": "ctl"}
    connections = ["    .aclk(aclk)", "    .aresetn(aresetn)"]
    for short, bus in (("m", memory), ("c", control)):
        for signal, direction, _ in bus.signals:
            unused = signal.endswith(("cache", "prot"))
            value = f"{driven[short]}_{signal}"
            if unused:
                value = "" if direction == "out" else "3'b000"
            connections.append(f"    .{bus.prefix}_{signal}({value})")
    connections.append("    .interrupt(interrupt)")
    return _TEXT.format(
        commands=COMMANDS.format(name=name),
        random=RANDOM,
        name=name,
        limit=limit,
        base=f"{widths['araddr']}'h{base:x}",
        words=words,
        top=words - 1,
        actions=actions,
        last_action=actions - 1,
        address=widths["araddr"] - 1,
        offset=next(size for signal, _, size in control.signals if signal == "araddr") - 1,
        data=width - 1,
        bytes=width // 8,
        lanes=width // 8 - 1,
        size=(width // 8).bit_length() - 1,
        identifier=widths["arid"] - 1,
        memory=MEMORY,
        expected=EXPECTED,
        host=HOST,
        connections=",\n".join(connections),
    )


_TEXT = """\
{commands}\
// Plusargs: +stall=30 +seed=1 make every channel idle in 30 % of the cycles; +latency=50 lets reads
// wait for 50 cycles; +read_error=3 or +write_error=3 answers that burst, counted from 0, with
// SLVERR, and the job must then not be done. The last line of the testbench is PASS, or FAIL after
// the reason; simulators end with status 0 after both.
/* verilator lint_off WIDTH */
module {name}_tb;
  parameter LIMIT = {limit};  // cycles without any transfer after which the simulation ends
  localparam [{address}:0] BASE = {base};

  reg aclk = 1'b0;
  reg aresetn = 1'b0;
  integer cycle = 0;
  integer quiet = 0;
  integer stall = 0;
  integer seed = 0;
  integer latency = 0;
  integer read_error = -1;
  integer write_error = -1;
  integer status = 0;
  integer i = 0;
  reg failed = 1'b0;

  always #1 aclk = ~aclk;

  reg [{data}:0] words [0:{top}];
  reg [{data}:0] wanted [0:{top}];
  reg [83:0] script [0:{last_action}];

  initial begin
    $readmemh("{memory}", words);
    $readmemh("{expected}", wanted);
    $readmemh("{host}", script);
    status = $value$plusargs("stall=%d", stall);
    status = $value$plusargs("seed=%d", seed);
    status = $value$plusargs("latency=%d", latency);
    status = $value$plusargs("read_error=%d", read_error);
    status = $value$plusargs("write_error=%d", write_error);
    if (stall < 0 || stall > 99) begin
      $display("FAIL: +stall must be 0..99, not %0d", stall);
      $finish;
    end
  end

  reg [31:0] random = 32'h2545f491;
{random}  // Whether a channel, of six, may move in this cycle.
  function moves;
    input [31:0] state;
    input integer channel;
    reg [31:0] x;
    begin
      x = next_random(state ^ (32'h9e3779b9 * (channel + 1)));
      moves = (x >> 8) % 100 >= stall;
    end
  endfunction
  always @(posedge aclk) random <= next_random(cycle == 0 ? random + seed : random);

  // The memory: bursts in order, reads and writes side by side.
  wire [{identifier}:0] mem_arid, mem_awid;
  wire [{address}:0] mem_araddr, mem_awaddr;
  wire [7:0] mem_arlen, mem_awlen;
  wire [2:0] mem_arsize, mem_awsize;
  wire [1:0] mem_arburst, mem_awburst;
  wire mem_arvalid, mem_awvalid, mem_wvalid, mem_wlast, mem_rready, mem_bready;
  wire [{data}:0] mem_wdata;
  wire [{lanes}:0] mem_wstrb;
  reg mem_arready = 1'b0, mem_awready = 1'b0, mem_wready = 1'b0;
  reg mem_rvalid = 1'b0, mem_rlast = 1'b0, mem_bvalid = 1'b0;
  reg [{data}:0] mem_rdata = 0;
  reg [{identifier}:0] mem_rid = 0, mem_bid = 0;
  reg [1:0] mem_rresp = 2'b00, mem_bresp = 2'b00;

  // Up to 256 bursts wait: address of the first beat as a word, beats less one, identifier, cycle.
  integer read_word [0:255];
  integer read_cycle [0:255];
  reg [7:0] read_last [0:255];
  reg [{identifier}:0] read_id [0:255];
  integer write_word [0:255];
  reg [7:0] write_last [0:255];
  reg [{identifier}:0] write_id [0:255];
  integer reads_in = 0, reads_out = 0, writes_in = 0, writes_out = 0, answers = 0;
  integer read_beat = 0, write_beat = 0, at = 0;
  reg moved = 1'b0;

  task check_burst;
    input [{address}:0] address;
    input [7:0] beats;
    input [2:0] size;
    input [1:0] burst;
    begin
      if (burst !== 2'b01 || size !== 3'd{size}) begin
        $display("burst at %h: type %b and size %0d, not incrementing words", address, burst, size);
        failed <= 1'b1;
      end
      if (address[11:0] + (beats + 1) * {bytes} - address[11:0] % {bytes} > 4096) begin
        $display("burst at %h of %0d beats crosses 4 KiB", address, beats + 1);
        failed <= 1'b1;
      end
      if (address < BASE || (address - BASE) / {bytes} + beats >= {words}) begin
        $display("burst at %h of %0d beats is outside of the memory", address, beats + 1);
        failed <= 1'b1;
      end
    end
  endtask

  always @(posedge aclk) begin
    moved <= 1'b0;
    if (aresetn && !failed) begin
      mem_arready <= moves(random, 0) && reads_in - reads_out < 250;
      mem_awready <= moves(random, 1) && writes_in - writes_out < 250;
      if (^{{mem_arvalid, mem_awvalid, mem_wvalid, mem_rready, mem_bready}} === 1'bx) begin
        $display("a valid or ready of the memory port is unknown, cycle %0d", cycle);
        failed <= 1'b1;
      end
      if (mem_arvalid && mem_arready) begin
        check_burst(mem_araddr, mem_arlen, mem_arsize, mem_arburst);
        read_word[reads_in % 256] = (mem_araddr - BASE) / {bytes};
        read_last[reads_in % 256] = mem_arlen;
        read_id[reads_in % 256] = mem_arid;
        read_cycle[reads_in % 256] = cycle;
        reads_in = reads_in + 1;
        moved <= 1'b1;
      end
      if (mem_awvalid && mem_awready) begin
        check_burst(mem_awaddr, mem_awlen, mem_awsize, mem_awburst);
        write_word[writes_in % 256] = (mem_awaddr - BASE) / {bytes};
        write_last[writes_in % 256] = mem_awlen;
        write_id[writes_in % 256] = mem_awid;
        writes_in = writes_in + 1;
        moved <= 1'b1;
      end

      // Beats that are written: taken once their address is known.
      if (mem_wvalid && mem_wready) begin
        at = write_word[writes_out % 256] + write_beat;
        for (i = 0; i < {bytes}; i = i + 1)
          if (mem_wstrb[i] && at < {words}) words[at][8*i +: 8] = mem_wdata[8*i +: 8];
        if (mem_wlast !== (write_beat == write_last[writes_out % 256])) begin
          $display("wlast is %b at beat %0d of a burst of %0d, cycle %0d", mem_wlast, write_beat,
                   write_last[writes_out % 256] + 1, cycle);
          failed <= 1'b1;
        end
        if (write_beat == write_last[writes_out % 256]) begin
          write_beat = 0;
          writes_out = writes_out + 1;
        end else write_beat = write_beat + 1;
        moved <= 1'b1;
      end
      // One beat may be taken in the next cycle.
      mem_wready <= writes_out < writes_in && moves(random, 2);

      if (mem_bvalid && mem_bready) begin
        answers = answers + 1;
        mem_bvalid <= 1'b0;
        moved <= 1'b1;
      end
      if ((!mem_bvalid || mem_bready) && answers < writes_out && moves(random, 3)) begin
        mem_bvalid <= 1'b1;
        mem_bid <= write_id[answers % 256];
        mem_bresp <= answers == write_error ? 2'b10 : 2'b00;
      end

      // Beats that are read.
      if (mem_rvalid && mem_rready) moved <= 1'b1;
      if (!mem_rvalid || mem_rready) begin
        mem_rvalid <= 1'b0;
        mem_rdata <= ~mem_rdata;  // data of an idle cycle mean nothing
        if (reads_out < reads_in && cycle >= read_cycle[reads_out % 256] + latency
            && moves(random, 4)) begin
          at = read_word[reads_out % 256] + read_beat;
          mem_rvalid <= 1'b1;
          mem_rdata <= words[at];
          mem_rid <= read_id[reads_out % 256];
          mem_rresp <= reads_out == read_error ? 2'b10 : 2'b00;
          mem_rlast <= read_beat == read_last[reads_out % 256];
          if (read_beat == read_last[reads_out % 256]) begin
            read_beat = 0;
            reads_out = reads_out + 1;
          end else read_beat = read_beat + 1;
        end
      end
    end
  end

  // The host: one action after the other at the AXI4-Lite port.
  reg [{offset}:0] ctl_awaddr = 0, ctl_araddr = 0;
  reg [31:0] ctl_wdata = 0;
  reg ctl_awvalid = 1'b0, ctl_wvalid = 1'b0, ctl_bready = 1'b0;
  reg ctl_arvalid = 1'b0, ctl_rready = 1'b0;
  wire [3:0] ctl_wstrb = 4'hf;
  wire ctl_awready, ctl_wready, ctl_bvalid, ctl_arready, ctl_rvalid;
  wire [1:0] ctl_bresp, ctl_rresp;
  wire [31:0] ctl_rdata;
  wire interrupt;
  integer action = 0;
  reg busy = 1'b0, over = 1'b0;
  wire [83:0] now = script[action];
  wire writing = now[83:80] == 4'd0;
  wire [31:0] mask = now[63:32];
  wire [31:0] value = now[31:0];
  wire [31:0] ahead = ctl_rdata - value;

  task finish_action;
    begin
      action <= action + 1;
      over <= action + 1 == {actions};
    end
  endtask

  always @(posedge aclk) begin
    if (aresetn && !over && !failed) begin
      if (!busy && moves(random, 5)) begin
        busy <= 1'b1;
        if (writing) begin
          ctl_awaddr <= now[64 +: {offset} + 1];
          ctl_wdata <= value;
          ctl_awvalid <= 1'b1;
          ctl_wvalid <= 1'b1;
          ctl_bready <= 1'b1;
        end else begin
          ctl_araddr <= now[64 +: {offset} + 1];
          ctl_arvalid <= 1'b1;
          ctl_rready <= 1'b1;
        end
      end
      if (ctl_awvalid && ctl_awready) ctl_awvalid <= 1'b0;
      if (ctl_wvalid && ctl_wready) ctl_wvalid <= 1'b0;
      if (ctl_arvalid && ctl_arready) ctl_arvalid <= 1'b0;
      if (ctl_bvalid && ctl_bready) begin
        ctl_bready <= 1'b0;
        busy <= 1'b0;
        finish_action;
        if (ctl_bresp !== 2'b00) begin
          $display("write to register %h is refused, action %0d", ctl_awaddr, action);
          failed <= 1'b1;
        end
      end
      if (ctl_rvalid && ctl_rready) begin
        ctl_rready <= 1'b0;
        busy <= 1'b0;
        if (^ctl_rdata === 1'bx) begin
          $display("register %h has unknown bits: %b", ctl_araddr, ctl_rdata);
          failed <= 1'b1;
        end
        case (now[83:80])
          4'd1: if ((ctl_rdata & mask) === value) finish_action;
          4'd2: if (!ahead[31]) finish_action;
          4'd3: begin
            finish_action;
            if ((ctl_rdata & mask) !== value) begin
              $display("register %h is %h, expected %h in the bits %h, action %0d", ctl_araddr,
                       ctl_rdata, value, mask, action);
              failed <= 1'b1;
            end
          end
          default: begin
            $display("busy for %0d cycles", ctl_rdata);
            finish_action;
          end
        endcase
      end
    end
  end

  {name} dut (
{connections}
  );

  integer word = 0;
  integer wrong = 0;
  always @(posedge aclk) begin
    cycle <= cycle + 1;
    if (cycle == 4) aresetn <= 1'b1;
    if (failed) begin
      $display("FAIL");
      $finish;
    end else if (aresetn) begin
      quiet <= moved ? 0 : quiet + 1;
      if (over) begin
        for (word = 0; word < {words}; word = word + 1)
          if (words[word] !== wanted[word]) begin
            if (wrong == 0) begin
              $display("first difference in memory at address %h", BASE + word * {bytes});
              $display("  expected %h", wanted[word]);
              $display("  got      %h", words[word]);
            end
            wrong = wrong + 1;
          end
        if (interrupt === 1'bx) $display("the interrupt is unknown");
        if (wrong != 0) $display("%0d of {words} words differ", wrong);
        if (wrong != 0 || interrupt === 1'bx) $display("FAIL");
        else $display("PASS");
        $finish;
      end else if (quiet == LIMIT) begin
        $display("nothing moved between engine and memory in %0d cycles, action %0d of the host",
                 LIMIT, action);
        failed <= 1'b1;
      end
    end
  end
endmodule
"""
