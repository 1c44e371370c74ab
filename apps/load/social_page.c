/* social_page - the measurements of scripts/social.sh as an HTML page: for each workload the curves
 * of latency over load, bytes per request and CPU time per tier of each arm.
 *
 * The input is a JSON object: {"seconds": S, "runs": [{"workload", "carrier", "by", "command",
 * "steps": [...], and the fields of lend social --json}]}.
 * Layer: apps. Threads: one. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/chart.h"
#include "apps/common/options.h"
#include "apps/common/report_page.h"

enum { STEPS_MAX = 64, BARS_MAX = 64, RUNS_MAX = 64 };

struct args {
	const char *input, *output;
};

static const struct lend_option options[] = {
    OPT_WORD(struct args, input),
    OPT_TEXT(struct args, output, "output", "FILE", "The page (social.html)", .key = 'o'),
    {.name = NULL}};

/* One arm of a workload over a carrier. */
struct run {
	const json_t *json;
	const char *workload, *carrier, *by, *command;
	double load[STEPS_MAX], mean_us[STEPS_MAX], p99_us[STEPS_MAX];
	unsigned steps;
};
static struct run run[RUNS_MAX];
static unsigned runs;

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text)
		app_bad("a run has no \"%s\"", key);
	return text;
}

static double number_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static void read_run(const json_t *json)
{
	struct run *r = &run[runs++];
	const json_t *step;
	size_t i;

	*r = (struct run){.json = json,
			  .workload = text_of(json, "workload"),
			  .carrier = text_of(json, "carrier"),
			  .by = text_of(json, "by"),
			  .command = text_of(json, "command")};
	json_array_foreach(json_object_get(json, "steps"), i, step)
	{
		if (r->steps == STEPS_MAX || number_of(step, "mean_ms") <= 0)
			break;
		r->load[r->steps] = number_of(step, "rate");
		r->mean_us[r->steps] = 1e3 * number_of(step, "mean_ms");
		r->p99_us[r->steps++] = 1e3 * number_of(step, "p99_ms");
	}
	if (!r->steps)
		app_bad("a run of %s has no steps", r->workload);
}

/* Returns whether two runs are arms of one measurement. */
static bool are_arms(const struct run *a, const struct run *b)
{
	return !strcmp(a->workload, b->workload) && !strcmp(a->carrier, b->carrier);
}

static uint8_t color_of(const char *by)
{
	return !strcmp(by, "value")  ? CHART_VALUE
	       : !strcmp(by, "ref")  ? CHART_REF
	       : !strcmp(by, "auto") ? CHART_AUTO
	       : !strcmp(by, "pool") ? CHART_POOL
				     : CHART_GREY;
}

/* Prints latency over the offered load, of runs [first, end). */
static void write_curves(FILE *out, unsigned first, unsigned end, const char *title, bool p99)
{
	struct chart chart = {.title = title,
			      .by = "requests offered per second",
			      .x = {.unit = PAGE_COUNT},
			      .y = {.unit = PAGE_US, .log = true}};

	for (unsigned i = first; i < end && chart.lines < CHART_LINES; i++)
		chart.line[chart.lines++] =
		    (struct chart_line){.name = run[i].by,
					.x = run[i].load,
					.y = p99 ? run[i].p99_us : run[i].mean_us,
					.n = run[i].steps,
					.color = color_of(run[i].by)};
	fputs("<div class=\"card\">\n", out);
	chart_lines(out, 0, CHART_NARROW, &chart);
	fputs("</div>\n", out);
}

static const char *css_of(const char *by)
{
	return strcmp(by, "grpc") != 0 ? by : "grey";
}

static void write_bytes(FILE *out, unsigned first, unsigned end)
{
	struct chart_bar bar[BARS_MAX];
	unsigned n = 0;
	char text[32];

	for (unsigned i = first; i < end; i++) {
		struct chart_bar *b = &bar[n];

		*b = (struct chart_bar){.css = css_of(run[i].by),
					.value = number_of(run[i].json, "bytes_moved_per_request")};
		(void)snprintf(b->label, sizeof(b->label), "%s", run[i].by);
		(void)snprintf(b->text, sizeof(b->text), "%s",
			       page_number(text, PAGE_BYTES, b->value));
		n += b->value > 0; /* 0: another library, which does not count them */
	}
	fputs("<div class=\"card\">\n", out);
	chart_bars(out, 0, "Bytes moved per request", bar, n);
	fputs("</div>\n", out);
}

/* Prints the CPU time of each process per request. */
static void write_cpu(FILE *out, unsigned first, unsigned end)
{
	struct chart_bar bar[BARS_MAX];
	unsigned n = 0;

	for (unsigned i = first; i < end; i++) {
		json_t *tiers = json_object_get(run[i].json, "cpu_s_per_tier");
		double requests = number_of(run[i].json, "requests");
		const char *tier;
		json_t *seconds;

		json_object_foreach(tiers, tier, seconds)
		{
			struct chart_bar *b = &bar[n];

			if (n == BARS_MAX)
				break;
			*b = (struct chart_bar){.css = css_of(run[i].by)};
			b->first = n > 0 && bar[n - 1].css != b->css;
			b->value = requests > 0 ? 1e6 * json_number_value(seconds) / requests : 0;
			(void)snprintf(b->label, sizeof(b->label), "%s, %s", run[i].by,
				       strchr(tier, ',') ? "services" : tier);
			(void)snprintf(b->text, sizeof(b->text), "%.4g us", b->value);
			n++;
		}
	}
	fputs("<div class=\"card\">\n", out);
	chart_bars(out, 0, "CPU time per request, by process", bar, n);
	fputs("</div>\n", out);
}

/* Prints the time of each role in stores, and on top of that in calls, per request. */
static void write_times(FILE *out, unsigned first, unsigned end)
{
	struct chart_bar bar[BARS_MAX];
	unsigned n = 0;

	for (unsigned i = first; i < end; i++) {
		json_t *calls = json_object_get(run[i].json, "call_us_per_request");
		json_t *stores = json_object_get(run[i].json, "store_us_per_request");
		json_t *all = json_object(), *value;
		const char *role;

		json_object_update(all, calls);
		json_object_update(all, stores);
		json_object_foreach(all, role, value)
		{
			struct chart_bar *b = &bar[n];

			if (n == BARS_MAX)
				break;
			*b = (struct chart_bar){.css = css_of(run[i].by),
						.value = number_of(stores, role),
						.pale = number_of(calls, role)};
			b->first = n > 0 && bar[n - 1].css != b->css;
			(void)snprintf(b->label, sizeof(b->label), "%s, %s", run[i].by, role);
			(void)snprintf(b->text, sizeof(b->text), "%.3g + %.4g us", b->value,
				       b->pale);
			n++;
		}
		json_decref(all);
	}
	fputs("<div class=\"card\">\n", out);
	chart_bars(out, 0, "Time in stores + in calls per request, by role", bar, n);
	fputs("</div>\n", out);
}

static void write_row(FILE *out, const struct run *r, const struct run *base)
{
	static const struct {
		const char *key;
		int decimals;
	} columns[] = {{"saturation_per_s", 0},
		       {"mean_ms", 3},
		       {"requests_per_cpu_s", 0},
		       {"bytes_moved_per_request", 0},
		       {"posts_per_read", 1}};

	fprintf(out, "<tr><td><span class=\"dot %s\"></span>", css_of(r->by));
	page_text(out, r->by);
	fputs("</td><td>", out);
	page_text(out, r->carrier);
	fputs("</td>", out);
	for (unsigned i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		double value = number_of(r->json, columns[i].key);
		double to = number_of(base->json, columns[i].key);

		fprintf(out, "<td>%.*f", columns[i].decimals, value);
		if (r != base && to > 0 && i < 4)
			fprintf(out, " (%.2f&#215;)", value / to);
		fputs("</td>", out);
	}
	fprintf(out, "<td>%.0f</td><td>%.0f</td></tr>\n", number_of(r->json, "errors"),
		number_of(r->json, "wrong_bytes"));
}

static void write_table(FILE *out, unsigned first, unsigned end)
{
	fputs("<div class=\"card scroll\"><table>\n<tr><th>By</th><th>Carrier</th><th>Goodput at "
	      "saturation, 1/s</th><th>Mean latency at the same load, ms</th><th>Requests per CPU "
	      "second</th><th>Bytes per request</th><th>Posts per read</th><th>Errors</th>"
	      "<th>Wrong bytes</th></tr>\n",
	      out);
	for (unsigned i = first; i < end; i++)
		write_row(out, &run[i], &run[first]);
	fputs("</table></div>\n", out);
}

static void write_layout(FILE *out, unsigned first, unsigned end)
{
	const json_t *process;
	size_t i;

	fputs("<p class=\"soft\">Processes: a memory node, the load generator", out);
	json_array_foreach(json_object_get(run[first].json, "processes"), i, process)
	{
		fputs(", <code>", out);
		page_text(out, json_string_value(process));
		fputs("</code>", out);
	}
	fputs(". Commands:", out);
	for (unsigned k = first; k < end; k++) {
		fputs(" <code>", out);
		page_text(out, run[k].command);
		fputs("</code>", out);
	}
	fputs("</p>\n", out);
}

static void write_workload(FILE *out, unsigned first, unsigned end)
{
	fputs("<h2>", out);
	page_text(out, run[first].workload);
	fputs(", ", out);
	page_text(out, run[first].carrier);
	fputs("</h2>\n<div class=\"grid\">\n", out);
	write_curves(out, first, end, "Mean latency", false);
	write_curves(out, first, end, "Latency that 99 % do not exceed", true);
	write_bytes(out, first, end);
	write_cpu(out, first, end);
	write_times(out, first, end);
	fputs("</div>\n", out);
	write_table(out, first, end);
	write_layout(out, first, end);
}

static void write_page(FILE *out, double seconds)
{
	unsigned end;

	report_page_begin(out, "Lend: a social network");
	fputs("<h1>A social network, by value and by reference</h1>\n<p>DeathStarBench's social "
	      "network over Lend: the same services, stores and requests. By value texts and media "
	      "travel in each call; by reference they are on a memory node, and 64 bytes travel. "
	      "Latency counts from the time at which a request was due (open loop, Poisson). CPU "
	      "time and bytes are those of the services and the node, not of the load "
	      "generator.</p>\n",
	      out);
	for (unsigned i = 0; i < runs; i = end) {
		for (end = i + 1; end < runs && are_arms(&run[i], &run[end]);)
			end++;
		write_workload(out, i, end);
	}
	fputs(
	    "<h2>How it was measured</h2>\n<p class=\"soft\">The arms of a workload ran one after "
	    "the other, in turns. Ratios are to the first arm of the table. ",
	    out);
	report_page_machine(out);
	fprintf(out, " %.0f s.</p>\n", seconds);
	report_page_end(out);
}

int app_social_page(int argc, char **argv)
{
	static struct args args = {.output = "social.html"};
	const struct lend_syntax syntax = {
	    .option = options, .words = "FILE", .doc = "Writes the page of scripts/social.sh."};
	json_error_t error;
	struct page page;
	json_t *root, *each;
	size_t i;

	app_options_read(&syntax, argc, argv, &args);
	root = json_load_file(args.input, 0, &error);
	if (!root)
		app_bad("%s: %s", args.input, error.text);
	json_array_foreach(json_object_get(root, "runs"), i, each) if (runs < RUNS_MAX)
	    read_run(each);
	if (!runs)
		app_bad("%s: no runs", args.input);
	if (!page_open(&page, args.output))
		app_die("cannot write %s", args.output);
	write_page(page.out, number_of(root, "seconds"));
	if (!page_close(&page))
		app_die("cannot write %s", args.output);
	json_decref(root);
	return APP_EXIT_OK;
}
