/* net_state - data structures of the simulated network. Private to test/sim/net. Layer:
 * test/sim. */
#ifndef SIM_NET_NET_STATE_H
#define SIM_NET_NET_STATE_H

#include "sim/net/net.h"
#include "sim/sim_node.h"
#include "wire/pkt.h"

enum {
	NET_CHUNK = 256,      /* flights allocated at once */
	NET_NIC = 256 << 10,  /* bytes queued at a sender's link before the carrier is full */
	NET_SHORT = 8 << 10,  /* queue limit in bytes of a carrier that keeps its queue short */
	NET_TAPE = 128,       /* recorded datagrams */
	NET_END = UINT32_MAX, /* end of a list of flights */
	NET_QUEUES = 8,       /* per port */
	/* Kinds of SIM_PORT events. */
	NET_FROM_PORT = 0,   /* a flight reaches a node, or the next switch */
	NET_FROM_NIC,        /* a flight reaches its first switch */
	NET_NEXT,            /* the port sends the next datagram of its queues */
	NET_FOREIGN,         /* a foreign datagram to the node of that port begins */
	NET_BEST_EFFORT = 4, /* queue of datagrams without a class */
};
#define NET_REPLAY_NS (UINT64_C(600) * 1000000000) /* an older datagram is never replayed */

/* Counters of flights; see net_conserved(). */
struct net_ledger {
	uint64_t sent, copied, replayed, forged, gone, foreign; /* begun */
	uint64_t arrived, lost;                                 /* ended */
	uint64_t dropped; /* lost datagrams of nodes for which a switch had no room */
	uint64_t cut;     /* lost datagrams for which there was no link */
};

/* Datagrams queued for a link in order, and how long the link needs for them. */
struct net_queue {
	uint32_t head, tail;
	uint64_t ps; /* on a node's link */
};

/* A link with a rate: datagrams leave one after the other. Times are in picoseconds, so that a byte
 * at 100 Gb/s takes a whole number. */
struct net_port {
	uint64_t free;       /* when the last accepted byte has left */
	uint32_t head, tail; /* flights behind it in order of time */
	uint32_t box;        /* its switch */
	uint32_t speed;      /* multiple of a node's link rate */
	bool busy;           /* in the switch's list */
	uint8_t waiting;     /* bit i: queue i is not empty */
	struct net_queue queue[NET_QUEUES];
};

/* A switch. */
struct net_box {
	uint32_t ports;
	uint32_t *busy, busy_n; /* ports that had a queue when last checked */
};

struct net_tape_entry {
	uint32_t from, to, len, life_from, life_to;
	lend_ns at;
};
struct net_tape {
	struct net_tape_entry *entry; /* NULL: nothing is recorded */
	uint8_t *data;                /* one stride per entry */
	uint32_t n;
	uint64_t seen;
};

struct sim_net {
	struct sim_plan plan; /* faults are zero once they are over */
	uint32_t nodes;
	void (*deliver)(struct sim *, uint32_t node, uint32_t flight);
	bool faulty; /* some network fault is not zero */
	/* Flights. */
	struct sim_flight **chunk;
	uint32_t chunks, free, out;
	uint32_t stride;
	/* Links and switches. */
	uint64_t byte_ps;      /* time of a byte on a link */
	uint64_t nic_ps;       /* and on a node's own device */
	struct net_port *nic;  /* by node: its link into the switch */
	struct net_port *port; /* outputs of switches: those to nodes first, see net_topo.c */
	struct net_box *box;
	uint32_t ports, boxes, racks, spines; /* racks 0: one switch */
	uint64_t *link,
	    *routed; /* by rack, a bit per spine: the link works; leaves believe that it works */
	uint64_t deepest[2]; /* longest queue to a node, and between switches; as time on a node's
				link */
	uint32_t *under_way; /* by node: flights to it that are not free again */
	/* Faults. */
	lend_ns hostile_at; /* arrival time of those that come with this datagram */
	uint32_t burst;     /* datagrams still to be lost in this burst */
	uint8_t *cut;       /* by from * nodes + to: active partitions; NULL: none in this plan */
	uint8_t *hung; /* by at * nodes + of: `of` died and `at` does not know yet; NULL: lossy */
	struct net_tape tape;
	struct lend_rng foreign; /* times and senders of foreign datagrams */
	struct net_ledger ledger;
};

/* net.c */
struct sim_flight *net_take(struct sim *sim, uint32_t from, uint32_t to, uint32_t len);
struct sim_flight *net_copy(struct sim *sim, const struct sim_flight *f);
/* Copies the payload that would be read in the sender's memory. */
void net_give_body(struct sim_flight *f, const void *bytes, uint32_t len);
void net_lose(struct sim *sim, struct sim_flight *f);
/* net_line: appends a flight to a link. net_later: schedules it as its own event, because it may
 * overtake. */
void net_line(struct sim *sim, struct net_port *p, struct sim_flight *f, bool nic);
void net_later(struct sim *sim, struct sim_flight *f, lend_ns at);
/* Puts a flight onto its sender's link. */
void net_launch(struct sim *sim, struct sim_flight *f);

/* net_switch.c: a flight reaches a switch now, from a port of another switch or (NET_END) from its
 * sender. */
void net_switch(struct sim *sim, struct sim_flight *f, uint32_t from);
/* A port's link is free: sends the most urgent datagram. */
void net_switch_next(struct sim *sim, uint32_t port);
/* Returns the number of bytes queued at a port. */
uint64_t net_queue(const struct sim_net *n, uint32_t port, lend_ns now);

/* net_foreign.c: sends one to the node now, and schedules the next one. */
void net_foreign(struct sim *sim, uint32_t to);

/* net_topo.c */
void net_topo_open(struct sim_net *n);
void net_topo_close(struct sim_net *n);
uint32_t net_rack(const struct sim_net *n, uint32_t node);
/* Returns the spine that a leaf's port leads up to; 0 for all other ports. */
uint32_t net_spine(const struct sim_net *n, uint32_t port);
/* Returns the next port of the flight's path; NET_END: there is none. */
uint32_t net_next(struct sim *sim, const struct sim_flight *f, uint32_t from);

/* net_fault.c: applies the plan's faults to a flight that a node sent, and launches it unless
 * lost. */
void net_faults(struct sim *sim, struct sim_flight *f);
void net_partition(struct sim *sim, uint32_t a, uint32_t b);
void net_partition_next(struct sim *sim);
/* Records a fault of this datagram in the trace. by_state (SIM_MARK_OF()) is combined with the
 * state of the session that it is for. */
void net_mark(struct sim *sim, const struct sim_flight *f, const char *what, size_t by_state);

/* net_tape.c */
void net_tape_open(struct sim_net *n);
void net_tape_close(struct sim_net *n);
void net_record(struct sim *sim, const struct sim_flight *f);
void net_replay_one(struct sim *sim, uint32_t to);

/* net_hostile.c: sends hostile datagrams along with one that a node sent. */
void net_hostile(struct sim *sim, const struct sim_flight *live);
#endif
