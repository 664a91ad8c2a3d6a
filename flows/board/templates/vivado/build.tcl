
# Build the project: vivado -mode batch -source build.tcl [-tclargs PART]
# The results are next to this file: NAME.bit, NAME.hwh, NAME.xsa, timing.rpt and utilization.rpt.

set here [file dirname [file normalize [info script]]]
if {[info exists argv] && [llength $argv] > 0} {
  set part [lindex $argv 0]
}
create_project $name [file join $here project] -part $part -force
if {$board_part ne ""} {
  set candidates [lsort [get_board_parts -quiet $board_part]]
  if {[llength $candidates] == 0} {
    error "no board files match $board_part: install them (Tools, Vivado Store, Boards)"
  }
  set_property board_part [lindex $candidates end] [current_project]
}
set_property ip_repo_paths [file join $here ip] [current_project]
update_ip_catalog

create_bd_design system
create_bd_cell -type ip -vlnv $vlnv engine
# Clock, reset, masters of registers, memories and interrupts: see add_processor above.
set system [add_processor $clock_mhz $data_width]
set clock [dict get $system clock]
set resetn [dict get $system resetn]
connect_bd_net $clock [get_bd_pins engine/aclk]
connect_bd_net $resetn [get_bd_pins engine/aresetn]

# Registers: those of the engine, those of the processor's surroundings, and the memory if the
# processor has none that the engine reaches.
set slaves [dict get $system slaves]
set shared [dict get $system shared]
set count [expr {1 + [llength $slaves] + ([llength $shared] > 0)}]
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect control
set_property -dict [list CONFIG.NUM_SI 1 CONFIG.NUM_MI $count] [get_bd_cells control]
connect_bd_net $clock [get_bd_pins control/aclk]
connect_bd_net $resetn [get_bd_pins control/aresetn]
connect_bd_intf_net [dict get $system master] [get_bd_intf_pins control/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins control/M00_AXI] [get_bd_intf_pins engine/$control]
for {set number 1} {$number <= [llength $slaves]} {incr number} {
  connect_bd_intf_net [get_bd_intf_pins [format control/M%02d_AXI $number]] \
    [lindex $slaves [expr {$number - 1}]]
}

# Memory: all masters of the engine, and the processor by its registers' bus.
set masters {}
if {[llength $shared] > 0} {
  lappend masters [get_bd_intf_pins [format control/M%02d_AXI [expr {$count - 1}]]]
}
foreach memory $memories {
  lappend masters [get_bd_intf_pins engine/$memory]
}
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect memory
set_property -dict [list CONFIG.NUM_SI [llength $masters] CONFIG.NUM_MI 1] [get_bd_cells memory]
connect_bd_net $clock [get_bd_pins memory/aclk]
connect_bd_net $resetn [get_bd_pins memory/aresetn]
for {set number 0} {$number < [llength $masters]} {incr number} {
  connect_bd_intf_net [lindex $masters $number] [get_bd_intf_pins [format memory/S%02d_AXI $number]]
}
connect_bd_intf_net [get_bd_intf_pins memory/M00_AXI] [dict get $system memory]

# The interrupt: to the processor, and to a light.
create_bd_port -dir O interrupt
connect_bd_net [get_bd_pins engine/interrupt] [dict get $system interrupt] \
  [get_bd_ports interrupt]

assign_bd_address -offset $control_address -range 4K \
  [get_bd_addr_segs engine/$control/control]
if {[llength $shared] > 0} {
  lassign $shared segment address range
  assign_bd_address -offset $address -range $range [get_bd_addr_segs $segment]
}
assign_bd_address
validate_bd_design
save_bd_design

add_files -norecurse [make_wrapper -files [get_files system.bd] -top]
set_property top system_wrapper [current_fileset]
add_files -fileset constrs_1 -norecurse [file join $here board.xdc]
update_compile_order -fileset sources_1

launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
if {[get_property PROGRESS [get_runs impl_1]] ne "100%"} {
  error "implementation failed: see [get_property DIRECTORY [get_runs impl_1]]"
}
open_run impl_1
report_timing_summary -file [file join $here timing.rpt]
report_utilization -file [file join $here utilization.rpt]
set slack [get_property SLACK [get_timing_paths -delay_type max -max_paths 1]]
if {$slack < 0} {
  error "the clock of $clock_mhz MHz is missed by [expr {-$slack}] ns: see timing.rpt"
}
set results [get_property DIRECTORY [get_runs impl_1]]
file copy -force [file join $results system_wrapper.bit] [file join $here $name.bit]
set handoff [file join $here project $name.gen sources_1 bd system hw_handoff system.hwh]
if {[file exists $handoff]} {
  file copy -force $handoff [file join $here $name.hwh]
}
write_hw_platform -fixed -include_bit -force -file [file join $here $name.xsa]
