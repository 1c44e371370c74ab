/* closed_loop - see closed_loop.h. */
#include "apps/common/closed_loop.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { LOOK_EVERY = 1024, CALIBRATE_NS = 20000000, WAIT_NS = 50000000 };

static lend_ns clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (lend_ns)t.tv_sec * 1000000000u + (lend_ns)t.tv_nsec;
}

lend_ns app_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

lend_ns app_cpu_now(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t app_ticks(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#else
	return app_now();
#endif
}

double app_ticks_per_ns(void)
{
	static double known;
	lend_ns began, now;
	uint64_t first;

	if (known > 0)
		return known;
	began = app_now();
	first = app_ticks();
	while ((now = app_now()) < began + CALIBRATE_NS)
		;
	known = (double)(app_ticks() - first) / (double)(now - began);
	return known;
}

/* Starts the slot's next request, or marks it for another try. Its time counts from ticks on. */
static void begin_request(struct app_slot *slot, uint64_t ticks)
{
	struct app_load *load = slot->load;
	int rc;

	slot->waiting = false;
	slot->number = load->started++; /* before start, which may already end it */
	slot->began_ticks = ticks;
	rc = load->start(slot);
	if (rc == 0) {
		load->slots += !slot->began;
		slot->began = true;
		return;
	}
	load->started--;
	slot->waiting = rc == -EAGAIN;
	if (slot->waiting)
		return;
	load->failure = rc;
	load->stopping = true;
}

static bool may_begin(const struct app_load *load)
{
	return !load->stopping && (!load->max || load->started < load->max);
}

/* One clock read ends a request and starts the next, so that the times of a slot have no gaps. The
 * histogram is updated after the next request is sent. */
void app_slot_end(struct app_slot *slot, enum lend_status status, uint64_t wrong_bytes)
{
	struct app_load *load = slot->load;
	uint64_t now = app_ticks(), ticks = now - slot->began_ticks;

	if (load->on_end) {
		load->on_end(slot, status, wrong_bytes);
		return;
	}
	load->ended++;
	load->wrong_bytes += wrong_bytes;
	if (status != LEND_OK) {
		load->errors++;
		load->last = status;
		/* Retried later: a request that fails immediately would recurse without end here.
		 */
		slot->waiting = may_begin(load);
		return;
	}
	if (may_begin(load))
		begin_request(slot, now);
	lend_hist_add(&load->hist, (uint64_t)((double)ticks / load->ticks_per_ns));
}

void app_load_turn(struct app_load *load)
{
	int rc;

	if (load->poll)
		rc = load->poll(load->arg);
	else if (load->sleep && !load->other)
		rc = lend_wait(load->ep, lend_now(load->ep) + WAIT_NS);
	else
		rc = lend_poll(load->ep);
	if (rc >= 0 && load->other)
		rc = lend_poll(load->other);
	if (load->between)
		load->between(load->arg);
	if (rc >= 0)
		return;
	load->failure = rc;
	load->stopping = true;
	load->started = load->ended; /* no more requests will end */
}

/* Every LOOK_EVERY turns: retries the waiting slots and updates the progress line. */
static void update_slots(struct app_load *load, struct app_slot *const *slots, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (slots[i]->waiting && may_begin(load))
			begin_request(slots[i], app_ticks());
	if (load->quiet)
		return;
	if (load->time)
		app_progress(load->began, (double)(app_now() - load->began), (double)load->time);
	else
		app_progress(load->began, (double)load->ended, (double)load->max);
}

static void reset_counts(struct app_load *load)
{
	load->ended = load->errors = load->wrong_bytes = load->started = 0;
	load->stopping = false;
	load->failure = 0;
	load->last = LEND_OK;
	load->slots = 0;
	load->ticks_per_ns = app_ticks_per_ns();
	lend_hist_init(&load->hist);
	load->began = app_now();
	load->until_ticks = load->time
				? app_ticks() + (uint64_t)((double)load->time * load->ticks_per_ns)
				: UINT64_MAX;
}

int app_load_run(struct app_load *load, struct app_slot *const *slots, unsigned n)
{
	uint64_t first;
	lend_ns cpu;

	reset_counts(load);
	cpu = app_cpu_now();
	first = app_ticks();
	for (unsigned i = 0; i < n; i++) {
		slots[i]->load = load;
		slots[i]->index = i;
		slots[i]->waiting = slots[i]->began = false;
		if (may_begin(load))
			begin_request(slots[i], app_ticks());
	}
	for (unsigned turns = 1; may_begin(load) || load->ended < load->started; turns++) {
		app_load_turn(load);
		if (app_ticks() >= load->until_ticks)
			load->stopping = true;
		if (load->sleep || turns % LOOK_EVERY == 0 || load->started == load->ended)
			update_slots(load, slots, n);
	}
	load->ticks = app_ticks() - first;
	load->cpu_seconds = (double)(app_cpu_now() - cpu) / 1e9;
	load->seconds = (double)load->ticks / load->ticks_per_ns / 1e9;
	if (!load->quiet)
		app_progress_clear();
	return load->failure;
}

void app_load_merge(struct app_load *load, const struct app_load *other)
{
	load->ended += other->ended;
	load->errors += other->errors;
	load->wrong_bytes += other->wrong_bytes;
	load->slots += other->slots;
	load->cpu_seconds += other->cpu_seconds;
	load->seconds = fmax(load->seconds, other->seconds);
	if (other->errors)
		load->last = other->last;
	lend_hist_merge(&load->hist, &other->hist);
}

double app_load_rate(const struct app_load *load)
{
	return load->seconds > 0 ? (double)(load->ended - load->errors) / load->seconds : 0;
}

double app_hist_us(const struct lend_hist *hist, double quantile)
{
	return (double)lend_hist_quantile(hist, quantile) / 1e3;
}

bool app_hist_is_ordered(const struct lend_hist *hist)
{
	uint64_t p50 = lend_hist_quantile(hist, 0.5), p99 = lend_hist_quantile(hist, 0.99);

	return p50 <= p99 && p99 <= lend_hist_max(hist);
}

void app_load_report(const struct app_load *load, struct app_report *report)
{
	const struct lend_hist *h = &load->hist;
	double rate = app_load_rate(load);
	double mean = lend_hist_mean(h) / 1e9;
	double little = rate * mean;
	double off = load->slots ? fabs(little - load->slots) * 100 / load->slots : 0;
	double p50 = app_hist_us(h, 0.5);
	double p99 = app_hist_us(h, 0.99);
	double max = (double)lend_hist_max(h) / 1e3;

	app_report_num(report, "calls_per_s", rate, 1, "calls that ended OK, per second");
	app_report_num(report, "p50_us", p50, 3, "us, half of the calls took no longer");
	app_report_num(report, "p99_us", p99, 3, "us, 99 % took no longer");
	app_report_num(report, "mean_us", mean * 1e6, 3, "us, mean");
	app_report_num(report, "min_us", (double)lend_hist_min(h) / 1e3, 3, "us, the fastest");
	app_report_num(report, "max_us", max, 3, "us, the slowest");
	app_report_int(report, "calls", load->ended, "in this run");
	app_report_int(report, "in_flight", load->slots, "calls kept in flight");
	app_report_num(report, "rate_x_mean", little, 3,
		       "rate x mean latency; equals in_flight if every call is counted");
	app_report_bool(report, "check_in_flight", off <= 3, "the two agree within 3 %");
	app_report_bool(report, "check_order", p50 <= p99 && p99 <= max, "p50 <= p99 <= max");
	app_report_int(report, "errors", load->errors, "calls that did not end OK");
	app_report_int(report, "wrong_bytes", load->wrong_bytes, "bytes that arrived damaged");
	app_report_num(report, "seconds", load->seconds, 3, "measured");
	app_report_num(report, "cpu_us_per_call",
		       load->ended ? load->cpu_seconds * 1e6 / (double)load->ended : 0, 3,
		       "us of this thread's time");
}
