/* dpdk - datagrams in Ethernet, IPv4 and UDP over DPDK's devices: what the module's files share.
 *
 * Layer: io, module lend_io_dpdk.so. A carrier belongs to one thread. State that several carriers
 * and EAL's interrupt thread share (the list of carriers, link states, device set-up) is atomic, or
 * protected by dpdk_world.
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
	DPDK_MBUF_CACHE = 64,  /* mbufs in a carrier's cache */
	DPDK_LENT_MAX = 128,   /* lent frames, until rx_done(), at which rx() takes no more */
	DPDK_QUEUES_MAX = 64,  /* receive queues of a network device */
	DPDK_ROUTES = 2,      /* queues of a memif link, transmit queues of an endpoint on a device;
				 the second one is for urgent datagrams */
	DPDK_TICK_TURNS = 32, /* polls of a network device between two ticks */
	DPDK_OWNERS_MAX = 64, /* endpoints that share a network device */
	DPDK_FRAME_MAX = 9216, /* jumbo; also memif's buffer size */
	DPDK_RING_SLOTS = 512,
	DPDK_LINKS = 16,         /* memif ids of a listener, unless ?links= */
	DPDK_ZEROCOPY_MAX = 256, /* reference counts of pieces read in place; a power of two */
	DPDK_REGIONS = 64,       /* regions of memory that a carrier mapped for its device */
	DPDK_NONE = 0xffff,
	DPDK_PATH_MAX = 105, /* of files and sockets in the runtime folder */
};

enum dpdk_kind { DPDK_RING, DPDK_MEMIF, DPDK_DEVICE };

/* How long pieces of messages are passed to a driver. */
enum dpdk_reads {
	DPDK_COPIED,  /* copied into the frame */
	DPDK_AT_ONCE, /* zero-copy: the driver has read them when its burst returns */
	DPDK_BY_DMA,  /* zero-copy from memory mapped for the device, which reads them later */
};

struct dpdk_address {
	enum dpdk_kind kind;
	char device[64]; /* an ethdev's name; "ring", "memif" */
	struct lend_ip ip;
	uint16_t udp;
	uint32_t links;      /* ?links= */
	struct lend_ip from; /* ?from=: the own address of a client */
	struct lend_ip via;  /* ?via=: the router */
	uint8_t mac[6];      /* ?mac=: the MAC to send to */
	bool has_from, has_via, has_mac;
	uint16_t vlan, mtu, queues; /* ?vlan=, ?mtu=, ?queues=; 0: not given */
};

/* A peer's life: FREE -> ALIVE -> DEAD (its link went down) -> FREE. */
enum dpdk_life { DPDK_FREE, DPDK_ALIVE, DPDK_DEAD };

struct dpdk_peer {
	struct lend_eth_expected usual; /* links: the first bytes of its frames */
	struct lend_eth_head head;      /* header of frames sent to it */
	struct lend_ip ip;
	uint16_t udp;
	uint16_t port;      /* index in the carrier's port[] */
	uint16_t next;      /* next peer in its hash chain */
	uint8_t life;       /* enum dpdk_life */
	bool kept;          /* the core has pinned it */
	bool gone_reported; /* rx() has reported it as gone */
	bool held;          /* resolved, and not yet pinned */
	bool has_hop; /* its MAC is that of the neighbour `hop`; else that of its last frame */
	bool fixed;   /* its MAC was given by ?mac= */
	struct lend_ip hop;
	uint8_t key_len;
	uint8_t key[18]; /* target of in.addr: IP and port, network order */
};

/* A link: two rings, two ethdevs, two carriers. Under dpdk_world, except open. */
struct dpdk_link {
	struct rte_ring *ring[2]; /* [i]: read by side i */
	struct dpdk *side[2];     /* NULL after that side closed */
	_Atomic bool open[2];
};

/* A lock on its own cache line. */
struct dpdk_lock {
	_Alignas(64) rte_spinlock_t spin;
};

/* An endpoint on a shared device. It receives the frames for one address. */
struct dpdk_owner {
	struct lend_eth_end end;
	struct rte_ring *ring; /* its frames, received by other endpoints */
	int wake_fd;           /* eventfd */
	struct rte_flow *rule; /* steers its frames in the device */
	uint16_t queue; /* queue that the rule steers to; without a rule, the queue to poll first */
	/* Fields above are constant, those below are written by any endpoint. */
	_Alignas(64) _Atomic uint64_t overrun; /* frames dropped because the ring was full */
	_Atomic bool asleep;                   /* the endpoint waits on wake_fd and the queues */
};

/* A network device, shared by endpoints in any threads of this process. It stays open after the
 * last of them is closed, because some drivers cannot start a device twice. To change the list of
 * owners, hold dpdk_world, all rx locks and `lock`; to read it, any one of them. */
struct dpdk_shared_port {
	struct dpdk_shared_port *next;
	char device[64];
	uint16_t id;
	uint16_t queues;   /* receive queues. Queue q's endpoints send urgent datagrams in transmit
			      queue queues + q, if `ways` is 2, and all others in queue q */
	uint16_t ways;     /* 1 or DPDK_ROUTES */
	uint16_t tx_slots; /* descriptors per transmit queue; 0: they cannot be counted */
	int socket;        /* NUMA node of the device; SOCKET_ID_ANY: unknown */
	uint16_t mtu;
	uint8_t mac[6];
	struct rte_mempool *pool[DPDK_QUEUES_MAX]; /* of each queue, for both directions */
	struct rte_device *device_of;              /* device that DMA mappings are for */
	enum dpdk_reads reads;
	uint16_t queue_fds;
	int queue_fd[DPDK_QUEUES_MAX]; /* sockets or eventfds of its queues; none: it is polled */
	bool interrupts;               /* queue_fd are eventfds of receive interrupts */
	unsigned if_index;             /* index of its kernel interface; 0: none */
	char sysfs[96];                /* path that exists while the card does; "": not a card */
	bool tx_sums;                  /* the device computes the UDP checksum */
	bool used;                     /* an endpoint has used it, and may be closed by now */
	struct dpdk_owner *owner[DPDK_OWNERS_MAX];
	_Atomic uint32_t owners;
	_Atomic uint64_t taken; /* bit i: queue i belongs to an owner with a rule */
	_Atomic bool up, removed;
	_Atomic uint32_t downs;
	/* Fields above are read at each poll, those below are written by any endpoint. */
	struct dpdk_lock rx[DPDK_QUEUES_MAX], tx[DPDK_ROUTES * DPDK_QUEUES_MAX];
	_Atomic(const struct dpdk_owner *) poller; /* the last owner that polled, and when */
	_Atomic uint64_t polled_ns;
	_Atomic uint64_t look_ns; /* earliest time of the next check of link and counters */
	uint64_t missed;          /* frames dropped for lack of room, as last read */
	rte_spinlock_t lock;      /* protects `hosts` */
	_Atomic uint32_t version;
	struct lend_hosts hosts;
};

struct dpdk_bell;

struct dpdk_port {
	bool used;
	bool down;     /* device: its link is down, nothing is sent */
	bool active;   /* polled: its link was up at the owner's last check */
	bool closing;  /* ring: the other end closed; remove the port once the ring is drained */
	uint8_t side;  /* ring, memif: our side of the link; of memif, 0 is the listener's */
	uint16_t id;   /* ethdev port */
	char name[64]; /* vdev name; "": not ours to remove */
	struct dpdk_link *link;         /* ring: the link */
	struct dpdk_shared_port *share; /* network device: the state that its endpoints share */
	struct dpdk_owner *owner;       /* network device: this endpoint's entry in `share` */
	/* memif client: address of its listener, lock of its id, start time */
	struct lend_ip to_ip;
	uint16_t to_udp;
	int lock;               /* fd of the id's lock file, -1: none */
	uint32_t link_id;       /* memif listener: the link's id */
	struct dpdk_bell *bell; /* memif: page that both ends map; NULL: none */
	int ringer;             /* memif: the other end's pipe, or spare for it; -1: none */
	uint64_t rings;         /* number of that pipe; 0: none */
	bool refused;           /* the last burst found the queue full */
	bool drained;           /* memif: frames were taken since the other end was last woken */
	bool connecting;        /* its device was started, and its link has not come up since */
	uint64_t started_ns;
	uint64_t started_pass;
	/* memif: written by the interrupt thread while bursts are blocked */
	_Atomic bool up;
	_Atomic uint32_t downs; /* times the link went down */
	uint32_t downs_seen;
	/* peer of the last frame, as links are point to point; DPDK_NONE: none, or not ALIVE */
	uint16_t last_peer;
	uint8_t ways;  /* transmit queues: 1 or DPDK_ROUTES; links: receive queues, too */
	uint8_t reads; /* enum dpdk_reads */
	/* Buffers to offer to a queue in one burst; shrinks when the device refuses some. */
	uint32_t window[DPDK_ROUTES];
	uint32_t full_in[DPDK_ROUTES]; /* burst number of the last refusal; no more in that burst */
};

/* A port that is polled. */
struct dpdk_rx_source {
	struct dpdk_port *port;
	uint32_t index; /* index of the port in the carrier's port[] */
};

/* Frames received from one queue of one port. frame[0..at) are done, frame[at..n) are still to be
 * split into datagrams. */
struct dpdk_rx {
	struct rte_mbuf *frame[DPDK_BURST];
	uint32_t n, at;
	uint32_t offset; /* byte offset of the next datagram's frame in frame[at] */
	uint16_t port;
	bool lent; /* a datagram in frame[at] was lent */
};

struct dpdk {
	struct lend_io io; /* first */
	enum dpdk_kind kind;
	bool listening;
	struct lend_eth_end self;
	char device[64];
	int lock;       /* memif listener: fd of its name's lock file, or -1 */
	int listener;   /* memif listener: fd of the driver's socket, or -1 */
	uint32_t links; /* memif listener: maximum number of ids */
	uint32_t made;  /* memif listener: ids made so far */
	/* memif: the pipe that wakes this carrier, see bell.h. */
	int bell_fd;
	char bell_path[DPDK_PATH_MAX + 1];
	size_t folder_len;    /* bytes of the folder in bell_path */
	uint64_t bell_number; /* in the pipe's name */
	bool watches;         /* network device: the next sleep waits for its queues, too */
	int wake_fds;         /* network device: epoll descriptor to sleep on; -1: polled */
	bool took;            /* network device: the last poll found frames, for any endpoint */
	uint32_t sleeps;      /* number of the last sleep */
	bool armed;           /* the other ends have this one marked as asleep */
	bool ending;          /* rings: some other ends closed */
	bool grow;            /* links came up: make more ids after the burst */
	/* Mutual exclusion of bursts and the interrupt thread: see intr_gate.c. */
	_Atomic bool busy, want;
	_Atomic bool changed; /* links came up or went down: call dpdk_port_reconcile() */
	/* As in lend_io_config, for telemetry.c. */
	void (*describe)(void *user, enum lend_io_topic topic, uint32_t from, uint32_t most,
			 struct lend_io_sink *sink);
	void *user;
	struct dpdk_request *request;            /* the command that waits for it; NULL: none */
	struct dpdk *next;                       /* list of all carriers, see dpdk_world_first() */
	struct dpdk_port *inbox[DPDK_PORTS_MAX]; /* ring: from others; under dpdk_world */
	uint32_t inbox_n;
	uint32_t looks;   /* number of ports that are polled, in look[] */
	bool one_ring;    /* the only one of them is a ring */
	uint32_t turn;    /* index in look[] of the port to poll first */
	bool found;       /* the last rx() received frames, or tx() ran since */
	uint32_t bursts;  /* calls of tx() so far */
	uint32_t turns;   /* calls of rx() so far; network device: since the last tick */
	uint32_t ticks;   /* of the network device, so far */
	lend_ns tick_ns;  /* network device: earliest time of the next tick */
	lend_ns renew_ns; /* network device: when to mark the peers' neighbours as in use again */
	uint32_t version; /* network device: version of the neighbours that peers' MACs are from */
	uint32_t downs; /* network device: losses of the link that the statistics already contain */
	uint16_t mtu;   /* network device: largest IP packet that it accepts */
	uint32_t ports_n; /* one more than the highest index in use of port[] */
	struct dpdk_port *port[DPDK_PORTS_MAX];
	struct dpdk_rx_source look[DPDK_PORTS_MAX];
	uint32_t gone_n; /* dead peers not yet reported */
	uint32_t evict;  /* index at which the search for a free peer starts */
	struct rte_mempool *pool;
	uint32_t mbuf_cache_n;
	struct rte_mbuf *mbuf_cache[DPDK_MBUF_CACHE];
	struct dpdk_loans *loans;
	struct dpdk_region
	    *region[DPDK_REGIONS]; /* regions of memory that it may send from in place */
	uint32_t regions;
	struct dpdk_rx rx[DPDK_ROUTES];
	uint32_t held_n; /* lent frames, until rx_done() */
	struct rte_mbuf *held[DPDK_LENT_MAX + DPDK_ROUTES * DPDK_BURST]; /* lent frames, and buffers
									    not yet split */
	uint16_t hash[DPDK_PEERS_MAX];
	struct dpdk_peer peer[DPDK_PEERS_MAX];
};

/* addr.c */
/* Returns 0, or -EINVAL with lend_why_text() set. */
int dpdk_address_parse(const char *text, struct dpdk_address *address);
int dpdk_address_print(const char *device, const struct lend_eth_end *end, char *text, size_t cap);

/* eal.c: once per process. */
int dpdk_eal_start(const char *args);
/* Checks that n file descriptors are free: 0, or -EMFILE with lend_why(). Without free descriptors
 * DPDK itself ends the process or waits for ever. */
int dpdk_eal_descriptors(uint32_t n, const char *what);
/* Returns the pool of rings and memifs. */
struct rte_mempool *dpdk_eal_pool(void);
/* Gives the calling thread its own cache of buffers. */
void dpdk_eal_thread(void);
/* Configures and starts n rx and n tx queues. *started is the result of starting the device, which
 * may fail separately (memif client). */
int dpdk_eal_port(uint16_t id, const char *what, uint16_t n, int *started);
/* Queues to set up: their numbers, the NUMA node of their descriptors, a pool for each rx queue. */
struct dpdk_queues {
	uint16_t rx, tx;
	int socket;
	struct rte_mempool *const *pool;
};
/* Configures the queues of a device: 0, or -ENODEV with lend_why_text() set. */
int dpdk_eal_queues(uint16_t id, const char *what, const struct dpdk_queues *queues,
		    const struct rte_eth_conf *conf);

/* frame_pool.c */
/* Makes a pool of buffers, each with room for `frame` bytes. NULL: no memory; lend_why_text() is
 * set. */
struct rte_mempool *dpdk_pool_make(uint32_t bufs, uint32_t frame, int socket);

/* intr_gate.c */
extern pthread_mutex_t dpdk_world;
struct dpdk *dpdk_world_first(void);             /* dpdk_world held */
int dpdk_world_add(struct dpdk *io, bool gated); /* dpdk_world held */
void dpdk_world_remove(struct dpdk *io);         /* dpdk_world held */
uint64_t dpdk_gate_pass(void); /* returns the number of rounds of the interrupt thread so far */

/* Bursts must execute their own memory fence: the kernel cannot do it for the interrupt thread. */
extern bool dpdk_gate_fences;

bool dpdk_enter_slow(void); /* yields the CPU to the interrupt thread; returns false */

/* Call before and after a burst on a memif device. dpdk_enter() returns false when bursts are
 * blocked. */
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
/* Waits at most ns (less than a second) until one of EAL's sources, except `own`, has an event.
 * Makes the sources non-blocking. Returns false when none has an event. If the sources cannot be
 * found, sleeps a millisecond and returns true; with ns 0, returns false. */
bool dpdk_events_wait(int own, uint64_t ns);

/* peer.c */
void dpdk_peer_init(struct dpdk *io);
uint32_t dpdk_peer_find(const struct dpdk *io, uint16_t port, const struct lend_ip *ip,
			uint16_t udp); /* DPDK_NONE */
uint32_t dpdk_peer_any(const struct dpdk *io, const struct lend_ip *ip,
		       uint16_t udp); /* on any port */
uint32_t dpdk_peer_add(struct dpdk *io, uint16_t port, const struct lend_ip *ip, uint16_t udp,
		       const uint8_t mac[6]);
void dpdk_peer_pin(struct dpdk *io, uint32_t index, bool kept);
/* Marks all peers of a port as dead, because its link went down. */
void dpdk_peer_hangup(struct dpdk *io, uint16_t port);
/* Reports dead peers as gone datagrams in `in`. Returns their number. */
uint32_t dpdk_peer_gone(struct dpdk *io, struct lend_in *in, uint32_t cap);

/* port.c */
struct dpdk_port *dpdk_port_new(void);
/* Puts a port into the carrier's table. Returns its index, or -ENOSPC. */
int dpdk_port_add(struct dpdk *io, struct dpdk_port *port);
/* Closes the device, drops the frames queued for it and frees the port. dpdk_world held. */
void dpdk_port_drop(struct dpdk *io, uint32_t index);
void dpdk_port_free(struct dpdk_port *port);
/* Rebuilds the list of polled ports, after a port's `active` changed. */
void dpdk_port_check(struct dpdk *io);
/* Applies the changes of links that came up or went down. */
void dpdk_port_reconcile(struct dpdk *io);

/* memif_rendezvous.c */
int dpdk_rendezvous_path(const struct lend_ip *ip, uint16_t udp, const char *tail, char *path);
/* Takes an exclusive lock on the file that currently has that name. Returns its fd, or -errno. */
int dpdk_rendezvous_lock(const char *path);
/* Reads how many ids the listener of that name has and may have. False: there is no listener. */
bool dpdk_rendezvous_find(const char *path, uint32_t *made, uint32_t *links);
/* Finds the driver's socket that listens at path, or is connected to it. Returns its fd, or -1. */
int dpdk_rendezvous_socket(const char *path, bool listening);

/* ring.c, memif.c: dpdk_world held. */
int dpdk_ring_listen(struct dpdk *io);
int dpdk_ring_resolve(struct dpdk *io, const struct dpdk_address *to, uint32_t *port);
void dpdk_ring_drop(struct dpdk_port *port);
int dpdk_memif_listen(struct dpdk *io);
int dpdk_memif_resolve(struct dpdk *io, const struct dpdk_address *to, uint32_t *port);
void dpdk_memif_close(struct dpdk *io);
/* Makes ids until enough are spare. dpdk_world not held. */
void dpdk_memif_grow(struct dpdk *io);
/* Waits a limited time for links that are being made. dpdk_world not held. */
void dpdk_memif_accept(struct dpdk *io);

/* tx_zerocopy.c: pieces of messages that a driver reads in place */
/* How pieces are passed to that device's driver. */
enum dpdk_reads dpdk_zerocopy_how(const struct rte_eth_dev_info *info);
/* Allocates the carrier's reference counts: 0 or -ENOMEM. */
int dpdk_zerocopy_open(struct dpdk *io);
/* Releases mappings and reference counts. If a device still holds a piece, they stay for the life
 * of the process. Call with dpdk_world held, before the carrier's ports are dropped. */
void dpdk_zerocopy_close(struct dpdk *io);
/* Maps memory for the carrier's device, if it reads by DMA and the machine allows the mapping. */
void dpdk_zerocopy_map(struct dpdk *io, void *memory, size_t len);
/* Returns buffers to chain to a frame for that port; they refer to the piece at data, which is lent
 * until they are freed. For DMA the piece is cut at page boundaries, as some devices look up one
 * IOMMU translation per buffer. NULL: the piece is to be copied. */
struct rte_mbuf *dpdk_zerocopy_lend(struct dpdk *io, const struct dpdk_port *port,
				    const struct lend_piece *piece, uint8_t *data);
/* Returns whether no driver reads any part of that buffer. If one does, first has it free the
 * frames that its device has sent. */
bool dpdk_zerocopy_idle(struct dpdk *io, uint32_t buf);

/* Links carry several frames in a buffer. Returns the offset of the frame behind one that ends at
 * end. */
static inline uint32_t dpdk_next_frame(uint32_t end)
{
	return (end + 7) & ~7u;
}

/* Returns the number of received buffers not yet split. */
static inline uint32_t dpdk_rx_waiting(const struct dpdk *io)
{
	uint32_t n = 0;

	for (int i = 0; i < DPDK_ROUTES; i++)
		n += io->rx[i].n - io->rx[i].at;
	return n;
}

/* rx.c */
uint32_t dpdk_rx(struct lend_io *base, struct lend_in *in, uint32_t cap);
void dpdk_rx_done(struct lend_io *base);
/* Polls all queues for frames, which the next rx() delivers. Returns whether there are any, or the
 * poll was blocked. */
bool dpdk_rx_look(struct dpdk *io);
/* Undoes what prepares a sleep. */
void dpdk_rx_end_sleep(struct dpdk *io);
/* Drops all received frames, lent ones included. */
void dpdk_rx_drop(struct dpdk *io);

/* telemetry.c */
/* Registers the commands of dpdk-telemetry.py. */
void dpdk_telemetry_start(void);
/* Answers the command that waits for this carrier's endpoint, if there is one. */
void dpdk_telemetry_answer(struct dpdk *io);
/* Ends the wait for a carrier that closes. */
void dpdk_telemetry_forget(struct dpdk *io);

/* tx.c */
void dpdk_tx(struct lend_io *base, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);

/* carrier.c */
extern const struct lend_io_ops dpdk_ops;
void dpdk_close(struct lend_io *io);

int lend_io_dpdk_open(const struct lend_io_config *config, struct lend_io **io);

#endif
