/* mem_snapshot_load - see mem_snapshot_load.h. */
#include "apps/bench/mem_snapshot_load.h"

#include <pthread.h>
#include <stdlib.h>

#include "util/bits.h"

enum { CHUNK = 16 << 20, PAGE = 4096, STRIDE = 7919, WARM_SHARE = 10 };
enum step { SEAL, MAP, WRITE, READ, FREE, RELEASE, STEPS };
static const char *const names[] = {"seal", "map", "write", "get", "free", "release"};

struct slot {
	struct app_slot slot;
	struct worker *worker;
	struct lend_op op;
	enum step step;
	struct lend_ref ref;
	lend_space space, copy;
	uint64_t at, word,
	    got; /* offset of the word that is written; its bytes before; and after */
	struct iovec iov;
};

struct worker {
	pthread_t thread;
	const struct app_memory *node;
	struct app_memory m; /* this thread's client */
	struct slot *slot;
	struct app_slot **order;
	struct app_load load;
	pthread_barrier_t *together;
};

/* Returns the word of a space at this offset. */
static uint64_t word_at(uint64_t size, uint64_t at)
{
	uint64_t first = at - at % CHUNK;
	const char *bytes = app_pattern(first / CHUNK, lend_min_u64(CHUNK, size - first));

	return lend_load_u64(bytes + (at - first));
}

static int start_step(struct slot *slot)
{
	struct lend_mem *mem = slot->worker->m.mem;
	uint64_t size = slot->worker->node->args.load.size;

	switch (slot->step) {
	case SEAL:
		return lend_space_seal(mem, slot->space, 0, size, NULL, &slot->op);
	case MAP:
		slot->ref = slot->op.ref;
		return lend_space_map(mem, &slot->ref, &slot->copy, &slot->op);
	case WRITE:
		slot->got = ~slot->word;
		slot->iov = (struct iovec){&slot->got, sizeof(slot->got)};
		return lend_space_write(mem, slot->copy, slot->at, &slot->iov, 1, &slot->op);
	case READ:
		return lend_get(mem, &slot->ref, slot->at, &slot->iov, 1, &slot->op);
	case FREE:
		return lend_space_free(mem, slot->copy, &slot->op);
	case RELEASE:
		return lend_release(mem, &slot->ref, 1, &slot->op);
	case STEPS:
		break;
	}
	return 0;
}

static void step_ended(struct lend_op *op)
{
	struct slot *slot = APP_OF(op, struct slot, op);

	if (op->status != LEND_OK)
		app_die("%s ended %s: look at lend mem stat --node ADDR", names[slot->step],
			app_status_name(op->status));
	if (++slot->step == STEPS)
		app_slot_end(&slot->slot, LEND_OK,
			     slot->got == slot->word ? 0 : sizeof(slot->word));
	else if (start_step(slot) < 0)
		app_die("%s: %s", names[slot->step], lend_why());
}

static int start_slot(struct app_slot *at)
{
	struct slot *slot = APP_OF(at, struct slot, slot);
	uint64_t size = slot->worker->node->args.load.size;

	slot->op = (struct lend_op){.done = step_ended};
	slot->step = SEAL;
	slot->at = slot->slot.number * STRIDE % (size / PAGE) * PAGE;
	slot->word = word_at(size, slot->at);
	return start_step(slot);
}

static void fill_space(struct worker *w, struct slot *slot)
{
	uint64_t size = w->node->args.load.size;
	struct app_timed t;

	(void)app_timed_end(&w->m, &t,
			    lend_space_alloc(w->m.mem, size, &slot->space, app_timed_begin(&t)),
			    "alloc");
	for (uint64_t at = 0; at < size; at += CHUNK) {
		uint64_t len = lend_min_u64(CHUNK, size - at);
		struct iovec bytes = {(void *)(uintptr_t)app_pattern(at / CHUNK, len), len};

		(void)app_timed_end(
		    &w->m, &t,
		    lend_space_write(w->m.mem, slot->space, at, &bytes, 1, app_timed_begin(&t)),
		    "write");
	}
}

static void run_load(struct worker *w, unsigned window, lend_ns time)
{
	struct app_load *load = &w->load;

	*load = (struct app_load){.ep = w->m.ep,
				  .start = start_slot,
				  .sleep = w->m.args.load.sleep,
				  .quiet = true,
				  .time = time / WARM_SHARE + 1000000};
	for (int warm = 1; warm >= 0; warm--) {
		pthread_barrier_wait(w->together);
		if (app_load_run(load, w->order, window) < 0)
			app_die("the node no longer answers: %s", lend_why());
		load->time = time;
	}
}

static void *run_thread(void *arg)
{
	struct worker *w = arg;
	const struct app_load_args *args = &w->node->args.load;
	struct app_timed t;

	w->m.args = w->node->args;
	app_memory_client(w->node, lend_min_u64(CHUNK, args->size), args->window, &w->m.ep,
			  &w->m.mem);
	w->slot = calloc(args->window, sizeof(*w->slot));
	w->order = calloc(args->window, sizeof(struct app_slot *));
	if (!w->slot || !w->order)
		app_die("no memory for %u snapshots; give a smaller --window", args->window);
	for (unsigned i = 0; i < args->window; i++) {
		w->slot[i].worker = w;
		w->order[i] = &w->slot[i].slot;
		fill_space(w, &w->slot[i]);
	}
	run_load(w, args->window, args->time);
	for (unsigned i = 0; i < args->window; i++)
		(void)app_timed_end(
		    &w->m, &t, lend_space_free(w->m.mem, w->slot[i].space, app_timed_begin(&t)),
		    "free");
	app_memory_leave(w->node, w->m.ep, w->m.mem);
	free(w->slot);
	free(w->order);
	return NULL;
}

uint64_t app_snapshot_load_bytes(const struct app_load_args *args, unsigned threads)
{
	uint64_t spaces = (uint64_t)threads * args->window;

	return spaces * (args->size + args->size / 8 + 64 * PAGE) + (64 << 20);
}

void app_snapshot_load(const struct app_memory *m, unsigned threads, struct app_load *sum)
{
	struct worker worker[APP_SNAPSHOT_THREADS_MAX];
	pthread_barrier_t together;

	if (pthread_barrier_init(&together, NULL, threads))
		app_die("no memory for %u threads; give fewer", threads);
	for (unsigned i = 0; i < threads; i++) {
		worker[i] = (struct worker){.node = m, .together = &together};
		if (i && pthread_create(&worker[i].thread, NULL, run_thread, &worker[i]))
			app_die("cannot start thread %u: raise ulimit -u", i);
	}
	(void)run_thread(&worker[0]);
	*sum = worker[0].load;
	for (unsigned i = 1; i < threads; i++) {
		pthread_join(worker[i].thread, NULL);
		app_load_merge(sum, &worker[i].load);
	}
	pthread_barrier_destroy(&together);
}
