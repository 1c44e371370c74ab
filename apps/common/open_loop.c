/* open_loop - see open_loop.h. */
#include "apps/common/open_loop.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "util/bits.h"

enum { MANY = 36 }; /* lost arrivals from which on they are not drawn one by one */

static lend_ns ns_since(const struct app_arrivals *a, uint64_t due)
{
	return (lend_ns)((double)(app_ticks() - due) / a->load->ticks_per_ns);
}

static void request_ended(struct app_slot *slot, enum lend_status status, uint64_t wrong_bytes)
{
	struct app_arrivals *a = slot->load->arrivals;
	uint64_t due = slot->began_ticks;

	a->idle[a->n_idle++] = slot;
	if (due < a->counted_from)
		return;
	if (status == LEND_OK && !wrong_bytes) {
		a->completed++;
		lend_hist_add(&a->hist, ns_since(a, due));
	} else if (status == LEND_DEADLINE_EXCEEDED) {
		a->expired++;
	} else if (status == LEND_RESOURCE_EXHAUSTED) {
		a->exhausted++;
	} else {
		a->errors++;
	}
}

/* Draws the ticks to the next arrival: exponential. */
static double draw_gap(struct app_arrivals *a)
{
	return -log1p(-lend_rng_unit(&a->rng)) * a->gap;
}

/* Draws a number of Poisson's distribution, for which the normal distribution stands in. The mean
 * is above MANY: six deviations below it are not below 0, and `normal` has no more. */
static uint64_t draw_number(struct app_arrivals *a, double mean)
{
	double normal = -6;

	for (int i = 0; i < 12; i++)
		normal += lend_rng_unit(&a->rng);
	return (uint64_t)(mean + normal * sqrt(mean));
}

/* Counts the request that is due in *fate (expired or exhausted), without a call. When many are due
 * until end, they are counted as one number: drawing each would take the time that the calls in
 * flight need. */
static void count_lost(struct app_arrivals *a, double end, uint64_t *fate)
{
	bool counts = a->due >= (double)a->counted_from;
	uint64_t n = 1;
	double mean;

	if (!counts)
		end = fmin(end, (double)a->counted_from);
	mean = (end - a->due) / a->gap;
	if (mean > MANY) {
		n += draw_number(a, mean);
		a->due = end;
	}
	a->due += draw_gap(a);
	a->offered += counts ? n : 0;
	*fate += counts ? n : 0;
}

/* Starts the request that is due on a free slot; false: no more can start in this turn. */
static bool start_request(struct app_arrivals *a, lend_ns late)
{
	struct app_load *load = a->load;
	struct app_slot *slot = a->idle[--a->n_idle];
	int rc;

	slot->began_ticks = (uint64_t)a->due;
	slot->number = load->started++;
	load->left = a->deadline - late;
	rc = load->start(slot);
	if (rc < 0) {
		load->started--;
		a->idle[a->n_idle++] = slot;
		if (rc != -EAGAIN)
			load->failure = rc;
		return false;
	}
	a->offered += slot->began_ticks >= a->counted_from;
	a->due += draw_gap(a);
	return true;
}

/* Starts all requests that are due by now, or counts them as expired or exhausted. */
static void start_due(struct app_arrivals *a)
{
	double now = (double)lend_min_u64(app_ticks(), a->until);
	double expired = now - (double)a->deadline * a->load->ticks_per_ns;
	bool room = true;

	while (a->due < now) {
		lend_ns late = ns_since(a, (uint64_t)a->due);

		if (late >= a->deadline) {
			count_lost(a, expired, &a->expired);
			continue;
		}
		room = room && a->n_idle > 0 && start_request(a, late);
		if (!room)
			count_lost(a, now, &a->exhausted);
	}
}

static void begin_run(struct app_arrivals *a, struct app_slot *const *slots, unsigned n)
{
	struct app_load *load = a->load;
	uint64_t first = app_ticks();
	double time;

	load->ticks_per_ns = app_ticks_per_ns();
	load->arrivals = a;
	load->on_end = request_ended;
	load->started = 0;
	load->failure = 0;
	time = (double)a->time * load->ticks_per_ns;
	a->gap = 1e9 / a->rate * load->ticks_per_ns;
	a->due = (double)first;
	a->counted_from = first + (uint64_t)(time / 10);
	a->until = first + (uint64_t)time;
	a->seconds = (double)a->time * 0.9 / 1e9;
	a->slots = n;
	lend_rng_seed(&a->rng, a->seed);
	lend_hist_init(&a->hist);
	for (a->n_idle = 0; a->n_idle < n; a->n_idle++) {
		slots[a->n_idle]->load = load;
		slots[a->n_idle]->index = a->n_idle;
		a->idle[a->n_idle] = slots[a->n_idle];
	}
}

lend_ns app_arrivals_wait(const struct app_arrivals *a)
{
	double gap = a->due - (double)app_ticks();

	if (a->due >= (double)a->until)
		return LEND_NEVER;
	return gap > 0 ? (lend_ns)(gap / a->load->ticks_per_ns) : 0;
}

int app_arrivals_run(struct app_arrivals *a, struct app_load *load, struct app_slot *const *slots,
		     unsigned n)
{
	a->load = load;
	a->idle = calloc(n, sizeof(struct app_slot *));
	if (!a->idle)
		app_die("no memory for %u calls in flight; give a smaller --window", n);
	begin_run(a, slots, n);
	while (load->failure == 0 && (a->due < (double)a->until || a->n_idle < n)) {
		start_due(a);
		app_load_turn(load);
	}
	load->on_end = NULL;
	free(a->idle);
	return load->failure;
}

void app_arrivals_report(const struct app_arrivals *a, struct app_report *report)
{
	double offered = (double)a->offered / a->seconds;
	double off = fabs(offered - a->rate) / a->rate, by_chance;

	by_chance = 0.01 + 5 / sqrt(a->rate * a->seconds);
	app_report_num(report, "offered_per_s", offered, 1, "calls that were due, per second");
	app_report_num(report, "completed_per_s", (double)a->completed / a->seconds, 1,
		       "calls that ended OK, per second");
	app_report_num(report, "p50_us", app_hist_us(&a->hist, 0.5), 3,
		       "us from the time it was due, half took no longer");
	app_report_num(report, "p99_us", app_hist_us(&a->hist, 0.99), 3, "us, 99 % took no longer");
	app_report_int(report, "expired", a->expired, "ended DEADLINE_EXCEEDED");
	app_report_int(report, "exhausted", a->exhausted,
		       "ended RESOURCE_EXHAUSTED, or as many as --window allows were in flight");
	app_report_int(report, "errors", a->errors, "ended in another way, or with wrong bytes");
	app_report_int(report, "in_flight_max", a->slots, "calls in flight, at most");
	app_report_bool(report, "check_offered", off <= by_chance, "the offered rate is --rate");
	app_report_bool(report, "check_ends",
			a->offered == a->completed + a->expired + a->exhausted + a->errors,
			"each ended once");
	app_report_bool(report, "check_order", app_hist_is_ordered(&a->hist), "p50 <= p99 <= max");
}
