/* multihost_link - links of a pod: taken, requested, accepted, left. The other half of
 * multihost_memory.h. Layer: io.
 *
 *   free -> TAKEN -> REQUESTED -> UP -> one side LEFT -> free, at another generation
 *
 * One 8-byte field decides all transitions. If the link was reclaimed meanwhile, the old
 * side finds another generation there, and its compare-and-swap fails. Links are taken in turn, so
 * that a released ring is reused as late as possible: a host that was stopped in the middle of a
 * copy continues that copy when it runs again. Datagrams that it overwrites then have a wrong CRC,
 * and marks that it overwrites look like losses to the core.
 */
#include "io/shm/multihost_memory.h"

#include <errno.h>
#include <string.h>

#include "sys/last_error.h"

enum {
	BOTH_LEFT = LEND_LINK_CLIENT_LEFT | LEND_LINK_SERVER_LEFT,
	TRIES = 16, /* tries before giving up: the peer changes the field more often than its states
		       allow */
};

static uint32_t link_generation(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static uint32_t link_client(uint64_t word)
{
	return word >> 20 & 0xfff;
}

static uint32_t link_server(uint64_t word)
{
	return word >> 8 & 0xfff;
}

static uint64_t freed_word(uint64_t word)
{
	return (uint64_t)(link_generation(word) + 1) << 32;
}

/* Marks these sides as left. Frees the link if both have left, or if the client left before the
 * server answered. */
static void mark_left(struct lend_multihost *pod, uint32_t link, uint64_t word, uint32_t sides)
{
	_Atomic uint64_t *at = &pod->at->link[link].word;
	uint32_t since = link_generation(word);

	for (int i = 0;
	     i < TRIES && link_generation(word) == since && (word & LEND_LINK_TAKEN) != 0; i++) {
		uint64_t next = word | sides;

		if ((next & BOTH_LEFT) == BOTH_LEFT ||
		    ((next & LEND_LINK_CLIENT_LEFT) != 0 && (next & LEND_LINK_UP) == 0))
			next = freed_word(word);
		if (next == word || atomic_compare_exchange_strong(at, &word, next))
			return;
	}
}

void lend_multihost_link_leave_all(struct lend_multihost *pod, uint32_t end)
{
	for (uint32_t i = 0; i < pod->links; i++) {
		uint64_t word = atomic_load(&pod->at->link[i].word);
		uint32_t sides = link_client(word) == end ? LEND_LINK_CLIENT_LEFT : 0;

		sides |= link_server(word) == end ? LEND_LINK_SERVER_LEFT : 0;
		if (sides != 0)
			mark_left(pod, i, word, sides);
	}
}

static bool is_dead(struct lend_multihost *pod, uint32_t end, bool *unsure)
{
	uint64_t owner = end < LEND_MULTIHOST_ENDS ? atomic_load(&pod->at->end[end].owner) : 0;
	enum lend_multihost_state state;

	if (owner == 0)
		return true;
	state = lend_multihost_owner_state(pod, end, owner);
	*unsure |= state == LEND_MULTIHOST_UNSURE;
	if (state == LEND_MULTIHOST_DEAD)
		lend_multihost_evict(pod, end, owner);
	return state == LEND_MULTIHOST_DEAD;
}

/* Reclaims the links of dead endpoints. */
static void reclaim_dead(struct lend_multihost *pod, bool *unsure)
{
	for (uint32_t i = 0; i < pod->links; i++) {
		uint64_t word = atomic_load(&pod->at->link[i].word);
		uint32_t sides = 0;

		if ((word & LEND_LINK_TAKEN) == 0)
			continue;
		sides |= is_dead(pod, link_client(word), unsure) ? LEND_LINK_CLIENT_LEFT : 0;
		sides |= is_dead(pod, link_server(word), unsure) ? LEND_LINK_SERVER_LEFT : 0;
		if (sides != 0)
			mark_left(pod, i, word, sides);
	}
}

/* Takes the next free link. A link without TAKEN is free, whatever its other bits are. */
static bool take_link(struct lend_multihost *pod, uint32_t end, struct lend_multihost_link_id *tie)
{
	uint32_t first = atomic_fetch_add(&pod->at->turn, 1);

	for (uint32_t k = 0; k < pod->links; k++) {
		uint32_t i = (first + k) % pod->links;
		_Atomic uint64_t *at = &pod->at->link[i].word;
		uint64_t word = atomic_load(at), ours;

		ours = freed_word(word) | (uint64_t)pod->me << 20 | end << 8 | LEND_LINK_TAKEN;
		if ((word & LEND_LINK_TAKEN) == 0 &&
		    atomic_compare_exchange_strong(at, &word, ours)) {
			tie->link = i;
			tie->generation = link_generation(ours);
			return true;
		}
	}
	return false;
}

static void clean_ring(struct lend_ring *ring)
{
	atomic_store_explicit(&ring->taken, 0, memory_order_relaxed);
	atomic_store_explicit(&ring->polled, 0, memory_order_relaxed);
	atomic_store_explicit(&ring->wanted, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < LEND_RING_SLOTS; i++)
		atomic_store_explicit(&ring->slot[i].mark, 0, memory_order_relaxed);
}

/* Sets a bit if the link is still ours and neither side left. */
static bool set_bit(struct lend_multihost *pod, const struct lend_multihost_link_id *tie,
		    uint32_t bit)
{
	_Atomic uint64_t *at = &pod->at->link[tie->link].word;
	uint64_t word = atomic_load(at);

	for (int i = 0; i < TRIES && link_generation(word) == tie->generation &&
			(word & (LEND_LINK_TAKEN | BOTH_LEFT)) == LEND_LINK_TAKEN;
	     i++) {
		if (atomic_compare_exchange_strong(at, &word, word | bit))
			return true;
	}
	return false;
}

int lend_multihost_link_request(struct lend_multihost *pod, uint32_t end, uint64_t owner,
				uint32_t bit, struct lend_multihost_link_id *tie)
{
	struct lend_multihost_link *link;
	bool unsure = false;
	int err;

	*tie = (struct lend_multihost_link_id){
	    .link = LEND_MULTIHOST_NONE, .end = end, .owner = owner};
	if (!take_link(pod, end, tie)) {
		reclaim_dead(pod, &unsure);
		if (!take_link(pod, end, tie))
			return unsure ? -EAGAIN
				      : lend_fail(ENOSPC,
						  "all %u links in that memory are in use; close "
						  "some, or give it more",
						  pod->links);
	}
	err = lend_multihost_allocate(pod, tie->link);
	if (err != 0) {
		lend_multihost_link_leave(pod, tie);
		return err;
	}
	link = &pod->at->link[tie->link];
	clean_ring(&lend_multihost_link_pair(pod, tie->link)->to_server);
	clean_ring(&lend_multihost_link_pair(pod, tie->link)->to_client);
	atomic_store_explicit(&link->want, owner, memory_order_relaxed);
	atomic_store_explicit(&link->client_bit, bit, memory_order_relaxed);
	if (set_bit(pod, tie, LEND_LINK_REQUESTED))
		(void)atomic_fetch_add(&pod->at->end[end].knocks, 1);
	return 0;
}

bool lend_multihost_link_next(struct lend_multihost *pod, uint32_t *next,
			      struct lend_multihost_link_id *tie)
{
	while (*next < pod->links) {
		uint32_t i = (*next)++, from;
		struct lend_multihost_link *link = &pod->at->link[i];
		uint64_t word = atomic_load(&link->word);

		from = link_client(word);
		if (link_server(word) != pod->me || from >= LEND_MULTIHOST_ENDS ||
		    (word & (BOTH_LEFT | LEND_LINK_UP | LEND_LINK_REQUESTED | LEND_LINK_TAKEN)) !=
			(LEND_LINK_REQUESTED | LEND_LINK_TAKEN))
			continue;
		if (atomic_load_explicit(&link->want, memory_order_relaxed) != pod->number) {
			mark_left(pod, i, word, LEND_LINK_SERVER_LEFT);
			continue;
		}
		*tie =
		    (struct lend_multihost_link_id){.link = i,
						    .generation = link_generation(word),
						    .end = from,
						    .owner = atomic_load(&pod->at->end[from].owner),
						    .server = true};
		return true;
	}
	return false;
}

bool lend_multihost_link_accept(struct lend_multihost *pod,
				const struct lend_multihost_link_id *tie, uint32_t bit)
{
	atomic_store_explicit(&pod->at->link[tie->link].server_bit, bit, memory_order_relaxed);
	return set_bit(pod, tie, LEND_LINK_UP);
}

void lend_multihost_link_leave(struct lend_multihost *pod, struct lend_multihost_link_id *tie)
{
	uint64_t word;

	if (tie->link == LEND_MULTIHOST_NONE)
		return;
	word = atomic_load(&pod->at->link[tie->link].word);
	if (link_generation(word) == tie->generation)
		mark_left(pod, tie->link, word,
			  tie->server ? LEND_LINK_SERVER_LEFT : LEND_LINK_CLIENT_LEFT);
	tie->link = LEND_MULTIHOST_NONE;
}

uint32_t lend_multihost_link_bits(const struct lend_multihost *pod,
				  const struct lend_multihost_link_id *tie)
{
	uint64_t word = atomic_load_explicit(&pod->at->link[tie->link].word, memory_order_acquire);

	if (link_generation(word) != tie->generation || (word & LEND_LINK_TAKEN) == 0)
		return BOTH_LEFT;
	return word & 0xff;
}

uint32_t lend_multihost_link_bell_bit(const struct lend_multihost *pod,
				      const struct lend_multihost_link_id *tie)
{
	const struct lend_multihost_link *link = &pod->at->link[tie->link];

	return atomic_load_explicit(tie->server ? &link->client_bit : &link->server_bit,
				    memory_order_relaxed);
}
