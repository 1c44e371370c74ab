/* dpdk - datagrams in Ethernet, IPv4 and UDP over DPDK's devices: what the module's files share.
 *
 * Layer: io, module lend_io_dpdk.so. A carrier belongs to one thread; what several carriers and
 * EAL's interrupt thread share (the list of carriers, link states, device set-up) is under
 * dpdk_world, or atomic.
 */
#ifndef LEND_IO_DPDK_DPDK_H
#define LEND_IO_DPDK_DPDK_H

#include <pthread.h>
#include <stdatomic.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_spinlock.h>

#include "io/eth/eth.h"
#include "io/io.h"

enum {
	DPDK_PORTS_MAX = 32,   /* links of a carrier; EAL has no more ports either */
	DPDK_PEERS_MAX = 1024, /* a power of two */
	DPDK_BURST = 32,       /* frames per call of a device */
	DPDK_STOCK = 64,       /* buffers at hand */
	DPDK_LENT_MAX = 128,   /* frames that are lent until rx_done(), before no more are taken */
	DPDK_QUEUES_MAX = 8,   /* of a device between hosts */
	DPDK_WAYS = 2,         /* of a memif link: the second one is for what is urgent */
	DPDK_OWNERS_MAX = 32,  /* endpoints that share one */
	DPDK_FRAME_MAX = 9216, /* jumbo; also memif's buffer size */
	DPDK_RING_SLOTS = 512,
	DPDK_LINKS = 16,   /* memif ids of a listener, unless ?links= */
	DPDK_LOANS = 256,  /* counters of what drivers read in place; a power of two */
	DPDK_REGIONS = 64, /* of memory that a carrier has mapped for its device */
	DPDK_NONE = 0xffff,
};

enum dpdk_kind { DPDK_RING, DPDK_MEMIF, DPDK_DEVICE };

/* How a driver is given long pieces of messages. */
enum dpdk_reads {
	DPDK_COPIED,  /* copied into the frame */
	DPDK_AT_ONCE, /* where they lie: it has read them when its burst returns */
	DPDK_BY_DMA,  /* where they lie, in memory mapped for it: it reads them later */
};

struct dpdk_address {
	enum dpdk_kind kind;
	char device[64]; /* an ethdev's name; "ring", "memif" */
	struct lend_ip ip;
	uint16_t udp;
	uint32_t links;      /* ?links= */
	struct lend_ip from; /* ?from=, */
	struct lend_ip via;  /* ?via=, */
	uint8_t mac[6];      /* ?mac=: */
	bool has_from, has_via, has_mac;
	uint16_t vlan, mtu, queues; /* ?vlan=, ?mtu=, ?queues=; 0: not given */
};

/* A peer's life: FREE -> ALIVE -> DEAD (its link went down) -> FREE. */
enum dpdk_life { DPDK_FREE, DPDK_ALIVE, DPDK_DEAD };

struct dpdk_peer {
	struct lend_eth_usual usual; /* links: how frames from it begin */
	struct lend_eth_head head;   /* of frames towards it */
	struct lend_ip ip;
	uint16_t udp;
	uint16_t port; /* index into ports */
	uint16_t next; /* in its hash chain */
	uint8_t life;  /* enum dpdk_life */
	bool kept;     /* pinned */
	bool told;     /* its gone datagram went out */
	bool held;     /* resolved, and not yet pinned */
	bool has_hop;  /* its MAC is that of the neighbour hop; else its last frame's, */
	bool fixed;    /* or ?mac= */
	struct lend_ip hop;
	uint8_t key_len;
	uint8_t key[18]; /* what in.addr points to: IP and port, network order */
};

/* Two rings, two ethdevs, two carriers. Under dpdk_world, but for open. */
struct dpdk_link {
	struct rte_ring *ring[2]; /* [i]: read by side i */
	struct dpdk *side[2];     /* NULL once that side closed */
	_Atomic bool open[2];
};

/* A lock of its own cache line. */
struct dpdk_lock {
	_Alignas(64) rte_spinlock_t spin;
};

/* Who gets the frames for an address. */
struct dpdk_owner {
	struct lend_eth_end end;
	struct rte_ring *ring;    /* frames that others took from the device */
	_Atomic uint64_t overrun; /* frames that found it full */
	struct rte_flow *rule;    /* the device sorts them itself, */
	uint16_t queue;           /* into this queue; else where it begins to look */
};

/* A device between hosts, which endpoints in any threads of this process share. It stays open when
 * the last of them is closed: some drivers cannot start a device twice. The list of owners changes
 * with dpdk_world, all rx locks and `lock` held; any one of them is enough to read it. */
struct dpdk_share {
	struct dpdk_share *next;
	char device[64];
	uint16_t id;
	uint16_t queues; /* of each direction */
	uint16_t mtu;
	uint8_t mac[6];
	struct rte_mempool *pool;
	struct rte_device *device_of; /* what EAL maps memory for */
	enum dpdk_reads reads;
	unsigned if_index; /* the kernel's interface below it; 0: none */
	char sysfs[96];    /* there as long as the card is; "": it is none */
	bool tx_sums;      /* it makes UDP's checksum */
	bool used;         /* by endpoints that are closed now */
	struct dpdk_owner *owner[DPDK_OWNERS_MAX];
	_Atomic uint32_t owners;
	_Atomic uint32_t taken; /* bit i: queue i belongs to an owner with a rule */
	_Atomic bool up, removed;
	_Atomic uint32_t downs;
	_Atomic uint64_t look_ns; /* look at link and counters not before */
	uint64_t missed;          /* frames that it had no room for, as counted so far */
	struct dpdk_lock rx[DPDK_QUEUES_MAX], tx[DPDK_QUEUES_MAX];
	rte_spinlock_t lock; /* of hosts */
	_Atomic uint32_t version;
	struct lend_hosts hosts;
};

struct dpdk_port {
	bool used;
	bool down;                /* device: sends nothing now */
	bool active;              /* polled: its link is up as the owner saw it last */
	bool closing;             /* ring: the other end closed; drain, then drop */
	uint8_t side;             /* ring: ours */
	uint16_t id;              /* ethdev port */
	char name[64];            /* vdev name; "": not ours to remove */
	struct dpdk_link *link;   /* ring */
	struct dpdk_share *share; /* device; */
	struct dpdk_owner *owner; /* and this carrier's part of it */
	/* memif client: where to, by which id, since when */
	struct lend_ip to_ip;
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
	uint8_t ways;       /* queues each way: 1 or DPDK_WAYS */
	uint8_t reads;      /* enum dpdk_reads */
	/* Frames to offer a queue at once: shrinks when the device refuses some. */
	uint32_t window[DPDK_WAYS];
	uint32_t full_in[DPDK_WAYS]; /* the burst in which it refused some: it gets no more of it */
};

/* A port that is polled. */
struct dpdk_look {
	struct dpdk_port *port;
	uint32_t index; /* its own, into ports */
};

/* Frames that came through one port, by one of its queues: those before at are done with, those
 * from it to n are to be split up. */
struct dpdk_rx {
	struct rte_mbuf *frame[DPDK_BURST];
	uint32_t n, at;
	uint32_t offset; /* where in the one at hand the next datagram's frame begins */
	uint16_t port;
	bool lent; /* something of the one at hand was */
};

struct dpdk {
	struct lend_io io; /* first */
	enum dpdk_kind kind;
	bool listening;
	struct lend_eth_end self;
	char device[64];
	int lock;       /* memif listener: its name's lock file */
	int listener;   /* memif listener: the device's socket */
	uint32_t links; /* memif listener: ids at most, */
	uint32_t made;  /* and now */
	bool ending;    /* rings: other ends closed */
	bool grow;      /* links came: make more ids when out of the burst */
	/* Bursts and the interrupt thread keep out of each other's way: see intr_gate.c. */
	_Atomic bool busy, want;
	_Atomic bool changed;                    /* links came or went: reconcile */
	struct dpdk *next;                       /* in the world's list */
	struct dpdk_port *inbox[DPDK_PORTS_MAX]; /* ring: ends made by others; under dpdk_world */
	uint32_t inbox_n;
	uint32_t looks;   /* ports that are polled, */
	uint32_t turn;    /* and the one of them to poll first */
	bool found;       /* something came at the last one, or was sent since */
	uint32_t bursts;  /* tx() so far */
	uint32_t turns;   /* rx() so far; device: since the last tick, */
	lend_ns tick_ns;  /* and not before this; */
	lend_ns renew_ns; /* when neighbours are said to be wanted still; */
	uint32_t version; /* of the neighbours that peers have; */
	uint32_t downs;   /* of the link, as told; */
	uint16_t mtu;     /* and the largest IP packet that is taken */
	uint32_t ports_n; /* one more than the highest in use */
	struct dpdk_port *port[DPDK_PORTS_MAX];
	struct dpdk_look look[DPDK_PORTS_MAX];
	uint32_t gone_n; /* dead peers to tell of */
	uint32_t evict;  /* where the search for a free peer starts */
	struct rte_mempool *pool;
	uint32_t stock_n;
	struct rte_mbuf *stock[DPDK_STOCK];
	struct dpdk_loans *loans;
	struct dpdk_region *region[DPDK_REGIONS]; /* that it may send from in place */
	uint32_t regions;
	struct dpdk_rx rx[DPDK_WAYS];
	uint32_t held_n; /* lent until rx_done() */
	struct rte_mbuf
	    *held[DPDK_LENT_MAX + DPDK_WAYS * DPDK_BURST]; /* those that came are lent, too */
	uint16_t hash[DPDK_PEERS_MAX];
	struct dpdk_peer peer[DPDK_PEERS_MAX];
};

/* addr.c */
/* 0, or -EINVAL with lend_why_text() set. */
int dpdk_address_parse(const char *text, struct dpdk_address *address);
int dpdk_address_print(const char *device, const struct lend_eth_end *end, char *text, size_t cap);

/* eal.c: once per process. */
int dpdk_eal_start(const char *args);
/* Checks that n file descriptors are free: 0, or -EMFILE with lend_why(). DPDK itself ends the
 * process, or waits for ever, where it finds none. */
int dpdk_eal_descriptors(uint32_t n, const char *what);
/* Buffers that a device can receive into and send from; NULL: no memory, lend_why() says so.
 * RTE_MAX_ETHPORTS for rings and memifs. */
struct rte_mempool *dpdk_eal_pool(uint16_t id);
/* Gives the calling thread its own cache of buffers. */
void dpdk_eal_thread(void);
/* Configures and starts n rx and tx queues; the device's start may fail apart (memif client):
 * *started. */
int dpdk_eal_port(uint16_t id, const char *what, uint16_t n, int *started);
/* Configures as many of each. */
int dpdk_eal_queues(uint16_t id, const char *what, uint16_t n, const struct rte_eth_conf *conf);

/* intr_gate.c */
extern pthread_mutex_t dpdk_world;
struct dpdk *dpdk_world_first(void);             /* dpdk_world held */
int dpdk_world_add(struct dpdk *io, bool gated); /* dpdk_world held */
void dpdk_world_remove(struct dpdk *io);         /* dpdk_world held */
uint64_t dpdk_gate_pass(void);                   /* how often the interrupt thread ran */

/* Bursts must fence themselves: the kernel does not do it for the interrupt thread. */
extern bool dpdk_gate_fences;

bool dpdk_enter_slow(void); /* lets the interrupt thread have the cpu; false */

/* Before and after touching a memif device: false, not now. */
static inline bool dpdk_enter(struct dpdk *io)
{
	if (io->kind != DPDK_MEMIF)
		return true;
	if (atomic_load_explicit(&io->want, memory_order_relaxed))
		return dpdk_enter_slow();
	atomic_store_explicit(&io->busy, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (dpdk_gate_fences)
		atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&io->want, memory_order_acquire))
		return true;
	atomic_store_explicit(&io->busy, false, memory_order_release);
	return dpdk_enter_slow();
}

static inline void dpdk_leave(struct dpdk *io)
{
	if (io->kind == DPDK_MEMIF)
		atomic_store_explicit(&io->busy, false, memory_order_release);
}

/* eal_poll.c: EAL's interrupt thread only. */
/* Waits until one of its sources but `own` has something, at most ns (less than a second); false:
 * none has. Where nobody can tell it is true after a millisecond. */
bool dpdk_events_wait(int own, uint64_t ns);

/* peer.c */
void dpdk_peer_init(struct dpdk *io);
uint32_t dpdk_peer_find(const struct dpdk *io, uint16_t port, const struct lend_ip *ip,
			uint16_t udp); /* DPDK_NONE */
uint32_t dpdk_peer_any(const struct dpdk *io, const struct lend_ip *ip,
		       uint16_t udp); /* on whichever port */
uint32_t dpdk_peer_add(struct dpdk *io, uint16_t port, const struct lend_ip *ip, uint16_t udp,
		       const uint8_t mac[6]);
void dpdk_peer_pin(struct dpdk *io, uint32_t index, bool kept);
/* The link of a port went down: its peers die. */
void dpdk_peer_hangup(struct dpdk *io, uint16_t port);
/* Tells of dead peers; how many. */
uint32_t dpdk_peer_gone(struct dpdk *io, struct lend_in *in, uint32_t cap);

/* port.c */
struct dpdk_port *dpdk_port_new(void);
/* Puts a port into the carrier's table; its index, or -ENOSPC. */
int dpdk_port_add(struct dpdk *io, struct dpdk_port *port);
/* Closes the device, drops what waits for it and frees the port. dpdk_world held. */
void dpdk_port_drop(struct dpdk *io, uint32_t index);
void dpdk_port_free(struct dpdk_port *port);
/* A port was, or is no more, active. */
void dpdk_port_look(struct dpdk *io);
/* Takes notice of links that came and went. */
void dpdk_port_reconcile(struct dpdk *io);

/* memif_rendezvous.c */
enum { DPDK_PATH_MAX = 105 };
int dpdk_meet_path(const struct lend_ip *ip, uint16_t udp, const char *tail, char *path);
/* An exclusive lock on a file that is still the one of that name: its fd, or -errno. */
int dpdk_meet_lock(const char *path);
/* How many ids the listener of that name has and may have; false when there is none. */
bool dpdk_meet_look_up(const char *path, uint32_t *made, uint32_t *links);
/* The driver's socket that listens at path, or is connected to it: its fd, or -1. */
int dpdk_meet_socket(const char *path, bool listening);

/* ring.c, memif.c: dpdk_world held. */
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

/* tx_zerocopy.c: pieces of messages that a driver reads where they lie */
/* How that device's driver is to be given them. */
enum dpdk_reads dpdk_place_how(const struct rte_eth_dev_info *info);
/* 0 or -ENOMEM. */
int dpdk_place_open(struct dpdk *io);
/* Gives up what was mapped and counted, unless a device has not let go of it: then that stays for
 * the life of the process. dpdk_world held; before its ports go. */
void dpdk_place_close(struct dpdk *io);
/* Has memory mapped for the carrier's device, if that reads by DMA and the machine lets it. */
void dpdk_place_map(struct dpdk *io, void *memory, size_t len);
/* Buffers to be chained to a frame that is for that port: the piece, which lies at data, cut at
 * pages where a device reads it, since some look up one translation of the IOMMU per buffer; it is
 * lent until they are freed. NULL: the piece is to be copied. */
struct rte_mbuf *dpdk_place_lend(struct dpdk *io, const struct dpdk_port *port,
				 const struct lend_piece *piece, uint8_t *data);
/* No driver reads any of that buffer; asks the device, which may have done so meanwhile. */
bool dpdk_place_quiet(struct dpdk *io, uint32_t buf);

/* Links carry several frames in a buffer: where the next one begins behind one that ends at end. */
static inline uint32_t dpdk_next_frame(uint32_t end)
{
	return (end + 7) & ~7u;
}

/* How many frames came that are not yet split up. */
static inline uint32_t dpdk_rx_waiting(const struct dpdk *io)
{
	uint32_t n = 0;

	for (int i = 0; i < DPDK_WAYS; i++)
		n += io->rx[i].n - io->rx[i].at;
	return n;
}

/* rx.c */
uint32_t dpdk_rx(struct lend_io *base, struct lend_in *in, uint32_t cap);
void dpdk_rx_done(struct lend_io *base);
/* Forgets what came. */
void dpdk_rx_drop(struct dpdk *io);

/* tx.c */
void dpdk_tx(struct lend_io *base, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);

/* carrier.c */
extern const struct lend_io_ops dpdk_ops;
void dpdk_close(struct lend_io *io);

int lend_io_dpdk_open(const struct lend_io_config *config, struct lend_io **io);

#endif
