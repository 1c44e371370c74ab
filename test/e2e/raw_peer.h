/* raw_peer - a hostile peer of a server: a test builds the datagrams of its sessions one by one,
 * over any carrier. Without the test it only answers PINGs, so the server keeps its sessions. It
 * never acknowledges a message. Layer: test. */
#ifndef TEST_E2E_RAW_PEER_H
#define TEST_E2E_RAW_PEER_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/io.h"
#include "wire/pkt.h"

enum { RAW_SESSIONS = 1024, RAW_PAYLOAD = 1024 }; /* payload: bytes per datagram of a message */

struct raw_session {
	uint64_t id;     /* the server's; 0: not accepted */
	uint64_t number; /* number of the last datagram sent */
	uint64_t seen;   /* the largest number that the server reported */
};

struct raw_peer {
	struct lend_io *io;
	uint32_t server; /* as the carrier numbers it */
	uint32_t n;      /* sessions that were accepted */
	struct raw_session session[RAW_SESSIONS];
	struct lend_pkt_cookie cookie; /* cookie of the last RETRY */
	uint64_t answers;              /* ACCEPTs, RETRYs and ACKs of PINGs received */
	uint64_t refused;              /* RETRYs received with LEND_RETRY_FULL */
	uint64_t resets;               /* RESETs received */
	uint64_t acks;                 /* ACKs of requests received */
	uint64_t replies, exhausted;   /* REPLYs received; of these, RESOURCE_EXHAUSTED */
	pthread_t thread;
	atomic_bool stop;
};

/* Opens a carrier to the server at this address. */
void raw_open(struct raw_peer *p, const char *address);
void raw_close(struct raw_peer *p);
/* Opens n more sessions, one after the other. Returns how many the server accepted. */
uint32_t raw_connect(struct raw_peer *p, uint32_t n);
/* Sends the first datagram of a request of len bytes; session counts from 0. */
void raw_request(struct raw_peer *p, uint32_t session, uint32_t slot, uint32_t method,
		 uint32_t len);
/* Returns once the server has read all datagrams of this peer. */
void raw_sync(struct raw_peer *p);
/* Answers PINGs in a thread of its own until raw_idle_end(). */
void raw_idle(struct raw_peer *p);
void raw_idle_end(struct raw_peer *p);

#endif
