# lend_io_verbs.so and lend_io_raw.so: carriers over rdma-core, loaded at the first verbs: or raw: address. Each is left out
# when its libraries are missing.
function(lend_rdma_module noun libraries)
	pkg_check_modules(RDMA_${noun} IMPORTED_TARGET ${libraries})
	file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/io/${noun}/*.c)
	if(NOT RDMA_${noun}_FOUND)
		message(STATUS "${libraries} not found: no ${noun} carrier (apt install libibverbs-dev librdmacm-dev)")
	elseif(files)
		lend_io_module(${noun} ${ARGN} io/peer_table.c sys/clock.c sys/panic.c sys/rand.c)
		target_link_libraries(lend_io_${noun} PRIVATE PkgConfig::RDMA_${noun})
	endif()
endfunction()
lend_rdma_module(verbs "libibverbs;librdmacm")
lend_rdma_module(raw "libibverbs;libmlx5" io/eth/addr.c io/eth/arp_nd.c io/eth/frame.c io/eth/neighbours.c sys/mapped_memory.c)
