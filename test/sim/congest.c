#include "sim/congest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/command.h"

enum { ROWS_MAX = 32, SENDERS_MAX = 4096 };
enum form { TABLE, CSV, JSON };

struct options {
	struct congest_plan plan;
	uint32_t senders[ROWS_MAX], rows;
	enum form form;
	const char *plot;
};

static bool number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text && !*end && !errno && *out >= 1 && *out <= max;
}

static bool list(struct options *o, const char *text)
{
	char copy[256], *at = copy, *word;
	uint64_t n;

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	for (o->rows = 0; (word = strsep(&at, ",")); o->senders[o->rows++] = (uint32_t)n)
		if (o->rows == ROWS_MAX || !number(word, SENDERS_MAX, &n))
			return false;
	return true;
}

static bool option(struct options *o, const char *name, const char *value)
{
	const struct {
		const char *name;
		uint64_t *to, max;
	} known[] = {
	    {"--bytes", &o->plan.bytes, 1 << 26},
	    {"--messages", &o->plan.messages, 1000000},
	    {"--gbps", &o->plan.gbps, 800},
	    {"--delay-ns", &o->plan.delay_ns, 100000000},
	    {"--buffer-kb", &o->plan.buffer_kb, 1 << 20},
	    {"--mark-kb", &o->plan.mark_kb, 1 << 20},
	    {"--share", &o->plan.share, 1 << 10},
	    {"--seed", &o->plan.seed, UINT64_MAX},
	};

	if (strcmp(name, "--senders") == 0)
		return list(o, value);
	if (strcmp(name, "--plot") == 0) {
		o->plot = value;
		return true;
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(name, known[i].name) == 0)
			return number(value, known[i].max, known[i].to);
	return false;
}

static bool parse(struct options *o, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--csv") == 0)
			o->form = CSV;
		else if (strcmp(argv[i], "--json") == 0)
			o->form = JSON;
		else if (i + 1 == argc || !option(o, argv[i], argv[i + 1]))
			return false;
		else
			i++;
	}
	return true;
}

/* Columns: name in CSV and JSON, heading in the table. */
#define COLUMNS(X)                                                                                 \
	X(senders, "senders", "%.0f", p->senders)                                                  \
	X(bytes, "bytes", "%.0f", (double)p->bytes)                                                \
	X(completion_us, "done us", "%.1f", (double)r->completion / 1e3)                           \
	X(ideal_us, "ideal us", "%.1f", (double)r->ideal / 1e3)                                    \
	X(ratio, "ratio", "%.2f", (double)r->completion / (double)r->ideal)                        \
	X(queue_max_kb, "q max", "%.0f", (double)r->queue.max / 1024)                              \
	X(queue_mean_kb, "q mean", "%.0f", lend_hist_mean(&r->queue) / 1024)                       \
	X(queue_p99_kb, "q p99", "%.0f", (double)lend_hist_quantile(&r->queue, 0.99) / 1024)       \
	X(drops, "drops", "%.0f", (double)r->drops)                                                \
	X(no_memory, "nomem", "%.0f", (double)r->no_memory)                                        \
	X(repeats, "repeats", "%.0f", (double)r->repeats)                                          \
	X(same_p50_us, "same p50", "%.1f", quantile(r, CONGEST_SAME, 0.5))                         \
	X(same_p99_us, "p99", "%.1f", quantile(r, CONGEST_SAME, 0.99))                             \
	X(same_p999_us, "p99.9", "%.1f", quantile(r, CONGEST_SAME, 0.999))                         \
	X(other_p50_us, "other p50", "%.1f", quantile(r, CONGEST_OTHER, 0.5))                      \
	X(other_p99_us, "p99", "%.1f", quantile(r, CONGEST_OTHER, 0.99))                           \
	X(other_p999_us, "p99.9", "%.1f", quantile(r, CONGEST_OTHER, 0.999))                       \
	X(fairness, "fair", "%.3f", r->fairness)                                                   \
	X(datagrams, "datagrams", "%.0f", (double)r->datagrams)

static double quantile(const struct congest_result *r, int victim, double q)
{
	return (double)lend_hist_quantile(&r->victim[victim], q) / 1e3;
}

static void heading(enum form form)
{
	static const char *const name[] = {
#define X(name, head, format, value) #name,
	    COLUMNS(X)
#undef X
	};
	static const char *const head[] = {
#define X(name, head, format, value) head,
	    COLUMNS(X)
#undef X
	};

	if (form == JSON)
		printf("{\"rows\": [");
	for (size_t i = 0; form != JSON && i < sizeof(name) / sizeof(name[0]); i++)
		printf(form == CSV ? "%s%s" : "%s%10s", i && form == CSV ? "," : "",
		       form == CSV ? name[i] : head[i]);
	if (form != JSON)
		putchar('\n');
}

static void row(enum form form, const struct congest_plan *p, const struct congest_result *r,
		bool first)
{
	char cell[64];
	bool begun = false;

	if (form == JSON)
		printf("%s{", first ? "" : ", ");
#define X(name, head, format, value)                                                               \
	snprintf(cell, sizeof(cell), format, (double)(value));                                     \
	if (form == JSON)                                                                          \
		printf("%s\"%s\": %s", begun ? ", " : "", #name, cell);                            \
	else                                                                                       \
		printf(form == CSV ? "%s%s" : "%s%10s", begun && form == CSV ? "," : "", cell);    \
	begun = true;
	COLUMNS(X)
#undef X
	printf(form == JSON ? "}" : "\n");
	fflush(stdout);
}

int sim_cmd_congestion(int argc, char **argv)
{
	struct options o = {.plan = {.bytes = 65536,
				     .messages = 1,
				     .gbps = 100,
				     .delay_ns = 2500,
				     .buffer_kb = 4096,
				     .share = 8,
				     .seed = 1},
			    .senders = {8, 16, 32, 64, 128, 256, 512},
			    .rows = 7};
	struct congest_result *result;
	uint32_t n = 0;
	bool ok = true;

	if (!parse(&o, argc, argv)) {
		fprintf(stderr,
			"usage: lend-sim congestion [--senders N,N...] [--bytes B] [--messages M] "
			"[--gbps G]\n       [--delay-ns D] [--buffer-kb K] [--share EIGHTHS] "
			"[--mark-kb K] [--seed S]\n       [--csv | --json] [--plot FILE.svg]\n");
		return 2;
	}
	result = calloc(o.rows, sizeof(*result));
	if (!result)
		return 1;
	heading(o.form);
	for (; ok && n < o.rows; n++) {
		o.plan.senders = o.senders[n];
		congest_run(&o.plan, &result[n]);
		ok = result[n].ok;
		if (ok)
			row(o.form, &o.plan, &result[n], n == 0);
		else
			fprintf(stderr, "%u senders: %s\n", o.plan.senders, result[n].why);
	}
	if (o.form == JSON)
		printf("]}\n");
	if (ok && o.plot && !congest_plot(o.plot, &o.plan, o.senders, result, n)) {
		perror(o.plot);
		ok = false;
	}
	for (uint32_t i = 0; i < n; i++)
		free(result[i].series);
	free(result);
	return ok ? 0 : 1;
}
