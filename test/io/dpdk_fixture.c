#include "io/dpdk_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "teardown.h"

char dpdk_folder[] = "/tmp/lend-dpdk-XXXXXX";

const char *dpdk_absent(void)
{
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	unsetenv("LEND_EAL");
	return access(LEND_BUILD_DIR "/lend_io_dpdk.so", F_OK) == 0
		   ? NULL
		   : "lend_io_dpdk.so was not built (libdpdk-dev)";
}

void dpdk_begin(void)
{
	cr_assert(mkdtemp(dpdk_folder));
	setenv("XDG_RUNTIME_DIR", dpdk_folder, 1);
	(void)dpdk_absent();
}

void dpdk_end(void)
{
	teardown_remove(dpdk_folder);
}
