/* verbs/verbs - datagrams over UD queue pairs of RDMA devices: what the module's files share.
 *
 * Layer: io, module lend_io_verbs.so. A carrier belongs to one thread. With srq=1, endpoints of one
 * process share a device's context and its receive ring; these are protected by verbs_world, or by
 * the provider's own lock.
 */
#ifndef LEND_IO_VERBS_VERBS_H
#define LEND_IO_VERBS_VERBS_H

#include <stdatomic.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "io/io.h"
#include "io/verbs/addr.h"
#include "io/peer_table.h"
#include "util/traffic_class.h"

enum {
	VERBS_BURST = 64,     /* datagrams per doorbell and per poll */
	VERBS_SENDS = 512,    /* sends in flight, a power of two */
	VERBS_READS = 256,    /* counts of pieces that the device reads in place */
	VERBS_SIGNAL = 64,    /* one send in this many is signalled, more with pieces in place */
	VERBS_INLINE = 256,   /* bytes to ask for as inline data of a request */
	VERBS_PIECES = 6,     /* head, four pieces, tail */
	VERBS_COPY_MAX = 512, /* shorter datagrams are copied: cheaper than gathering */
	VERBS_REFILL = 64,    /* receives posted at once */
	VERBS_RESOLVES = 64,  /* addresses being resolved */
	VERBS_RESOLVE_MS = 2000,
};

/* A ring of receive buffers with the device's context. It belongs to one carrier, or is shared by
 * all carriers with srq=1. */
struct verbs_ring {
	struct ibv_context *ctx; /* device context: its own if shared, else the carrier's */
	bool shared;
	bool filled; /* every slot is posted, or belongs to a carrier */
	struct ibv_pd *pd;
	struct ibv_srq *srq; /* NULL: not shared, posted to the carrier's queue pair */
	struct ibv_mr *mr;
	uint8_t *memory;         /* n slots */
	uint32_t n;              /* number of slots */
	uint32_t slot;           /* bytes from one slot to the next */
	_Atomic uint32_t posted; /* slots that the device has */
	uint32_t users;          /* carriers that use it; under verbs_world */
	uint32_t port_num;
	struct verbs_ring *next; /* list of the shared rings; under verbs_world */
};

struct verbs_region {
	uint8_t *base;
	size_t len;
	struct ibv_mr *mr;
	bool writable; /* the device may write to it */
	bool windows;  /* memory windows can be bound to it */
};

/* A posted send. */
struct verbs_send {
	uint32_t buf[4]; /* handles of pieces that the device reads in place */
	uint8_t n;
};

/* A destination host: all its queue pairs share an address handle. */
struct verbs_host {
	struct lend_udp_key key;             /* ip: its GID or zero, port: its LID; the rest zero */
	struct ibv_ah *ah[LEND_PRECEDENCES]; /* NULL: not made yet */
	uint8_t sl;
	uint8_t path_bits;
};

/* A replaced address handle that posted sends may still use. */
struct verbs_retired {
	struct ibv_ah *ah;
	uint64_t at; /* destroy when `done` reaches this number */
};

/* RESOLVING -> KNOWN or FAILED; the entry ends when resolve() fetches the result. */
enum verbs_asked { VERBS_RESOLVING, VERBS_KNOWN, VERBS_FAILED };

struct verbs_resolve {
	struct verbs_resolve *next;
	struct rdma_cm_id *id; /* NULL once it is known or failed */
	enum verbs_asked state;
	int err; /* FAILED: the errno of the failure */
	const char *fix;
	struct ibv_ah_attr path; /* KNOWN: the path to the peer */
	uint32_t qp;
	char address[104];
};

/* UP <-> HOMELESS (our GID is gone), either -> DEAD (the device is). */
enum verbs_life { VERBS_UP, VERBS_HOMELESS, VERBS_DEAD };

struct verbs_rc; /* rc_link.h */

struct verbs {
	struct lend_io io; /* first */
	struct verbs_address address;
	char device[64]; /* name of the device on this host */
	uint8_t ip[16];  /* our IP, as a GID */
	uint8_t gid[16]; /* our GID; equal to ip for RoCE */
	uint16_t port;   /* our UDP port in rdma_cm */
	uint8_t port_num;
	bool ethernet;
	bool listening;
	enum verbs_life life;
	/* These two may be set by any carrier that shares the device. */
	_Atomic bool broken;  /* the queue pair is in error */
	_Atomic bool removed; /* the device is gone or unusable */
	bool look;            /* returned from a sleep: poll the event sources */
	bool armed;           /* the next completion raises an event */
	bool full;            /* the send queue had no room for the last burst */
	uint32_t turn;
	uint32_t gid_index;
	uint16_t pkey_index;
	uint32_t mtu; /* MTU of the port now; path.mtu is the promised one */

	int epoll; /* watches the event sources below */
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;           /* bound to our address until close */
	struct ibv_context *watch;       /* the context for asynchronous events */
	struct ibv_comp_channel *signal; /* interrupt channel of rx_cq */
	uint32_t signals;                /* events taken from it, not yet acknowledged */
	struct verbs_resolve *asked;
	uint32_t n_asked;

	struct ibv_qp *qp;
	struct ibv_cq *rx_cq, *tx_cq;
	struct verbs_ring *ring;
	uint32_t *spare; /* slots to post, ring->n entries */
	uint32_t n_spare;
	uint32_t lent[VERBS_BURST]; /* slots lent to the caller */
	uint32_t n_lent;
	struct ibv_wc early[VERBS_BURST]; /* taken by arm(), for the next rx() */
	uint32_t n_early;
	struct lend_udp_key from[VERBS_BURST]; /* senders of the lent datagrams */

	uint64_t next, done; /* sends posted and finished, counted from 0 */
	uint64_t quiet;      /* sends since the last signalled one */
	uint32_t inline_max;
	uint32_t in_place; /* posted sends with pieces in place */
	/* Pieces that posted sends read, by buffer handle modulo VERBS_READS: a buffer whose count
	 * is 0 is in none of them. */
	uint16_t reads[VERBS_READS];
	uint8_t *bounce; /* VERBS_SENDS slots */
	uint32_t bounce_slot;
	struct ibv_mr *bounce_mr;
	struct verbs_send send[VERBS_SENDS];
	struct ibv_send_wr wr[VERBS_BURST];
	struct ibv_sge sge[VERBS_BURST][VERBS_PIECES];
	struct lend_out *out[VERBS_BURST];

	struct verbs_region *region; /* sorted by base */
	uint32_t n_regions;
	uint32_t last_region;

	struct verbs_rc *rc; /* links for one-sided reads; NULL: there was none yet */
	uint8_t rc_depth;    /* reads of a link that the device has under way at once */

	struct lend_udp_peers peers; /* key: GID or zero, LID, queue pair */
	struct lend_udp_key last_from;
	int32_t last_peer;
	uint32_t gone_at, gone_end; /* peers still to report as gone: [gone_at, gone_end) */
	struct lend_udp_peers hosts;
	struct verbs_host *host; /* hosts.cap entries */
	uint32_t n_host;
	struct verbs_retired *retired;
	uint32_t n_retired;
};

/* open.c */
/* Sets gid_index to the index of our GID in the port's table. -ENOENT: it is not there. */
int verbs_gid_find(struct verbs *v);
/* Takes the queue pair from reset to ready-to-send. */
int verbs_qp_start(struct verbs *v);
uint32_t verbs_mtu(const struct ibv_port_attr *port);

/* recv_queue.c */
struct ibv_context *verbs_device(const char *name); /* opens a device by name; NULL: cannot */
int verbs_ring_open(struct verbs *v, uint32_t mtu);
/* Posts all slots when the queue pair is ready, unless another carrier has. */
void verbs_ring_fill(struct verbs *v);
/* Posts the spare slots, if there are enough for a doorbell or `all` is set. */
void verbs_ring_refill(struct verbs *v, bool all);
/* Takes all completions; their datagrams are lost. */
void verbs_ring_drain(struct verbs *v);
/* Makes all slots spare that are not lent: after a reset none is posted. No effect on a shared
 * ring. */
void verbs_ring_reclaim(struct verbs *v);
/* Returns the slots of a destroyed queue pair to the other users of a shared ring. */
void verbs_ring_leave(struct verbs *v);
void verbs_ring_close(struct verbs *v);

/* cm.c */
/* Chooses and binds our own address; this determines the device and port. */
int verbs_cm_open(struct verbs *v);
int verbs_cm_listen(struct verbs *v);
void verbs_cm_close(struct verbs *v);
void verbs_cm_turn(struct verbs *v);
int verbs_cm_resolve(struct verbs *v, const char *text, uint32_t *peer);

/* async_events.c */
/* Polls all event sources: ports, devices, addresses, rdma_cm. */
void verbs_poll_events(struct verbs *v);
/* Resets a queue pair in error, or ends the carrier. */
void verbs_recover(struct verbs *v);
/* Marks all peers as gone. life is VERBS_HOMELESS until our GID returns, or VERBS_DEAD for good. */
void verbs_lose(struct verbs *v, enum verbs_life life);
uint32_t verbs_report_gone(struct verbs *v, struct lend_in *in, uint32_t cap);

/* peer.c */
/* Records the service level and path bits for a host. */
void verbs_host_set_path(struct verbs *v, const struct lend_udp_key *peer, uint8_t sl,
			 uint8_t path_bits);
/* Returns the address handle of a peer's host, and makes it if necessary. NULL: cannot. */
struct ibv_ah *verbs_host_ah(struct verbs *v, const struct lend_udp_key *peer, uint8_t class);
/* Writes the path to a peer's host. False: no room for the host. */
bool verbs_host_path(struct verbs *v, const struct lend_udp_key *peer, uint8_t precedence,
		     struct ibv_ah_attr *path);
/* Destroys replaced address handles that no posted send uses. */
void verbs_host_free_retired(struct verbs *v);
/* Drops all address handles: our GID moved, so all are stale. */
void verbs_host_forget(struct verbs *v);
void verbs_peer_pin(struct verbs *v, uint32_t peer, bool kept);
/* Reads the sender's key and the traffic class of a datagram. False: it is not for us. */
bool verbs_peer_key(const struct verbs *v, const struct ibv_wc *wc, const uint8_t *grh,
		    struct lend_udp_key *key, uint8_t *tclass);

/* send.c */
uint64_t verbs_queued(struct lend_io *io);
void verbs_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);
bool verbs_flush(struct lend_io *io, uint32_t buf);
/* Polls the completions of sends. */
void verbs_reap(struct verbs *v);
/* Treats all sends as finished, with any result. */
void verbs_send_drop(struct verbs *v);

/* region.c */
int verbs_reg(struct lend_io *io, void *memory, size_t len);
/* Returns the region that contains [data, data + len), or NULL. */
const struct verbs_region *verbs_region_of(struct verbs *v, const uint8_t *data, uint32_t len);

/* rc_link.c */
/* Offers one-sided reads, if the device has what they need. */
void verbs_rc_open(struct verbs *v);
/* Closes links that are idle, or in error. */
void verbs_rc_turn(struct verbs *v);
/* Closes the links with a peer; NULL: all links. */
void verbs_rc_lose(struct verbs *v, const struct lend_udp_key *key);
/* Marks that a link may be in error. Any carrier that shares the device. */
void verbs_rc_doubt(struct verbs *v);
/* Prepares to sleep. False: a read has ended. */
bool verbs_rc_arm(struct verbs *v);
/* Takes note of the event of a completion queue. */
void verbs_rc_signal(struct verbs *v, struct ibv_cq *cq);
void verbs_rc_close(struct verbs *v);

/* carrier.c */
extern const struct lend_io_ops verbs_ops;
void verbs_close(struct lend_io *io);

int lend_io_verbs_open(const struct lend_io_config *config, struct lend_io **io);

#endif
