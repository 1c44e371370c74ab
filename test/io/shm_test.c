/* Goal: shared memory is a carrier like the others. Method: the conformance suite. */
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "io/conform.h"

static void address(char *text, size_t cap)
{
	static _Atomic unsigned count;

	(void)snprintf(text, cap, "shm:conform-%d-%u", (int)getpid(), atomic_fetch_add(&count, 1));
}

static const struct conform_row shm = {.name = "shm",
				       .address = address,
				       .lossless = true,
				       .hangs_up = true,
				       .rebinds = true,
				       .threads = true,
				       .clients = 40,
				       .both = true};

CONFORM_SUITE(shm, &shm)
