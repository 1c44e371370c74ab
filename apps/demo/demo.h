/* demo - what the runs of a demo gave, and the pages made of it.
 * Layer: apps. */
#ifndef LEND_APPS_DEMO_DEMO_H
#define LEND_APPS_DEMO_DEMO_H

#include <stdbool.h>
#include <stdio.h>

#include "apps/common/topology.h"

enum { DEMO_BYS = 3, DEMO_CARRIERS = 3, DEMO_SIZES_MAX = 24, DEMO_WHY = 240 };

/* lend images, once. */
struct demo_row {
	enum app_carrier carrier;
	const char *by; /* "value", "ref", "auto" */
	bool ok;
	char why[DEMO_WHY]; /* not ok: the command's own line */
	double images, identical, images_per_s, p50_ms, p50_ms_without_codec;
	double bytes_moved, pixel_bytes, pages_used_after, processes;
};

/* lend chain --sweep, once: calls per second at sizes. */
struct demo_sweep {
	enum app_carrier carrier;
	bool ok;
	char why[DEMO_WHY];
	unsigned n;
	double size[DEMO_SIZES_MAX], value[DEMO_SIZES_MAX], ref[DEMO_SIZES_MAX];
};

struct demo {
	const char *dir;
	char results[64]; /* a folder of results, for a look; removed at the end */
	struct demo_row row[DEMO_CARRIERS * DEMO_BYS];
	unsigned rows;
	struct demo_sweep sweep[DEMO_CARRIERS];
	unsigned sweeps;
	double seconds; /* what all of it took */
};

/* Runs `lend WORDS...` and gives what it printed, for the caller to free; NULL and its line in why
 * when it failed or did not end in time. Calls tick(arg) now and then. */
char *demo_child(const char *const words[], char why[DEMO_WHY], void (*tick)(void *), void *arg);
/* The number behind a key of a flat JSON object; 0 when there is none. */
double demo_number(const char *json, const char *key);

/* Parts of the report: what images gave, and what the sweeps gave. */
void demo_bars(const struct demo *demo, FILE *out);
void demo_sweeps(const struct demo *demo, FILE *out);
/* The report as one HTML file, and the picture of it as one SVG file. */
void demo_report(const struct demo *demo, const char *path);
void demo_picture(const struct demo *demo, const char *path);

#endif
