#include <stdio.h>
#include <stdlib.h>

#include "util/check.h"

_Noreturn void lend_panic(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
	abort();
}

_Noreturn void lend_misuse(const char *text)
{
	fprintf(stderr, "lend: %s\n", text);
	abort();
}
