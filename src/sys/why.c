#include "sys/why.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char text[512];

int lend_fail(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return -err;
}

const char *lend_why_text(void)
{
	return text;
}
