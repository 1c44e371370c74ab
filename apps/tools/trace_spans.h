/* trace - lend trace: spans of several processes, as trees and as OTLP.
 *
 *   trace_command.c   the command: options, and the rings of the processes
 *   trace_tree.c      one trace as an indented tree with times
 *   trace_otlp.c      all spans as OTLP/JSON
 *
 * Layer: apps. Threads: one. */
#ifndef APPS_TOOLS_TRACE_SPANS_H
#define APPS_TOOLS_TRACE_SPANS_H

#include <stdint.h>
#include <stdio.h>

#include "lend/tracing.h"

/* A process whose ring was read. */
struct trace_server {
	const char *address;
	uint32_t pid;
};

struct trace_span {
	struct lend_span span; /* its times are of the Unix epoch, if the clocks agree */
	const struct trace_server *server;
};

/* All spans that were read, each once, in the order of their starts. */
struct trace_spans {
	struct trace_span *at;
	uint32_t n;
};

/* Returns how many spans a trace has. */
uint32_t trace_count(const struct trace_spans *all, const uint8_t trace[16]);
/* Prints a trace as a tree. */
void trace_print_tree(FILE *out, const struct trace_spans *all, const uint8_t trace[16]);
/* Prints bytes as hex digits. */
void trace_print_hex(FILE *out, const uint8_t *bytes, uint32_t n);
/* Prints all spans as one ExportTraceServiceRequest of OTLP/JSON. */
void trace_print_otlp(FILE *out, const struct trace_spans *all, const struct trace_server *server,
		      uint32_t servers);

#endif
