#include "sys/last_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char text[512];

int lend_fail(int err, const char *format, ...)
{
	va_list args;
	size_t len;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	len = strlen(text);
	if (err == ENOMEM && !strpbrk(text, ":;"))
		(void)snprintf(text + len, sizeof(text) - len,
			       "; end what needs memory, or raise the limits on it");
	return -err;
}

const char *lend_why_text(void)
{
	return text;
}
