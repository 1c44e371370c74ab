/* dpdk_here - for rows of the suite: is the dpdk carrier on this machine? */
#ifndef LEND_TEST_IO_DPDK_HERE_H
#define LEND_TEST_IO_DPDK_HERE_H

#include <stdlib.h>
#include <unistd.h>

/* NULL, and its module is found; or why it is not. */
static inline const char *dpdk_absent(void)
{
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	unsetenv("LEND_EAL");
	return access(LEND_BUILD_DIR "/lend_io_dpdk.so", F_OK) == 0
		   ? NULL
		   : "lend_io_dpdk.so was not built (libdpdk-dev)";
}

#endif
