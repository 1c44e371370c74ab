/* demo - the results of a demo's runs, and the pages made from them. Layer: apps. */
#ifndef LEND_APPS_DEMO_DEMO_H
#define LEND_APPS_DEMO_DEMO_H

#include <stdbool.h>
#include <stdio.h>

#include "apps/common/topology.h"

enum { DEMO_BYS = 3, DEMO_CARRIERS = 3, DEMO_ROWS = DEMO_CARRIERS * DEMO_BYS + 1 };
enum { DEMO_SIZES_MAX = 24, DEMO_WHY = 240 };

/* The results of one run of lend images. */
struct demo_row {
	enum app_carrier carrier;
	const char *by; /* "value", "ref", "auto"; "pool": through a node that shares its pages */
	bool ok;
	char why[DEMO_WHY]; /* not ok: the command's own error message */
	double images, identical, images_per_s, p50_ms, p50_ms_without_codec;
	double bytes_moved, pixel_bytes, pages_used_after, processes;
};

/* The results of one run of lend chain --sweep: calls per second at each size. */
struct demo_sweep {
	enum app_carrier carrier;
	bool ok;
	char why[DEMO_WHY];
	unsigned n;
	double size[DEMO_SIZES_MAX], value[DEMO_SIZES_MAX], ref[DEMO_SIZES_MAX];
};

struct demo {
	const char *dir;
	char results[64]; /* folder with a sample of the results; removed at the end */
	char workers[16]; /* threads of a pool's memory node; "": one */
	struct demo_row row[DEMO_ROWS];
	unsigned rows;
	struct demo_sweep sweep[DEMO_CARRIERS];
	unsigned sweeps;
	double seconds; /* duration of the demo */
};

/* Runs `lend WORDS...` and returns its output, which the caller frees. Returns NULL, and its error
 * message in why, when it failed or did not end in time. Calls tick(arg) every 50 ms. */
char *demo_child(const char *const words[], char why[DEMO_WHY], void (*tick)(void *), void *arg);
/* Returns the number behind a key of a flat JSON object; 0 when the key is missing. */
double demo_number(const char *json, const char *key);

/* Print parts of the report: the results of images, and of the sweeps. */
void demo_bars(const struct demo *demo, FILE *out);
void demo_sweeps(const struct demo *demo, FILE *out);
/* Write the report as one HTML file, and its picture as one SVG file. False: errno is set. */
bool demo_report(const struct demo *demo, const char *path);
bool demo_picture(const struct demo *demo, const char *path);

#endif
