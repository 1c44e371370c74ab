/* io_dpdk_host - the module's link to the program that loaded it: where failures are told.
 * Layer: io. Threads: any; the host is set once, before the first carrier.
 */
#include "io/module.h"

#include <stdarg.h>
#include <stdio.h>

#include "sys/why.h"

void lend_io_dpdk_host(const struct lend_io_host *host);

static struct lend_io_host program;

__attribute__((visibility("default"))) void lend_io_dpdk_host(const struct lend_io_host *host)
{
	program = *host;
}

/* Stands in for sys/why.c, which keeps its text where only the program sees it. */
int lend_fail(int err, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return program.fail ? program.fail(err, "%s", text) : -err;
}
