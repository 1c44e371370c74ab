/* endpoint - one endpoint: the state and functions that the files of this folder share.
 *
 *   endpoint.c      open and close              carrier.c  its carriers
 *   loop.c          one turn                    session.c  sessions and connecting
 *   sleep.c         spinning, sleeping, waking  call.c     calls made here
 *   worker.c        threads for slow handlers   server.c   requests answered here
 *   nested_calls.c  calls that serve a request  request.c  queries about a request
 *   served_methods.c  methods, by number or name      heads.h  names and metadata
 *   alarm.c, descriptors.c, reason.c, job_queue.c, bufs.c, msg.c, deferred_free.c, method.c,
 *   stats.c, stats_service.c, describe.c, session_proof.c, keys.c, peer_memory.c, stream.c,
 *   shown_memory.c;
 * adaptive_spin.h, bulk_pause.h, urgent_gap.h
 *
 * Layer: rpc. Threads: the endpoint's own, but for the fields marked "any thread".
 */
#ifndef LEND_RPC_ENDPOINT_H
#define LEND_RPC_ENDPOINT_H

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "core/core.h"
#include "io/io.h"
#include "lend/rpc.h"
#include "lend/stats.h"
#include "rpc/bufs.h"
#include "rpc/bulk_pause.h"
#include "rpc/gateways.h"
#include "rpc/method.h"
#include "rpc/msg.h"
#include "rpc/adaptive_spin.h"
#include "rpc/sealing.h"
#include "rpc/shake.h"
#include "rpc/urgent_gap.h"
#include "sys/mapped_memory.h"
#include "wire/head.h"

/* Functions of shown_memory.c. */
struct lend_shown_ops {
	/* Runs the done of reads that have ended. Call it while reads is not 0. */
	void (*turn)(struct lend_ep *ep);
	/* Hides what is shown to a session that ends. */
	void (*drop)(struct lend_ep *ep, lend_session session);
	/* Hides all, before the carriers are closed. */
	void (*close)(struct lend_ep *ep);
};
struct lend_one_sided;
struct lend_worker;
struct lend_workers;

enum {
	LEND_BURST = 32,         /* datagrams per rx, tx and poll */
	LEND_RETRY_NS = 1000000, /* poll interval of lent buffers and address resolution */
	/* Length of a sleep where the device has no interrupt: 1/16 of the time without work,
	 * within these limits. */
	LEND_SLEEP_MIN_NS = 50000,
	LEND_SLEEP_MAX_NS = 10000000,
	LEND_SLEEP_SHARE = 16,
	LEND_NAME_MAX = 1024, /* bytes of a server's name that count */
};

struct lend_carrier {
	struct lend_io *io;
	char *address;    /* address that it was opened with, for its scheme */
	bool listens;     /* its address is one of the endpoint's */
	bool accepts;     /* listens, also on an address that is hidden */
	bool registers;   /* must register memory before it sends from it */
	uint64_t regions; /* number of the newest heap region that it has registered; see
			     lend_regions_ref() */
};

enum lend_session_state {
	/* FREE -> (PENDING ->) OPEN -> (CLOSING ->) FREE */
	LEND_SESSION_FREE,
	LEND_SESSION_PENDING, /* its address is being resolved; calls wait here */
	LEND_SESSION_OPEN,    /* the core has it, up or not yet */
	LEND_SESSION_CLOSING, /* lend_disconnect() was called: its handle is stale */
};

/* A session of the public API. id = generation << 32 | index + 1. The fields that each call touches
 * come first: with many sessions, each record is a cache miss. */
struct lend_session_rec {
	uint64_t core; /* the core's handle while OPEN or CLOSING */
	uint32_t gen;
	uint8_t state; /* enum lend_session_state */
	bool samples;  /* some calls without a parent are traced; next to state, see is_plain() */
	bool up;       /* the watch was notified that it is up */
	uint8_t key_hint; /* first byte of the id of the key to connect with; 0: any */
	bool queued;      /* in the list of open sessions with waiting calls */
	uint64_t known;   /* bit i: its server runs name i by number; i below 64 */
	/* Calls that wait for the address, or for a slot: by class, then in order of arrival. */
	struct lend_call *first, *last;
	uint32_t waiting;
	uint32_t streams; /* open ones that were opened here */
	uint32_t next;    /* free list, list of pending or of queued ones; LEND_NONE32 ends it */
	void *pointer;    /* as set by lend_session_set() */
	uint8_t incarnation[16];
	struct lend_route *route; /* remotes.h; NULL: none */
	uint32_t server;          /* number of its server's public key, see keys.h; 0: none */
	uint64_t *known_more;     /* the same for all names; NULL: none from 64 on */
	/* Only while PENDING. */
	char *address, *name; /* name: NULL: the address */
	lend_ns give_up;
};

/* The result of the last connect without a name: remembered, because many sessions go to one
 * server. */
struct lend_dialled {
	char address[96]; /* longer ones are not remembered; "": none */
	uint32_t carrier;
	struct lend_core_identity self; /* identity of this process, as this server sees it */
};

/* Links of a request in the queue of jobs for workers. */
struct lend_job {
	struct lend_req *left, *right; /* children in the heap of deadlines */
	lend_ns due;                   /* 0 where deadlines do not count */
	uint64_t number;               /* order of arrival */
};

/* A request being served; its index is the core's, its handle the public one. */
struct lend_req {
	_Atomic uint64_t id;        /* any thread: handle; 0: free */
	_Atomic lend_ns deadline;   /* any thread: as the core reports it */
	_Atomic bool cancelled;     /* any thread */
	bool rare;                  /* some of what lend_req_reset() resets may differ */
	_Atomic uint64_t answered;  /* any thread: id that another thread has answered */
	uint64_t session;           /* handle of its session in the core */
	struct lend_buf view;       /* bytes in place in a carrier's slot */
	struct lend_buf *bytes;     /* &view, own memory, or NULL: taken */
	struct lend_call *children; /* nested calls, which end with it */
	uint32_t method;
	uint8_t class;
	_Atomic uint8_t
	    more_hops;       /* any thread: most of the nested calls that pass its message on */
	bool deferred;       /* slow: its handler runs even if the caller no longer waits */
	bool slow;           /* a worker has it: bytes are the worker's to give */
	struct lend_job job; /* links in the workers' queue */
	struct lend_req_head *head; /* its name and metadata; NULL: none */
	/* Runs when the request is cancelled, with arg; NULL: nothing does. */
	void (*on_cancel)(void *arg);
	lend_handler_fn *handler; /* slow: what to run */
	void *arg;
	const char *name; /* slow: of its method; NULL: none */
};

/* WAITS: in its session's queue. PASSES: it passes on what its parent's message has. QUEUES: may
 * wait for a slot. LEND_CALL_HEAD, of the core: a head is before its request. */
enum {
	LEND_CALL_BUSY = 1,
	LEND_CALL_WAITS = 2,
	LEND_CALL_CHILD = 4,
	LEND_CALL_PASSES = 8,
	LEND_CALL_QUEUES = 16,
	LEND_CALL_ENCODED = 64, /* its reply may have any encoding */
	LEND_CALL_PLAIN = 128,  /* has no state but core and request: see lend_call_start() */
	LEND_CALL_TRACED = 256, /* it has a span */
	LEND_CALL_NAME = 16,    /* from this bit on: index of its name; 0: none */
};

/* State of a call, in lend_call.reserved. flags 0: not in progress, the other fields are unused. */
struct __attribute__((may_alias)) lend_call_priv {
	union {
		uint64_t core; /* handle of the call in the core, once the core has it */
		struct {       /* before that: the handles of its buffers */
			uint32_t request, landing;
		} lent;
	};
	struct lend_call *next, *prev; /* among a session's waiting, or a parent's children */
	struct lend_buf *request;      /* as given */
	struct lend_buf *landing;      /* as given */
	lend_ns deadline;
	uint64_t parent; /* id of the request it serves; 0: none */
	uint32_t flags;
	uint16_t class;
	uint16_t span; /* with LEND_CALL_TRACED: its slot in the ring of call_spans.h */
};
_Static_assert(sizeof(struct lend_call_priv) <= sizeof(((struct lend_call *)0)->reserved), "fits");

/* A reply that another thread gave. */
struct lend_answer {
	struct lend_answer *next;
	lend_request request;
	enum lend_status status;
	struct lend_buf *reply;
};

/* File descriptors of the application: descriptors.c. */
enum { LEND_READY_MAX = 16 };
struct lend_descriptors {
	int epoll;       /* holds them all; -1: there were none yet */
	uint32_t n;      /* watches */
	lend_ns look_at; /* time of the next look, if no sleep ends for them before; LEND_NEVER */
	lend_ns busy_until; /* until then an idle turn looks, too */
	uint32_t left;      /* entries of ready[] that are still to be reported */
	struct epoll_event ready[LEND_READY_MAX];
};

struct lend_ep {
	struct lend_core *core;
	const uint32_t *events; /* number of the core's events that wait */
	uint64_t key_id;        /* id of the key that it was opened with; 0: none */
	uint64_t seal_id; /* of its sealed sessions: that key, else the file's; 0: no such yet */
	struct lend_pool_of_bufs *bufs;
	lend_ns now;     /* time of the current turn, or the last one */
	lend_ns tick_at; /* the core's next deadline, as far as the loop knows */
	bool turning;
	bool closing;
	bool draining; /* refuses requests; also while it closes */
	bool dirty;    /* the core was called since its last output */
	bool blocked;  /* backpressure: a carrier was full in the last turn */
	uint8_t n_carriers;
	uint8_t rx_open;    /* carriers that still need rx_done(), by bit */
	uint8_t lenders;    /* carriers that may read pieces after tx(), by bit */
	bool slow_poll;     /* there is a carrier that is not quick to poll */
	uint64_t unsampled; /* calls before the next one that call_spans.h samples */
	uint32_t ran;       /* handlers and done functions, in the current turn or the last one */
	uint32_t lent;      /* chain of handles that carriers may still read */
	uint32_t supply_len;
	uint32_t mtu_max;              /* largest datagram of all carriers: no fragment is longer */
	struct lend_urgent_gap urgent; /* arrivals of calls above normal priority */
	struct lend_bulk_pause bulk_pause; /* pause of long messages for urgent calls */
	uint32_t rx_long, tx_long; /* recent maximum length of datagrams; 0: all are short */
	struct lend_req *serving;  /* request of the handler that runs now */
	struct lend_mbuf view;     /* reply in place, of the call that runs its done now */
	struct lend_buf *unkept;   /* other reply to give back when that done returns */
	struct lend_carrier carrier[LEND_CARRIERS_MAX];
	struct lend_sealing sealing;
	struct lend_shake shake;  /* kex NULL: no carrier has sealed sessions */
	uint32_t keys_generation; /* of the process's keys that the sessions have */
	bool no_key;              /* config.secret is "" */
	bool key_of_file;         /* both are the first of the file, also after a reload */
	struct lend_capture_file
	    *capture; /* capture file of config, while the endpoint is open; or NULL */
	struct lend_methods methods;
	struct lend_methods called;    /* names of calls made here */
	struct lend_method any;        /* serves every other name */
	struct lend_method any_stream; /* serves the streams of every other name */
	struct lend_req_head *heads;
	struct lend_req *req; /* requests, by the core's index */
	uint32_t n_req;
	struct lend_stats stats;

	struct lend_session_rec *session;
	uint32_t *by_core; /* index into session, + 1, by the core's index; 0: none */
	uint32_t n_sessions,
	    session_top; /* entries of session[]; those from session_top on were never used */
	uint32_t session_free, pending, queued; /* heads of lists; LEND_NONE32: empty */
	lend_ns queue_at; /* no call of queued sessions has to end before; 0: look at all of them */
	uint32_t n_pending;        /* PENDING sessions: each will need a session of the core */
	struct lend_alarm *alarms; /* the earliest first */
	const struct lend_shown_ops *shown_ops; /* NULL: no service */
	struct lend_one_sided *one_sided; /* memory shown to peers; NULL: there was none yet */
	uint32_t reads;                   /* one-sided reads under way */
	struct lend_streams *streams;     /* stream_table.h; NULL: none was ever opened or served */
	/* Functions of stream_table.c, valid with streams: a request was cancelled; the endpoint
	 * closes. */
	void (*streams_cancelled)(struct lend_ep *ep, struct lend_req *req);
	void (*streams_close)(struct lend_ep *ep);
	struct lend_gateways gateways;
	struct lend_route *routes; /* to stock gRPC servers */
	struct lend_descriptors descriptors;
	struct lend_call *ended; /* waiting calls of ended sessions: done is to run; by priv.next */
	const struct lend_call *head_of; /* the call that was answered with `head`; NULL: none */
	struct lend_call *adopted;       /* calls with a parent request of home */
	lend_watch_fn *watch;
	void *watch_arg;
	lend_numbers_fn *numbers; /* of the application; NULL: none */
	void *numbers_arg;

	int epoll, timer, wake;
	lend_ns timer_at;     /* time that timer is set to; LEND_NEVER: off */
	lend_ns active;       /* time of the last turn that did something */
	lend_ns spin;         /* duration of the spin before a sleep */
	const uint8_t *alive; /* page that a fork's child sees zeroed */
	uint8_t process_key[16];
	struct lend_dialled dialled;

	struct lend_config config; /* defaults filled in */
	struct lend_core_config core_config;
	struct lend_mapping core_memory, tables;
	size_t core_len;
	struct lend_ep *home; /* a worker's: the endpoint of the requests that its calls serve */
	struct lend_workers *workers;
	struct lend_contention contention;
	struct lend_spin_credit spin_credit;

	_Alignas(64) _Atomic(struct lend_answer *) answers; /* any thread */
	_Atomic(const void *) thread;      /* any thread: marker of the thread that turned last */
	_Atomic bool asleep, wake_workers; /* any thread */
	_Atomic bool stop,
	    wait_stopped; /* any thread: lend_stop() was called; ends lend_run(); lend_wait() */
	_Atomic(struct lend_trace *)
	    trace;                 /* any thread: call_spans.h; NULL: no call was traced yet */
	_Atomic uint32_t touching; /* any thread: calls by other threads; lend_close() waits */
	_Alignas(4) uint8_t head[LEND_HEAD_MAX]; /* of the reply that came last with one */
};

#define LEND_NONE32 UINT32_MAX

/* The worker that the calling thread runs; NULL in other threads. Its address identifies the
 * thread. */
extern _Thread_local struct lend_worker *lend_worker_self
    __attribute__((tls_model("initial-exec")));

static inline const void *lend_thread_mark(void)
{
	return &lend_worker_self;
}

static inline struct lend_call_priv *lend_call_priv(struct lend_call *call)
{
	return (struct lend_call_priv *)(void *)call->reserved;
}

/* Finds a session, also one that is closing. NULL: stale. */
static inline struct lend_session_rec *lend_sessions_find_any(struct lend_ep *ep,
							      lend_session session)
{
	uint32_t i = (uint32_t)session.id - 1;

	if (i >= ep->n_sessions || ep->session[i].gen != session.id >> 32 ||
	    ep->session[i].state == LEND_SESSION_FREE)
		return NULL;
	return &ep->session[i];
}

static inline struct lend_session_rec *lend_sessions_find(struct lend_ep *ep, lend_session session)
{
	uint32_t i = (uint32_t)session.id - 1;

	if (i >= ep->n_sessions || ep->session[i].gen != session.id >> 32 ||
	    (ep->session[i].state != LEND_SESSION_OPEN &&
	     ep->session[i].state != LEND_SESSION_PENDING))
		return NULL;
	return &ep->session[i];
}

static inline lend_ns lend_ep_now(struct lend_ep *ep)
{
	return ep->turning ? ep->now : lend_now(ep);
}

/* endpoint.c */
/* lend_open() without the services of stats_service.c. */
int lend_ep_open(const struct lend_config *config, struct lend_ep **ep);
int lend_ep_check_slow(struct lend_ep *ep);
/* Returns 0 if a turn may run; -EPERM in a fork's child; -EDEADLK inside a turn. */
static inline int lend_ep_check(struct lend_ep *ep)
{
	if (!ep->turning && *ep->alive &&
	    atomic_load_explicit(&ep->thread, memory_order_relaxed) == lend_thread_mark())
		return 0;
	return lend_ep_check_slow(ep);
}

/* carrier.c */
/* Opens a carrier for each address of config.listen. */
int lend_ep_listen(struct lend_ep *ep);
/* Returns the shm address that the endpoint listens on, or NULL. */
const char *lend_ep_own_address(const struct lend_ep *ep);
/* The same; without one, listens on a hidden address. Returns 0 or -errno. */
int lend_ep_listen_own(struct lend_ep *ep, const char **address);
/* Finds the carrier that can resolve an address, and opens it if needed. */
int lend_ep_carrier(struct lend_ep *ep, const char *address, uint32_t *carrier);
void lend_ep_close_carriers(struct lend_ep *ep);

/* session_proof.c */
/* Copies the key of this process, from which its incarnations are made. */
void lend_handshake_process_key(uint8_t key[16]);
/* Computes the incarnation that this process shows to one server; NULL: to its clients. */
void lend_handshake_name(const uint8_t key[16], const char *server, uint8_t incarnation[16]);
struct lend_core_identity lend_handshake_identity(const struct lend_ep *ep, const char *server);
/* Returns a name of a server that outlives its sessions, see lend_core_set_server(). address NULL:
 * the identity towards it was made from its address. */
uint64_t lend_handshake_server(const struct lend_ep *ep, const char *address,
			       const struct lend_core_identity *self);
void lend_handshake_prove(struct lend_ep *ep, const struct lend_event *ev);
/* Returns whether the session's peer proved that it has this key. */
bool lend_handshake_proved(struct lend_ep *ep, lend_session session, uint64_t key_id);
/* Returns whether the peer may read this endpoint's statistics: it proved the endpoint's own key,
 * or another one of the file that belongs to the same tenant. */
bool lend_handshake_administers(struct lend_ep *ep, lend_session session);

/* deferred_free.c */
struct lend_buf *lend_ep_back_queued(struct lend_ep *ep, uint32_t handle);
void lend_ep_free_deferred(struct lend_ep *ep);

/* loop.c */
int lend_ep_turn(struct lend_ep *ep); /* returns how many handlers and done functions ran */
void lend_ep_urgent_slow(struct lend_ep *ep);
void lend_ep_pause_bulk_slow(struct lend_ep *ep, bool answered);

/* descriptors.c */
void lend_descriptors_look(struct lend_ep *ep);
void lend_descriptors_close(struct lend_ep *ep);

/* alarm.c */
void lend_alarms_ring(struct lend_ep *ep);

/* sleep.c */
void lend_ep_wake(struct lend_ep *ep); /* any thread */
int lend_ep_watch_fd(struct lend_ep *ep, int fd);

/* session.c */
void lend_sessions_close(struct lend_ep *ep);
lend_session lend_sessions_of(struct lend_ep *ep, uint64_t core);
/* Returns where the requests of a session go, other than to the endpoint's methods; NULL: there. */
struct lend_route *lend_sessions_route(struct lend_ep *ep, uint64_t core);
/* Returns how many calls the session can have in each direction, as far as that is known. */
uint32_t lend_session_calls(struct lend_ep *ep, lend_session session);
void lend_sessions_up(struct lend_ep *ep, const struct lend_event *ev);
void lend_sessions_down(struct lend_ep *ep, const struct lend_event *ev);
void lend_sessions_retry(struct lend_ep *ep);

/* call.c */
void lend_calls_end(struct lend_ep *ep, const struct lend_event *ev);
void lend_calls_abandon(struct lend_ep *ep, struct lend_session_rec *session,
			enum lend_status status);
uint32_t lend_calls_ended(struct lend_ep *ep);
/* Hands a prepared call to the core. Returns 0 or what lend_core_call() does; it stays prepared on
 * failure. */
int lend_call_submit(struct lend_ep *ep, struct lend_session_rec *s, struct lend_call *call);

/* call_queue.c */
/* Lets a call wait until its session's address is resolved, or for a slot. -EAGAIN: too many do. */
int lend_calls_wait(struct lend_ep *ep, struct lend_session_rec *s, struct lend_call *call);
/* Cancels a waiting call. All sessions with waiting calls are searched: a cancel before the call
 * has a slot is rare. */
void lend_calls_cancel(struct lend_ep *ep, struct lend_call *call);
/* Lets the calls that waited for a session's address continue, now that it is open. */
void lend_calls_admit(struct lend_ep *ep, struct lend_session_rec *s);
/* Ends the calls that wait for a slot of a session that ends. */
void lend_calls_leave(struct lend_ep *ep, struct lend_session_rec *s, enum lend_status status);
/* Ends the waiting calls that have passed their deadline, or lost their parent by a cancel. */
void lend_calls_expire(struct lend_ep *ep, struct lend_session_rec *s);
/* Starts the calls that get a slot now, and ends those that no longer wait. */
void lend_calls_unqueue(struct lend_ep *ep);

/* nested_calls.c */
struct lend_call **lend_nested_of(struct lend_ep *ep, uint64_t parent); /* NULL: no such request */
void lend_nested_join(struct lend_ep *ep, struct lend_call *call, uint64_t parent);
void lend_nested_leave(struct lend_ep *ep, struct lend_call *call);
int lend_nested_inherit(struct lend_ep *ep, const struct lend_call *call, uint8_t *class,
			lend_ns *deadline);
void lend_nested_end(struct lend_ep *ep, struct lend_req *req, bool cancel);
void lend_nested_adopt(struct lend_ep *ep);

/* server.c */
void lend_serve_request(struct lend_ep *ep, const struct lend_event *ev);
/* Releases what an inline handler left of its request's bytes. */
void lend_serve_handled(struct lend_ep *ep, struct lend_req *req);
void lend_serve_need(struct lend_ep *ep, const struct lend_event *ev);
void lend_serve_cancelled(struct lend_ep *ep, const struct lend_event *ev);
void lend_serve_answers(struct lend_ep *ep);
struct lend_req *lend_serve_find(struct lend_ep *ep, lend_request request);
/* Returns whether a request was cancelled or its deadline has passed, so that a worker does not run
 * its handler. */
bool lend_serve_expired(const struct lend_req *req, lend_ns now);
void lend_serve_drop(struct lend_ep *ep, lend_request request);

/* request.c */
/* Copies the bytes of a request that are in place into a buffer; false: there is none. */
bool lend_serve_own_bytes(struct lend_ep *ep, struct lend_req *req);
/* Makes the view of a request of several parts its first part. */
void lend_serve_show_part(struct lend_req *req, const struct lend_part *part);
/* Provides a request of several parts as the handler takes it, unless it landed: a chain, which
 * begins with the view, or a gathered copy. False: no buffers. */
bool lend_serve_take_parts(struct lend_ep *ep, struct lend_req *req,
			   const struct lend_method *method, const struct lend_event *ev);
/* Copies a request of several parts into one buffer, its bytes; false: there is none. */
bool lend_serve_gather(struct lend_ep *ep, struct lend_req *req, const struct lend_event *ev);
/* Copies a message that is in place into memory that has room for it. */
void lend_serve_copy(struct lend_buf *to, const struct lend_event *ev);

/* call_spans.c */
/* Returns whether the endpoint begins traces. */
bool lend_trace_samples(const struct lend_ep *ep);

/* stats_service.c */
/* Returns whether a request's caller may read statistics; false: the request was answered. */
bool lend_stats_allowed(struct lend_ep *ep, lend_request request);
int lend_stats_serve(struct lend_ep *ep);

/* worker.c */
int lend_workers_need(struct lend_ep *ep);
void lend_workers_push(struct lend_ep *ep, struct lend_req *req);
void lend_workers_wake(struct lend_ep *ep);
void lend_workers_close(struct lend_ep *ep); /* afterwards no handler runs */
void lend_workers_free(struct lend_ep *ep);  /* when no buffer of theirs is in use here */
bool lend_worker_of(struct lend_ep *home);   /* this thread is one of its workers */
struct lend_ep *
lend_worker_ep(struct lend_ep *home); /* the worker's own; others: home. NULL: cannot open */
struct lend_buf *lend_worker_take(lend_request request);

/* Returns a buffer that the core gave back to its user. NULL: there is none, or a carrier may still
 * read it; then it returns to the pool when the last carrier has released it. */
static inline struct lend_buf *lend_ep_back(struct lend_ep *ep, uint32_t handle, bool maybe_queued)
{
	if (maybe_queued && ep->lenders)
		return lend_ep_back_queued(ep, handle);
	return lend_msg_back(ep->bufs, handle);
}

/* Notes a call of that class, made or received. */
static inline void lend_ep_urgent(struct lend_ep *ep, uint8_t class)
{
	if (class < LEND_NORMAL - 1)
		lend_ep_urgent_slow(ep);
}

/* Notes that this endpoint sends a call of that class, or that one was answered. */
static inline void lend_ep_pause_bulk(struct lend_ep *ep, uint32_t class, bool answered)
{
	if (class < LEND_NORMAL - 1)
		lend_ep_pause_bulk_slow(ep, answered);
}

/* Resets the fields of a record that most requests leave as they are. */
static inline void lend_req_reset(struct lend_req *req)
{
	req->children = NULL;
	req->slow = false;
	req->on_cancel = NULL;
	req->view.next = NULL;
	atomic_store_explicit(&req->cancelled, false, memory_order_relaxed);
	req->rare = false;
}

/* Fills the record of a new request with its bytes in place. */
static inline void lend_req_fill(struct lend_req *req, const struct lend_event *ev)
{
	if (req->rare)
		lend_req_reset(req);
	req->session = ev->session;
	req->method = ev->method;
	req->class = ev->class;
	atomic_store_explicit(&req->more_hops, 0, memory_order_relaxed);
	req->view.data = (void *)(uintptr_t)ev->data;
	req->view.len = req->view.cap = ev->data_len;
	req->bytes = &req->view;
	atomic_store_explicit(&req->deadline, ev->deadline, memory_order_relaxed);
	atomic_store_explicit(&req->id, ev->call, memory_order_release);
}

/* Shows a reply in place as a buffer, until the call's done returns. */
static inline struct lend_buf *lend_reply_show(struct lend_ep *ep, const void *data, uint32_t len)
{
	ep->view.pub.data = (void *)(uintptr_t)data;
	ep->view.pub.len = ep->view.pub.cap = len;
	ep->view.pub.next = NULL;
	return &ep->view.pub;
}

#endif
