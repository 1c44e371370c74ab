#include "kill/kill.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

void kill_bad(struct kill_page *page, const char *format, ...)
{
	va_list args;

	if (atomic_fetch_add(&page->bad, 1))
		return;
	va_start(args, format);
	(void)vsnprintf(page->why, sizeof(page->why), format, args);
	va_end(args);
}

void kill_fill(void *data, size_t len, uint64_t seed)
{
	uint64_t word = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < len; i += 8) {
		word = (word ^ word >> 29) * UINT64_C(0xbf58476d1ce4e5b9) + i;
		memcpy((char *)data + i, &word, len - i < 8 ? len - i : 8);
	}
}

void kill_be_alone(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)close_range(3, ~0u, 0);
}

uint64_t kill_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

uint32_t kill_below(struct lend_rng *rng, uint32_t n)
{
	return (uint32_t)lend_rng_below(rng, n);
}
