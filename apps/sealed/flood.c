/* flood - sends forged CONNECTs to a server on this machine, and shows what live calls lose.
 * Layer: apps. Threads: the main one makes the live calls, another one sends. */
#include "apps/sealed/flood.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/common/report.h"

enum { RATE_MAX = 2000000 };

struct args {
	const char *address, *kinds;
	uint64_t rate, calls;
	lend_ns time;
	bool watch, json;
};

static const struct lend_option options[] = {
    OPT_WORD(struct args, address),
    OPT_NUMBER(struct args, rate, "rate", 1, RATE_MAX, "Datagrams per second: 200000 unless given",
	       .key = 'r'),
    OPT_TIME(struct args, time, "seconds", "How long: 10 unless given", .key = 't'),
    OPT_TEXT(struct args, kinds, "kinds", "LIST",
	     "Of no_mac1, wrong_mac1, replayed, no_cookie and bad_cookie: these unless given; or "
	     "noise"),
    OPT_FLAG(struct args, watch, "watch", "Make live calls before and during the flood",
	     .key = 'w'),
    OPT_NUMBER(struct args, calls, "calls", 1, 1000000,
	       "Live calls per second: 10000 unless given"),
    OPT_JSON(struct args, json),
    {.name = NULL}};

static void take_kinds(const char *text, bool kind[FLOOD_KINDS])
{
	for (uint32_t i = FLOOD_NO_MAC; i < FLOOD_KINDS && !text; i++)
		kind[i] = true;
	while (text && *text) {
		size_t len = strcspn(text, ",");
		uint32_t i = 0;

		while (i < FLOOD_KINDS && (strlen(flood_kind_names[i]) != len ||
					   strncmp(flood_kind_names[i], text, len) != 0))
			i++;
		if (i == FLOOD_KINDS)
			app_bad("--kinds %s: give names of noise, no_mac1, wrong_mac1, "
				"replayed, no_cookie, bad_cookie",
				text);
		kind[i] = true;
		text += len + (text[len] == ',');
	}
}

static uint64_t sent_of(const struct flood *f)
{
	uint64_t sent = 0;

	for (uint32_t i = 0; i < FLOOD_KINDS; i++)
		sent += f->sent[i];
	return sent;
}

static void report_sent(struct app_report *r, const struct flood *f)
{
	double seconds = (double)f->time * 1e-9;
	uint64_t sent = sent_of(f);

	app_report_int(r, "sent", sent, "forged CONNECTs");
	for (uint32_t i = 0; i < FLOOD_KINDS; i++)
		app_report_int(r, flood_kind_names[i], f->sent[i], "of this kind");
	app_report_num(r, "sent_per_s", seconds > 0 ? (double)sent / seconds : 0, 0,
		       "per second, measured");
	app_report_int(r, "not_sent", f->refused, "that the system had no room for");
	app_report_int(r, "answers", f->answers, "datagrams came back");
	app_report_num(r, "answer_bytes_per_byte",
		       sent ? (double)f->answer_bytes / (double)(sent * f->datagram_len) : 0, 4,
		       "bytes came back per byte sent");
	app_report_num(r, "sender_cpu", seconds > 0 ? (double)f->cpu * 1e-9 / seconds : 0, 2,
		       "processors that the sender used");
}

static double goodput_of(const struct flood_live *live)
{
	return live->due ? (double)live->good / (double)live->due : 0;
}

/* sent: forged while `during` was measured, which the server's memory may have grown for. */
static void report_live(struct app_report *r, const struct flood_live *before,
			const struct flood_live *during, uint64_t grown, uint64_t sent)
{
	app_report_num(r, "goodput_before", goodput_of(before), 4,
		       "live calls answered, of those due");
	app_report_num(r, "goodput_during", goodput_of(during), 4, "the same during the flood");
	app_report_num(r, "p50_us_before", before->p50_us, 1, "us, half took no longer");
	app_report_num(r, "p50_us_during", during->p50_us, 1, "us, during the flood");
	app_report_num(r, "p99_us_before", before->p99_us, 1, "us, 99 % took no longer");
	app_report_num(r, "p99_us_during", during->p99_us, 1, "us, during the flood");
	app_report_int(r, "dropped_during", during->drops,
		       "datagrams that the server's socket had no room for");
	if (during->server_cpu < 0 || before->server_cpu < 0) {
		app_note("the server does not show its figures to this user");
		return;
	}
	app_report_num(r, "server_cpu_before", before->server_cpu, 2,
		       "processors that the server used");
	app_report_num(r, "server_cpu_during", during->server_cpu, 2, "during the flood");
	app_report_int(r, "server_sessions", during->sessions, "sessions up at its end");
	app_report_int(r, "server_grown_bytes", grown, "bytes that the server's memory grew");
	app_report_num(r, "state_per_datagram", sent ? (double)grown / (double)sent : 0, 3,
		       "of them per forged CONNECT");
}

static const char doc[] =
    "Sends forged CONNECTs to a server on this machine, to see that it stands them.\v"
    "Only addresses of the loopback are taken. The kinds: no_mac1 and wrong_mac1, as a scanner "
    "without the key sends them, which get no answer; replayed, a copy of a valid one from other "
    "addresses; no_cookie and bad_cookie, from a holder of the key; noise is as long and of "
    "another protocol, so that the server "
    "drops it at once: with it, live calls lose what the kernel's part takes from them. With "
    "--watch, live calls of a "
    "session that is up are made before and during the flood, at a fixed rate: goodput is the "
    "share that is answered within 100 ms. A server that shows its figures to this user (same "
    "key) also reports its memory and its share of a processor; flood, server and calls may "
    "compete for two.\n\n"
    "  lend flood udp:127.0.0.1:31850 --rate 200000 --seconds 10 --watch\n"
    "  lend flood udp:127.0.0.1:31850 --watch --kinds noise\n"
    "  lend flood udp:127.0.0.1:31850 --kinds no_mac1,wrong_mac1 --seconds 1 --json";

int app_flood(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .words = "ADDR", .doc = doc};
	struct args args = {.rate = 200000, .calls = 10000, .time = UINT64_C(10000000000)};
	struct flood f = {.seed = (uint64_t)app_now()};
	struct flood_live before, first = {.rss = 0}, during;
	struct flood_watch *watch = NULL;
	struct app_report r;

	app_options_read(&syntax, argc, argv, &args);
	if (!args.address)
		app_bad("no address; give that of a server on this machine: lend flood "
			"udp:127.0.0.1:31850");
	flood_take_address(args.address, &f.to);
	take_kinds(args.kinds, f.kind);
	f.rate = args.rate;
	before.rate = first.rate = during.rate = args.calls;
	if (args.watch) {
		watch = flood_watch_open(args.address);
		flood_watch_run(watch, args.time / 4, &before);
	}
	flood_start(&f);
	if (watch) {
		/* Memory that the first CONNECTs cause stays; only more of it would be state. */
		flood_watch_run(watch, args.time / 4, &first);
		flood_watch_run(watch, args.time - args.time / 4, &during);
	} else {
		nanosleep(&(struct timespec){(time_t)(args.time / 1000000000),
					     (long)(args.time % 1000000000)},
			  NULL);
	}
	flood_stop(&f);
	app_report_begin(&r, args.json, args.address);
	report_sent(&r, &f);
	if (watch) {
		report_live(&r, &before, &during,
			    during.rss > first.rss ? during.rss - first.rss : 0, sent_of(&f));
		flood_watch_close(watch);
	}
	app_report_end(&r);
	return APP_EXIT_OK;
}
