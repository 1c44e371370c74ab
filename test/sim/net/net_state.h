/* net_state - what the simulated network is made of. Private to net*.c. Layer: test/sim. */
#ifndef SIM_NET_NET_STATE_H
#define SIM_NET_NET_STATE_H

#include "sim/net/net.h"
#include "sim/node.h"
#include "wire/pkt.h"

enum {
	NET_CHUNK = 256,      /* flights made at once */
	NET_NIC = 256 << 10,  /* bytes that wait at a sender's link; then the carrier is full */
	NET_SHORT = 8 << 10,  /* likewise, of a carrier that keeps its queue short */
	NET_TAPE = 128,       /* datagrams of the past that are kept */
	NET_END = UINT32_MAX, /* of a list of flights */
	NET_QUEUES = 8,       /* of a port */
	/* What a SIM_PORT event is about. */
	NET_FROM_PORT = 0, /* a flight reaches a node, or the next switch */
	NET_FROM_NIC,      /* its first switch */
	NET_NEXT,          /* the port takes the next of its queues */
};
#define NET_REPLAY_NS (UINT64_C(600) * 1000000000) /* an older one never comes back */

/* What happened to flights; see net_conserved(). */
struct net_ledger {
	uint64_t sent, copied, replayed, forged, gone; /* begun */
	uint64_t arrived, lost;                        /* ended */
	uint64_t dropped;                              /* of those lost: no room in a switch */
	uint64_t cut;                                  /* likewise: no link */
};

/* What waits for a line, in order, and how long it will take that. */
struct net_queue {
	uint32_t head, tail;
	uint64_t ps; /* on a node's line */
};

/* A line of rate: what enters leaves one after the other. Times in picoseconds, so that a byte at
 * 100 Gb/s is a whole number. */
struct net_port {
	uint64_t free;       /* when the last byte that it took is out */
	uint32_t head, tail; /* flights behind it in order of time */
	uint32_t box;        /* its switch */
	uint32_t speed;      /* times the rate of a node's link */
	bool busy;           /* in the switch's list */
	uint8_t waiting;     /* bit i: somebody is in queue i */
	struct net_queue queue[NET_QUEUES];
};

/* A switch. */
struct net_box {
	uint32_t ports;
	uint32_t *busy, busy_n; /* ports that had a queue when last looked at */
};

struct net_tape_entry {
	uint32_t from, to, len, life_from, life_to;
	lend_ns at;
};
struct net_tape {
	struct net_tape_entry *entry; /* NULL: nothing is recorded */
	uint8_t *data;                /* a stride of each */
	uint32_t n;
	uint64_t seen;
};

struct sim_net {
	struct sim_plan plan; /* faults are zero once they are over */
	uint32_t nodes;
	void (*deliver)(struct sim *, uint32_t node, uint32_t flight);
	bool faulty; /* some fault of the way is not zero */
	/* Flights. */
	struct sim_flight **chunk;
	uint32_t chunks, free, out;
	uint32_t stride;
	/* Links and switch. */
	uint64_t byte_ps;
	struct net_port *nic;  /* by node: into its switch */
	struct net_port *port; /* out of switches: to nodes first, see net_topo.c */
	struct net_box *box;
	uint32_t ports, boxes, racks, spines; /* racks 0: one switch */
	uint64_t *link, *routed;              /* by rack, a bit per spine: works; is believed to */
	uint64_t deepest[2]; /* queue to a node, between switches; as time on a node's line */
	uint32_t *under_way; /* by node: flights to it that are not free again */
	/* Faults. */
	lend_ns hostile_at; /* when those that come with this datagram arrive */
	uint32_t burst;     /* datagrams still lost of this burst */
	uint8_t *cut;       /* by from * nodes + to: partitions that hold; NULL: none ever */
	uint8_t *hung;      /* by at * nodes + of: that died and this does not know; NULL: lossy */
	struct net_tape tape;
	struct net_ledger ledger;
};

/* net.c */
struct sim_flight *net_take(struct sim *sim, uint32_t from, uint32_t to, uint32_t len);
struct sim_flight *net_copy(struct sim *sim, const struct sim_flight *f);
/* A copy of what its receiver reads elsewhere. */
void net_give_body(struct sim_flight *f, const void *bytes, uint32_t len);
void net_lose(struct sim *sim, struct sim_flight *f);
/* At the end of a line, or as an event of its own when it may overtake. */
void net_line(struct sim *sim, struct net_port *p, struct sim_flight *f, bool nic);
void net_later(struct sim *sim, struct sim_flight *f, lend_ns at);
/* Onto its sender's link. */
void net_launch(struct sim *sim, struct sim_flight *f);

/* net_switch.c: a flight reaches a switch now, out of a port of another or (NET_END) from its
 * sender. */
void net_switch(struct sim *sim, struct sim_flight *f, uint32_t from);
/* The line of a port is free: what is most urgent goes. */
void net_switch_next(struct sim *sim, uint32_t port);
/* Bytes that wait for a port. */
uint64_t net_queue(const struct sim_net *n, uint32_t port, lend_ns now);

/* net_topo.c */
void net_topo_open(struct sim_net *n);
void net_topo_close(struct sim_net *n);
uint32_t net_rack(const struct sim_net *n, uint32_t node);
/* The port that a flight has to pass next; NET_END: there is no way. */
uint32_t net_next(struct sim *sim, const struct sim_flight *f, uint32_t from);

/* net_fault.c: a flight that a node sent meets the plan's faults, and is launched unless lost. */
void net_faults(struct sim *sim, struct sim_flight *f);
void net_partition(struct sim *sim, uint32_t a, uint32_t b);
void net_partition_next(struct sim *sim);
/* Something befalls this datagram: the trace gets a line; by_state, of SIM_MARK_OF(), is crossed
 * with the state of the session that it is for. */
void net_mark(struct sim *sim, const struct sim_flight *f, const char *what, size_t by_state);

/* net_tape.c */
void net_tape_open(struct sim_net *n);
void net_tape_close(struct sim_net *n);
void net_record(struct sim *sim, const struct sim_flight *f);
void net_replay_one(struct sim *sim, uint32_t to);

/* net_hostile.c: what comes with a datagram that a node sent. */
void net_hostile(struct sim *sim, const struct sim_flight *live);
#endif
