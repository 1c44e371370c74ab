/* call_reply - see call_reply.h. */
#include "apps/tools/call_reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/tools/call_metadata.h"
#include "apps/tools/reach.h"

enum { ROW = 16 };

static unsigned char *flatten_reply(const struct lend_buf *reply, uint64_t len)
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

/* Reports the reply: JSON of a message, a text, or reply_hex if it is not ASCII. */
static void report_reply(struct app_report *report, const struct call_reply *how,
			 const unsigned char *bytes, uint64_t len, const char *message)
{
	if (message)
		app_report_json(report, "reply", message, "");
	else if (how->hex || !is_text(bytes, len))
		report_bytes(report, bytes, len);
	else
		app_report_text(report, "reply", (const char *)bytes, "");
}

/* Reports all but the reply. */
static void report_call(struct app_report *report, const struct call_reply *how, struct lend_ep *ep,
			const struct lend_call *call, lend_ns took)
{
	static const char *const ran[] = {"no", "yes", "maybe"};
	char path[32];

	(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(how->address, ":"), how->address);
	app_report_int(report, "status", call->status, "");
	app_report_text(report, "status_name", app_status_name(call->status), "");
	app_report_text(report, "message", lend_call_why(ep, call), "");
	app_report_text(report, "path", path, "");
	app_report_text(report, "ran", ran[call->ran], "");
	app_report_num(report, "us", (double)took / 1e3, 1, "");
	app_report_int(report, "bytes", call->reply ? call->reply_len : 0, "");
	call_metadata_report(report, ep, call, false);
	call_metadata_report(report, ep, call, true);
}

/* Returns the reply as JSON, null if the call failed; NULL: replies are bytes. */
static const char *message_of(const struct call_reply *how, const struct lend_call *call,
			      const unsigned char *bytes, uint64_t len)
{
	const char *json = "null", *why;

	if (!how->proto || how->hex)
		return NULL;
	if (call->status != LEND_OK)
		return json;
	why = how->proto->decode(bytes, len, &json);
	if (why)
		app_die("%s: %s", how->address, why);
	return json;
}

int call_reply_show(const struct call_reply *how, struct lend_ep *ep, const struct lend_call *call,
		    lend_ns took)
{
	uint64_t len = call->reply ? call->reply_len : 0;
	unsigned char *bytes = flatten_reply(call->reply, len);
	const char *message = message_of(how, call, bytes, len), *why = lend_call_why(ep, call);
	struct app_report report;

	if (how->json) {
		app_report_begin(&report, true, "");
		report_call(&report, how, ep, call, took);
		report_reply(&report, how, bytes, len, message);
		app_report_end(&report);
	} else {
		call_metadata_print(ep, call, false);
		if (message && call->status == LEND_OK)
			puts(message);
		else if (how->hex)
			print_hex(bytes, len);
		else
			fwrite(bytes, 1, len, stdout);
		call_metadata_print(ep, call, true);
	}
	free(bytes);
	if (fflush(stdout) || ferror(stdout))
		app_die("cannot write the reply: %s; fix the output", strerror(errno));
	if (call->status == LEND_OK)
		return APP_EXIT_OK;
	app_note("%s: method %s: %s: %s", how->address, how->method, app_status_name(call->status),
		 *why ? why : app_reach_why(call->status));
	return APP_EXIT_FAILED;
}
