/* report - a command's result: one JSON object on a line, or a table for people.
 * Layer: apps. Threads: the main one. Texts are copied at once. */
#ifndef APPS_COMMON_REPORT_H
#define APPS_COMMON_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "lend/rpc.h"

struct app_report {
	FILE *out;
	bool json;
	unsigned n;         /* fields printed */
	const char *prefix; /* prefix of the following keys: "read_"; borrowed. Initially "" */
};

/* Begins the report. Only the table prints title. */
void app_report_begin(struct app_report *report, bool json, const char *title);
/* Add a field: key is its JSON name, meaning its unit and description in the table ("us, median
 * round trip"). app_report_json() adds one whose value is JSON already. */
void app_report_json(struct app_report *report, const char *key, const char *json,
		     const char *meaning);
void app_report_int(struct app_report *report, const char *key, uint64_t value,
		    const char *meaning);
void app_report_num(struct app_report *report, const char *key, double value, int decimals,
		    const char *meaning);
void app_report_text(struct app_report *report, const char *key, const char *value,
		     const char *meaning);
/* A value that cannot be measured here: null. */
void app_report_null(struct app_report *report, const char *key, const char *meaning);
void app_report_bool(struct app_report *report, const char *key, bool value, const char *meaning);
/* An array of objects in JSON; columns under their names in the table. cell holds the values row by
 * row. */
struct app_table {
	const char *key;
	const char *const *column;
	unsigned columns, rows;
	const double *cell;
};
void app_report_table(struct app_report *report, const struct app_table *table);
/* Ends the object and flushes. app_die() when stdout cannot be written, for example on a full disk.
 */
void app_report_end(struct app_report *report);

/* Prints a text as JSON does, in quotes. */
void app_report_quote(FILE *out, const char *text);

/* Returns the gRPC name of a status: "OK", "NOT_FOUND", ... */
const char *app_status_name(enum lend_status status);

/* Prints a progress line on stderr that overwrites itself: "lend lat: 40 %", which is part of
 * whole. Only on a terminal, from 2 s after since, at most ten times a second. Times are
 * app_now()'s. */
void app_progress(lend_ns since, double part, double whole);
/* Erases the progress line; called before other output. */
void app_progress_clear(void);

#endif
