/* chain_slot - one request of a chain after the other: a call with one argument, which is sent by
 * value or by reference depending on the client's threshold. Layer: apps. Threads: one. */
#include <stdlib.h>
#include <string.h>

#include "apps/bench/chain.h"
#include "apps/common/echo.h"
#include "apps/common/bench_server.h"
#include "lend/alloc.h"

struct app_chain_slot {
	struct app_slot slot;
	struct app_chain *chain;
	struct lend_call call;
	struct iovec data;
	void *fresh;       /* the slot's own payload; NULL: the pattern is sent itself */
	uint64_t payloads; /* written to fresh; selects the pattern */
};

/* Returns the number of the pattern that the slot's request has: with fresh memory never that of
 * the slot's request before, which is still in the memory. */
static uint64_t pattern_of(const struct app_chain_slot *slot)
{
	return slot->fresh ? slot->payloads + slot->slot.index : slot->slot.number;
}

static void call_done(struct lend_call *call)
{
	struct app_chain_slot *slot = APP_OF(call, struct app_chain_slot, call);
	struct app_chain *chain = slot->chain;
	uint64_t wrong = 0;

	if (call->status == LEND_OK)
		wrong = app_sum_wrong(call->reply, app_pattern_crc(pattern_of(slot), chain->size),
				      chain->size);
	lend_buf_give(chain->ep, call->reply);
	lend_buf_give(chain->ep, call->request);
	app_slot_end(&slot->slot, call->status, wrong);
}

static int start_slot(struct app_slot *at)
{
	struct app_chain_slot *slot = APP_OF(at, struct app_chain_slot, slot);
	struct app_chain *chain = slot->chain;
	struct lend_argument payload = {.data = &slot->data, .n = 1, .way = chain->way};

	slot->payloads++;
	slot->data.iov_base = (void *)(uintptr_t)app_pattern(pattern_of(slot), chain->size);
	if (slot->fresh)
		slot->data.iov_base = memcpy(slot->fresh, slot->data.iov_base, chain->size);
	slot->data.iov_len = chain->size;
	slot->call = (struct lend_call){.method = APP_METHOD_CHAIN,
					.timeout = APP_CALL_NS + chain->size * APP_BYTE_NS,
					.done = call_done};
	return lend_call_start_argv(chain->mem, chain->session, &slot->call, &payload, 1);
}

/* Returns memory that shm peers read in place, or, when there is none, other memory. */
static void *take_fresh(uint64_t size)
{
	void *fresh = lend_malloc_shared(size);

	if (!fresh)
		fresh = lend_malloc(size);
	if (!fresh)
		app_die("no memory for payloads of %llu bytes: give a smaller --window",
			(unsigned long long)size);
	return fresh;
}

void app_chain_slots_make(struct app_chain *chain)
{
	unsigned n = chain->load_args.window;

	chain->slot = calloc(n, sizeof(*chain->slot));
	chain->order = calloc(n, sizeof(struct app_slot *));
	if (!chain->slot || !chain->order)
		app_die("no memory for %u requests in flight; give a smaller --window", n);
	for (unsigned i = 0; i < n; i++) {
		chain->slot[i].chain = chain;
		chain->order[i] = &chain->slot[i].slot;
		if (chain->fresh)
			chain->slot[i].fresh = take_fresh(chain->load_args.size);
	}
	chain->load.ep = chain->ep;
	chain->load.start = start_slot;
	chain->load.sleep = true; /* there are more processes than CPUs */
}

void app_chain_slots_free(struct app_chain *chain)
{
	for (unsigned i = 0; chain->slot && i < chain->load_args.window; i++)
		lend_free(chain->slot[i].fresh);
	free(chain->slot);
	free(chain->order);
}
