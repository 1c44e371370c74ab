/* lent_flight - datagrams of the simulated network, and the carriers that send and receive them.
 * Layer: test/sim. */
#ifndef TEST_SIM_LENT_LENT_FLIGHT_H
#define TEST_SIM_LENT_LENT_FLIGHT_H

#include "sim/lent/lent.h"

/* A datagram: READ (pieces may still be read) -> in flight -> arrived -> lent to the receiver. */
struct lent_flight {
	struct lent_flight *next; /* arrived: in order */
	struct lent_io *from, *to;
	struct {
		const void *at;
		uint32_t buf, len, place;
	} piece[4];
	uint32_t n, index; /* pieces to be read */
	uint32_t node, life, to_node, to_life;
	uint32_t kind, peer, len;
	bool gone, pending; /* pending: its pieces are not read yet */
	uint8_t addr[8];
	uint8_t data[];
};

struct lent_io_peer {
	uint32_t node, life; /* udp: life 0, as the address stays */
	uint32_t pins;
	bool named; /* by resolve() */
};

struct lent_io {
	struct lend_io io;
	enum lent_kind kind;
	uint32_t node, life, peers;
	struct lent_io_peer peer[LENT_PEERS];
	struct {
		lend_ns read, arrival;
	} last[LENT_NODES]; /* shm: times of the last datagram to that node */
	struct lent_flight *first, *lent;
	bool dead;
};

extern struct lent_flight *lent_flights[LENT_FLIGHTS];
extern uint32_t lent_flights_made;

/* lent_net.c */
struct lent_flight *lent_flight_make(uint32_t len);
void lent_flight_drop(struct lent_flight *f);
/* Copies the pieces, which the carrier has read then. */
void lent_flight_read(struct lent_flight *f);
/* Sends a datagram whose bytes are all here. */
void lent_flight_send(struct lent_flight *f);

/* lent_carrier.c. Return the index of a process or of an address, and a node's carrier; NULL: dead.
 */
uint32_t lent_io_peer(struct lent_io *self, uint32_t node, uint32_t life);
struct lent_io *lent_io_of(uint32_t node, enum lent_kind kind);
/* Drops what the carrier sends or has received. */
void lent_io_silence(struct lent_io *self);

#endif
