/* call_command - one call of one method: sends bytes, prints the reply.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/tools/reach.h"
#include "lend/metadata.h"

enum { ROW = 16, READ = 1 << 16 };
#define MESSAGE_MAX (UINT32_C(1) << 30)

struct args {
	const char *address, *method, *data;
	lend_ns timeout;
	bool hex, json;
};

static const struct lend_option options[] = {
    OPT_WORD(struct args, address),
    OPT_WORD(struct args, method),
    OPT_TEXT(struct args, data, "data", "DATA",
	     "The request: a text, @FILE, or - for standard input"),
    OPT_FLAG(struct args, hex, "hex", "Print the reply as a hex dump"),
    OPT_TIME(struct args, timeout, "timeout", "At most so long for each of connect and call: 5s"),
    OPT_FLAG(struct args, json, "json", "One JSON object on one line, also of a call that failed"),
    {.name = NULL}};

static uint32_t method_of(const char *text)
{
	char *end = NULL;
	unsigned long long number;

	errno = 0;
	number = strtoull(text, &end, 0);
	if (text[0] < '0' || text[0] > '9' || *end || errno || number > UINT32_MAX)
		app_bad("%s: no method; give its number, such as 1, or its name, such as "
			"/shop.Cart/Add",
			text);
	return (uint32_t)number;
}

static char *read_all(FILE *file, const char *where, size_t *len)
{
	char *bytes = NULL;
	size_t cap = 0;

	if (!file)
		app_die("%s: %s; name a file that can be read", where, strerror(errno));
	for (*len = 0; !feof(file);) {
		if (*len + READ > cap) {
			cap = 2 * cap + READ;
			bytes = realloc(bytes, cap);
		}
		if (!bytes || *len > MESSAGE_MAX)
			app_die("%s: no memory for it, or longer than a message of 1 GiB", where);
		*len += fread(bytes + *len, 1, READ, file);
		if (ferror(file))
			app_die("%s: %s; name a file that can be read", where, strerror(errno));
	}
	return bytes;
}

/* Makes the request of --data: the text itself, @FILE or - for standard input. */
static struct lend_buf *make_request(struct lend_ep *ep, const char *data)
{
	struct lend_buf *buf;
	size_t len = 0;
	char *bytes;

	if (!data)
		return NULL;
	if (!strcmp(data, "-"))
		bytes = read_all(stdin, "standard input", &len);
	else if (data[0] == '@')
		bytes = read_all(fopen(data + 1, "rbe"), data + 1, &len);
	else
		bytes = strdup(data), len = strlen(data);
	buf = bytes ? lend_buf_wrap(ep, bytes, (uint32_t)len, free, bytes) : NULL;
	if (!buf)
		app_die("no memory for %zu bytes; send less", len);
	return buf;
}

static unsigned char *flatten(const struct lend_buf *reply, uint64_t len)
{
	unsigned char *all = malloc(len + 1);
	uint64_t at = 0;

	if (!all)
		app_die("no memory for a reply of %llu bytes; end some processes",
			(unsigned long long)len);
	for (; reply; at += reply->len, reply = reply->next)
		memcpy(all + at, reply->data, reply->len);
	all[at] = 0;
	return all;
}

static void print_row(const unsigned char *bytes, uint64_t at, unsigned n)
{
	printf("%08llx ", (unsigned long long)at);
	for (unsigned i = 0; i < ROW; i++)
		if (i < n)
			printf("%s%02x", i == ROW / 2 ? "  " : " ", bytes[i]);
		else
			printf("%s  ", i == ROW / 2 ? "  " : " ");
	fputs("  |", stdout);
	for (unsigned i = 0; i < n; i++)
		putchar(bytes[i] >= ' ' && bytes[i] < 0x7f ? bytes[i] : '.');
	puts("|");
}

static void print_hex(const unsigned char *bytes, uint64_t len)
{
	for (uint64_t at = 0; at < len; at += ROW)
		print_row(bytes + at, at, len - at < ROW ? (unsigned)(len - at) : ROW);
}

static bool is_text(const unsigned char *bytes, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if (bytes[i] == 0 || bytes[i] >= 0x7f)
			return false;
	return true;
}

static void report_bytes(struct app_report *report, const unsigned char *bytes, uint64_t len)
{
	char *hex = malloc(2 * len + 1);

	if (!hex)
		app_die("no memory to print %llu bytes; leave --json out", (unsigned long long)len);
	hex[0] = 0;
	for (uint64_t i = 0; i < len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	app_report_text(report, "reply_hex", hex, "");
	free(hex);
}

/* Prints the result. A reply that is not ASCII has the field reply_hex instead of reply. */
static void report(const struct args *args, const struct lend_call *call, const char *why,
		   const unsigned char *bytes, lend_ns took)
{
	static const char *const ran[] = {"no", "yes", "maybe"};
	uint64_t len = call->reply ? call->reply_len : 0;
	struct app_report report;

	app_report_begin(&report, true, "");
	app_report_text(&report, "status", app_status_name(call->status), "");
	if (call->status != LEND_OK)
		app_report_text(&report, "message", why, "");
	app_report_text(&report, "ran", ran[call->ran], "");
	app_report_num(&report, "us", (double)took / 1e3, 1, "");
	app_report_int(&report, "bytes", len, "");
	if (args->hex || !is_text(bytes, len))
		report_bytes(&report, bytes, len);
	else
		app_report_text(&report, "reply", (const char *)bytes, "");
	app_report_end(&report);
}

static int show(const struct args *args, const struct lend_call *call, const char *why,
		lend_ns took)
{
	uint64_t len = call->reply ? call->reply_len : 0;
	unsigned char *bytes = flatten(call->reply, len);

	if (args->json)
		report(args, call, why, bytes, took);
	else if (args->hex)
		print_hex(bytes, len);
	else
		fwrite(bytes, 1, len, stdout);
	free(bytes);
	if (fflush(stdout) || ferror(stdout))
		app_die("cannot write the reply: %s; fix the output", strerror(errno));
	if (call->status == LEND_OK)
		return APP_EXIT_OK;
	app_note("%s: method %s: %s: %s", args->address, args->method,
		 app_status_name(call->status), *why ? why : app_reach_why(call->status));
	return APP_EXIT_FAILED;
}

static const char doc[] =
    "Calls one method of a server and prints the reply.\v"
    "METHOD is a number, or a name that begins with a slash. The reply's bytes go to standard "
    "output as they are.\n\n"
    "Exit status: 0 the reply is OK; 1 no server, or the call ended with another status, which the "
    "line on standard error names with the fix; 2 the command line makes no sense.\n\n"
    "  lend call shm:hello 1 --data world\n"
    "  lend call shm:named /hello.Greeter/Greet\n"
    "  lend call udp:10.0.0.2:31850 7 --data @request.bin --hex\n"
    "  date | lend call shm:hello 1 --data - --timeout 200ms --json";

int app_call(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options, .words = "ADDR METHOD", .doc = doc};
	struct lend_config config = LEND_CONFIG_INIT;
	struct args args = {.timeout = UINT64_C(5000000000)};
	struct lend_call call = {.method = 0};
	struct lend_call_head head = {.name = NULL};
	lend_session session;
	struct lend_ep *ep;
	lend_ns began;
	int rc;

	app_options_read(&syntax, argc, argv, &args);
	if (!args.method)
		app_bad("call what? give an address and a method: lend call shm:hello 1 --data "
			"TEXT");
	if (args.method[0] == '/') {
		head.name = args.method;
		call.head = &head;
	} else {
		call.method = method_of(args.method);
	}
	call.timeout = args.timeout;
	config.message_max = MESSAGE_MAX;
	if (lend_open(&config, &ep) < 0)
		app_die("%s", lend_why());
	call.request = make_request(ep, args.data);
	(void)app_reach(ep, args.address, args.timeout, &session);
	began = lend_now(ep);
	if (lend_call_sync(ep, session, &call) < 0)
		app_die("%s: %s", args.address, lend_why());
	rc = show(&args, &call, lend_call_why(ep, &call), lend_now(ep) - began);
	lend_buf_give(ep, call.request);
	lend_buf_give(ep, call.reply);
	lend_close(ep);
	return rc;
}
