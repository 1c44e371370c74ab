/* ping - the time to connect to an endpoint, and round trips of a call that every endpoint
 * answers.
 * Layer: apps. Threads: one. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/tools/reach.h"

enum { COUNT_MAX = 1000000 };

struct ping {
	struct lend_ep *ep;
	lend_session session;
	const char *address;
	lend_ns interval, timeout, connected;
	lend_ns *rtt; /* round-trip time of each call that was answered */
	unsigned count, sent, answered;
	bool json;
};

static volatile sig_atomic_t stopping;
static struct lend_ep *volatile running;

static void on_signal(int number)
{
	(void)number;
	stopping = 1;
	if (running)
		lend_stop(running);
}

static const struct lend_option options[] = {
    OPT_WORD(struct ping, address),
    OPT_NUMBER(struct ping, count, "count", 1, COUNT_MAX, "How many calls: 5 unless given"),
    OPT_TIME(struct ping, interval, "interval", "From call to call: 200ms unless given"),
    OPT_TIME(struct ping, timeout, "timeout", "At most so long for the session and each call: 5s"),
    OPT_JSON(struct ping, json),
    {.name = NULL}};

/* Makes one call. Returns false when the session has ended. */
static bool call_once(struct ping *p)
{
	struct lend_call call = {.method = LEND_METHOD_PING, .timeout = p->timeout};
	lend_ns began = lend_now(p->ep), took;
	int rc = lend_call_sync(p->ep, p->session, &call);

	took = lend_now(p->ep) - began;
	p->sent++;
	if (rc < 0 || call.status != LEND_OK) {
		app_note("%s: call %u: %s: %s", p->address, p->sent,
			 app_status_name(rc < 0 ? LEND_UNAVAILABLE : call.status),
			 app_reach_why(rc < 0 ? LEND_UNAVAILABLE : call.status));
		return rc == 0 && call.status != LEND_UNAVAILABLE;
	}
	lend_buf_give(p->ep, call.reply);
	p->rtt[p->answered++] = took;
	if (!p->json)
		printf("reply from %s: call=%u time=%.1f us\n", p->address, p->sent,
		       (double)took / 1e3);
	return true;
}

static void call_all(struct ping *p)
{
	lend_ns next = lend_now(p->ep);

	while (!stopping && call_once(p) && p->sent < p->count) {
		fflush(stdout);
		next += p->interval;
		while (!stopping && lend_now(p->ep) < next)
			if (lend_wait(p->ep, next) < 0)
				app_die("%s", lend_why());
	}
}

static int by_length(const void *a, const void *b)
{
	lend_ns left = *(const lend_ns *)a, right = *(const lend_ns *)b;

	return (left > right) - (left < right);
}

/* Returns the i-th shortest round trip in microseconds; 0: none was measured. */
static double us_of(const struct ping *p, unsigned i)
{
	return p->answered ? (double)p->rtt[i] / 1e3 : 0;
}

static void report(struct ping *p)
{
	double min, median, max;
	struct app_report r;

	qsort(p->rtt, p->answered, sizeof(p->rtt[0]), by_length);
	min = us_of(p, 0);
	median = us_of(p, p->answered / 2);
	max = us_of(p, p->answered - 1);
	if (!p->json) {
		printf("%u calls, %u replies; min/median/max = %.1f/%.1f/%.1f us\n", p->sent,
		       p->answered, min, median, max);
		return;
	}
	app_report_begin(&r, true, "");
	app_report_text(&r, "address", p->address, "");
	app_report_num(&r, "connect_us", (double)p->connected / 1e3, 1, "");
	app_report_int(&r, "calls", p->sent, "");
	app_report_int(&r, "replies", p->answered, "");
	app_report_num(&r, "min_us", min, 1, "");
	app_report_num(&r, "median_us", median, 1, "");
	app_report_num(&r, "max_us", max, 1, "");
	app_report_end(&r);
}

static const char doc[] =
    "Connects to an endpoint and measures round trips.\v"
    "Every endpoint answers, whatever it serves, and no handler of an application runs. The time "
    "to "
    "connect is that of the handshake. A waiting endpoint sleeps, so most of a round trip is the "
    "time to wake both ends: lend bench lat measures calls one after the other.\n\n"
    "Exit status: 0 all calls were answered; 1 no server, or a call was not answered; 2 the "
    "command line makes no sense.\n\n"
    "  lend ping shm:hello\n"
    "  lend ping udp:10.0.0.2:31850 --count 100 --interval 10ms --json";

int app_ping(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .words = "ADDR", .doc = doc};
	struct ping p = {.count = 5, .interval = 200000000, .timeout = UINT64_C(5000000000)};
	struct sigaction action = {.sa_handler = on_signal};
	bool good;

	app_options_read(&syntax, argc, argv, &p);
	if (!p.address)
		app_bad("no address; give that of an endpoint: lend ping shm:hello");
	p.rtt = calloc(p.count, sizeof(p.rtt[0]));
	if (!p.rtt)
		app_die("no memory for %u results; give a smaller --count", p.count);
	if (lend_open(NULL, &p.ep) < 0)
		app_die("%s", lend_why());
	p.connected = app_reach(p.ep, p.address, p.timeout, &p.session);
	if (!p.json)
		printf("%s: connected in %.1f us\n", p.address, (double)p.connected / 1e3);
	running = p.ep;
	sigaction(SIGINT, &action, NULL);
	call_all(&p);
	running = NULL;
	report(&p);
	good = p.answered == p.sent;
	free(p.rtt);
	lend_close(p.ep);
	return good ? APP_EXIT_OK : APP_EXIT_FAILED;
}
