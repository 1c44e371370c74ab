/* hostd - a broker: it has a device open, and processes of its user use it over shm.
 *
 * Each client gets a carrier of its own on the device, with an address of its own there; what comes
 * is handed on, either way, as it is. A client whose process ends, however, has its carrier closed.
 * Layer: hostd. One thread's. */
#ifndef LEND_HOSTD_HOSTD_H
#define LEND_HOSTD_HOSTD_H

#include <stdint.h>

#define LEND_HOSTD_STATS(X)                                                                        \
	X(clients, "processes that have a carrier now")                                            \
	X(attached, "that have got one since the start")                                           \
	X(from_clients, "datagrams handed on to the device")                                       \
	X(to_clients, "and from it")                                                               \
	X(full, "lost: the device or the client's ring was full for long")                         \
	X(bad, "of clients: contradict themselves, or for peers that they were not told of")

struct lend_hostd_stats {
#define X(name, text) uint64_t name;
	LEND_HOSTD_STATS(X)
#undef X
};

struct lend_hostd_config {
	const char *name;   /* of the broker: hostd:NAME */
	const char *device; /* an address to listen at with port 0: udp:10.0.0.2:0 */
	const char *eal;    /* DPDK's arguments; NULL: as for any process */
};

struct lend_hostd;

/* Listens, and has the device started. 0; or as lend_io_open(). config's texts are borrowed until
 * close. */
int lend_hostd_open(const struct lend_hostd_config *config, struct lend_hostd **hostd);
/* Moves what there is, once. How many datagrams. Never waits. */
uint32_t lend_hostd_turn(struct lend_hostd *hostd);
/* Sleeps until there may be something to move, at most 100 ms; a signal ends it. */
void lend_hostd_wait(struct lend_hostd *hostd);
void lend_hostd_stats(const struct lend_hostd *hostd, struct lend_hostd_stats *stats);
/* Clients see their broker gone. */
void lend_hostd_close(struct lend_hostd *hostd);

#endif
