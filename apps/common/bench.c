/* bench - see bench.h. */
#include "apps/common/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/echo.h"
#include "apps/common/bench_server.h"
#include "lend/stats.h"

enum { COPY_MAX = 4096, WARM_SHARE = 10, SEED = 2 };

struct app_bench_slot {
	struct app_slot slot;
	struct lend_call call;
	struct app_bench *bench;
	struct lend_buf *request; /* a small one, filled again for each call */
};

/* Small requests are copied into a buffer of the pool, long ones are sent from the pattern itself.
 */
static int fill_request(struct app_bench_slot *slot)
{
	struct app_bench *b = slot->bench;
	uint64_t len = b->args.size;
	const void *bytes = app_pattern(slot->slot.number, len);

	if (len == 0)
		return 0;
	if (len > COPY_MAX) {
		slot->call.request = app_pattern_wrap(b->pair.ep, bytes, len);
		return slot->call.request ? 0 : -EAGAIN;
	}
	if (slot->request && slot->request->cap < len) {
		lend_buf_give(b->pair.ep, slot->request);
		slot->request = NULL;
	}
	if (!slot->request)
		slot->request = lend_buf_take(b->pair.ep, (uint32_t)len);
	if (!slot->request)
		return -EAGAIN;
	memcpy(slot->request->data, bytes, len);
	slot->request->len = (uint32_t)len;
	slot->call.request = slot->request;
	return 0;
}

static uint64_t check_reply(struct app_bench_slot *slot)
{
	struct app_bench *b = slot->bench;
	uint64_t len = b->args.size, number = slot->slot.number;

	if (b->method == APP_METHOD_SINK)
		return app_sum_wrong(slot->call.reply, app_pattern_crc(number, len), len);
	return app_pattern_wrong(slot->call.reply, number, len);
}

static unsigned session_of(const struct app_bench_slot *slot)
{
	return slot->slot.index % slot->bench->args.sessions;
}

static void call_done(struct lend_call *call)
{
	struct app_bench_slot *slot = APP_OF(call, struct app_bench_slot, call);
	uint64_t wrong = call->status == LEND_OK ? check_reply(slot) : 0;

	if (!call->request)
		slot->request = NULL;
	else if (call->request != slot->request)
		lend_buf_give(slot->bench->pair.ep, call->request);
	call->request = call->reply = NULL;
	slot->bench->good[session_of(slot)] += call->status == LEND_OK;
	app_slot_end(&slot->slot, call->status, wrong);
}

static int start_slot(struct app_slot *at)
{
	struct app_bench_slot *slot = APP_OF(at, struct app_bench_slot, slot);
	struct app_bench *b = slot->bench;
	int rc = fill_request(slot);

	if (rc < 0)
		return rc;
	slot->call.method = b->method;
	slot->call.timeout = b->load.left ? b->load.left : APP_CALL_NS + b->args.size * APP_BYTE_NS;
	slot->call.in_place = 1;
	slot->call.done = call_done;
	rc = lend_call_start(b->pair.ep, b->session[session_of(slot)], &slot->call);
	if (rc < 0 && slot->call.request && slot->call.request != slot->request)
		lend_buf_give(b->pair.ep, slot->call.request);
	if (rc < 0)
		slot->call.request = NULL;
	return rc;
}

static void fill_config(const struct app_bench *b, struct lend_config *config)
{
	uint64_t all = b->args.size * b->slots * 2;

	config->calls = b->args.window < 16 ? 16 : b->args.window;
	if (b->args.sessions > 16)
		config->sessions = b->args.sessions * 2;
	config->message_max = b->args.size > (16 << 20) ? b->args.size : 0;
	config->receive_budget = all > (64 << 20) ? all : 0;
}

static void make_slots(struct app_bench *b)
{
	b->slot = calloc(b->slots, sizeof(*b->slot));
	b->order = calloc(b->slots, sizeof(struct app_slot *));
	b->session = calloc(b->args.sessions, sizeof(*b->session));
	b->good = calloc(b->args.sessions, sizeof(*b->good));
	if (!b->slot || !b->order || !b->session || !b->good)
		app_die("no memory for %u calls in flight; give a smaller --window", b->slots);
	for (unsigned i = 0; i < b->slots; i++) {
		b->slot[i].bench = b;
		b->order[i] = &b->slot[i].slot;
	}
	b->load.ep = b->pair.ep;
	b->load.other = b->pair.other;
	b->load.start = start_slot;
	b->load.sleep = b->args.sleep || (!b->pair.other && app_cpus() < 2);
}

/* Runs the load. app_die() with the cause and a fix when the load fails. */
static void run_load(struct app_bench *b, const char *when)
{
	const char *where = app_pair_address(&b->pair);
	int rc = app_load_run(&b->load, b->order, b->slots);

	if (rc < 0)
		app_die("%s: %s%s%s", where, when,
			*lend_why() ? ": " : ": is the server still running? ", lend_why());
	if (b->load.errors == b->load.ended && b->load.last == LEND_RESOURCE_EXHAUSTED)
		app_die("%s: %s ended RESOURCE_EXHAUSTED: give a smaller --size or --window, or "
			"the server a larger --message-max",
			where, when);
	if (b->load.errors == b->load.ended)
		app_bench_serves(where, b->load.last);
	if (b->load.errors == b->load.ended && *lend_why() &&
	    (b->load.last == LEND_UNAVAILABLE || b->load.last == LEND_UNAUTHENTICATED))
		app_die("%s: %s", where, lend_why());
	if (b->load.errors == b->load.ended)
		app_die("%s: %s ended %s: start a server there (lend serve --listen %s) or fix the "
			"address",
			where, when, app_status_name(b->load.last), where);
}

void app_bench_open(struct app_bench *b, const struct app_load_args *args, uint32_t method)
{
	struct lend_config config = LEND_CONFIG_INIT;

	memset(b, 0, sizeof(*b));
	b->args = *args;
	b->method = method;
	b->slots = args->window * args->sessions;
	if (args->size > APP_PATTERN_MAX)
		app_bad("--size: give at most %d bytes", APP_PATTERN_MAX);
	app_pattern_init(SEED, args->size);
	fill_config(b, &config);
	app_pair_open(&b->pair, args, &config);
	app_pattern_register(b->pair.ep);
	make_slots(b);
	for (unsigned i = 0; i < args->sessions; i++)
		if (lend_connect(b->pair.ep, app_pair_address(&b->pair), &b->session[i]) < 0)
			app_die("%s", lend_why());
	if (method == APP_METHOD_SINK)
		app_pattern_crc(0, args->size);
	b->load.max = b->slots;
	run_load(b, "the first calls");
}

/* Returns the bytes that both ends have handed to their carriers so far; 0 with a server that
 * another process started, because its bytes are not known. */
static uint64_t moved_bytes(struct app_bench *b)
{
	struct lend_stats stats;
	uint64_t tx = 0, rx, sum;

	lend_stats_get(b->pair.ep, &stats);
	sum = stats.tx_bytes;
	if (b->pair.other) {
		lend_stats_get(b->pair.other, &stats);
		tx = stats.tx_bytes;
	} else if (b->pair.child.pid) {
		app_child_bytes(&b->pair.child, &tx, &rx);
	} else {
		return 0;
	}
	return sum + tx;
}

/* Returns Jain's fairness index of the sessions' rates: 1 if all are equal, 1/n if one session has
 * all. */
static double jain_index(const struct app_bench *b)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < b->args.sessions; i++) {
		sum += (double)b->good[i];
		squares += (double)b->good[i] * (double)b->good[i];
	}
	return squares > 0 ? sum * sum / (b->args.sessions * squares) : 1;
}

void app_bench_run(struct app_bench *b)
{
	uint64_t before;

	b->load.max = 0;
	b->load.time = b->args.time / WARM_SHARE + 1000000;
	run_load(b, "warming up");
	b->load.time = b->args.count ? 0 : b->args.time;
	b->load.max = b->args.count;
	memset(b->good, 0, b->args.sessions * sizeof(*b->good));
	before = moved_bytes(b);
	run_load(b, "all calls");
	if (b->load.slots < b->slots && !b->args.count)
		app_note("%s takes %u calls of a session at once: give --window %u, and more "
			 "--sessions",
			 app_pair_address(&b->pair), b->load.slots / b->args.sessions,
			 b->load.slots / b->args.sessions);
	b->bytes_moved = moved_bytes(b) - before;
	b->jain = jain_index(b);
}

void app_bench_report(const struct app_bench *b, struct app_report *report)
{
	const struct app_load *load = &b->load;

	app_load_report(load, report);
	app_report_num(report, "cycles_per_call", (double)load->ticks / (double)load->ended, 1,
		       b->pair.other ? "of this core, for both ends" : "of the calling core");
	app_report_num(report, "bytes_moved_per_call", (double)b->bytes_moved / (double)load->ended,
		       1, "sent by both ends; 0: not known");
	app_report_text(report, "verified", b->method == APP_METHOD_SINK ? "crc32c" : "memcmp",
			"how every byte was checked");
	app_report_int(report, "size", b->args.size, "bytes of payload");
	app_report_int(report, "window", b->args.window, "calls in flight per session");
	app_report_int(report, "sessions", b->args.sessions, "to the server");
	app_report_num(report, "jain", b->jain, 3,
		       "fairness between sessions; 1: all have the same rate");
	app_report_carrier(report, b->pair.net.carrier);
	app_report_bool(report, "one_thread", b->pair.other, "both ends in one thread");
}

void app_bench_close(struct app_bench *b)
{
	for (unsigned i = 0; i < b->slots; i++)
		if (b->slot[i].request)
			lend_buf_give(b->pair.ep, b->slot[i].request);
	app_pair_close(&b->pair);
	free(b->slot);
	free(b->order);
	free(b->session);
	free(b->good);
}
