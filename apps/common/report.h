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
	const char *prefix; /* of the keys to come: "read_"; borrowed. "" to begin with */
};

/* title is for people only. */
void app_report_begin(struct app_report *report, bool json, const char *title);
/* key is the JSON name; meaning says unit and sense to people ("us, median round trip"). */
void app_report_int(struct app_report *report, const char *key, uint64_t value,
		    const char *meaning);
void app_report_num(struct app_report *report, const char *key, double value, int decimals,
		    const char *meaning);
void app_report_text(struct app_report *report, const char *key, const char *value,
		     const char *meaning);
void app_report_bool(struct app_report *report, const char *key, bool value, const char *meaning);
/* An array of objects in JSON, for people columns under their names. cell: row by row. */
struct app_table {
	const char *key;
	const char *const *column;
	unsigned columns, rows;
	const double *cell;
};
void app_report_table(struct app_report *report, const struct app_table *table);
/* Ends the object and flushes; app_die() when stdout does not take it (disk full, say). */
void app_report_end(struct app_report *report);

/* "OK", "NOT_FOUND", ...: gRPC's names. */
const char *app_status_name(enum lend_status status);

/* A line that is rewritten on stderr, on a terminal only, once since is 2 s ago and at most ten
 * times a second: "lend lat: 40 %". part of whole. Times are app_now()'s. */
void app_progress(lend_ns since, double part, double whole);
/* Removes the line before other output. */
void app_progress_clear(void);

#endif
