
# A Zynq-7000: general port 0 writes registers, high-performance port 0 is the memory.
proc add_processor {clock_mhz data_width} {
  create_bd_cell -type ip -vlnv xilinx.com:ip:processing_system7 ps
  apply_bd_automation -rule xilinx.com:bd_rule:processing_system7 \
    -config {make_external "FIXED_IO, DDR" apply_board_preset "1" Master "Disable" Slave "Disable"} \
    [get_bd_cells ps]
  set_property -dict [list \
    CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ $clock_mhz \
    CONFIG.PCW_USE_M_AXI_GP0 1 \
    CONFIG.PCW_USE_S_AXI_HP0 1 \
    CONFIG.PCW_USE_FABRIC_INTERRUPT 1 \
    CONFIG.PCW_IRQ_F2P_INTR 1 \
  ] [get_bd_cells ps]
  create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset
  set clock [get_bd_pins ps/FCLK_CLK0]
  connect_bd_net [get_bd_pins ps/FCLK_RESET0_N] [get_bd_pins reset/ext_reset_in]
  foreach pin {reset/slowest_sync_clk ps/M_AXI_GP0_ACLK ps/S_AXI_HP0_ACLK} {
    connect_bd_net $clock [get_bd_pins $pin]
  }
  return [dict create clock $clock resetn [get_bd_pins reset/peripheral_aresetn] \
    master [get_bd_intf_pins ps/M_AXI_GP0] slaves {} shared {} \
    memory [get_bd_intf_pins ps/S_AXI_HP0] interrupt [get_bd_pins ps/IRQ_F2P]]
}
