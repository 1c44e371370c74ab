/* fifo - a queue of slots with requests that are answered in FIFO order.
 * Layer: apps/peers. Threads: one. Lives by value in its owner. */
#ifndef APPS_PEERS_FIFO_H
#define APPS_PEERS_FIFO_H

#include <stdbool.h>

#include "apps/peers/peer.h"

struct peer_fifo {
	unsigned slot[PEER_WINDOW_MAX];
	unsigned first, end; /* counters that never reset; end - first is at most PEER_WINDOW_MAX */
};

static inline bool peer_fifo_is_empty(const struct peer_fifo *fifo)
{
	return fifo->first == fifo->end;
}

static inline void peer_fifo_push(struct peer_fifo *fifo, unsigned slot)
{
	fifo->slot[fifo->end++ % PEER_WINDOW_MAX] = slot;
}

static inline unsigned peer_fifo_pop(struct peer_fifo *fifo)
{
	return fifo->slot[fifo->first++ % PEER_WINDOW_MAX];
}

#endif
