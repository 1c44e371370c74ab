/* shared_slots - one flag per request slot in memory that both processes map: the cheapest way to
 * signal a request and its answer to the other process.
 * Layer: apps/peers. Threads: one per process. The server makes it and frees it. */
#ifndef APPS_PEERS_SHARED_SLOTS_H
#define APPS_PEERS_SHARED_SLOTS_H

#include <stdatomic.h>
#include <stdint.h>

#include "apps/peers/peer.h"

struct peer_shared_slot {
	_Alignas(128) _Atomic uint32_t asked; /* number of the last request, from 1 */
	_Alignas(128) _Atomic uint32_t answered;
	char sum[PEER_SUM_LEN];
};

struct peer_shared {
	struct peer_shared_slot slot[PEER_WINDOW_MAX];
	_Alignas(4096) unsigned char bytes[]; /* one request after the other, if they are shared */
};

/* The server's or the client's view of the slots. */
struct peer_slots {
	const struct peer_job *job;
	struct peer_shared *shared;
	uint64_t len;                   /* bytes of the mapping */
	uint32_t seen[PEER_WINDOW_MAX]; /* last request or answer of each slot */
};

/* Makes the shared memory, with len bytes for requests, and sends its name; or maps the server's.
 * Both end the program on an error. */
void peer_slots_make(struct peer_slots *s, const struct peer_job *job, struct peer_pipe *channel,
		     uint64_t len);
void peer_slots_map(struct peer_slots *s, const struct peer_job *job, struct peer_pipe *channel,
		    uint64_t len);
void peer_slots_unmap(struct peer_slots *s);

/* Signals a request of slot to the server. */
static inline void peer_slots_ask(struct peer_slots *s, unsigned slot)
{
	atomic_store_explicit(&s->shared->slot[slot].asked, s->seen[slot] + 1,
			      memory_order_release);
}

/* Returns whether slot has a request that the server has not answered. */
static inline bool peer_slots_is_asked(const struct peer_slots *s, unsigned slot)
{
	return atomic_load_explicit(&s->shared->slot[slot].asked, memory_order_acquire) !=
	       s->seen[slot];
}

/* Answers the request of slot; its sum is in place. */
static inline void peer_slots_answer(struct peer_slots *s, unsigned slot)
{
	atomic_store_explicit(&s->shared->slot[slot].answered, ++s->seen[slot],
			      memory_order_release);
}

/* Ends all requests that were answered, as the client. */
void peer_slots_end_answered(struct peer_slots *s);

#endif
