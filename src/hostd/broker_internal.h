/* broker_internal - what the parts of a broker share: its clients (hostd_client.c), what goes
 * between them and the device (hostd_forward.c), and its life (hostd.c). Layer: hostd. One
 * thread's. */
#ifndef LEND_HOSTD_BROKER_INTERNAL_H
#define LEND_HOSTD_BROKER_INTERNAL_H

#include <stdbool.h>

#include "hostd/hostd.h"
#include "io/broker/message.h"
#include "io/io.h"
#include "sys/mapped_memory.h"

enum { LEND_HOSTD_TURN = 64, LEND_HOSTD_CLIENTS = 256, LEND_HOSTD_WAITING = 64 };

/* Who has a carrier of the device. Mapped, for most of its tables is never touched. */
struct lend_hostd_client {
	struct lend_heap memory; /* this */
	struct lend_io *outer;
	uint32_t peer;                                 /* of our shm */
	struct lend_hostd_msg ask[LEND_HOSTD_WAITING]; /* addresses that take their time */
	uint32_t asks;
	bool known[LEND_HOSTD_PEERS];    /* kept for it */
	uint16_t seen[LEND_HOSTD_PEERS]; /* datagrams that came from each */
};

struct lend_hostd {
	struct lend_hostd_config config;
	struct lend_io *shm;
	struct lend_io *first; /* keeps the device started while nobody uses it */
	struct lend_io *spare; /* opened ahead, for the next client; NULL: none could be */
	bool full;             /* no spare is tried before a client has gone */
	struct lend_hostd_client *client[LEND_HOSTD_CLIENTS];
	uint32_t n;    /* of them, side by side */
	uint32_t idle; /* turns since anything moved */
	struct lend_hostd_stats stats;
	/* A burst on its way. */
	struct lend_seg seg[LEND_HOSTD_TURN];
	struct lend_out out[LEND_HOSTD_TURN];
	struct lend_hostd_tail tail[LEND_HOSTD_TURN];
};

/* Opens a carrier of the device, at an address of its choice where that is "". 0 or -errno with
 * lend_why_text(). */
int lend_hostd_outer(const struct lend_hostd *h, const char *address, struct lend_io **outer);
/* Has a spare carrier opened, unless there is one or cannot be. */
void lend_hostd_provide(struct lend_hostd *h);
/* The client behind a peer of our shm, or NULL. */
struct lend_hostd_client *lend_hostd_find(const struct lend_hostd *h, uint32_t peer);
/* A message of that peer's own, len bytes. */
void lend_hostd_heed(struct lend_hostd *h, uint32_t peer, const void *data, uint32_t len);
/* Asks again for addresses that were not there yet, and answers. */
void lend_hostd_resolve(struct lend_hostd *h, struct lend_hostd_client *c);
/* That peer has gone, and what it had is closed. */
void lend_hostd_detach(struct lend_hostd *h, uint32_t peer);

/* An answer to a client. */
void lend_hostd_answer(struct lend_hostd *h, uint32_t peer, struct lend_hostd_msg *msg, int rc);
/* From all clients to the device, and from there to one: how many datagrams. */
uint32_t lend_hostd_from_clients(struct lend_hostd *h);
uint32_t lend_hostd_to_client(struct lend_hostd *h, struct lend_hostd_client *c);

#endif
