/* rc_link - one-sided reads over RC queue pairs: links, the memory windows that they show, reads.
 *
 * Memory is shown by type 2 memory windows, which are bound to a queue pair: no other queue pair
 * can use their keys, and an invalidated or deallocated window has none. So a key ends before the
 * memory behind it is used again, whatever the peer does. Bindings and invalidations are waited
 * for; they have a queue pair without reads, because an owner's link carries none.
 *
 * Layer: io, module lend_io_verbs.so. Threads: one per carrier.
 */
#ifndef LEND_IO_VERBS_RC_LINK_H
#define LEND_IO_VERBS_RC_LINK_H

#include "io/verbs/verbs.h"

enum {
	RC_LINKS = VERBS_RC_MAX, /* of a carrier; peers beyond that have their UD queue pair only */
	RC_WINDOWS = 1024,       /* shown runs of all links */
	RC_READS = 64,           /* reads under way on all links */
	RC_SENDS = 128,          /* requests on one link */
};
#define RC_IDLE_NS  UINT64_C(10000000000) /* a link that is not used for so long is closed */
#define RC_YOUNG_NS UINT64_C(1000000000)  /* no other link replaces one that was used since */
#define RC_RETRY_NS UINT64_C(1000000000)  /* no new link to a peer so soon after one broke */
#define RC_READ_NS  UINT64_C(10000000000) /* limit of a read, before its link is broken */
#define RC_BIND_NS  UINT64_C(100000000)   /* limit of a binding, before the link is broken */

/* FREE -> OFFERED -> UP -> FREE (idle) or BROKEN; BROKEN -> FREE after RC_RETRY_NS */
enum rc_state { RC_FREE, RC_OFFERED, RC_UP, RC_BROKEN };

struct rc_link {
	struct lend_udp_key key; /* of the peer's UD queue pair */
	enum rc_state state;
	enum lend_io_role role; /* this end's */
	struct ibv_qp *qp;      /* OFFERED and UP */
	uint32_t psn;
	uint32_t busy;   /* runs shown, and reads under way */
	uint32_t posted; /* requests of the reads under way */
	uint64_t waits;  /* OWNER: id of the request whose end is awaited; 0: none */
	lend_ns used;    /* last use; BROKEN: when it broke */
};

/* A run that is shown. */
struct rc_window {
	struct ibv_mw *mw;   /* kept for the next run; NULL: none was made, or its link broke */
	struct ibv_mr *temp; /* registration of memory that was not registered; or NULL */
	uint32_t next; /* next run of the same show, or of the free list: index + 1; 0: last */
	uint8_t link;  /* index; meaningful while bound */
	bool bound;    /* the device knows its key */
};

/* FREE -> WAITS -> ENDED -> FREE */
enum rc_read_state { RC_READ_FREE, RC_READ_WAITS, RC_READ_ENDED };

struct rc_read {
	enum rc_read_state state;
	uint8_t link;
	uint32_t n;  /* requests */
	int err;     /* ENDED */
	uint64_t id; /* of its last request, which alone is signalled */
	lend_ns begun;
	void *user;
	struct ibv_mr *temp[LEND_IO_RUNS]; /* registrations of its destination; NULL: none */
};

struct verbs_rc {
	struct ibv_cq *cq;  /* of all links */
	bool armed;         /* its next completion raises an event */
	_Atomic bool check; /* a link may be in error; set by any carrier that shares the device */
	uint64_t last_id;   /* of a request that is signalled */
	uint32_t n_reads;   /* that wait or ended, and were not reported */
	uint32_t n_links;   /* not FREE */
	uint32_t free_window, n_windows;
	struct rc_link link[RC_LINKS];
	struct rc_window window[RC_WINDOWS];
	struct rc_read read[RC_READS];
};

/* rc_link.c */
/* Returns the link with a peer that is up, or NULL. */
struct rc_link *rc_link_up(struct verbs *v, uint32_t peer, enum lend_io_role role);
/* Ends a link: its reads end with -EIO, its windows are gone. */
void rc_link_break(struct verbs *v, struct rc_link *link);
/* Takes the completions of all links. */
void rc_poll(struct verbs *v);

/* rc_window.c */
int rc_show(struct lend_io *io, uint32_t peer, const struct iovec *run, uint32_t n,
	    struct lend_io_key *key, uint32_t *shown);
void rc_hide(struct lend_io *io, uint32_t shown);
/* Deallocates the windows of a link, which must carry no more requests. */
void rc_windows_drop(struct verbs *v, uint8_t link);
void rc_windows_free(struct verbs *v);

/* rc_read.c */
int rc_read_start(struct lend_io *io, uint32_t peer, const struct lend_io_key *key, uint32_t n,
		  const struct iovec *to, uint32_t n_to, void *user);
uint32_t rc_read_ended(struct lend_io *io, struct lend_io_read_end *end, uint32_t cap);
/* Returns whether a read of a link lasts too long. */
bool rc_reads_late(const struct verbs *v, uint8_t link, lend_ns now);
/* Ends the reads of a link, whose queue pair is gone or done with request `id`; 0: all. */
void rc_reads_end(struct verbs *v, uint8_t link, uint64_t id, int err);

#endif
