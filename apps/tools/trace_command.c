/* trace_command - lend trace: reads the rings of processes, and prints the tree of a request.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/tools/trace_spans.h"
#include "util/bits.h"

enum { SERVERS_MAX = 64, SPANS_MAX = 1 << 20, REPLY_SPANS_MAX = 4096 };
#define ASK_NS UINT64_C(2000000000)

struct args {
	const char *connect, *id, *otlp;
	uint64_t count;
};

static const struct lend_option options[] = {
    OPT_TEXT(struct args, connect, "connect", "ADDR,...", "Endpoints whose spans are read"),
    OPT_TEXT(struct args, id, "id", "ID", "The trace to print (the newest that have ended)",
	     .key = 'i'),
    OPT_NUMBER(struct args, count, "count", 1, 10000, "Traces to print without --id (1)",
	       .key = 'n'),
    OPT_TEXT(struct args, otlp, "otlp", "FILE",
	     "Write all spans as OTLP/JSON instead; -: to standard output"),
    {.name = NULL}};

static const char doc[] =
    "Prints the tree of a request: each call with its time for the caller, and in the handler."
    "\vEndpoints begin a trace for the share LEND_TRACE of their calls, and pass its ids on; each "
    "keeps its newest 4,096 spans. Name every process of a request, else its handlers are "
    "missing. Times of several machines are as good as their clocks.\n\n"
    "  LEND_TRACE=0.01 lend-social --role gateway ...\n"
    "  lend trace --connect shm:social-1,shm:social-2\n"
    "  lend trace --connect shm:social-1 --otlp spans.json";

static struct trace_server server[SERVERS_MAX];
static uint32_t servers;
static struct trace_spans all;

/* Adds a span, its times moved to the Unix epoch. */
static void add_span(const struct trace_server *from, const char *bytes, lend_ns epoch)
{
	struct trace_span *to = &all.at[all.n];

	if (all.n == SPANS_MAX)
		app_die("more than %d spans", SPANS_MAX);
	memcpy(&to->span, bytes, sizeof(to->span));
	to->span.name[sizeof(to->span.name) - 1] = '\0';
	to->span.start += epoch;
	to->span.end += to->span.end ? epoch : 0;
	to->server = from;
	all.n++;
}

/* Adds the spans of a reply. Returns false if the reply is malformed. */
static bool take_reply(struct trace_server *from, const struct lend_buf *reply, uint64_t *next)
{
	struct lend_trace_head head;
	const char *at = reply->data;

	if (reply->next || reply->len < sizeof(head))
		return false;
	memcpy(&head, at, sizeof(head));
	if (head.size < sizeof(head) || head.span_size < sizeof(struct lend_span) ||
	    head.size > reply->len || head.span_size > 65536 || head.n > REPLY_SPANS_MAX ||
	    reply->len - head.size < (uint64_t)head.n * head.span_size ||
	    (head.next && head.next <= *next))
		return false;
	from->pid = head.pid;
	for (uint32_t i = 0; i < head.n; i++)
		add_span(from, at + head.size + (uint64_t)i * head.span_size,
			 head.unix_now - head.now);
	*next = head.next;
	return true;
}

/* Makes one call for spans from *next on. Returns NULL, or the reason why there are none. */
static const char *ask_spans(struct lend_ep *ep, lend_session session, struct trace_server *from,
			     uint64_t *next)
{
	struct lend_call call = {.method = LEND_METHOD_TRACE, .timeout = ASK_NS};
	const char *why = NULL;

	call.request = lend_buf_take(ep, 8);
	if (!call.request)
		return lend_why();
	lend_store_u64(call.request->data, *next);
	call.request->len = 8;
	if (lend_call_sync(ep, session, &call) < 0)
		return lend_why();
	if (call.status == LEND_PERMISSION_DENIED)
		why = "it shows its spans to its own user over shm, and to peers with its key";
	else if (call.status == LEND_UNIMPLEMENTED)
		why = "it is of a version without traces: restart it";
	else if (call.status != LEND_OK)
		why = app_status_name(call.status);
	else if (!take_reply(from, call.reply, next))
		why = "its reply is malformed: is it of this version?";
	lend_buf_give(ep, call.reply);
	lend_buf_give(ep, call.request);
	return why;
}

static void read_server(struct lend_ep *ep, struct trace_server *from)
{
	lend_session session;
	const char *why = NULL;
	uint64_t next = 0;

	if (lend_connect(ep, from->address, &session) < 0)
		app_die("%s: %s", from->address, lend_why());
	do
		why = ask_spans(ep, session, from, &next);
	while (!why && next);
	if (why)
		app_die("%s: %s", from->address, why);
	lend_disconnect(ep, session);
}

static int compare_ids(const void *a, const void *b)
{
	const struct trace_span *x = a, *y = b;

	return memcmp(x->span.id, y->span.id, sizeof(x->span.id));
}

static int compare_starts(const void *a, const void *b)
{
	const struct trace_span *x = a, *y = b;

	return (x->span.start > y->span.start) - (x->span.start < y->span.start);
}

/* Removes spans that were read twice, by two addresses of a process; sorts the others. */
static void sort_spans(void)
{
	uint32_t n = 0;

	qsort(all.at, all.n, sizeof(all.at[0]), compare_ids);
	for (uint32_t i = 0; i < all.n; i++)
		if (n == 0 || compare_ids(&all.at[n - 1], &all.at[i]) != 0)
			all.at[n++] = all.at[i];
	all.n = n;
	qsort(all.at, all.n, sizeof(all.at[0]), compare_starts);
}

static void read_servers(char *addresses)
{
	struct lend_ep *ep;

	all.at = calloc(SPANS_MAX, sizeof(all.at[0])); /* unused pages use no memory */
	if (!all.at)
		app_die("no memory for %d spans", SPANS_MAX);
	if (lend_open(NULL, &ep) < 0)
		app_die("%s", lend_why());
	for (char *a = strtok(addresses, ","); a; a = strtok(NULL, ",")) {
		if (servers == SERVERS_MAX)
			app_bad("--connect: at most %d addresses", SERVERS_MAX);
		server[servers].address = a;
		read_server(ep, &server[servers++]);
	}
	lend_close(ep);
	sort_spans();
}

static void write_otlp(const char *path)
{
	FILE *out = strcmp(path, "-") != 0 ? fopen(path, "w") : stdout;

	if (!out)
		app_die("%s: %s", path, strerror(errno));
	trace_print_otlp(out, &all, server, servers);
	if (fflush(out) || ferror(out))
		app_die("%s: %s", path, strerror(errno));
	if (out != stdout)
		fclose(out);
}

static void print_named(const char *id)
{
	uint8_t trace[16];
	unsigned byte;

	if (strlen(id) != 2 * sizeof(trace) || strspn(id, "0123456789abcdef") != 2 * sizeof(trace))
		app_bad("--id %s: give 32 lower-case hex digits", id);
	for (size_t i = 0; i < sizeof(trace); i++) {
		(void)sscanf(id + 2 * i, "%2x", &byte);
		trace[i] = (uint8_t)byte;
	}
	if (trace_count(&all, trace) == 0)
		app_die("--id %s: no such trace, or newer ones have replaced it", id);
	trace_print_tree(stdout, &all, trace);
}

/* Returns whether a span is the first of those of its trace, and has ended. */
static bool begins_trace(uint32_t i)
{
	if (!all.at[i].span.end)
		return false;
	for (uint32_t k = i; k-- > 0;)
		if (!memcmp(all.at[k].span.trace, all.at[i].span.trace,
			    sizeof(all.at[i].span.trace)))
			return false;
	return true;
}

static void print_newest(uint64_t count)
{
	uint64_t printed = 0;

	for (uint32_t i = all.n; i-- > 0 && printed < count;)
		if (begins_trace(i)) {
			trace_print_tree(stdout, &all, all.at[i].span.trace);
			printed++;
		}
	if (!printed)
		app_die("no traces: start the processes that begin requests with LEND_TRACE=0.01");
}

int app_trace(int argc, char **argv)
{
	static struct args args = {.count = 1};
	const struct lend_syntax syntax = {.option = options, .doc = doc};
	char *addresses;

	app_options_read(&syntax, argc, argv, &args);
	if (!args.connect || !*args.connect)
		app_bad("--connect: name the endpoints, such as shm:shop,udp:10.0.0.2:31850");
	addresses = strdup(args.connect);
	if (!addresses)
		app_die("no memory");
	read_servers(addresses);
	if (args.otlp)
		write_otlp(args.otlp);
	else if (args.id)
		print_named(args.id);
	else
		print_newest(args.count);
	free(all.at);
	free(addresses);
	return APP_EXIT_OK;
}
