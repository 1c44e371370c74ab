/* mem_bw_slot - see mem_bw.h. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "apps/bench/mem_bw.h"
#include "apps/store/inproc_node.h"
#include "util/bits.h"
#include "util/rng.h"

struct slot {
	struct app_slot slot;
	struct worker *worker;
	struct lend_op op;
	struct iovec iov;
	char *half[2], *into;
	struct lend_ref ref;
	lend_space space;
	unsigned turn; /* selects one of the halves */
};

struct worker {
	pthread_t thread;
	const struct app_memory *node;
	struct bw_shape shape;
	unsigned index;
	struct app_memory m; /* this thread's client */
	struct slot *slot;
	struct app_slot **order;
	char *bytes;
	uint64_t bytes_len;
	struct app_load load[BW_WAYS];
	pthread_barrier_t *together;
};

static void read_ended(struct lend_op *op)
{
	struct slot *slot = APP_OF(op, struct slot, op);
	uint64_t size = slot->worker->shape.size, wrong = 0;

	if (op->status == LEND_OK && memcmp(slot->into, slot->half[slot->turn & 1], size) != 0)
		wrong = size;
	app_slot_end(&slot->slot, op->status, wrong);
}

static int read_start(struct app_slot *at)
{
	struct slot *slot = APP_OF(at, struct slot, slot);
	uint64_t size = slot->worker->shape.size;

	slot->turn++;
	slot->iov = (struct iovec){slot->into, size};
	slot->op = (struct lend_op){.done = read_ended};
	return lend_get(slot->worker->m.mem, &slot->ref, (slot->turn & 1) * size, &slot->iov, 1,
			&slot->op);
}

static void write_ended(struct lend_op *op)
{
	struct slot *slot = APP_OF(op, struct slot, op);

	app_slot_end(&slot->slot, op->status, 0);
}

static int write_start(struct app_slot *at)
{
	struct slot *slot = APP_OF(at, struct slot, slot);

	slot->turn++;
	slot->iov = (struct iovec){slot->half[slot->turn & 1], slot->worker->shape.size};
	slot->op = (struct lend_op){.done = write_ended};
	return lend_space_write(slot->worker->m.mem, slot->space, 0, &slot->iov, 1, &slot->op);
}

static void make_slot(struct worker *w, unsigned i)
{
	struct slot *slot = &w->slot[i];
	uint64_t size = w->shape.size, stride = lend_align_up(size, 64);
	struct iovec halves[2];
	struct app_timed t;

	slot->worker = w;
	w->order[i] = &slot->slot;
	slot->half[0] = w->bytes + 3 * stride * i;
	slot->half[1] = slot->half[0] + stride;
	slot->into = slot->half[1] + stride;
	for (int k = 0; k < 2; k++)
		halves[k] = (struct iovec){slot->half[k], size};
	(void)app_timed_end(&w->m, &t, lend_put(w->m.mem, halves, 2, NULL, app_timed_begin(&t)),
			    "put");
	slot->ref = t.op.ref;
	(void)app_timed_end(&w->m, &t,
			    lend_space_alloc(w->m.mem, size, &slot->space, app_timed_begin(&t)),
			    "alloc");
}

static void fill_bytes(struct worker *w)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, 17 + w->index);
	for (uint64_t i = 0; i < w->bytes_len; i += 8)
		lend_store_u64(w->bytes + i, lend_rng_next(&rng));
}

static void make_slots(struct worker *w)
{
	const struct bw_shape *s = &w->shape;

	w->bytes_len = 3 * lend_align_up(s->size, 64) * s->window;
	w->bytes =
	    mmap(NULL, w->bytes_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	w->slot = calloc(s->window, sizeof(*w->slot));
	w->order = calloc(s->window, sizeof(struct app_slot *));
	if (w->bytes == MAP_FAILED || !w->slot || !w->order)
		app_die("no memory for %u buffers of %llu bytes; give a smaller --window or --size",
			3 * s->window, (unsigned long long)s->size);
	fill_bytes(w);
	(void)lend_register(w->m.ep, w->bytes, w->bytes_len);
	for (unsigned i = 0; i < s->window; i++)
		make_slot(w, i);
}

/* Starts all threads at the same time. */
static void run_threads(struct worker *w, int way)
{
	struct app_load *load = &w->load[way];

	*load = (struct app_load){.ep = w->m.ep,
				  .start = way == BW_READ ? read_start : write_start,
				  .other = w->m.inproc ? app_inproc_ep(w->m.inproc) : NULL,
				  .between = w->m.inproc ? app_inproc_between : NULL,
				  .arg = w->m.inproc,
				  .sleep = w->m.args.load.sleep,
				  .quiet = true,
				  .time = w->shape.time / 10 + 1000000};
	for (int warm = 1; warm >= 0; warm--) {
		pthread_barrier_wait(w->together);
		if (app_load_run(load, w->order, w->shape.window) < 0)
			app_die("the node no longer answers: %s", lend_why());
		if (load->errors == load->ended)
			app_die("all ended %s: look at lend mem stat --node ADDR",
				app_status_name(load->last));
		load->time = w->shape.time;
	}
}

/* Checks that the space holds the bytes that were written last. */
static void close_slot(struct slot *slot)
{
	struct worker *w = slot->worker;
	struct iovec into = {slot->into, w->shape.size};
	struct app_timed t;

	(void)app_timed_end(
	    &w->m, &t, lend_space_read(w->m.mem, slot->space, 0, &into, 1, app_timed_begin(&t)),
	    "read");
	if (memcmp(slot->into, slot->half[slot->turn & 1], w->shape.size) != 0)
		w->load[BW_WRITE].wrong_bytes += w->shape.size;
	(void)app_timed_end(&w->m, &t, lend_space_free(w->m.mem, slot->space, app_timed_begin(&t)),
			    "free");
	(void)app_timed_end(&w->m, &t, lend_release(w->m.mem, &slot->ref, 1, app_timed_begin(&t)),
			    "release");
}

static void *run_thread(void *arg)
{
	struct worker *w = arg;

	w->m.args = w->node->args;
	w->m.inproc = w->node->inproc;
	w->m.args.load.sleep |= w->shape.threads + 1 > app_cpus();
	app_memory_client(w->node, w->shape.size, w->shape.window, &w->m.ep, &w->m.mem);
	make_slots(w);
	for (int way = 0; way < BW_WAYS; way++)
		run_threads(w, way);
	for (unsigned i = 0; i < w->shape.window; i++)
		close_slot(&w->slot[i]);
	app_memory_leave(w->node, w->m.ep, w->m.mem);
	munmap(w->bytes, w->bytes_len);
	free(w->slot);
	free(w->order);
	return NULL;
}

void app_bw_measure(const struct app_memory *m, const struct bw_shape *shape,
		    struct app_load sum[BW_WAYS])
{
	struct worker *worker = calloc(shape->threads, sizeof(*worker));
	pthread_barrier_t together;

	if (!worker || pthread_barrier_init(&together, NULL, shape->threads))
		app_die("no memory for %u threads; give fewer", shape->threads);
	for (unsigned i = 0; i < shape->threads; i++) {
		worker[i] =
		    (struct worker){.node = m, .shape = *shape, .index = i, .together = &together};
		if (i && pthread_create(&worker[i].thread, NULL, run_thread, &worker[i]))
			app_die("cannot start thread %u: raise ulimit -u", i);
	}
	(void)run_thread(&worker[0]);
	memcpy(sum, worker[0].load, sizeof(worker[0].load));
	for (unsigned i = 1; i < shape->threads; i++) {
		pthread_join(worker[i].thread, NULL);
		for (int way = 0; way < BW_WAYS; way++)
			app_load_merge(&sum[way], &worker[i].load[way]);
	}
	pthread_barrier_destroy(&together);
	free(worker);
}
