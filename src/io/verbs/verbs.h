/* verbs/verbs - datagrams over UD queue pairs of RDMA devices: what the module's files share.
 *
 * Layer: io, module lend_io_verbs.so. A carrier belongs to one thread. What endpoints of one
 * process share when they ask for it (srq=1: a device's context, its receive ring) is under
 * verbs_world, or the provider's own lock.
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
	VERBS_SENDS = 512,    /* posted at once, a power of two */
	VERBS_SIGNAL = 64,    /* of unlent sends one in so many reports its end */
	VERBS_INLINE = 256,   /* bytes that we would like to hand over inside the request */
	VERBS_PIECES = 6,     /* head, four pieces, tail */
	VERBS_COPY_MAX = 512, /* shorter datagrams are copied: cheaper than gathering */
	VERBS_REFILL = 64,    /* receives posted at once */
	VERBS_RESOLVES = 64,  /* addresses being asked for */
	VERBS_RESOLVE_MS = 2000,
};

/* What receives: a ring of buffers with the device's context. One carrier's, or shared by all that
 * say srq=1. */
struct verbs_ring {
	struct ibv_context *ctx; /* shared: its own; else the carrier's */
	bool shared;
	bool filled; /* all slots were posted or are some carrier's */
	struct ibv_pd *pd;
	struct ibv_srq *srq; /* NULL: one carrier's, posted to its queue pair */
	struct ibv_mr *mr;
	uint8_t *memory;         /* n slots */
	uint32_t n;              /* slots */
	uint32_t slot;           /* bytes from one to the next */
	_Atomic uint32_t posted; /* slots that the device has */
	uint32_t users;          /* verbs_world */
	uint32_t port_num;
	struct verbs_ring *next; /* among the shared ones; verbs_world */
};

struct verbs_region {
	uint8_t *base;
	size_t len;
	struct ibv_mr *mr;
};

/* A posted send. */
struct verbs_send {
	uint32_t buf[4]; /* handles of pieces that the device reads in place */
	uint8_t n;
};

/* A host that we send to: all its queue pairs share an address handle. */
struct verbs_host {
	struct lend_udp_key key;             /* ip: its GID or zero, port: its LID; the rest zero */
	struct ibv_ah *ah[LEND_PRECEDENCES]; /* NULL: not made yet */
	uint8_t sl;
	uint8_t path_bits;
};

/* An address handle that posted sends may still name. */
struct verbs_grave {
	struct ibv_ah *ah;
	uint64_t at; /* free once so many sends are done */
};

/* ASKING -> KNOWN or FAILED; both end when resolve() fetches them. */
enum verbs_asked { VERBS_ASKING, VERBS_KNOWN, VERBS_FAILED };

struct verbs_resolve {
	struct verbs_resolve *next;
	struct rdma_cm_id *id; /* NULL once it is known or failed */
	enum verbs_asked state;
	int err; /* FAILED */
	const char *mend;
	struct ibv_ah_attr path; /* KNOWN */
	uint32_t qp;
	char address[104];
};

/* UP <-> HOMELESS (our GID is gone), either -> DEAD (the device is). */
enum verbs_life { VERBS_UP, VERBS_HOMELESS, VERBS_DEAD };

struct verbs {
	struct lend_io io; /* first */
	struct verbs_address address;
	char device[64]; /* as it is called here */
	uint8_t ip[16];  /* ours */
	uint8_t gid[16]; /* ours; for RoCE the same */
	uint16_t port;   /* UDP port that rdma_cm knows us by */
	uint8_t port_num;
	bool ethernet;
	bool listening;
	enum verbs_life life;
	/* Whoever shares the device may set these two. */
	_Atomic bool broken;  /* the queue pair is in error */
	_Atomic bool removed; /* the device is gone, or as good as */
	bool look;            /* came out of a sleep: see what woke it */
	bool armed;           /* the next completion makes an event */
	bool full;            /* the last burst did not fit */
	uint32_t turn;
	uint32_t gid_index;
	uint16_t pkey_index;
	uint32_t mtu; /* the port's now; path.mtu is what was promised */

	int epoll; /* over the three below */
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;           /* bound to our address while we live */
	struct ibv_context *watch;       /* whose asynchronous events we read */
	struct ibv_comp_channel *signal; /* of rx_cq */
	uint32_t signals;                /* taken from it and not yet acknowledged */
	struct verbs_resolve *asked;
	uint32_t n_asked;

	struct ibv_qp *qp;
	struct ibv_cq *rx_cq, *tx_cq;
	struct verbs_ring *ring;
	uint32_t *spare; /* slots to post, ring->n entries */
	uint32_t n_spare;
	uint32_t lent[VERBS_BURST]; /* slots in the caller's hands */
	uint32_t n_lent;
	struct ibv_wc early[VERBS_BURST]; /* taken by arm(), for the next rx() */
	uint32_t n_early;
	struct lend_udp_key from[VERBS_BURST]; /* senders of what is lent */

	uint64_t next, done; /* sends: posted, and finished, since ever */
	uint64_t quiet;      /* sends since the last that reports its end */
	uint32_t inline_max;
	uint32_t in_place; /* posted sends with pieces in place */
	uint8_t *bounce;   /* VERBS_SENDS slots */
	uint32_t bounce_slot;
	struct ibv_mr *bounce_mr;
	struct verbs_send send[VERBS_SENDS];
	struct ibv_send_wr wr[VERBS_BURST];
	struct ibv_sge sge[VERBS_BURST][VERBS_PIECES];
	struct lend_out *out[VERBS_BURST];

	struct verbs_region *region; /* by base */
	uint32_t n_regions;
	uint32_t last_region;

	struct lend_udp_peers peers; /* key: GID or zero, LID, queue pair */
	struct lend_udp_key last_from;
	int32_t last_peer;
	uint32_t gone_at, gone_end; /* peers to tell of: [gone_at, gone_end) */
	struct lend_udp_peers hosts;
	struct verbs_host *host; /* hosts.cap entries */
	uint32_t n_host;
	struct verbs_grave *grave;
	uint32_t n_graves;
};

/* open.c */
/* Sets gid_index to where our GID stands in the port's table; -ENOENT: nowhere. */
int verbs_gid_find(struct verbs *v);
/* From reset to sending. */
int verbs_qp_start(struct verbs *v);
uint32_t verbs_mtu(const struct ibv_port_attr *port);

/* recv_queue.c */
struct ibv_context *verbs_device(const char *name); /* opened; NULL */
int verbs_ring_open(struct verbs *v, uint32_t mtu);
/* The queue pair is ready: posts all, if nobody has. */
void verbs_ring_fill(struct verbs *v);
/* Posts what is spare, if that is worth a doorbell or all of it is asked for. */
void verbs_ring_refill(struct verbs *v, bool all);
/* Takes all completions, whose datagrams are lost. */
void verbs_ring_drain(struct verbs *v);
/* After a reset nothing is posted any more. */
void verbs_ring_reclaim(struct verbs *v);
/* The queue pair is gone: what it had goes back to the ring's other users. */
void verbs_ring_leave(struct verbs *v);
void verbs_ring_close(struct verbs *v);

/* cm.c */
/* Our own address, bound; says which device and port that is. */
int verbs_cm_open(struct verbs *v);
int verbs_cm_listen(struct verbs *v);
void verbs_cm_close(struct verbs *v);
void verbs_cm_turn(struct verbs *v);
int verbs_cm_resolve(struct verbs *v, const char *text, uint32_t *peer);

/* async_events.c */
/* Looks at everything that is not a datagram. */
void verbs_look(struct verbs *v);
/* Brings the queue pair back out of its error, or ends the carrier. */
void verbs_recover(struct verbs *v);
/* All peers are gone; life says for how long. */
void verbs_lose(struct verbs *v, enum verbs_life life);
uint32_t verbs_tell_gone(struct verbs *v, struct lend_in *in, uint32_t cap);

/* peer.c */
/* Remembers how a host is reached. */
void verbs_host_note(struct verbs *v, const struct lend_udp_key *peer, uint8_t sl,
		     uint8_t path_bits);
/* The address handle of a peer's host, made if need be; NULL: cannot be. */
struct ibv_ah *verbs_host_ah(struct verbs *v, const struct lend_udp_key *peer, uint8_t class);
/* Address handles that no posted send names any more are given back. */
void verbs_host_bury(struct verbs *v);
/* All of them are stale: our GID moved. */
void verbs_host_forget(struct verbs *v);
void verbs_peer_pin(struct verbs *v, uint32_t peer, bool kept);
/* Who sent this, and the traffic class it came with; false: not for us. */
bool verbs_peer_key(const struct verbs *v, const struct ibv_wc *wc, const uint8_t *grh,
		    struct lend_udp_key *key, uint8_t *tclass);

/* send.c */
void verbs_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);
bool verbs_flush(struct lend_io *io, uint32_t buf);
int verbs_reg(struct lend_io *io, void *memory, size_t len);
/* Takes notice of finished sends. */
void verbs_reap(struct verbs *v);
/* None is in flight any more, whatever became of them. */
void verbs_send_drop(struct verbs *v);

/* carrier.c */
extern const struct lend_io_ops verbs_ops;
void verbs_close(struct lend_io *io);

int lend_io_verbs_open(const struct lend_io_config *config, struct lend_io **io);

#endif
