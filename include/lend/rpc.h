/* lend/rpc.h - calls between endpoints.
 *
 * An endpoint belongs to one thread and does nothing unless that thread polls it. Functions that
 * can fail return 0 or a negative errno and then have taken nothing and changed nothing; lend_why()
 * says why in one line. How a call went is a status: gRPC's canonical codes, so both doors of a
 * service speak one language.
 *
 * Handles (session, request) are values with a generation: a stale one gives -ESTALE, never harm.
 * Operations live in the caller's own memory: zero what is not set, embed them, no allocation per
 * call. From any thread: lend_reply(), lend_request_left(), lend_request_cancelled(), lend_stop().
 * All else: the endpoint's thread, and not from inside a turn of the same endpoint where -EDEADLK
 * is listed.
 */
#ifndef LEND_RPC_H
#define LEND_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef uint64_t lend_ns; /* nanoseconds: a duration, or a time on lend_now()'s clock */
#define LEND_NEVER UINT64_MAX

struct lend_ep;
typedef struct {
	uint64_t id;
} lend_session;
typedef struct {
	uint64_t id;
} lend_request;

enum lend_status {
	LEND_OK = 0,
	LEND_CANCELLED = 1,
	LEND_UNKNOWN = 2,
	LEND_INVALID_ARGUMENT = 3,
	LEND_DEADLINE_EXCEEDED = 4,
	LEND_NOT_FOUND = 5,
	LEND_ALREADY_EXISTS = 6,
	LEND_PERMISSION_DENIED = 7,
	LEND_RESOURCE_EXHAUSTED = 8, /* full, busy or over quota: try later */
	LEND_FAILED_PRECONDITION = 9,
	LEND_ABORTED = 10,
	LEND_OUT_OF_RANGE = 11,
	LEND_UNIMPLEMENTED = 12,
	LEND_INTERNAL = 13,
	LEND_UNAVAILABLE = 14, /* the peer is gone */
	LEND_DATA_LOSS = 15,
	LEND_UNAUTHENTICATED = 16,
};

/* Did the handler run? Exact for every call that ends, and honest where it cannot be known. */
enum lend_ran { LEND_RAN_NO, LEND_RAN_YES, LEND_RAN_MAYBE };

struct lend_config {
	uint32_t size;     /* sizeof(struct lend_config): later fields read as zero */
	uint32_t sessions; /* table sizes; 0: the default */
	uint32_t calls;    /* in flight per session */
	const char
	    *listen;     /* "shm:shop,udp:0.0.0.0:31850" or NULL for a client; port 0 picks one */
	const char *eal; /* DPDK's EAL arguments, for a process's first dpdk endpoint */
	uint64_t message_max;    /* bytes; 0: 16 MiB; at most 1 GiB */
	uint64_t receive_budget; /* bytes that peers may have granted at once; 0: 64 MiB */
	const char *secret;      /* who this process is to its peers; NULL: its uid, on shm */
	uint32_t workers;        /* threads for LEND_SLOW handlers */
	lend_ns timeout;         /* of a call that names none; 0: 5 s */
	lend_ns probe, dead;     /* silence before a probe / the end; 0: 500 ms / 5 s */
	uint64_t memory_max;     /* bytes of message buffers, free ones included; 0: what the limits
				    above call for */
};
#define LEND_CONFIG_INIT                                                                           \
	{                                                                                          \
		.size = sizeof(struct lend_config)                                                 \
	}

/* Opens an endpoint for the calling thread: -EADDRINUSE, -ENODEV, -EINVAL (address), -ENOMEM. */
int lend_open(const struct lend_config *config, struct lend_ep **ep);
/* Ends every call (LEND_CANCELLED; done runs) and session, then releases all. Not after fork() in
 * the child. */
void lend_close(struct lend_ep *ep);
/* This thread's last failure and its mend, in one line; never NULL. */
const char *lend_why(void);
/* Where others reach this endpoint ("shm:shop", "udp:10.0.0.2:31850"); 0 or -ERANGE. */
int lend_address(struct lend_ep *ep, char *text, size_t cap);

/* One turn: receive, run handlers and done functions, send. How many ran, or -EDEADLK inside a
 * turn. */
int lend_poll(struct lend_ep *ep);
/* Turns until lend_stop() or a time on lend_now(); spins about a round trip, then sleeps. */
int lend_run(struct lend_ep *ep, lend_ns until);
void lend_stop(struct lend_ep *ep); /* any thread, also a signal handler */
lend_ns lend_now(struct lend_ep *ep);
/* One turn that may sleep until a time: the loop for waiting on several calls at once. */
int lend_turn(struct lend_ep *ep, lend_ns until);
/* For one's own event loop: readable when lend_poll() has work. lend_arm() just before sleeping:
 * false, do not. */
int lend_fd(struct lend_ep *ep);
bool lend_arm(struct lend_ep *ep);

/* Message buffers: memory that every carrier can send from. A message is a chain of them; its bytes
 * have no alignment. */
struct lend_buf {
	void *data;
	uint32_t len, cap;
	struct lend_buf *next;
};
struct lend_buf *lend_buf_take(struct lend_ep *ep, uint32_t cap); /* NULL: pool empty */
void lend_buf_give(struct lend_ep *ep, struct lend_buf *buf);     /* the whole chain */
/* Memory of one's own that carriers may read and write from now on; 0, -ENOMEM, -EINVAL. */
int lend_register(struct lend_ep *ep, void *memory, size_t len);
/* A segment over the caller's own memory, for requests and replies alike; gone runs when no carrier
 * uses it any more. Never copies; a carrier that needs registered memory does. */
struct lend_buf *lend_buf_wrap(struct lend_ep *ep, void *data, uint32_t len, void (*gone)(void *),
			       void *arg);

/* Serving. A handler runs inside a turn and answers then or later, once, with lend_reply(). The
 * request's bytes are lent until it returns, unless it takes them. With LEND_SLOW it runs in a
 * worker thread on a copy, and may wait for calls of its own on lend_request_ep(). */
typedef void lend_handler(lend_request request, const struct lend_buf *bytes, void *arg);
enum { LEND_SLOW = 1 };
int lend_serve(struct lend_ep *ep, uint32_t method, lend_handler *handler, void *arg,
	       unsigned flags);
/* Always takes reply (NULL: empty). -ESTALE when the caller is gone or was answered: harmless. */
int lend_reply(struct lend_ep *ep, lend_request request, enum lend_status status,
	       struct lend_buf *reply);
struct lend_buf *lend_request_take(struct lend_ep *ep,
				   lend_request request); /* the bytes, to forward without a copy */
lend_session lend_request_session(struct lend_ep *ep, lend_request request);
lend_ns lend_request_left(struct lend_ep *ep,
			  lend_request request); /* until its deadline; LEND_NEVER: none */
bool lend_request_cancelled(struct lend_ep *ep, lend_request request);
struct lend_ep *lend_request_ep(struct lend_ep *ep, lend_request request);
/* Chooses where a long request lands before its bytes come: memory of len bytes, or NULL to refuse.
 */
typedef struct lend_buf *lend_place(lend_session session, uint32_t method, uint64_t len,
				    const void *first, uint32_t n, void *arg);
int lend_serve_long(struct lend_ep *ep, uint32_t method, lend_place *place, void *arg);
/* What one's own code keeps with a session, and who is at its other end. Either end may call. */
void lend_session_set(struct lend_ep *ep, lend_session session, void *pointer);
void *lend_session_get(struct lend_ep *ep, lend_session session);
struct lend_peer {
	uint8_t incarnation[16];
	int64_t uid; /* -1: unknown */
	char address[104];
};
int lend_session_peer(struct lend_ep *ep, lend_session session, struct lend_peer *peer);
/* Sessions coming and going, with the peer's incarnation (128 random bits of its process start). */
typedef void lend_watch(lend_session session, const uint8_t incarnation[16], bool up, void *arg);
int lend_watch_sessions(struct lend_ep *ep, lend_watch *watch, void *arg);

/* Calling. The session may be used at once. */
int lend_connect(struct lend_ep *ep, const char *address, lend_session *session);
void lend_disconnect(struct lend_ep *ep, lend_session session);

struct lend_call {
	uint32_t method;
	uint8_t priority; /* 0: the parent's, or normal; 1 most urgent .. 8 bulk */
	lend_ns timeout;  /* 0: the parent's time left, or the endpoint's default */
	lend_request
	    parent; /* the request this call serves: inherits deadline, priority, cancel, trace */
	struct lend_buf *request; /* taken at start; yours again in done, or NULL while a peer may
				     still read it */
	struct lend_buf
	    *reply; /* in: where to put it, or NULL; out: the reply, the caller's to give */
	void (*done)(
	    struct lend_call *call); /* exactly once, inside a turn; may start and end anything */
	enum lend_status status;     /* in done, like ran */
	enum lend_ran ran;
	uint64_t
	    reply_len; /* out: bytes of the reply, also of one too long for where it was to go */
	uint64_t reserved[8];
};
/* 0; -EAGAIN (no free slot), -EMSGSIZE, -ESTALE: nothing taken, done will not run. */
int lend_call_start(struct lend_ep *ep, lend_session session, struct lend_call *call);
void lend_call_cancel(struct lend_ep *ep, struct lend_call *call); /* done still runs, once */
/* Starts it and turns until done; call->done may be NULL. 0 (look at status) or a negative errno;
 * -EDEADLK inside a turn. */
int lend_call_sync(struct lend_ep *ep, lend_session session, struct lend_call *call);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
