/* link - a client's link to a broker: the messages it exchanges, and the peers it keeps. Layer: io.
 * By value in its carrier (broker/carrier.c). One thread's.
 */
#ifndef LEND_IO_BROKER_LINK_H
#define LEND_IO_BROKER_LINK_H

#include "io/addr.h"
#include "io/broker/message.h"
#include "io/io.h"

enum { LEND_HOSTD_BURST = 64, LEND_HOSTD_ASKS = 64, LEND_HOSTD_LOOSE = 1024 };

struct lend_hostd_ask {
	char address[LEND_HOSTD_TEXT]; /* "": this entry is free */
	char why[LEND_HOSTD_TEXT];
	uint32_t token, peer;
	int rc; /* -EINPROGRESS: requested, no reply yet */
};

/* A datagram that came while an address was being resolved. */
struct lend_hostd_stash {
	struct lend_hostd_stash *next;
	struct lend_in in;
	char data[];
};

struct lend_hostd_link {
	struct lend_io io;
	struct lend_io *shm;
	uint32_t broker; /* peer index of the broker in shm */
	bool lent;       /* the caller has borrowed datagrams of shm's */
	bool lost;       /* the broker is gone */
	uint32_t token;
	char name[LEND_ADDR_NAME_MAX + 1];
	char outer[LEND_HOSTD_TEXT]; /* address at which others reach us; "": none */
	struct lend_hostd_msg opened;
	struct lend_hostd_ask ask[LEND_HOSTD_ASKS];
	/* Unpinned senders, oldest first. Beyond LOOSE_KEPT of them, the broker is asked to unpin
	 * the oldest. */
	uint32_t loose[LEND_HOSTD_LOOSE], loose_first, loose_n;
	bool queued[LEND_HOSTD_PEERS];   /* it is in loose[] */
	uint16_t seen[LEND_HOSTD_PEERS]; /* tail.n of the last datagram from each peer */
	uint16_t pins[LEND_HOSTD_PEERS];
	struct lend_hostd_stash *first, **last, *given;
	unsigned char tail[LEND_HOSTD_BURST][UINT8_MAX + sizeof(struct lend_hostd_tail)];
};

/* Sends a control message. False: the ring is full, or the broker gone. */
bool lend_hostd_say(struct lend_hostd_link *h, struct lend_hostd_msg *msg);
/* Makes a datagram of shm's one of the device's, for the user. False: it was not for the user. */
bool lend_hostd_take(struct lend_hostd_link *h, struct lend_in *in);
/* Puts a peer that is no longer pinned into loose[]. */
void lend_hostd_loosen(struct lend_hostd_link *h, uint32_t peer);
void lend_hostd_let_go(struct lend_hostd_link *h);
/* Receives replies while nothing is lent. Other datagrams are copied and wait for rx(). */
void lend_hostd_pump(struct lend_hostd_link *h);
/* Returns up to cap waiting datagrams. Puts them into the list `given`, which the caller frees. */
uint32_t lend_hostd_unstash(struct lend_hostd_link *h, struct lend_in *in, uint32_t cap);

#endif
