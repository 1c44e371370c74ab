/* broker - a broker: it opens a device and serves it over shm to processes of its user.
 *
 * Each client gets its own carrier on the device, with its own address. Datagrams are forwarded
 * unchanged in both directions. When a client's process ends, its carrier is closed.
 * Layer: broker. One thread's. */
#ifndef LEND_BROKER_HOSTD_H
#define LEND_BROKER_HOSTD_H

#include <stdint.h>

#define LEND_BROKER_STATS(X)                                                                       \
	X(clients, "processes attached now")                                                       \
	X(attached, "processes attached since the start")                                          \
	X(from_clients, "datagrams forwarded to the device")                                       \
	X(to_clients, "and from it")                                                               \
	X(full, "lost: the device or the client's ring was full for long")                         \
	X(bad, "invalid records of clients, or for peers that they do not know")

enum { LEND_BROKER_SPARES = 64 };

struct lend_broker_stats {
#define X(name, text) uint64_t name;
	LEND_BROKER_STATS(X)
#undef X
};

struct lend_broker_config {
	const char *name;   /* name of the broker: broker:NAME */
	const char *device; /* address to listen at, with port 0: udp:10.0.0.2:0 */
	const char *eal;    /* DPDK's EAL arguments; NULL: as for any process */
	uint32_t spares;    /* carriers to keep open for the next clients; 0: 1; at most 64 */
};

struct lend_broker;

/* Listens, and opens the device. 0; or as lend_io_open(). config's texts are borrowed until close.
 */
int lend_broker_open(const struct lend_broker_config *config, struct lend_broker **broker);
/* Forwards the datagrams that are ready, once. Returns how many. Never waits. */
uint32_t lend_broker_turn(struct lend_broker *broker);
/* Sleeps until a datagram may be ready, at most 100 ms. A signal ends the sleep. */
void lend_broker_wait(struct lend_broker *broker);
void lend_broker_stats(const struct lend_broker *broker, struct lend_broker_stats *stats);
/* Closes the broker. Its clients see that it is gone. */
void lend_broker_close(struct lend_broker *broker);

#endif
