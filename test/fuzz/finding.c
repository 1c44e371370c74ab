#include "fuzz/finding.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t fuzz_hostile;
static uint64_t execs;

/* A small quarantine keeps freed buffers in the CPU cache. The targets check for use after free
 * themselves: they count every buffer. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=8:malloc_context_size=8:detect_leaks=0";
}

static void print_step(void)
{
	printf("{\"target\":\"%s\",\"execs\":%llu,\"hostile\":%llu}\n", fuzz_name,
	       (unsigned long long)execs, (unsigned long long)fuzz_hostile);
	(void)fflush(stdout);
}

void fuzz_begin(void)
{
	if (execs++ == 0)
		(void)atexit(print_step);
}

_Noreturn void fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	abort();
}
