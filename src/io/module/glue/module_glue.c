/* module_glue - a module's link to the program that loaded it: it passes failures to the program.
 * Every carrier's module is built with this file. Layer: io. Threads: any; the host is set once,
 * before the first carrier.
 */
#include "io/module/module.h"

#include <stdarg.h>
#include <stdio.h>

#include "sys/last_error.h"

static struct lend_io_host program;

void lend_io_module_host(const struct lend_io_host *host)
{
	program = *host;
}

/* Stands in for sys/last_error.c, which keeps its text where only the program sees it. */
int lend_fail(int err, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return program.fail ? program.fail(err, "%s", text) : -err;
}
