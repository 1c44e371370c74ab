/* link - a client's link to a broker: the messages it exchanges, and the peers it keeps. Layer: io.
 * By value in its carrier (broker/carrier.c). One thread's.
 */
#ifndef LEND_IO_BROKER_LINK_H
#define LEND_IO_BROKER_LINK_H

#include "io/addr.h"
#include "io/broker/message.h"
#include "io/io.h"

enum { LEND_BROKER_BURST = 64, LEND_BROKER_PENDING_MAX = 64, LEND_BROKER_LOOSE = 1024 };

struct lend_broker_pending {
	char address[LEND_BROKER_TEXT]; /* "": this entry is free */
	char why[LEND_BROKER_TEXT];
	uint32_t token, peer;
	int rc; /* -EINPROGRESS: requested, no reply yet */
};

/* A datagram that came while an address was being resolved. */
struct lend_broker_waiting {
	struct lend_broker_waiting *next;
	struct lend_in in;
	char data[];
};

struct lend_broker_link {
	struct lend_io io;
	struct lend_io *shm;
	uint32_t broker; /* peer index of the broker in shm */
	bool lent;       /* the caller has borrowed datagrams of the shm carrier */
	bool lost;       /* the broker is gone */
	uint32_t token;
	char name[LEND_ADDR_NAME_MAX + 1];
	char outer[LEND_BROKER_TEXT]; /* address at which others reach us; "": none */
	struct lend_broker_msg opened;
	struct lend_broker_pending ask[LEND_BROKER_PENDING_MAX];
	/* Unpinned senders, oldest first. Beyond LOOSE_KEPT of them, the broker is asked to unpin
	 * the oldest. */
	uint32_t loose[LEND_BROKER_LOOSE], loose_first, loose_n;
	bool queued[LEND_BROKER_PEERS];   /* whether this peer is in loose[] */
	uint16_t seen[LEND_BROKER_PEERS]; /* tail.n of the last datagram from each peer */
	uint16_t pins[LEND_BROKER_PEERS];
	struct lend_broker_waiting *first, **last, *given;
	unsigned char tail[LEND_BROKER_BURST][UINT8_MAX + sizeof(struct lend_broker_tail)];
};

/* Sends a control message. False: the ring is full, or the broker gone. */
bool lend_broker_send(struct lend_broker_link *h, struct lend_broker_msg *msg);
/* Turns a datagram from the broker into one of the device's peer, for the user: removes the tail.
 * False: it is not for the user. */
bool lend_broker_take(struct lend_broker_link *h, struct lend_in *in);
/* Puts a peer that is no longer pinned into loose[]. */
void lend_broker_queue_unpin(struct lend_broker_link *h, uint32_t peer);
void lend_broker_send_unpins(struct lend_broker_link *h);
/* Receives replies while nothing is lent. Other datagrams are copied and wait for rx(). */
void lend_broker_pump(struct lend_broker_link *h);
/* Returns up to cap waiting datagrams. Puts them into the list `given`, which the caller frees. */
uint32_t lend_broker_take_waiting(struct lend_broker_link *h, struct lend_in *in, uint32_t cap);

#endif
