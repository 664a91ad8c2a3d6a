
# A Zynq UltraScale+: full-power master 0 writes registers, high-performance port 0 is the memory.
proc add_processor {clock_mhz data_width} {
  create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e ps
  apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e \
    -config {apply_board_preset "1"} [get_bd_cells ps]
  set_property -dict [list \
    CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $clock_mhz \
    CONFIG.PSU__USE__M_AXI_GP0 1 \
    CONFIG.PSU__USE__M_AXI_GP1 0 \
    CONFIG.PSU__USE__M_AXI_GP2 0 \
    CONFIG.PSU__USE__S_AXI_GP2 1 \
    CONFIG.PSU__USE__IRQ0 1 \
  ] [get_bd_cells ps]
  create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset
  set clock [get_bd_pins ps/pl_clk0]
  connect_bd_net [get_bd_pins ps/pl_resetn0] [get_bd_pins reset/ext_reset_in]
  foreach pin {reset/slowest_sync_clk ps/maxihpm0_fpd_aclk ps/saxihp0_fpd_aclk} {
    connect_bd_net $clock [get_bd_pins $pin]
  }
  return [dict create clock $clock resetn [get_bd_pins reset/peripheral_aresetn] \
    master [get_bd_intf_pins ps/M_AXI_HPM0_FPD] slaves {} shared {} \
    memory [get_bd_intf_pins ps/S_AXI_HP0_FPD] interrupt [get_bd_pins ps/pl_ps_irq0]]
}
