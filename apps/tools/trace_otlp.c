/* trace_otlp - spans in the JSON form of OpenTelemetry's protocol (OTLP 1.0): ids in hex, 64-bit
 * numbers as strings. Layer: apps. Threads: one. */
#include <inttypes.h>

#include "apps/common/report.h"
#include "apps/tools/trace_spans.h"

enum { STATUS_OK = 1, STATUS_ERROR = 2 };

static void print_text(FILE *out, const char *name, const char *value)
{
	fprintf(out, "\"%s\": ", name);
	app_report_quote(out, value);
}

static void print_id(FILE *out, const char *name, const uint8_t *bytes, uint32_t n)
{
	fprintf(out, "\"%s\": \"", name);
	trace_print_hex(out, bytes, n);
	fputs("\", ", out);
}

static bool has_parent(const struct lend_span *span)
{
	uint8_t any = 0;

	for (uint32_t i = 0; i < sizeof(span->parent); i++)
		any |= span->parent[i];
	return any;
}

static void print_span(FILE *out, const struct lend_span *span)
{
	fputs("{", out);
	print_id(out, "traceId", span->trace, sizeof(span->trace));
	print_id(out, "spanId", span->id, sizeof(span->id));
	if (has_parent(span))
		print_id(out, "parentSpanId", span->parent, sizeof(span->parent));
	print_text(out, "name", span->name);
	fprintf(out,
		", \"kind\": %u, \"startTimeUnixNano\": \"%" PRIu64
		"\", \"endTimeUnixNano\": \"%" PRIu64 "\", \"attributes\": [{\"key\": "
		"\"rpc.grpc.status_code\", \"value\": {\"intValue\": \"%u\"}}], \"status\": "
		"{\"code\": %d}}",
		span->kind, span->start, span->end ? span->end : span->start, span->status,
		span->status == LEND_OK ? STATUS_OK : STATUS_ERROR);
}

static void print_resource(FILE *out, const struct trace_server *server)
{
	fputs("{\"resource\": {\"attributes\": [{\"key\": \"service.name\", \"value\": {", out);
	print_text(out, "stringValue", server->address);
	fprintf(out, "}}, {\"key\": \"process.pid\", \"value\": {\"intValue\": \"%u\"}}]}, ",
		server->pid);
	fputs("\"scopeSpans\": [{\"scope\": {\"name\": \"lend\"}, \"spans\": [", out);
}

void trace_print_otlp(FILE *out, const struct trace_spans *all, const struct trace_server *server,
		      uint32_t servers)
{
	fputs("{\"resourceSpans\": [", out);
	for (uint32_t s = 0; s < servers; s++) {
		uint32_t n = 0;

		fputs(s ? ",\n" : "\n", out);
		print_resource(out, &server[s]);
		for (uint32_t i = 0; i < all->n; i++) {
			if (all->at[i].server != &server[s])
				continue;
			fputs(n++ ? ",\n" : "\n", out);
			print_span(out, &all->at[i].span);
		}
		fputs("]}]}", out);
	}
	fputs("]}\n", out);
}
