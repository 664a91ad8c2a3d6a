# SPDX-License-Identifier: Apache-2.0
"""A self-checking testbench in Verilog-2005 for a core with stream ports.

It drives the inputs and compares the results with files that ``$readmemh`` reads, and needs no
library: any simulator runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hwgen.core.port import StreamPort

SURPLUS = 8
"""Cycles after the last result in which none may come."""

_SEED = 0x2545F491
"""Start of the pseudo-random pauses of the first port; that of each further one is derived."""


@dataclass(frozen=True)
class PortVectors:
    """Beats of a port over all jobs.

    Parameters
    ----------
    port : StreamPort
    words : sequence of str
        A beat each: the hexadecimal digits of ``tdata``, after one of ``tlast`` if there is one.
    counts : sequence of int
        Beats of each job.
    masks : sequence of str
        Of an output: the bits of each word that are compared.
    """

    port: StreamPort
    words: Sequence[str]
    counts: Sequence[int]
    masks: Sequence[str] = ()

    @property
    def file(self) -> str:
        """Name of the file of beats."""
        return f"{self.port.name}.hex"

    @property
    def mask_file(self) -> str:
        """Name of the file of masks."""
        return f"{self.port.name}.mask.hex"

    @property
    def word_bits(self) -> int:
        """Bits of a word: those of ``tdata``, and 4 more with ``tlast``."""
        return self.port.data_width + (4 if self.port.last else 0)

    @property
    def files(self) -> dict[str, str]:
        """Name to text."""
        # A port that the jobs do not use has a file with one word, which is never sent.
        blank = ["0" * (self.word_bits // 4)]
        texts = {self.file: "\n".join(self.words or blank) + "\n"}
        if self.masks:
            texts[self.mask_file] = "\n".join(self.masks) + "\n"
        return texts


def testbench(name: str, ports: Sequence[PortVectors], limit: int) -> str:
    """Return the testbench of a core, module ``NAME_tb``.

    Parameters
    ----------
    name : str
        Of the core.
    ports : sequence of PortVectors
        Inputs, and the output last.
    limit : int
        Cycles without a transfer on any port after which the simulation ends with FAIL.
    """
    *inputs, output = ports
    seeds = [(_SEED * (2 * i + 1)) & 0xFFFFFFFF for i in range(len(ports))]
    connections = [".aclk(aclk)", ".aresetn(aresetn)"]
    for each in ports:
        prefix, own = each.port.prefix, each.port.name
        connections.append(f".{prefix}_tdata({own}_data)")
        if each.port.last:
            connections.append(f".{prefix}_tlast({own}_last)")
        connections += [f".{prefix}_tvalid({own}_valid)", f".{prefix}_tready({own}_ready)"]
    parts = [
        _HEAD.format(commands=COMMANDS.format(name=name), random=RANDOM, name=name, limit=limit),
        *(
            _INPUT.format(**_fields(each, seed), **_last(each, "input"))
            for each, seed in zip(inputs, seeds, strict=False)
        ),
        _OUTPUT.format(**_fields(output, seeds[-1]), **_last(output, "output")),
        f"  {name} dut (\n    " + ",\n    ".join(connections) + "\n  );\n\n",
        _END.format(
            output=output.port.name,
            entering=" || ".join(_moves(each) for each in inputs),
            leaving=_moves(output),
            idle=" && ".join(f"!({_moves(each)})" for each in ports),
            done=" && ".join(
                f"{each.port.name}_next == {len(each.words)} && !{each.port.name}_valid"
                for each in inputs
            ),
            count=len(output.words),
            left="".join(
                f'\n          $display("  {each.port.name}: %0d of {len(each.words)} beats'
                f' transferred", {_transferred(each)});'
                for each in ports
            ),
            surplus=SURPLUS,
        ),
    ]
    return "".join(parts)


def _fields(each: PortVectors, seed: int) -> dict[str, object]:
    return {
        "name": each.port.name,
        "prefix": each.port.prefix,
        "file": each.file,
        "mask_file": each.mask_file,
        "count": len(each.words),
        "top": max(len(each.words), 1) - 1,
        "data": each.port.data_width - 1,
        "word": each.word_bits - 1,
        "seed": f"32'h{seed or _SEED:08x}",
    }


def _last(each: PortVectors, direction: str) -> dict[str, str]:
    """Return the parts of a port that only a port with ``tlast`` has."""
    own, bit = each.port.name, each.port.data_width
    if not each.port.last:
        return {"declared": "", "sent": "", "noise": "", "got": f"{own}_data"}
    net, start = ("reg", " = 1'b0") if direction == "input" else ("wire", "")
    return {
        "declared": f"  {net} {own}_last{start};\n",
        "sent": f"\n          {own}_last <= {own}_words[{own}_next][{bit}];",
        "noise": f"\n          {own}_last <= {own}_random[0];",
        "got": f"{{3'b000, {own}_last, {own}_data}}",
    }


def _moves(each: PortVectors) -> str:
    return f"{each.port.name}_valid && {each.port.name}_ready"


def _transferred(each: PortVectors) -> str:
    """Return the number of beats that a port has transferred, as an expression."""
    own = each.port.name
    if each.port.direction == "out":
        return f"{own}_next"
    return f"({own}_valid ? {own}_next - 1 : {own}_next)"


COMMANDS = """\
// Testbench in Verilog-2005. Run it in the directory of the .hex files:
//   $ iverilog -g2005 -o {name}_tb {name}_tb.v {name}.v && vvp -n {name}_tb
//   $ verilator --binary --timing -CFLAGS -std=c++20 --top-module {name}_tb
//     {name}.vlt {name}_tb.v {name}.v
//     and then obj_dir/V{name}_tb
// `hwgen doctor` prints where verilator is. That of the Python package (hwgen[sim]) also needs
//     -MAKEFLAGS CFG_CXXFLAGS_PCH_I=-include -MAKEFLAGS CFG_LDLIBS_THREADS=-pthread
"""
"""First lines of a testbench: the commands that run it, with the name of the core."""

RANDOM = """\
  // Pseudo-random numbers: xorshift, the same in every simulator.
  function [31:0] next_random;
    input [31:0] state;
    reg [31:0] x;
    begin
      x = state ^ (state << 13);
      x = x ^ (x >> 17);
      next_random = x ^ (x << 5);
    end
  endfunction
"""
"""Function of a testbench that pauses are drawn with."""

_HEAD = """\
{commands}// The plusargs +stall=30 +seed=1 make each port idle in 30 % of the cycles.
// The last line of the testbench is PASS, or FAIL with the first difference before it. Verilator
// prints lines that begin with "- " after it.
module {name}_tb;
  // Cycles without a transfer on any port after which the simulation ends.
  parameter LIMIT = {limit};

  reg aclk = 1'b0;
  reg aresetn = 1'b0;
  integer cycle = 0;
  integer first = -1;
  integer last = -1;
  integer quiet = 0;
  integer surplus = 0;
  integer stall = 0;
  integer seed = 0;
  integer status = 0;
  reg failed = 1'b0;

  always #1 aclk = ~aclk;

  initial begin
    status = $value$plusargs("stall=%d", stall);
    status = $value$plusargs("seed=%d", seed);
    if (stall < 0 || stall > 99) begin
      $display("FAIL: +stall must be 0..99, not %0d", stall);
      $finish;
    end
  end

{random}
"""

_INPUT = """\
  // Port {name}: {count} beats.
  reg [{word}:0] {name}_words [0:{top}];
  reg [{data}:0] {name}_data = 0;
{declared}  reg {name}_valid = 1'b0;
  wire {name}_ready;
  reg [31:0] {name}_random = {seed};
  integer {name}_next = 0;

  initial $readmemh("{file}", {name}_words);

  always @(posedge aclk) begin
    {name}_random <= next_random(cycle == 0 ? {name}_random + seed : {name}_random);
    if (!aresetn) begin
      {name}_valid <= 1'b0;
    end else begin
      if (!{name}_valid || {name}_ready) begin
        if ({name}_next < {count} && {name}_random % 100 >= stall) begin
          {name}_valid <= 1'b1;
          {name}_data <= {name}_words[{name}_next][{data}:0];{sent}
          {name}_next <= {name}_next + 1;
        end else begin
          // Data of an idle cycle mean nothing.
          {name}_valid <= 1'b0;
          {name}_data <= ~{name}_data;{noise}
        end
      end
    end
  end

"""

_OUTPUT = """\
  // Port {name}: {count} beats of results.
  reg [{word}:0] {name}_words [0:{top}];
  reg [{word}:0] {name}_masks [0:{top}];
  wire [{data}:0] {name}_data;
{declared}  wire {name}_valid;
  reg {name}_ready = 1'b0;
  reg [31:0] {name}_random = {seed};
  reg {name}_waits = 1'b0;
  reg [{word}:0] {name}_waiting;
  wire [{word}:0] {name}_got = {got};
  integer {name}_next = 0;

  initial $readmemh("{file}", {name}_words);
  initial $readmemh("{mask_file}", {name}_masks);

  always @(posedge aclk) begin
    {name}_random <= next_random(cycle == 0 ? {name}_random + seed : {name}_random);
    {name}_ready <= {name}_random % 100 >= stall;
    if (aresetn && !failed) begin
      if ({name}_waits && {name}_valid !== 1'b1) begin
        $display("{name}: tvalid of beat %0d fell before tready, cycle %0d", {name}_next, cycle);
        failed <= 1'b1;
      end else if ({name}_waits && {name}_got !== {name}_waiting) begin
        $display("{name}: beat %0d changed while it waited for tready, cycle %0d",
                 {name}_next, cycle);
        failed <= 1'b1;
      end else if ({name}_valid !== 1'b1 && {name}_valid !== 1'b0) begin
        $display("{name}: tvalid is unknown, cycle %0d", cycle);
        failed <= 1'b1;
      end else if ({name}_valid && {name}_ready) begin
        if ({name}_next >= {count}) begin
          $display("{name}: more than {count} beats, cycle %0d", cycle);
          failed <= 1'b1;
        end else if ((({name}_got ^ {name}_words[{name}_next]) & {name}_masks[{name}_next]) !== 0)
        begin
          $display("{name}: first difference at beat %0d, cycle %0d", {name}_next, cycle);
          $display("  expected %h", {name}_words[{name}_next]);
          $display("  got      %h", {name}_got);
          $display("  compared %h", {name}_masks[{name}_next]);
          failed <= 1'b1;
        end
        {name}_next <= {name}_next + 1;
      end
      {name}_waits <= {name}_valid && !{name}_ready;
      {name}_waiting <= {name}_got;
    end
  end

"""

_END = """\
  always @(posedge aclk) begin
    cycle <= cycle + 1;
    if (cycle == 4) aresetn <= 1'b1;
    if (failed) begin
      $display("FAIL");
      $finish;
    end else if (aresetn) begin
      quiet <= {idle} ? quiet + 1 : 0;
      if (first < 0 && ({entering})) first <= cycle;
      if ({leaving}) last <= cycle;
      if ({output}_next == {count} && {done}) begin
        surplus <= surplus + 1;
        if (surplus == {surplus}) begin
          // From the first beat of an input to the last of the results, both included.
          $display("{count} beats of results in %0d cycles", last - first + 1);
          $display("PASS");
          $finish;
        end
      end
      if (quiet == LIMIT) begin
        $display("no transfer in %0d cycles:", LIMIT);{left}
        failed <= 1'b1;
      end
    end
  end
endmodule
"""
