/* report - see report.h. */
#include "apps/common/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"

static void write_escaped(FILE *out, const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else if (*c < 0x20)
			fprintf(out, "\\u%04x", *c);
		else
			putc(*c, out);
	}
}

void app_report_quote(FILE *out, const char *text)
{
	putc('"', out);
	write_escaped(out, text);
	putc('"', out);
}

void app_report_begin(struct app_report *report, bool json, const char *title)
{
	report->out = stdout;
	report->json = json;
	report->n = 0;
	report->prefix = "";
	app_progress_clear();
	if (json)
		fputc('{', report->out);
	else
		fprintf(report->out, "%s\n", title);
}

static void key_of(struct app_report *report, const char *key)
{
	if (report->n++)
		fputs(", ", report->out);
	fprintf(report->out, "\"%s", report->prefix);
	write_escaped(report->out, key);
	fputs("\": ", report->out);
}

static void write_row(struct app_report *report, const char *key, const char *value,
		      const char *meaning)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", report->prefix, key);
	fprintf(report->out, "  %-24s %16s  %s\n", name, value, meaning);
}

void app_report_json(struct app_report *report, const char *key, const char *json,
		     const char *meaning)
{
	if (!report->json) {
		write_row(report, key, json, meaning);
		return;
	}
	key_of(report, key);
	fputs(json, report->out);
}

void app_report_int(struct app_report *report, const char *key, uint64_t value, const char *meaning)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	app_report_json(report, key, text, meaning);
}

void app_report_num(struct app_report *report, const char *key, double value, int decimals,
		    const char *meaning)
{
	char text[64];

	snprintf(text, sizeof(text), "%.*f", decimals, isfinite(value) ? value : 0.0);
	app_report_json(report, key, text, meaning);
}

void app_report_text(struct app_report *report, const char *key, const char *value,
		     const char *meaning)
{
	if (!report->json) {
		write_row(report, key, value, meaning);
		return;
	}
	key_of(report, key);
	app_report_quote(report->out, value);
}

void app_report_null(struct app_report *report, const char *key, const char *meaning)
{
	app_report_json(report, key, report->json ? "null" : "-", meaning);
}

void app_report_bool(struct app_report *report, const char *key, bool value, const char *meaning)
{
	const char *const names[] = {"no", "yes", "false", "true"};

	app_report_json(report, key, names[2 * report->json + value], meaning);
}

/* Prints a number, without decimals if it is whole. */
static void write_cell(FILE *out, double value, int width)
{
	double shown = isfinite(value) ? value : 0;

	fprintf(out, "%*.*f", width, fabs(shown) >= 1e4 || shown == floor(shown) ? 0 : 3, shown);
}

static void table_json(FILE *out, const struct app_table *t)
{
	putc('[', out);
	for (unsigned row = 0; row < t->rows; row++) {
		fputs(row ? ", {" : "{", out);
		for (unsigned i = 0; i < t->columns; i++) {
			fprintf(out, "%s\"%s\": ", i ? ", " : "", t->column[i]);
			write_cell(out, t->cell[row * t->columns + i], 0);
		}
		putc('}', out);
	}
	putc(']', out);
}

void app_report_table(struct app_report *report, const struct app_table *t)
{
	if (report->json) {
		key_of(report, t->key);
		table_json(report->out, t);
		return;
	}
	for (unsigned i = 0; i < t->columns; i++)
		fprintf(report->out, " %15s", t->column[i]);
	putc('\n', report->out);
	for (unsigned i = 0; i < t->rows * t->columns; i++) {
		putc(' ', report->out);
		write_cell(report->out, t->cell[i], 15);
		if ((i + 1) % t->columns == 0)
			putc('\n', report->out);
	}
}

void app_report_end(struct app_report *report)
{
	if (report->json)
		fputs("}\n", report->out);
	if (fflush(report->out) || ferror(report->out))
		app_die("cannot write the result: %s; free some space or fix the pipe",
			strerror(errno));
}

const char *app_status_name(enum lend_status status)
{
	static const char *const names[] = {
	    "OK",
	    "CANCELLED",
	    "UNKNOWN",
	    "INVALID_ARGUMENT",
	    "DEADLINE_EXCEEDED",
	    "NOT_FOUND",
	    "ALREADY_EXISTS",
	    "PERMISSION_DENIED",
	    "RESOURCE_EXHAUSTED",
	    "FAILED_PRECONDITION",
	    "ABORTED",
	    "OUT_OF_RANGE",
	    "UNIMPLEMENTED",
	    "INTERNAL",
	    "UNAVAILABLE",
	    "DATA_LOSS",
	    "UNAUTHENTICATED",
	};

	return (unsigned)status < sizeof(names) / sizeof(names[0]) ? names[status]
								   : "a status out of range";
}

static bool shown;

void app_progress(lend_ns since, double part, double whole)
{
	static int terminal = -1;
	static lend_ns last;
	lend_ns now;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	if (!terminal || whole <= 0)
		return;
	now = app_now();
	if (now < since + 2000000000u || now < last + 100000000u)
		return;
	last = now;
	shown = true;
	fprintf(stderr, "\r%s: %.0f %% \033[K", lend_cli_name(),
		100 * (part < whole ? part / whole : 1));
}

void app_progress_clear(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}
