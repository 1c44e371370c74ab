/* open_loop - an open loop: requests start at random times, regardless of how many are in flight.
 *
 * A struct app_load and its slots start and end the requests, as in a closed loop. A request that
 * is due when no slot is free is not queued; it counts as exhausted. Latency counts from the time
 * at which a request was due.
 *
 * Layer: apps. Threads: the endpoint's. By value in its owner. */
#ifndef APPS_COMMON_OPEN_LOOP_H
#define APPS_COMMON_OPEN_LOOP_H

#include "apps/common/closed_loop.h"
#include "util/rng.h"

struct app_arrivals {
	double rate; /* per second, Poisson */
	lend_ns time, deadline;
	uint64_t seed;

	/* Results of the requests that were due after the first tenth of the time. */
	uint64_t offered, completed;
	uint64_t expired;      /* DEADLINE_EXCEEDED, or the deadline passed before it could start */
	uint64_t exhausted;    /* RESOURCE_EXHAUSTED, or no slot was free */
	uint64_t errors;       /* all other ends, and replies with wrong bytes */
	double seconds;        /* the period in which these were due */
	struct lend_hist hist; /* ns, of those completed */

	/* Private. */
	struct app_load *load;
	struct app_slot **idle;
	unsigned n_idle, slots;
	struct lend_rng rng;
	double due, gap; /* ticks: when the next request is due; mean gap */
	uint64_t counted_from, until;
};

/* Runs on slots [0, n) until the time is over and all requests have ended. Returns 0, or the
 * negative errno of a start or a turn. */
int app_arrivals_run(struct app_arrivals *a, struct app_load *load, struct app_slot *const *slots,
		     unsigned n);
/* Returns the time until the next request is due, 0 if it is overdue; LEND_NEVER: no more start. */
lend_ns app_arrivals_wait(const struct app_arrivals *a);
/* Reports offered_per_s, completed_per_s, p50_us, p99_us, expired, errors, and the checks. */
void app_arrivals_report(const struct app_arrivals *a, struct app_report *report);

#endif
