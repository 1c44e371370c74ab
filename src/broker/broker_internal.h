/* broker_internal - shared by the parts of a broker: its clients (broker_client.c), datagrams
 * between them and the device (broker_forward.c), and its life (broker.c). Layer: broker. One
 * thread's.
 */
#ifndef LEND_BROKER_BROKER_INTERNAL_H
#define LEND_BROKER_BROKER_INTERNAL_H

#include <stdbool.h>

#include "broker/broker.h"
#include "io/broker/message.h"
#include "io/io.h"
#include "sys/mapped_memory.h"

enum { LEND_BROKER_TURN = 64, LEND_BROKER_CLIENTS = 256, LEND_BROKER_WAITING = 64 };

/* A client, with its own carrier of the device. Mapped, because most of its tables are never
 * touched. */
struct lend_broker_client {
	struct lend_mapping memory; /* the mapping of this struct */
	struct lend_io *outer;
	bool any;      /* it is open at an address of the device's choice */
	uint32_t peer; /* index of the peer in our shm carrier */
	struct lend_broker_msg
	    ask[LEND_BROKER_WAITING]; /* addresses that are still being resolved */
	uint32_t asks;
	uint32_t known_end;               /* no peer from here on is known */
	bool known[LEND_BROKER_PEERS];    /* peers of the device that are pinned for this client */
	uint16_t seen[LEND_BROKER_PEERS]; /* number of datagrams from each peer */
};

struct lend_broker {
	struct lend_broker_config config;
	struct lend_io *shm;
	struct lend_io *first; /* keeps the device started while it has no clients */
	struct lend_io *spare[LEND_BROKER_SPARES]; /* opened in advance for the next clients */
	uint32_t spares;                           /* number of them */
	bool full; /* opening a spare failed: retried after a client has gone */
	struct lend_broker_client *client[LEND_BROKER_CLIENTS];
	struct lend_broker_client *next; /* memory of the next client, made in advance; or NULL */
	uint32_t n;                      /* number of clients, at the front of client[] */
	uint32_t idle;                   /* event-loop turns since the last datagram */
	struct lend_broker_stats stats;
	/* The burst that is being forwarded. */
	struct lend_seg seg[LEND_BROKER_TURN];
	struct lend_out out[LEND_BROKER_TURN];
	struct lend_broker_tail tail[LEND_BROKER_TURN];
};

/* Opens a carrier of the device, at an address of the device's choice if that is "". 0, or
 * -errno with lend_why_text(). */
int lend_broker_open_device(const struct lend_broker *h, const char *address,
			    struct lend_io **outer);
/* Opens one spare carrier, unless there are enough or opening failed. Returns whether it did. */
bool lend_broker_open_spare(struct lend_broker *h);
/* Makes the memory of the next client, unless there is some. False: it cannot. */
bool lend_broker_prepare_client(struct lend_broker *h);
void lend_broker_free_client(struct lend_broker_client *c);
static inline void lend_broker_note_peer(struct lend_broker_client *c, uint32_t peer)
{
	c->known[peer] = true;
	c->known_end = peer >= c->known_end ? peer + 1 : c->known_end;
}
/* Returns the client of a peer of our shm, or NULL. */
struct lend_broker_client *lend_broker_find(const struct lend_broker *h, uint32_t peer);
/* Handles a control message from that peer, len bytes. */
void lend_broker_on_message(struct lend_broker *h, uint32_t peer, const void *data, uint32_t len);
/* Retries addresses that were not resolved yet, and replies. */
void lend_broker_resolve(struct lend_broker *h, struct lend_broker_client *c);
/* Releases the client of a peer that has gone. */
void lend_broker_detach(struct lend_broker *h, uint32_t peer);

/* Sends a reply to a client. */
void lend_broker_answer(struct lend_broker *h, uint32_t peer, struct lend_broker_msg *msg, int rc);
/* Forward datagrams from all clients to the device, and from the device to one client. Return
 * how many. */
uint32_t lend_broker_from_clients(struct lend_broker *h);
uint32_t lend_broker_to_client(struct lend_broker *h, struct lend_broker_client *c);

#endif
