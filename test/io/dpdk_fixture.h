/* dpdk_fixture - for tests over DPDK devices: whether this machine has the carrier, and a runtime
 * folder for the test. One per process, as EAL is. Layer: test. */
#ifndef LEND_TEST_IO_DPDK_FIXTURE_H
#define LEND_TEST_IO_DPDK_FIXTURE_H

/* Returns NULL when the carrier's module was built, else the reason why not. */
const char *dpdk_absent(void);

/* Run before and after each test of a suite. */
extern char dpdk_folder[];
void dpdk_begin(void);
void dpdk_end(void);

#endif
