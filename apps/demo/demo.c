/* demo - the whole demo in one command: images by value, by reference and by size over each
 * carrier, a chain over sizes; prints a table and writes a report as one HTML file. Layer: apps.
 * Threads: one. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/html.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/demo/demo.h"
#include "apps/images/images_list.h"

#define PHOTOGRAPHS "/usr/share/backgrounds/mate"

struct args {
	const char *dir, *report, *svg;
	bool quick;
	unsigned workers;
};

/* The state of the progress line. */
struct progress {
	lend_ns began;
	unsigned step, steps;
	lend_ns step_began;
};

static const struct lend_option options[] = {
    OPT_WORD(struct args, dir),
    OPT_TEXT(struct args, report, "report", "FILE", "File of the report (./lend-demo.html)"),
    OPT_TEXT(struct args, svg, "svg", "FILE", "Also a picture of the result"),
    OPT_FLAG(struct args, quick, "quick", "Over shm alone, and no chain"),
    APP_WORKERS(struct args, workers),
    {.name = NULL}};

/* Updates the progress line. A step is assumed to take 5 s; the line shows at most 90 % of a
 * running step. */
static void update_progress(void *arg)
{
	struct progress *p = arg;
	double part = (double)(app_now() - p->step_began) / 5e9;

	app_progress(p->began, p->step + (part < 0.9 ? part : 0.9), p->steps);
}

static void next_step(struct progress *p)
{
	p->step++;
	p->step_began = app_now();
}

static void run_images(struct demo *demo, enum app_carrier carrier, const char *by,
		       struct progress *p)
{
	struct demo_row *row = &demo->row[demo->rows++];
	bool keep = demo->rows == 1, pool = !strcmp(by, "pool");
	const char *words[] = {"images",
			       "--by",
			       pool ? "ref" : by,
			       "--carrier",
			       app_carrier_name(carrier),
			       "--json",
			       demo->dir,
			       pool   ? "--pool"
			       : keep ? "--out"
				      : NULL,
			       keep               ? demo->results
			       : demo->workers[0] ? "--workers"
						  : NULL,
			       keep ? NULL : demo->workers,
			       NULL};
	char *json;

	*row = (struct demo_row){.carrier = carrier, .by = by};
	json = demo_child(words, row->why, update_progress, p);
	next_step(p);
	if (!json)
		return;
	row->ok = true;
	row->images = demo_number(json, "images");
	row->identical = demo_number(json, "identical");
	row->images_per_s = demo_number(json, "images_per_s");
	row->p50_ms = demo_number(json, "p50_ms");
	row->p50_ms_without_codec = demo_number(json, "p50_ms_without_codec");
	row->bytes_moved = demo_number(json, "bytes_moved_per_image");
	row->pixel_bytes = demo_number(json, "pixel_bytes_per_image");
	row->pages_used_after = demo_number(json, "pages_used_after");
	row->processes = demo_number(json, "processes");
	free(json);
}

static void run_sweep(struct demo *demo, enum app_carrier carrier, struct progress *p)
{
	struct demo_sweep *sweep = &demo->sweep[demo->sweeps++];
	const char *words[] = {
	    "chain",  "--sweep",   "--size", "4M",        "--hops",
	    "5",      "--seconds", "5",      "--carrier", app_carrier_name(carrier),
	    "--json", NULL};
	char *json;

	*sweep = (struct demo_sweep){.carrier = carrier};
	json = demo_child(words, sweep->why, update_progress, p);
	next_step(p);
	if (!json)
		return;
	sweep->ok = true;
	for (char *at = strstr(json, "{\"size\":"); at && sweep->n < DEMO_SIZES_MAX;
	     at = strstr(at + 1, "{\"size\":")) {
		unsigned i = sweep->n++;

		sweep->size[i] = demo_number(at, "size");
		sweep->value[i] = demo_number(at, "value_calls_per_s");
		sweep->ref[i] = demo_number(at, "ref_calls_per_s");
	}
	free(json);
}

static void print_table(const struct demo *demo)
{
	char bytes[32], same[32];

	printf("%-10s %-6s %14s %12s %14s %11s %10s %6s\n", "carrier", "by", "moved/image",
	       "p50 ms", "without codec", "images/s", "identical", "pages");
	for (unsigned i = 0; i < demo->rows; i++) {
		const struct demo_row *row = &demo->row[i];

		if (!row->ok) {
			printf("%-10s %-6s skipped: %s\n", app_carrier_name(row->carrier), row->by,
			       row->why);
			continue;
		}
		snprintf(same, sizeof(same), "%.0f/%.0f", row->identical, row->images);
		printf("%-10s %-6s %14s %12.2f %14.2f %11.1f %10s %6.0f\n",
		       app_carrier_name(row->carrier), row->by,
		       page_number(bytes, PAGE_BYTES, row->bytes_moved), row->p50_ms,
		       row->p50_ms_without_codec, row->images_per_s, same, row->pages_used_after);
	}
	for (unsigned i = 0; i < demo->sweeps; i++)
		if (!demo->sweep[i].ok)
			printf("%-10s chain  skipped: %s\n",
			       app_carrier_name(demo->sweep[i].carrier), demo->sweep[i].why);
}

/* Returns whether this machine supports the carrier, according to the output of lend doctor. */
static bool is_offered(enum app_carrier carrier, const char *doctor)
{
	char key[64];
	const char *at;

	snprintf(key, sizeof(key), "\"name\": \"%s\"", app_carrier_name(carrier));
	at = doctor ? strstr(doctor, key) : NULL;
	at = at ? strstr(at, "\"ok\": ") : NULL;
	return at && !strncmp(at, "\"ok\": true", 10);
}

static void run_all(struct demo *demo, bool quick)
{
	static const char *const by[] = {"value", "ref", "auto", "pool"};
	static const enum app_carrier carriers[DEMO_CARRIERS] = {APP_SHM, APP_UDP, APP_DPDK_MEMIF};
	const char *ask[] = {"doctor", "--json", NULL};
	struct progress p = {.began = app_now(), .step_began = app_now()};
	char why[DEMO_WHY], *doctor = demo_child(ask, why, update_progress, &p);
	unsigned n = quick ? 1 : DEMO_CARRIERS;

	n -= !quick && !is_offered(APP_DPDK_MEMIF, doctor);
	p.steps = n * (DEMO_BYS + !quick) + 1;
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < DEMO_BYS + !i; k++) /* a pool is shm */
			run_images(demo, carriers[i], by[k], &p);
	for (unsigned i = 0; i < n && !quick; i++)
		run_sweep(demo, carriers[i], &p);
	app_progress_clear();
	if (!quick && n < DEMO_CARRIERS)
		app_note("dpdk:memif is left out: lend doctor says what it lacks here");
	demo->seconds = (double)(app_now() - p.began) / 1e9;
	free(doctor);
}

/* Ends the program at once, before a minute of work, when there are no photographs. */
static void check_photographs(const struct args *args)
{
	struct images_list list;
	struct stat st;

	if (!strcmp(args->dir, PHOTOGRAPHS) && stat(args->dir, &st) < 0)
		app_bad("%s: no photographs here: apt install mate-backgrounds, run "
			"scripts/demo.sh, or "
			"give a folder of JPEG files",
			args->dir);
	images_list_open(&list, args->dir);
	images_list_close(&list);
}

static bool all_good(const struct demo *demo)
{
	for (unsigned i = 0; i < demo->rows; i++)
		if (demo->row[i].ok ? demo->row[i].identical != demo->row[i].images ||
					  demo->row[i].pages_used_after > 0
				    : demo->row[i].carrier != APP_DPDK_MEMIF)
			return false;
	return true;
}

static struct demo demo;

/* Removes the folder of results at exit, on success and failure. */
static void remove_results(void)
{
	const char *dir = demo.results;
	DIR *d = opendir(dir);
	char path[sizeof(demo.results) + 258];

	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_name[0] != '.')
			unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

static const char doc[] =
    "An image service of seven processes and a memory node over real photographs, passing "
    "pixels by value, by "
    "reference and through a pool; and a chain of services over sizes. About a minute."
    "\vDIR is a folder of JPEG files; Debian's mate-backgrounds if none is given.\n\n"
    "  lend demo\n"
    "  lend demo --report /tmp/lend.html ~/Pictures";

int app_demo(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .words = "[DIR]", .doc = doc};
	struct args args = {.dir = NULL, .report = "lend-demo.html"};
	char full[4096];

	app_options_read(&syntax, argc, argv, &args);
	args.dir = args.dir ? args.dir : PHOTOGRAPHS;
	check_photographs(&args);
	demo.dir = args.dir;
	if (args.workers)
		snprintf(demo.workers, sizeof(demo.workers), "%u", args.workers);
	snprintf(demo.results, sizeof(demo.results), "/tmp/lend-demo-XXXXXX");
	if (!mkdtemp(demo.results))
		app_die("%s: %s; free some space in /tmp", demo.results, strerror(errno));
	atexit(remove_results);
	run_all(&demo, args.quick);
	print_table(&demo);
	if (!demo_report(&demo, args.report))
		app_die("%s: %s; name a file that can be written", args.report, strerror(errno));
	if (args.svg && !demo_picture(&demo, args.svg))
		app_die("%s: %s; name a file that can be written", args.svg, strerror(errno));
	printf("report: %s\n", realpath(args.report, full) ? full : args.report);
	return all_good(&demo) ? APP_EXIT_OK : APP_EXIT_FAILED;
}
