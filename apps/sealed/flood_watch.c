/* flood_watch - live calls at a fixed rate on one session, and what the server uses meanwhile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/sealed/flood.h"
#include "apps/tools/reach.h"
#include "lend/stats.h"
#include "util/bits.h"

enum { CALLS = 1024, SAMPLES = 1 << 20 };
#define REACH_NS   UINT64_C(5000000000)
#define TIMEOUT_NS UINT64_C(100000000)

struct live_call {
	struct lend_call call; /* first */
	struct flood_watch *watch;
	lend_ns due;
	bool running;
};

struct flood_watch {
	struct lend_ep *ep;
	lend_session session;
	unsigned port; /* the server's */
	struct flood_live *live;
	struct live_call call[CALLS];
	uint32_t at;
	uint32_t n;
	float sample[SAMPLES]; /* us, from the time when the call was due */
};

struct server_use {
	uint64_t pid, sessions, cpu_ticks, rss;
};

/* Returns the datagrams that sockets of the server's port have dropped, by the kernel's list. */
static uint64_t count_drops(const char *path, unsigned port)
{
	FILE *file = fopen(path, "re");
	unsigned long drops;
	uint64_t sum = 0;
	unsigned at;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*u: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu",
			   &at, &drops) == 2 &&
		    at == port)
			sum += drops;
	if (file)
		fclose(file);
	return sum;
}

struct flood_watch *flood_watch_open(const char *address)
{
	struct flood_watch *w = calloc(1, sizeof(*w));

	if (!w)
		app_die("no memory for live calls");
	if (lend_open(NULL, &w->ep) < 0)
		app_die("%s", lend_why());
	(void)app_reach(w->ep, address, REACH_NS, &w->session);
	w->port = (unsigned)atoi(strrchr(address, ':') + 1);
	return w;
}

void flood_watch_close(struct flood_watch *w)
{
	lend_close(w->ep);
	free(w);
}

static void end_call(struct lend_call *call)
{
	struct live_call *c = (struct live_call *)call;
	struct flood_watch *w = c->watch;

	c->running = false;
	if (call->status == LEND_OK) {
		w->live->good++;
		if (w->n < SAMPLES)
			w->sample[w->n++] = (float)(app_now() - c->due) / 1000;
	}
	if (call->reply)
		lend_buf_give(w->ep, call->reply);
}

/* Starts the call that is due; a call that finds no room counts as not answered. */
static void start_call(struct flood_watch *w, lend_ns due)
{
	struct live_call *c = &w->call[w->at++ % CALLS];

	w->live->due++;
	if (c->running)
		return;
	*c = (struct live_call){.call = {.method = LEND_METHOD_PING,
					 .timeout = TIMEOUT_NS,
					 .done = end_call,
					 .queue = 1},
				.watch = w,
				.due = due,
				.running = true};
	c->running = lend_call_start(w->ep, w->session, &c->call) == 0;
}

/* Asks the server for its process and sessions; the kernel for what the process uses. All zero:
 * the server refuses this user. */
static void ask_server(struct flood_watch *w, struct server_use *use)
{
	struct lend_call call = {.method = LEND_METHOD_STATS, .timeout = REACH_NS};
	struct lend_stats_head head;
	unsigned long user, kernel, pages;
	char path[64];
	FILE *file;

	memset(use, 0, sizeof(*use));
	if (lend_call_sync(w->ep, w->session, &call) < 0 || call.status != LEND_OK)
		return;
	if (call.reply->len >= sizeof(head)) {
		memcpy(&head, call.reply->data, sizeof(head));
		use->pid = head.pid;
		use->sessions = head.stats.sessions;
	}
	lend_buf_give(w->ep, call.reply);
	(void)snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)use->pid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			   &user, &kernel) == 2)
		use->cpu_ticks = user + kernel;
	if (file)
		fclose(file);
	(void)snprintf(path, sizeof(path), "/proc/%llu/statm", (unsigned long long)use->pid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%*u %lu", &pages) == 1)
		use->rss = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
	if (file)
		fclose(file);
}

static int by_length(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Sleeps while it waits: the server may need the processor. */
static void turn_until(struct flood_watch *w, lend_ns end)
{
	do
		if (lend_wait(w->ep, lend_now(w->ep) + (end - lend_min_u64(end, app_now()))) < 0)
			app_die("%s", lend_why());
	while (app_now() < end);
}

static uint64_t drops_of(const struct flood_watch *w)
{
	return count_drops("/proc/net/udp", w->port) + count_drops("/proc/net/udp6", w->port);
}

void flood_watch_run(struct flood_watch *w, lend_ns time, struct flood_live *live)
{
	lend_ns began, next, gap = 1000000000 / live->rate;
	uint64_t drops;
	struct server_use before, after;

	w->live = live;
	w->n = 0;
	live->due = live->good = 0;
	ask_server(w, &before);
	drops = drops_of(w);
	began = next = app_now();
	for (; next < began + time; next += gap) {
		turn_until(w, next);
		start_call(w, next);
	}
	live->time = app_now() - began;
	live->drops = drops_of(w) - drops;
	turn_until(w, app_now() + 2 * TIMEOUT_NS); /* all have ended */
	qsort(w->sample, w->n, sizeof(w->sample[0]), by_length);
	live->p50_us = w->n ? (double)w->sample[w->n / 2] : 0;
	live->p99_us = w->n ? (double)w->sample[w->n - 1 - w->n / 100] : 0;
	ask_server(w, &after);
	live->sessions = after.sessions;
	live->rss = after.rss;
	live->server_cpu = before.rss && after.rss ? (double)(after.cpu_ticks - before.cpu_ticks) /
							 (double)sysconf(_SC_CLK_TCK) /
							 ((double)live->time * 1e-9 + 0.2)
						   : -1;
}
