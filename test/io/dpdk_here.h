/* dpdk_here - for tests over DPDK's devices: is that carrier on this machine, and a runtime folder
 * of the test's own. One per process, as EAL is. */
#ifndef LEND_TEST_IO_DPDK_HERE_H
#define LEND_TEST_IO_DPDK_HERE_H

/* NULL, and its module is found; or why it is not. */
const char *dpdk_absent(void);

/* Around each test of a suite. */
extern char dpdk_folder[];
void dpdk_begin(void);
void dpdk_end(void);

#endif
