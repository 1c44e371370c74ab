/* deferred_free - buffers that the core gave back and a carrier may still read: checked once per
 * turn. Layer: rpc. Threads: the endpoint's. */
#include "rpc/endpoint.h"
#include "rpc/msg.h"

/* Adds a chain that a carrier may still read to the list for the next check. cap of its first
 * segment, which is not read until it is sent again, links the list. */
static void defer_free(struct lend_ep *ep, uint32_t handle)
{
	ep->bufs->table.seg[handle].cap = ep->lent;
	ep->lent = handle;
}

static bool is_quiet(struct lend_ep *ep, uint32_t handle)
{
	for (; handle; handle = ep->bufs->table.seg[handle].next)
		for (uint32_t some = ep->lenders; some; some &= some - 1) {
			struct lend_io *io = ep->carrier[__builtin_ctz(some)].io;

			if (!io->ops->flush(io, handle))
				return false;
		}
	return true;
}

struct lend_buf *lend_ep_back_queued(struct lend_ep *ep, uint32_t handle)
{
	if (is_quiet(ep, handle))
		return lend_msg_back(ep->bufs, handle);
	defer_free(ep, handle);
	return NULL;
}

void lend_ep_free_deferred(struct lend_ep *ep)
{
	uint32_t handle = ep->lent;

	ep->lent = 0;
	while (handle) {
		uint32_t next = ep->bufs->table.seg[handle].cap;

		if (is_quiet(ep, handle))
			lend_msg_drop(ep->bufs, handle);
		else
			defer_free(ep, handle);
		handle = next;
	}
}
