/* Goal: memory that several hosts map keeps the promises of a carrier.
 * Method: the conformance suite over a shared file.
 * Covers: src/io/shm/multihost.c, src/io/shm/multihost_link.c, src/io/shm/multihost_memory.c */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/conform.h"

/* A sparse file uses only the memory that is touched. Each case has its own, which is removed when
 * the case ends. */
static char path[64];

static void remove_it(void)
{
	(void)unlink(path);
}

static void make_address(char *text, size_t cap)
{
	static _Atomic unsigned count;

	if (path[0] == '\0') {
		int fd;

		(void)snprintf(path, sizeof(path), "/dev/shm/lend-pod-%d-XXXXXX", (int)getpid());
		fd = mkstemp(path);
		cr_assert(fd >= 0);
		cr_assert_eq(ftruncate(fd, 256 << 20), 0);
		(void)close(fd);
		(void)atexit(remove_it);
	}
	(void)snprintf(text, cap, "shm:c%u@%s", atomic_fetch_add(&count, 1), path);
}

static const struct conform_row pod = {.name = "shm-pod",
				       .address = make_address,
				       .rebinds = true,
				       .threads = true,
				       .clients = 40,
				       .both = true};

CONFORM_SUITE(pod, &pod)
