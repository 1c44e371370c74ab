# lend_io_dpdk.so: the dpdk carrier, loaded at the first dpdk: address. DPDK's flags stay on its own files, and nothing else
# links libdpdk: that alone would add milliseconds to the start of every program. Left out when libdpdk is missing.
pkg_check_modules(DPDK IMPORTED_TARGET libdpdk)
if(NOT DPDK_FOUND)
	message(STATUS "libdpdk not found: no dpdk carrier (apt install libdpdk-dev)")
	return()
endif()
lend_io_module(dpdk io/eth/addr.c io/eth/arp_nd.c io/eth/frame.c io/eth/neighbours.c sys/clock.c sys/panic.c sys/rand.c sys/rundir.c)
target_compile_definitions(lend_io_dpdk PRIVATE ALLOW_EXPERIMENTAL_API)
target_compile_options(lend_io_dpdk PRIVATE ${DPDK_CFLAGS_OTHER} -Wno-pointer-arith -Wno-cast-align -Wno-shadow)
target_include_directories(lend_io_dpdk SYSTEM PRIVATE ${DPDK_INCLUDE_DIRS})
target_link_libraries(lend_io_dpdk PRIVATE ${DPDK_LINK_LIBRARIES} rte_bus_vdev rte_net_memif rte_net_ring)
