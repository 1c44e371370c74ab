/* Goal: UD queue pairs keep the promises of a carrier.
 * Method: the conformance suite, over one device, and between two where there are two; skipped
 * where there is none.
 * Covers: src/io/verbs/carrier.c, src/io/verbs/cm.c, src/io/verbs/peer.c, src/io/verbs/send.c,
 * src/io/verbs/recv_queue.c */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/conform.h"

static const char *why_absent(void)
{
	DIR *dir = opendir("/sys/class/infiniband");
	const struct dirent *entry = NULL;

	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	if (access(LEND_BUILD_DIR "/lend_io_verbs.so", F_OK) != 0)
		return "lend_io_verbs.so was not built (libibverbs-dev, librdmacm-dev)";
	while (dir && (entry = readdir(dir)) && entry->d_name[0] == '.')
		continue;
	if (dir)
		closedir(dir);
	return entry ? NULL : "no RDMA device";
}

/* Writes an address of an RDMA device: the guest's, or LEND_VERBS_IP. */
static void make_address(char *text, size_t cap)
{
	const char *ip = getenv("LEND_VERBS_IP");

	(void)snprintf(text, cap, "verbs:any@%s:0", ip ? ip : "10.77.0.1");
}

static const struct conform_row verbs = {.name = "verbs",
					 .absent = why_absent,
					 .address = make_address,
					 .rebinds = true,
					 .threads = true,
					 .clients = 40,
					 .both = true};

CONFORM_SUITE(verbs, &verbs)
