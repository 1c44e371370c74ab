#include "apps/social/role_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "apps/social/social.h"
#include "lend/alloc.h"
#include "lend/stats.h"

enum { TEXT_MAX = 64 << 10, BODY_MAX = 1024 };
static const char type[] = "text/plain; version=0.0.4; charset=utf-8";

/* Prints what a metric means, and whether it also falls. Returns the suffix of its name. */
static const char *put_head(FILE *out, const char *group, const char *name, const char *meaning)
{
	bool falls = strstr(meaning, " now") != NULL;
	const char *suffix = falls ? "" : "_total";

	fprintf(out, "# HELP lend_%s_%s%s %s\n# TYPE lend_%s_%s%s %s\n", group, name, suffix,
		meaning, group, name, suffix, falls ? "gauge" : "counter");
	return suffix;
}

static void put_endpoint(FILE *out)
{
	const char *name, *meaning;
	uint64_t value;

	for (unsigned i = 0; lend_stats_each(social.ep, i, &name, &meaning, &value); i++)
		fprintf(out, "lend_endpoint_%s%s %" PRIu64 "\n", name,
			put_head(out, "endpoint", name, meaning), value);
}

/* Prints a counter of all roles; durations in seconds, as Prometheus has them. */
static void put_counter(FILE *out, unsigned i, const char *name, const char *meaning)
{
	bool ns = strlen(name) > 3 && !strcmp(name + strlen(name) - 3, "_ns");
	char full[64];

	(void)snprintf(full, sizeof(full), "%.*s%s", (int)(strlen(name) - (ns ? 3 : 0)), name,
		       ns ? "_seconds" : "");
	(void)put_head(out, "social", full, ns ? meaning + strlen("ns, ") : meaning);
	for (unsigned role = 0; role < SOCIAL_ROLES; role++) {
		const char *same, *again;
		uint64_t value;

		if (!social.counters[role].requests)
			continue;
		(void)social_counter(role, i, &same, &again, &value);
		fprintf(out, "lend_social_%s_total{role=\"%s\"} ", full, social_role_names[role]);
		if (ns)
			fprintf(out, "%.9f\n", (double)value / 1e9);
		else
			fprintf(out, "%" PRIu64 "\n", value);
	}
}

void metrics_reply(struct http_request *http)
{
	char *text = lend_malloc(TEXT_MAX);
	FILE *out = text ? fmemopen(text, TEXT_MAX, "w") : NULL;
	const char *name, *meaning;
	uint64_t value;
	long len;

	if (!out) {
		lend_free(text);
		http_reply_text(http, 503, "no memory");
		return;
	}
	put_endpoint(out);
	for (unsigned i = 0; social_counter(0, i, &name, &meaning, &value); i++)
		put_counter(out, i, name, meaning);
	len = ftell(out);
	fclose(out);
	http_reply(http, 200, type, text, (size_t)len, false);
}

static void handle_request(struct http_request *http)
{
	if (!strcmp(http_path(http), "/metrics") && !strcmp(http_method(http), "GET"))
		metrics_reply(http);
	else
		http_reply_text(http, 404, "the metrics are at /metrics");
}

void metrics_open(const char *listen, char *address, size_t cap)
{
	http_open(listen, BODY_MAX, handle_request, address, cap);
}
