/* load_run - one run of a mix at one rate, over an open loop.
 * Layer: apps. Threads: one. */
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/load/load.h"

enum {
	SPIN_NS = 30000,     /* a due time this near is polled for, not slept for */
	DRAIN_NS = 10000000, /* longest sleep when no more requests start */
};

struct load_slot {
	struct app_slot base;
	struct load_run *run;
	enum load_kind kind;
};

static void end_request(void *arg, unsigned index, const struct load_end *end)
{
	struct load_run *run = arg;
	struct load_slot *slot = &run->slot[index];
	enum lend_status status = end->ok     ? LEND_OK
				  : end->late ? LEND_DEADLINE_EXCEEDED
					      : LEND_UNKNOWN;

	LEND_CHECK(end->code < LOAD_CODES);
	run->busy--;
	run->latency_ticks += (double)(app_ticks() - slot->base.began_ticks);
	run->by_code[end->code] += !end->ok;
	run->wrong_bytes += end->wrong_bytes;
	if (end->ok && slot->base.began_ticks >= run->arrivals.counted_from) {
		bool read = slot->kind == LOAD_HOME || slot->kind == LOAD_USER;

		run->reads += read;
		run->posts += end->posts;
		run->bytes += end->bytes;
		run->in_time += app_ticks() <= run->arrivals.until;
	}
	run->ended++;
	app_slot_end(&slot->base, status, end->wrong_bytes);
}

static int start_request(struct app_slot *base)
{
	struct load_slot *slot = APP_OF(base, struct load_slot, base);
	struct load_run *run = slot->run;
	struct load_request request;
	int rc;

	load_mix_draw(run->shape, &run->rng, base->number + (run->arrivals.seed << 32), &request);
	slot->kind = request.kind;
	run->busy++;
	rc = run->target->ops->start(run->target, base->index, &request);
	run->busy -= rc < 0;
	return rc;
}

/* Waits for replies until the next request is due. Adds up how many are in flight: independently of
 * their latencies, for a check of both. */
static int poll_target(void *arg)
{
	struct load_run *run = arg;
	lend_ns wait = app_arrivals_wait(&run->arrivals);
	uint64_t now;
	int rc;

	wait = wait == LEND_NEVER ? DRAIN_NS : wait > SPIN_NS ? wait - SPIN_NS : 0;
	rc = run->target->ops->poll(run->target, wait);
	now = app_ticks();
	run->busy_ticks += (double)run->busy * (double)(now - run->looked);
	run->looked = now;
	return rc;
}

static struct app_slot **make_slots(struct load_run *run)
{
	struct app_slot **order = calloc(run->slots, sizeof(struct app_slot *));

	run->slot = calloc(run->slots, sizeof(*run->slot));
	if (!order || !run->slot)
		app_die("no memory for %u requests in flight", run->slots);
	for (unsigned i = 0; i < run->slots; i++) {
		run->slot[i].run = run;
		order[i] = &run->slot[i].base;
	}
	return order;
}

void load_run(struct load_run *run, double rate, lend_ns time, lend_ns deadline, uint64_t seed)
{
	struct app_slot **order = make_slots(run);
	uint64_t began = app_ticks();
	lend_ns cpu = app_cpu_now();
	double ticks;
	int rc;

	run->arrivals =
	    (struct app_arrivals){.rate = rate, .time = time, .deadline = deadline, .seed = seed};
	run->load = (struct app_load){.start = start_request, .poll = poll_target, .arg = run};
	run->target->ended = end_request;
	run->target->arg = run;
	run->looked = began;
	lend_rng_seed(&run->rng, seed ^ UINT64_C(0x9e3779b97f4a7c15));
	rc = app_arrivals_run(&run->arrivals, &run->load, order, run->slots);
	if (rc < 0)
		app_die("--target: %s", strerror(-rc));
	ticks = (double)(app_ticks() - began);
	run->in_flight = run->busy_ticks / ticks;
	run->rate_x_mean = run->latency_ticks / ticks;
	run->cpu_seconds = (double)(app_cpu_now() - cpu) / 1e9;
	free(order);
	free(run->slot);
}
