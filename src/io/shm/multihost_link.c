/* multihost_link - links of a pod: taken, asked, answered, left. The other half of
 * multihost_memory.h. Layer: io.
 *
 *   free -> TAKEN -> ASKED -> UP -> one side LEFT -> free, at another generation
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
	TRIES = 16, /* then give up: the peer changes the field more often than its states allow */
};

static uint32_t generation(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static uint32_t client(uint64_t word)
{
	return word >> 20 & 0xfff;
}

static uint32_t server(uint64_t word)
{
	return word >> 8 & 0xfff;
}

static uint64_t freed(uint64_t word)
{
	return (uint64_t)(generation(word) + 1) << 32;
}

/* Marks these sides as left. Frees the link if both have left, or if the client left before the
 * server answered. */
static void leave(struct lend_pod *pod, uint32_t link, uint64_t word, uint32_t sides)
{
	_Atomic uint64_t *at = &pod->at->link[link].word;
	uint32_t since = generation(word);

	for (int i = 0; i < TRIES && generation(word) == since && (word & LEND_LINK_TAKEN) != 0;
	     i++) {
		uint64_t next = word | sides;

		if ((next & BOTH_LEFT) == BOTH_LEFT ||
		    ((next & LEND_LINK_CLIENT_LEFT) != 0 && (next & LEND_LINK_UP) == 0))
			next = freed(word);
		if (next == word || atomic_compare_exchange_strong(at, &word, next))
			return;
	}
}

void lend_pod_sweep(struct lend_pod *pod, uint32_t end)
{
	for (uint32_t i = 0; i < pod->links; i++) {
		uint64_t word = atomic_load(&pod->at->link[i].word);
		uint32_t sides = client(word) == end ? LEND_LINK_CLIENT_LEFT : 0;

		sides |= server(word) == end ? LEND_LINK_SERVER_LEFT : 0;
		if (sides != 0)
			leave(pod, i, word, sides);
	}
}

static bool is_dead(struct lend_pod *pod, uint32_t end, bool *unsure)
{
	uint64_t owner = end < LEND_POD_ENDS ? atomic_load(&pod->at->end[end].owner) : 0;
	enum lend_pod_state state;

	if (owner == 0)
		return true;
	state = lend_pod_judge(pod, end, owner);
	*unsure |= state == LEND_POD_UNSURE;
	if (state == LEND_POD_DEAD)
		lend_pod_evict(pod, end, owner);
	return state == LEND_POD_DEAD;
}

/* Reclaims the links of dead endpoints. */
static void reclaim(struct lend_pod *pod, bool *unsure)
{
	for (uint32_t i = 0; i < pod->links; i++) {
		uint64_t word = atomic_load(&pod->at->link[i].word);
		uint32_t sides = 0;

		if ((word & LEND_LINK_TAKEN) == 0)
			continue;
		sides |= is_dead(pod, client(word), unsure) ? LEND_LINK_CLIENT_LEFT : 0;
		sides |= is_dead(pod, server(word), unsure) ? LEND_LINK_SERVER_LEFT : 0;
		if (sides != 0)
			leave(pod, i, word, sides);
	}
}

/* Takes the next free link. A link without TAKEN is free, whatever its other bits are. */
static bool take(struct lend_pod *pod, uint32_t end, struct lend_pod_tie *tie)
{
	uint32_t first = atomic_fetch_add(&pod->at->turn, 1);

	for (uint32_t k = 0; k < pod->links; k++) {
		uint32_t i = (first + k) % pod->links;
		_Atomic uint64_t *at = &pod->at->link[i].word;
		uint64_t word = atomic_load(at), ours;

		ours = freed(word) | (uint64_t)pod->me << 20 | end << 8 | LEND_LINK_TAKEN;
		if ((word & LEND_LINK_TAKEN) == 0 &&
		    atomic_compare_exchange_strong(at, &word, ours)) {
			tie->link = i;
			tie->generation = generation(ours);
			return true;
		}
	}
	return false;
}

static void clean(struct lend_ring *ring)
{
	atomic_store_explicit(&ring->taken, 0, memory_order_relaxed);
	atomic_store_explicit(&ring->polled, 0, memory_order_relaxed);
	atomic_store_explicit(&ring->wanted, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < LEND_RING_SLOTS; i++)
		atomic_store_explicit(&ring->slot[i].mark, 0, memory_order_relaxed);
}

/* Sets a bit if the link is still ours and neither side left. */
static bool set(struct lend_pod *pod, const struct lend_pod_tie *tie, uint32_t bit)
{
	_Atomic uint64_t *at = &pod->at->link[tie->link].word;
	uint64_t word = atomic_load(at);

	for (int i = 0; i < TRIES && generation(word) == tie->generation &&
			(word & (LEND_LINK_TAKEN | BOTH_LEFT)) == LEND_LINK_TAKEN;
	     i++) {
		if (atomic_compare_exchange_strong(at, &word, word | bit))
			return true;
	}
	return false;
}

int lend_pod_ask(struct lend_pod *pod, uint32_t end, uint64_t owner, uint32_t bit,
		 struct lend_pod_tie *tie)
{
	struct lend_pod_link *link;
	bool unsure = false;
	int err;

	*tie = (struct lend_pod_tie){.link = LEND_POD_NONE, .end = end, .owner = owner};
	if (!take(pod, end, tie)) {
		reclaim(pod, &unsure);
		if (!take(pod, end, tie))
			return unsure ? -EAGAIN
				      : lend_fail(ENOSPC,
						  "all %u links in that memory are in use; close "
						  "some, or give it more",
						  pod->links);
	}
	err = lend_pod_back(pod, tie->link);
	if (err != 0) {
		lend_pod_part(pod, tie);
		return err;
	}
	link = &pod->at->link[tie->link];
	clean(&lend_pod_pair(pod, tie->link)->to_server);
	clean(&lend_pod_pair(pod, tie->link)->to_client);
	atomic_store_explicit(&link->want, owner, memory_order_relaxed);
	atomic_store_explicit(&link->client_bit, bit, memory_order_relaxed);
	if (set(pod, tie, LEND_LINK_ASKED))
		(void)atomic_fetch_add(&pod->at->end[end].knocks, 1);
	return 0;
}

bool lend_pod_asked(struct lend_pod *pod, uint32_t *next, struct lend_pod_tie *tie)
{
	while (*next < pod->links) {
		uint32_t i = (*next)++, from;
		struct lend_pod_link *link = &pod->at->link[i];
		uint64_t word = atomic_load(&link->word);

		from = client(word);
		if (server(word) != pod->me || from >= LEND_POD_ENDS ||
		    (word & (BOTH_LEFT | LEND_LINK_UP | LEND_LINK_ASKED | LEND_LINK_TAKEN)) !=
			(LEND_LINK_ASKED | LEND_LINK_TAKEN))
			continue;
		if (atomic_load_explicit(&link->want, memory_order_relaxed) != pod->number) {
			leave(pod, i, word, LEND_LINK_SERVER_LEFT);
			continue;
		}
		*tie = (struct lend_pod_tie){.link = i,
					     .generation = generation(word),
					     .end = from,
					     .owner = atomic_load(&pod->at->end[from].owner),
					     .server = true};
		return true;
	}
	return false;
}

bool lend_pod_answer(struct lend_pod *pod, const struct lend_pod_tie *tie, uint32_t bit)
{
	atomic_store_explicit(&pod->at->link[tie->link].server_bit, bit, memory_order_relaxed);
	return set(pod, tie, LEND_LINK_UP);
}

void lend_pod_part(struct lend_pod *pod, struct lend_pod_tie *tie)
{
	uint64_t word;

	if (tie->link == LEND_POD_NONE)
		return;
	word = atomic_load(&pod->at->link[tie->link].word);
	if (generation(word) == tie->generation)
		leave(pod, tie->link, word,
		      tie->server ? LEND_LINK_SERVER_LEFT : LEND_LINK_CLIENT_LEFT);
	tie->link = LEND_POD_NONE;
}

uint32_t lend_pod_bits(const struct lend_pod *pod, const struct lend_pod_tie *tie)
{
	uint64_t word = atomic_load_explicit(&pod->at->link[tie->link].word, memory_order_acquire);

	if (generation(word) != tie->generation || (word & LEND_LINK_TAKEN) == 0)
		return BOTH_LEFT;
	return word & 0xff;
}

uint32_t lend_pod_bit(const struct lend_pod *pod, const struct lend_pod_tie *tie)
{
	const struct lend_pod_link *link = &pod->at->link[tie->link];

	return atomic_load_explicit(tie->server ? &link->client_bit : &link->server_bit,
				    memory_order_relaxed);
}
