/* peer_memory - the memory of peers that a carrier maps for reading.
 * Layer: rpc. Threads: the endpoint's. The carrier owns the mappings. */
#include <errno.h>

#include "rpc/endpoint.h"
#include "sys/last_error.h"

static struct lend_io *carrier_of(struct lend_ep *ep, uint32_t peer)
{
	return ep->carrier[LEND_PEER_CARRIER(peer)].io;
}

int lend_session_memory(struct lend_ep *ep, lend_session session, struct lend_peer_memory *memory)
{
	struct lend_session_rec *s = lend_sessions_find(ep, session);
	uint8_t incarnation[16];
	struct lend_io *io;

	*memory = (struct lend_peer_memory){.at = NULL};
	if (!s)
		return lend_fail(ESTALE, "the session has ended; connect again");
	if (s->state == LEND_SESSION_PENDING)
		return -EAGAIN;
	if (lend_core_session_peer(ep->core, s->core, &memory->peer, incarnation) < 0 ||
	    LEND_PEER_CARRIER(memory->peer) >= ep->n_carriers)
		return -EAGAIN;
	io = carrier_of(ep, memory->peer);
	if (io->ops->peer_memory)
		memory->at = io->ops->peer_memory(io, LEND_PEER_INDEX(memory->peer), &memory->len);
	return memory->at ? 0 : -ENOTSUP;
}

void lend_peer_memory_hold(struct lend_ep *ep, const struct lend_peer_memory *memory)
{
	struct lend_io *io = carrier_of(ep, memory->peer);

	io->ops->pin(io, LEND_PEER_INDEX(memory->peer), true);
}

void lend_peer_memory_release(struct lend_ep *ep, const struct lend_peer_memory *memory)
{
	struct lend_io *io = carrier_of(ep, memory->peer);

	io->ops->pin(io, LEND_PEER_INDEX(memory->peer), false);
}
