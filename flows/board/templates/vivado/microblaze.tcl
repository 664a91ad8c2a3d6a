
# A MicroBlaze with 64 KiB for program and data, a serial port, and 64 KiB that the engine reaches.
proc add_processor {clock_mhz data_width} {
  create_bd_port -dir I -type clk -freq_hz 100000000 clk
  create_bd_port -dir I -type rst resetn
  set_property CONFIG.POLARITY ACTIVE_LOW [get_bd_ports resetn]
  create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wiz pll
  set_property -dict [list \
    CONFIG.PRIM_IN_FREQ 100 \
    CONFIG.CLKOUT1_REQUESTED_OUT_FREQ $clock_mhz \
    CONFIG.USE_RESET false \
  ] [get_bd_cells pll]
  connect_bd_net [get_bd_ports clk] [get_bd_pins pll/clk_in1]
  set clock [get_bd_pins pll/clk_out1]
  create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset
  set_property CONFIG.C_EXT_RESET_HIGH 0 [get_bd_cells reset]
  connect_bd_net $clock [get_bd_pins reset/slowest_sync_clk]
  connect_bd_net [get_bd_ports resetn] [get_bd_pins reset/ext_reset_in]
  connect_bd_net [get_bd_pins pll/locked] [get_bd_pins reset/dcm_locked]
  set resetn [get_bd_pins reset/peripheral_aresetn]

  create_bd_cell -type ip -vlnv xilinx.com:ip:microblaze cpu
  set_property -dict [list \
    CONFIG.C_DEBUG_ENABLED 1 \
    CONFIG.C_D_AXI 1 \
    CONFIG.C_D_LMB 1 \
    CONFIG.C_I_LMB 1 \
    CONFIG.C_USE_MSR_INSTR 1 \
    CONFIG.C_USE_HW_MUL 1 \
  ] [get_bd_cells cpu]
  connect_bd_net $clock [get_bd_pins cpu/Clk]
  connect_bd_net [get_bd_pins reset/mb_reset] [get_bd_pins cpu/Reset]
  create_bd_cell -type ip -vlnv xilinx.com:ip:mdm debug
  connect_bd_intf_net [get_bd_intf_pins debug/MBDEBUG_0] [get_bd_intf_pins cpu/DEBUG]
  connect_bd_net [get_bd_pins debug/Debug_SYS_Rst] [get_bd_pins reset/mb_debug_sys_rst]

  create_bd_cell -type ip -vlnv xilinx.com:ip:blk_mem_gen program
  set_property -dict [list \
    CONFIG.Memory_Type True_Dual_Port_RAM \
    CONFIG.use_bram_block BRAM_Controller \
  ] [get_bd_cells program]
  foreach {bus port master} {ilmb BRAM_PORTA ILMB dlmb BRAM_PORTB DLMB} {
    create_bd_cell -type ip -vlnv xilinx.com:ip:lmb_v10 $bus
    create_bd_cell -type ip -vlnv xilinx.com:ip:lmb_bram_if_cntlr ${bus}_memory
    connect_bd_intf_net [get_bd_intf_pins cpu/$master] [get_bd_intf_pins $bus/LMB_M]
    connect_bd_intf_net [get_bd_intf_pins $bus/LMB_Sl_0] [get_bd_intf_pins ${bus}_memory/SLMB]
    connect_bd_intf_net [get_bd_intf_pins ${bus}_memory/BRAM_PORT] \
      [get_bd_intf_pins program/$port]
    connect_bd_net $clock [get_bd_pins $bus/LMB_Clk] [get_bd_pins ${bus}_memory/LMB_Clk]
    connect_bd_net [get_bd_pins reset/bus_struct_reset] \
      [get_bd_pins $bus/SYS_Rst] [get_bd_pins ${bus}_memory/LMB_Rst]
  }

  create_bd_cell -type ip -vlnv xilinx.com:ip:axi_intc interrupts
  create_bd_cell -type ip -vlnv xilinx.com:ip:axi_uartlite uart
  set_property CONFIG.C_BAUDRATE 115200 [get_bd_cells uart]
  foreach cell {interrupts uart} {
    connect_bd_net $clock [get_bd_pins $cell/s_axi_aclk]
    connect_bd_net $resetn [get_bd_pins $cell/s_axi_aresetn]
  }
  connect_bd_intf_net [get_bd_intf_pins interrupts/interrupt] [get_bd_intf_pins cpu/INTERRUPT]
  create_bd_port -dir I uart_rxd
  create_bd_port -dir O uart_txd
  connect_bd_net [get_bd_ports uart_rxd] [get_bd_pins uart/rx]
  connect_bd_net [get_bd_pins uart/tx] [get_bd_ports uart_txd]

  create_bd_cell -type ip -vlnv xilinx.com:ip:blk_mem_gen data
  create_bd_cell -type ip -vlnv xilinx.com:ip:axi_bram_ctrl shared
  set_property -dict [list CONFIG.SINGLE_PORT_BRAM 1 CONFIG.DATA_WIDTH $data_width] \
    [get_bd_cells shared]
  connect_bd_net $clock [get_bd_pins shared/s_axi_aclk]
  connect_bd_net $resetn [get_bd_pins shared/s_axi_aresetn]
  connect_bd_intf_net [get_bd_intf_pins shared/BRAM_PORTA] [get_bd_intf_pins data/BRAM_PORTA]
  return [dict create clock $clock resetn $resetn \
    master [get_bd_intf_pins cpu/M_AXI_DP] \
    slaves [list [get_bd_intf_pins interrupts/s_axi] [get_bd_intf_pins uart/S_AXI]] \
    shared {shared/S_AXI/Mem0 0xC0000000 64K} \
    memory [get_bd_intf_pins shared/S_AXI] interrupt [get_bd_pins interrupts/intr]]
}
