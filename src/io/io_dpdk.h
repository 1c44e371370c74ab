/* io_dpdk - datagrams in Ethernet, IPv4 and UDP over DPDK's devices: what the module's files share.
 *
 * Layer: io, module lend_io_dpdk.so. A carrier belongs to one thread; what several carriers and
 * EAL's interrupt thread share (the list of carriers, link states, device set-up) is under
 * dpdk_world, or atomic.
 */
#ifndef LEND_IO_IO_DPDK_H
#define LEND_IO_IO_DPDK_H

#include <pthread.h>
#include <stdatomic.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "io/frame.h"
#include "io/io.h"

enum {
	DPDK_PORTS_MAX = 32,   /* links of a carrier; EAL has no more ports either */
	DPDK_PEERS_MAX = 1024, /* a power of two */
	DPDK_BURST = 32,       /* frames per call of a device */
	DPDK_HELD_MAX = 128,   /* frames lent by one rx() */
	DPDK_FRAME_MAX = 9216, /* jumbo; also memif's buffer size */
	DPDK_RING_SLOTS = 512,
	DPDK_LINKS = 16, /* memif ids of a listener, unless ?links= */
	DPDK_NONE = 0xffff,
};

enum dpdk_kind { DPDK_RING, DPDK_MEMIF, DPDK_DEVICE };

struct dpdk_address {
	enum dpdk_kind kind;
	char device[64]; /* an ethdev's name; "ring", "memif" */
	uint32_t ip;     /* host order */
	uint16_t udp;
	uint32_t links; /* ?links= */
	uint32_t from;  /* ?from=, 0: none */
	bool has_mac;
	uint8_t mac[6];
};

/* A peer's life: FREE -> ALIVE -> DEAD (its link went down) -> FREE. */
enum dpdk_life { DPDK_FREE, DPDK_ALIVE, DPDK_DEAD };

struct dpdk_peer {
	struct lend_frame_head head;
	uint8_t life;  /* enum dpdk_life */
	bool kept;     /* pinned */
	bool told;     /* its gone datagram went out */
	bool held;     /* resolved, and not yet pinned */
	uint16_t port; /* index into ports */
	uint16_t udp;
	uint32_t ip;
	uint16_t next;  /* in its hash chain */
	uint8_t key[8]; /* what in.addr points to: IP and port, network order */
};

/* Two rings, two ethdevs, two carriers. Under dpdk_world, but for open. */
struct dpdk_link {
	struct rte_ring *ring[2]; /* [i]: read by side i */
	struct dpdk *side[2];     /* NULL once that side closed */
	_Atomic bool open[2];
};

struct dpdk_port {
	bool used;
	bool active;            /* polled: its link is up as the owner saw it last */
	bool closing;           /* ring: the other end closed; drain, then drop */
	uint8_t side;           /* ring: ours */
	uint16_t id;            /* ethdev port */
	char name[64];          /* vdev name; "": not ours to remove */
	struct dpdk_link *link; /* ring */
	/* memif client: where to, by which id, since when */
	uint32_t to_ip;
	uint16_t to_udp;
	int lock;        /* fd of the id's lock file, -1: none */
	bool connecting; /* its device was started, and its link was not up since */
	uint64_t started_ns;
	uint64_t started_pass;
	/* memif: written by the interrupt thread while bursts are held off */
	_Atomic bool up;
	_Atomic uint32_t downs; /* times the link went down */
	uint32_t downs_seen;
	uint16_t last_peer; /* who sent last: links are point to point */
	uint32_t window;    /* frames to offer at once: shrinks when the device refuses some */
};

struct dpdk {
	struct lend_io io; /* first */
	enum dpdk_kind kind;
	bool listening;
	uint32_t ip;
	uint16_t udp;
	uint8_t mac[6];
	char device[64];
	int lock;       /* memif listener: its name's lock file */
	int listener;   /* memif listener: the device's socket */
	uint32_t links; /* memif listener: ids at most, */
	uint32_t made;  /* and now */
	bool grow;      /* links came: make more ids when out of the burst */
	/* Bursts and the interrupt thread keep out of each other's way: see io_dpdk_gate.c. */
	_Atomic bool busy, want;
	_Atomic bool changed;                    /* links came or went: reconcile */
	struct dpdk *next;                       /* in the world's list */
	struct dpdk_port *inbox[DPDK_PORTS_MAX]; /* ring: ends made by others; under dpdk_world */
	uint32_t inbox_n;
	uint32_t turn;    /* the port to poll first */
	uint32_t ports_n; /* one more than the highest in use */
	struct dpdk_port *port[DPDK_PORTS_MAX];
	uint32_t gone_n; /* dead peers to tell of */
	uint32_t evict;  /* where the search for a free peer starts */
	struct rte_mempool *pool;
	uint32_t held_n;
	struct rte_mbuf *held[DPDK_HELD_MAX];
	uint16_t hash[DPDK_PEERS_MAX];
	struct dpdk_peer peer[DPDK_PEERS_MAX];
};

/* io_dpdk_addr.c */
/* 0, or -EINVAL with lend_why_text() set. */
int dpdk_address_parse(const char *text, struct dpdk_address *address);
int dpdk_address_print(const char *device, uint32_t ip, uint16_t udp, char *text, size_t cap);

/* io_dpdk_eal.c: once per process. */
int dpdk_eal_start(const char *args);
/* Buffers that a device can receive into and send from; NULL: no memory, lend_why() says so.
 * RTE_MAX_ETHPORTS for rings and memifs. */
struct rte_mempool *dpdk_eal_pool(uint16_t id);
/* Gives the calling thread its own cache of buffers. */
void dpdk_eal_thread(void);
/* Configures and starts one rx and one tx queue; the device's start may fail apart (memif client):
 * *started. */
int dpdk_eal_port(uint16_t id, const char *what, int *started);

/* io_dpdk_gate.c */
extern pthread_mutex_t dpdk_world;
struct dpdk *dpdk_world_first(void);             /* dpdk_world held */
int dpdk_world_add(struct dpdk *io, bool gated); /* dpdk_world held */
void dpdk_world_remove(struct dpdk *io);         /* dpdk_world held */
uint64_t dpdk_gate_pass(void);                   /* how often the interrupt thread ran */

bool dpdk_enter_slow(void); /* lets the interrupt thread have the cpu; false */

/* Before and after touching a memif device: false, not now. */
static inline bool dpdk_enter(struct dpdk *io)
{
	if (io->kind != DPDK_MEMIF)
		return true;
	if (atomic_load_explicit(&io->want, memory_order_relaxed))
		return dpdk_enter_slow();
	atomic_store(&io->busy, true);
	if (!atomic_load(&io->want))
		return true;
	atomic_store_explicit(&io->busy, false, memory_order_release);
	return dpdk_enter_slow();
}

static inline void dpdk_leave(struct dpdk *io)
{
	if (io->kind == DPDK_MEMIF)
		atomic_store_explicit(&io->busy, false, memory_order_release);
}

/* io_dpdk_peer.c */
void dpdk_peer_init(struct dpdk *io);
uint32_t dpdk_peer_find(const struct dpdk *io, uint16_t port, uint32_t ip,
			uint16_t udp);                                    /* DPDK_NONE */
uint32_t dpdk_peer_any(const struct dpdk *io, uint32_t ip, uint16_t udp); /* on whichever port */
uint32_t dpdk_peer_add(struct dpdk *io, uint16_t port, uint32_t ip, uint16_t udp,
		       const uint8_t mac[6]);
void dpdk_peer_pin(struct dpdk *io, uint32_t index, bool kept);
/* The link of a port went down: its peers die. */
void dpdk_peer_hangup(struct dpdk *io, uint16_t port);
/* Tells of dead peers; how many. */
uint32_t dpdk_peer_gone(struct dpdk *io, struct lend_in *in, uint32_t cap);

/* io_dpdk_port.c */
struct dpdk_port *dpdk_port_new(void);
/* Puts a port into the carrier's table; its index, or -ENOSPC. */
int dpdk_port_add(struct dpdk *io, struct dpdk_port *port);
/* Closes the device, drops what waits for it and frees the port. dpdk_world held. */
void dpdk_port_drop(struct dpdk *io, uint32_t index);
void dpdk_port_free(struct dpdk_port *port);
/* Takes notice of links that came and went. */
void dpdk_port_reconcile(struct dpdk *io);

/* io_dpdk_ring.c, io_dpdk_memif.c: dpdk_world held. */
int dpdk_ring_listen(struct dpdk *io);
int dpdk_ring_resolve(struct dpdk *io, const struct dpdk_address *to, uint32_t *port);
void dpdk_ring_drop(struct dpdk_port *port);
int dpdk_memif_listen(struct dpdk *io);
int dpdk_memif_resolve(struct dpdk *io, const struct dpdk_address *to, uint32_t *port);
void dpdk_memif_close(struct dpdk *io);
/* Makes ids until some are spare. dpdk_world not held. */
void dpdk_memif_grow(struct dpdk *io);
/* Waits, boundedly, for links that are being made. dpdk_world not held. */
void dpdk_memif_settle(struct dpdk *io);

/* io_dpdk.c */
extern const struct lend_io_ops dpdk_ops;
void dpdk_close(struct lend_io *io);

int lend_io_dpdk_open(const struct lend_io_config *config, struct lend_io **io);

#endif
