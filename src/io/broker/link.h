/* link - a client's side of a link to a broker: what it says and hears, and whom it keeps.
 * Layer: io. By value in its carrier (io_hostd). One thread's. */
#ifndef LEND_IO_BROKER_LINK_H
#define LEND_IO_BROKER_LINK_H

#include "io/addr.h"
#include "io/broker/message.h"
#include "io/io.h"

enum { LEND_HOSTD_BURST = 64, LEND_HOSTD_ASKS = 64, LEND_HOSTD_LOOSE = 1024 };

struct lend_hostd_ask {
	char address[LEND_HOSTD_TEXT]; /* "": free */
	char why[LEND_HOSTD_TEXT];
	uint32_t token, peer;
	int rc; /* -EINPROGRESS: asked */
};

/* One that came while an address was being resolved. */
struct lend_hostd_stash {
	struct lend_hostd_stash *next;
	struct lend_in in;
	char data[];
};

struct lend_hostd_link {
	struct lend_io io;
	struct lend_io *shm;
	uint32_t broker; /* its index there */
	bool lent;       /* datagrams of shm's */
	bool lost;       /* the broker is gone */
	uint32_t token;
	char name[LEND_ADDR_NAME_MAX + 1];
	char outer[LEND_HOSTD_TEXT]; /* where others reach us; "": nowhere */
	struct lend_hostd_msg opened;
	struct lend_hostd_ask ask[LEND_HOSTD_ASKS];
	/* Senders that nobody keeps, the oldest first; a few are let go late, as others use them.
	 */
	uint32_t loose[LEND_HOSTD_LOOSE], loose_first, loose_n;
	bool queued[LEND_HOSTD_PEERS];   /* it is among them */
	uint16_t seen[LEND_HOSTD_PEERS]; /* n of the last one from each */
	uint16_t pins[LEND_HOSTD_PEERS];
	struct lend_hostd_stash *first, **last, *given;
	unsigned char tail[LEND_HOSTD_BURST][UINT8_MAX + sizeof(struct lend_hostd_tail)];
};

/* A message of its own. False: the ring is full, or the broker gone. */
bool lend_hostd_say(struct lend_hostd_link *h, struct lend_hostd_msg *msg);
/* A datagram of shm's, as the user sees it from then on; false: it was not for the user. */
bool lend_hostd_take(struct lend_hostd_link *h, struct lend_in *in);
/* Nobody keeps that peer now; and lets the oldest go of those that are too many. */
void lend_hostd_loosen(struct lend_hostd_link *h, uint32_t peer);
void lend_hostd_let_go(struct lend_hostd_link *h);
/* Hears answers while nothing is lent; what else comes waits. */
void lend_hostd_pump(struct lend_hostd_link *h);
/* What has waited: how many. They are freed by the caller, in the list given. */
uint32_t lend_hostd_unstash(struct lend_hostd_link *h, struct lend_in *in, uint32_t cap);

#endif
