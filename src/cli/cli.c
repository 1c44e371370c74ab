#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static char command[600] = "lend";

void lend_cli_name_set(const char *program, const char *name)
{
	(void)snprintf(command, sizeof(command), "%s%s", program, name);
}

const char *lend_cli_name(void)
{
	return command;
}

void lend_cli_bad(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s: ", command);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(LEND_EXIT_USAGE);
}

/* Parses a number without a sign; *end is the position behind it. Returns false for anything else.
 */
static bool parse_number(const char *text, double *value, char **end)
{
	if (!(text[0] >= '0' && text[0] <= '9') && text[0] != '.')
		return false;
	errno = 0;
	*value = strtod(text, end);
	return !errno && *end != text;
}

uint64_t lend_cli_u64(const char *option, const char *text, uint64_t min, uint64_t max)
{
	char *end = NULL;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, text[0] == '0' && (text[1] | 0x20) == 'x' ? 16 : 10);
	if (text[0] < '0' || text[0] > '9' || errno || *end || value < min || value > max)
		lend_cli_bad("--%s %s: give a whole number from %llu to %llu", option, text,
			     (unsigned long long)min, (unsigned long long)max);
	return value;
}

uint64_t lend_cli_size(const char *option, const char *text, uint64_t min, uint64_t max)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end = NULL;
	double value;
	bool good = parse_number(text, &value, &end);

	if (good && *end && (unit = strchr(units, *end & ~0x20)) && *unit) {
		value *= (double)(UINT64_C(1024) << 10 * (unit - units));
		end++;
		if (!strcasecmp(end, "B") || !strcasecmp(end, "iB"))
			end = strchr(end, 0);
	}
	if (!good || *end || value > (double)max || value < (double)min)
		lend_cli_bad(
		    "--%s %s: give a size from %llu to %llu bytes, such as 64, 4K, 1M or 1G",
		    option, text, (unsigned long long)min, (unsigned long long)max);
	return (uint64_t)value;
}

uint64_t lend_cli_ns(const char *option, const char *text)
{
	static const struct {
		const char *name;
		double ns;
	} unit[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"m", 6e10}, {"h", 3.6e12}};
	char *end = NULL;
	double value;

	if (parse_number(text, &value, &end))
		for (unsigned i = 0; i < sizeof(unit) / sizeof(unit[0]); i++)
			if (!strcmp(end, unit[i].name) && value * unit[i].ns < 1e18 &&
			    value * unit[i].ns >= 1e3)
				return (uint64_t)(value * unit[i].ns);
	lend_cli_bad("--%s %s: give a time above zero, such as 0.5 (seconds), 200ms, 10m or 1h",
		     option, text);
}
