/* trace_tree - a trace as a tree, one line for each call: when it began, how long it took for the
 * caller and in the handler, and where the handler ran.
 * Layer: apps. Threads: one. */
#include <string.h>

#include "apps/common/report.h"
#include "apps/tools/trace_spans.h"

enum { DEPTH_MAX = 32 };

static const uint8_t none[8];

void trace_print_hex(FILE *out, const uint8_t *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		fprintf(out, "%02x", bytes[i]);
}

static bool is_of(const struct trace_span *span, const uint8_t trace[16])
{
	return !memcmp(span->span.trace, trace, sizeof(span->span.trace));
}

uint32_t trace_count(const struct trace_spans *all, const uint8_t trace[16])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < all->n; i++)
		n += is_of(&all->at[i], trace);
	return n;
}

static const struct trace_span *find_span(const struct trace_spans *all, const uint8_t id[8])
{
	for (uint32_t i = 0; i < all->n; i++)
		if (!memcmp(all->at[i].span.id, id, sizeof(all->at[i].span.id)))
			return &all->at[i];
	return NULL;
}

/* Returns the handler's end of a call whose caller's end is client; NULL: its ring was not read. */
static const struct trace_span *find_server(const struct trace_spans *all,
					    const struct trace_span *client)
{
	for (uint32_t i = 0; i < all->n; i++)
		if (all->at[i].span.kind == LEND_SPAN_SERVER &&
		    !memcmp(all->at[i].span.parent, client->span.id, sizeof(client->span.id)))
			return &all->at[i];
	return NULL;
}

static void print_us(FILE *out, const struct trace_span *span)
{
	if (span && span->span.end)
		fprintf(out, " %10.1f", (double)(span->span.end - span->span.start) / 1e3);
	else
		fprintf(out, " %10s", span ? "running" : "-");
}

/* Prints one call, of which one end may be unknown. */
static void print_call(FILE *out, const struct trace_span *client, const struct trace_span *server,
		       lend_ns begin, int depth)
{
	const struct trace_span *any = client ? client : server;

	fprintf(out, "%10.1f", ((double)any->span.start - (double)begin) / 1e3);
	print_us(out, client);
	print_us(out, server);
	fprintf(out, "  %*s%s", 2 * depth, "", any->span.name);
	if (server)
		fprintf(out, "  %s (%u)", server->server->address, server->server->pid);
	if (any->span.end && any->span.status != LEND_OK)
		fprintf(out, "  %s", app_status_name((enum lend_status)any->span.status));
	fputc('\n', out);
}

static void print_below(FILE *out, const struct trace_spans *all, const uint8_t id[8],
			lend_ns begin, int depth);

/* Prints the call that begins with this span, and those below it. */
static void print_from(FILE *out, const struct trace_spans *all, const struct trace_span *span,
		       lend_ns begin, int depth)
{
	bool client = span->span.kind == LEND_SPAN_CLIENT;
	const struct trace_span *server = client ? find_server(all, span) : span;

	print_call(out, client ? span : NULL, server, begin, depth);
	if (server && depth < DEPTH_MAX)
		print_below(out, all, server->span.id, begin, depth + 1);
}

static void print_below(FILE *out, const struct trace_spans *all, const uint8_t id[8],
			lend_ns begin, int depth)
{
	for (uint32_t i = 0; i < all->n; i++)
		if (!memcmp(all->at[i].span.parent, id, sizeof(none)))
			print_from(out, all, &all->at[i], begin, depth);
}

void trace_print_tree(FILE *out, const struct trace_spans *all, const uint8_t trace[16])
{
	lend_ns begin = 0;

	fputs("trace ", out);
	trace_print_hex(out, trace, 16);
	fprintf(out, "\n%10s %10s %10s  %s\n", "start_us", "call_us", "handler_us", "method");
	for (uint32_t i = 0; i < all->n; i++) {
		const struct trace_span *span = &all->at[i];

		if (!is_of(span, trace))
			continue;
		begin = begin ? begin : span->span.start;
		/* the first, and those below spans of processes whose rings were not read */
		if (!memcmp(span->span.parent, none, sizeof(none)) ||
		    !find_span(all, span->span.parent))
			print_from(out, all, span, begin, 0);
	}
}
