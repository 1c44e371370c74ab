/* lend/rpc.h - calls between endpoints.
 *
 * An endpoint belongs to one thread and does nothing unless that thread polls it. Functions that
 * can fail return 0 or a negative errno and then have taken nothing and changed nothing; lend_why()
 * says why in one line. How a call went is a status: gRPC's canonical codes, so both doors of a
 * service speak one language.
 *
 * Handles (session, request) are values with a generation: a stale one gives -ESTALE, never harm.
 * Operations live in the caller's own memory: zero what is not set, embed them, no allocation per
 * call. From any thread: lend_reply(), lend_request_left(), _priority(), _cancelled(), lend_stop(),
 * lend_now(), lend_why(). In a LEND_SLOW handler's thread as well: lend_buf_take(), _wrap(),
 * _give(), lend_request_take(), _ep(). All else: the endpoint's thread, and not from inside a turn
 * of the same endpoint where -EDEADLK is listed.
 *
 * A fork's child does not have its parent's endpoints: functions that turn one return -EPERM,
 * lend_close() does nothing, and message memory over shm (of lend_buf_take(), of requests and
 * replies) is not mapped there, so that a touch raises SIGSEGV and never changes a message of the
 * parent. The child may open endpoints of its own, and exec. It has a copy of what lend_malloc()
 * gave its parent.
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

/* A call's priority: what is more urgent is sent first, served first by LEND_SLOW handlers, and
 * marked so for networks that look (see src/io/README.md). So that nothing starves, a priority that
 * waits gets one thirty-second of what it and those above it send. */
enum { LEND_URGENT = 1, LEND_NORMAL = 4, LEND_BULK = 8 };

/* Which of two calls of one priority goes first: with least left to send; with the earlier
 * deadline; or, without a look at priorities, as they come. LEND_SLOW handlers of one priority
 * begin by deadline with LEND_EARLIEST_FIRST, else as requests came. */
enum lend_schedule { LEND_SHORTEST_FIRST, LEND_EARLIEST_FIRST, LEND_AS_THEY_COME };

/* What an endpoint is made of. Begin with LEND_CONFIG_INIT; every field may stay zero. */
struct lend_config {
	uint32_t size;     /* sizeof(struct lend_config): later fields read as zero */
	uint32_t sessions; /* at once, both directions; 0: 512; at most 2^20 */
	uint32_t calls;    /* in flight per session and direction; 0: 128; at most 1024 */
	/* Where to be reached: "shm:shop,udp:0.0.0.0:31850"; port 0 picks one. NULL: a client. */
	const char *listen;
	const char *eal;         /* DPDK's EAL arguments, for a process's first dpdk endpoint */
	uint64_t message_max;    /* bytes of one message received; 0: 16 MiB; at most 1 GiB */
	uint64_t receive_budget; /* bytes that peers may have granted at once; 0: 64 MiB */
	/* The secret that this endpoint proves to peers, which ask lend_session_knows(): a key of
	 * 64 hex digits, or any text, which takes 0.1 s and 64 MiB to be made one. "": none. NULL:
	 * that of the process's first endpoint with one, else $LEND_SECRET, else the first key of
	 * $LEND_KEYS or ~/.config/lend/keys, else none. Needs libsodium. */
	const char *secret;
	uint32_t workers; /* threads for LEND_SLOW handlers; 0: 2; none before the first handler */
	lend_ns timeout;  /* of a call that names none; 0: 5 s */
	lend_ns probe, dead; /* silence before a probe / the end; 0: 500 ms / 5 s */
	/* Bytes of message buffers, free ones included; 0: 512 MiB and what the limits above call
	 * for. */
	uint64_t memory_max;
	/* A pcapng file of every datagram of this endpoint, for Wireshark with the dissector of
	 * scripts/wireshark. %p is the process's id. Endpoints of a process that name one path
	 * share it; another process's file is left alone, and the id put before the suffix. A file
	 * that cannot be opened fails lend_open(); one that cannot be written any more ends the
	 * capture alone, with a line on stderr. NULL: $LEND_CAPTURE; "": none. */
	const char *capture;
	/* Bytes of the file after which it becomes PATH.1 and a new one begins, 64 KiB at least.
	 * 0: $LEND_CAPTURE_LIMIT, else none. */
	uint64_t capture_limit;
	/* Bytes kept of each datagram; the first 256 hold every field. 0: $LEND_CAPTURE_SNAP, else
	 * all. */
	uint32_t capture_snap;
	uint32_t schedule; /* enum lend_schedule */
	/* Congestion control on networks, by name: "none", "timely", "swift", "dctcp" or "credit"
	 * (src/core/README.md says what they do). Of two ends each chooses for what it sends, and
	 * a receiver under "credit" for what it is sent. NULL: $LEND_CC, else "credit". */
	const char *cc;
};
#define LEND_CONFIG_INIT                                                                           \
	{                                                                                          \
		.size = sizeof(struct lend_config)                                                 \
	}

/* Opens an endpoint for the calling thread; a thread may hold several. config is copied;
 * NULL: all defaults. 0, or -EADDRINUSE (the name or port is taken), -EINVAL
 * (address or field out of range), -ENODEV (no such carrier or device), -ENOMEM, -EPERM, -EMFILE.
 */
int lend_open(const struct lend_config *config, struct lend_ep **ep);
/* Ends every call (LEND_CANCELLED; done runs, and may not start others) and session, waits for slow
 * handlers under way, gives back what is still lent (gone() of every wrap runs) and releases all.
 * Buffers taken and not given go too: touch none afterwards. Outside a turn. In a fork's child it
 * does nothing: the endpoint is the parent's. */
void lend_close(struct lend_ep *ep);
/* This thread's last failure and its mend, in one line; never NULL, valid until the next one. */
const char *lend_why(void);
/* Makes a file with one new key, for this user alone. NULL: $LEND_KEYS or ~/.config/lend/keys,
 * where keys are looked for. An existing file is left alone. made gets the path. 0; -EEXIST,
 * -ENODEV (no libsodium), or -errno of the system. */
int lend_keygen(const char *path, char *made, size_t cap);
/* The id of the key that an endpoint proves to peers (config.secret); 0: none. */
uint64_t lend_key_id(const struct lend_ep *ep);
/* Where others reach this endpoint, as lend_connect() takes it: "shm:shop", "udp:10.0.0.2:31850";
 * several with commas in the order of listen; "" for a client. 0, -ERANGE, or -errno of
 * the system. */
int lend_address(struct lend_ep *ep, char *text, size_t cap);

/* One turn: receive, run handlers and done functions, send. Never waits. How many ran; -EDEADLK
 * inside a turn, -EPERM in a fork's child. */
int lend_poll(struct lend_ep *ep);
/* Turns until lend_stop() or a time on lend_now(): looks for about a round trip, then sleeps. A
 * stop given before counts. 0, -EDEADLK or -EPERM. */
int lend_run(struct lend_ep *ep, lend_ns until);
/* Ends one lend_run() and one lend_turn(), under way or the next; lend_arm() returns false once.
 * Set the flag that a loop around lend_turn() reads before this call: a wait inside the library, as
 * in lend_call_sync(), may be the one that ends. From any thread and from signal handlers. */
void lend_stop(struct lend_ep *ep);
/* The clock that deadlines are on: nanoseconds of CLOCK_MONOTONIC. */
lend_ns lend_now(struct lend_ep *ep);
/* Turns until something ran, a time came or lend_stop(); may sleep. The loop for waiting on several
 * calls at once: while (!done) lend_turn(ep, LEND_NEVER). As lend_poll(). */
int lend_turn(struct lend_ep *ep, lend_ns until);
/* For one's own event loop: readable when lend_poll() has work. The endpoint's; do not read or
 * close it. */
int lend_fd(struct lend_ep *ep);
/* Just before sleeping on lend_fd(): true, sleep; false, there is work: lend_poll() instead. */
bool lend_arm(struct lend_ep *ep);

/* Message buffers: memory that every carrier can send from. A message is a chain of them; its bytes
 * have no alignment. data may be moved forward, len and next are the user's; cap is the bytes from
 * where data was. */
struct lend_buf {
	void *data;
	uint32_t len, cap;
	struct lend_buf *next;
};
/* One segment of at least cap bytes, len 0, the caller's until given back, replied or taken by a
 * call. NULL: memory_max is reached. In a LEND_SLOW handler it comes from the worker's own pool. */
struct lend_buf *lend_buf_take(struct lend_ep *ep, uint32_t cap);
/* Gives back the whole chain, each segment once; NULL is nothing. Segments of other endpoints find
 * their way home. */
void lend_buf_give(struct lend_ep *ep, struct lend_buf *buf);
/* Memory of one's own that carriers may read and write from now on; it stays registered until
 * lend_close(). 0, -ENOMEM, -EINVAL, or what a device says. */
int lend_register(struct lend_ep *ep, void *memory, size_t len);
/* A segment over the caller's own memory, for requests, replies and landing memory alike; gone (may
 * be NULL) runs once, when it was given back and no carrier uses it any more, at the latest in
 * lend_close(). It is not copied, but for carriers that need registered memory, and for chains
 * whose segments are so short that more than four would meet in one datagram: these are gathered.
 * NULL: too many buffers. */
struct lend_buf *lend_buf_wrap(struct lend_ep *ep, void *data, uint32_t len, void (*gone)(void *),
			       void *arg);

/* Serving. A handler runs inside a turn and answers then or later, once, with lend_reply(). The
 * request's bytes (never NULL, len may be 0) are lent until it returns, unless it takes them. They
 * may only be read: over shm they may be the caller's own memory, which it can change meanwhile, so
 * whoever does not trust it copies before it checks. With
 * LEND_SLOW it runs in a worker thread on memory of its own, and may wait for calls on
 * lend_request_ep(). A request whose deadline has passed, or that was cancelled while it waited for
 * a worker, is not run. */
typedef void lend_handler(lend_request request, const struct lend_buf *bytes, void *arg);
enum { LEND_SLOW = 1 };
/* Serves a method from now on; a second call replaces the first, handler NULL ends it
 * (UNIMPLEMENTED, not run). 0, -EINVAL (flags), -ENOMEM, -EAGAIN (no thread). */
int lend_serve(struct lend_ep *ep, uint32_t method, lend_handler *handler, void *arg,
	       unsigned flags);
/* Answers. Always takes reply (NULL: empty), which goes back to its pool when it has arrived. From
 * any thread. 0; -ESTALE when the caller is gone or was answered: harmless; -ENOMEM from another
 * thread: it is not answered yet, try again. A status that is none of the list becomes
 * LEND_UNKNOWN. */
int lend_reply(struct lend_ep *ep, lend_request request, enum lend_status status,
	       struct lend_buf *reply);
/* The bytes, to forward without a copy (those of one datagram, and over shm all, are copied once);
 * the caller's to give. Only while the handler runs, and once; else NULL, also when no buffer is
 * left. */
struct lend_buf *lend_request_take(struct lend_ep *ep, lend_request request);
/* Where it came from; id 0 when it was answered, or its session is gone. */
lend_session lend_request_session(struct lend_ep *ep, lend_request request);
/* Nanoseconds until its deadline; LEND_NEVER: none; 0: past, or answered. From any thread. */
lend_ns lend_request_left(struct lend_ep *ep, lend_request request);
/* Its priority, 1 .. 8; 0: it was answered. From any thread. */
unsigned lend_request_priority(struct lend_ep *ep, lend_request request);
/* The caller no longer waits, or it was answered. From any thread. */
bool lend_request_cancelled(struct lend_ep *ep, lend_request request);
/* The endpoint to make nested calls on: in a LEND_SLOW handler the worker's own, which lives until
 * lend_close(ep), else ep. NULL: it cannot be opened. Its sessions are its own: lend_connect() on
 * it. */
struct lend_ep *lend_request_ep(struct lend_ep *ep, lend_request request);
/* Chooses where a request of more than 64 KiB lands before its bytes come: memory of len bytes in
 * all, or NULL to refuse (RESOURCE_EXHAUSTED, not run). first: n bytes of its beginning, lent until
 * it returns. The handler gets that memory as its bytes. Without one, the pool is used up to
 * message_max. */
typedef struct lend_buf *lend_place(lend_session session, uint32_t method, uint64_t len,
				    const void *first, uint32_t n, void *arg);
/* place NULL ends it. 0, -ENOMEM. */
int lend_serve_long(struct lend_ep *ep, uint32_t method, lend_place *place, void *arg);
/* What one's own code keeps with a session; NULL for a stale one. Still there while a watch hears
 * of its end. */
void lend_session_set(struct lend_ep *ep, lend_session session, void *pointer);
void *lend_session_get(struct lend_ep *ep, lend_session session);
/* Who is at a session's other end. Either end may call. */
struct lend_peer {
	/* Identifies one start of the peer's process to this one; the same process shows other
	 * bytes to another server. Zeros until the session is up. */
	uint8_t incarnation[16];
	int64_t uid; /* -1: unknown */
	char address[104];
};
/* 0, or -ESTALE. */
int lend_session_peer(struct lend_ep *ep, lend_session session, struct lend_peer *peer);
/* Bytes of the longest message that a session's peer takes (its message_max); 1 GiB until the
 * session is up; 0 for a stale session. Either end may call. */
uint64_t lend_session_message_max(struct lend_ep *ep, lend_session session);
/* Whether a session's peer proved, in this session's handshake, that it has this secret; false also
 * for a stale session. A server answers proofs of its own secret and of those of
 * lend_accept_secret(). A copied datagram proves nothing. */
bool lend_session_knows(struct lend_ep *ep, lend_session session, const char *secret);
/* From now on peers may prove to any endpoint of this process that they have this secret. 0,
 * -EINVAL (no text, $LEND_CLUSTER too long), -ENODEV (no libsodium), -ENOMEM. Threads: any. */
int lend_accept_secret(const char *secret);
/* The channel binding: 32 bytes that both ends of a session compute alike, and that differ for each
 * session. 0, or -ESTALE: gone, or not up yet. */
int lend_session_context(struct lend_ep *ep, lend_session session, uint8_t out[32]);
/* Sessions coming and going, here or from there; every session's end is told, also one that never
 * came up. One watch per endpoint, NULL ends it. Runs inside a turn, after the session's calls have
 * ended. */
typedef void lend_watch(lend_session session, const uint8_t incarnation[16], bool up, void *arg);
/* 0. */
int lend_watch_sessions(struct lend_ep *ep, lend_watch *watch, void *arg);

/* Calling. The session may be used at once: calls wait until it is up, or end UNAVAILABLE. 0;
 * -EINVAL (address), -ENOENT (no such host), -ECONNREFUSED and the like where the carrier knows
 * that nobody is there, -EHOSTUNREACH, -ENOSPC (sessions, carriers), -ENODEV, -ENOMEM; -ESHUTDOWN
 * in lend_close() and in a fork's child. */
int lend_connect(struct lend_ep *ep, const char *address, lend_session *session);
/* The same. name (NULL: the address) decides the incarnation that the server sees: all sessions of
 * a process to one name show the same bytes, to another name other bytes. */
int lend_connect_as(struct lend_ep *ep, const char *address, const char *name,
		    lend_session *session);
/* Ends its calls (LEND_CANCELLED; done runs in the next turn) and says goodbye. The handle is stale
 * at once; a stale one does nothing. */
void lend_disconnect(struct lend_ep *ep, lend_session session);

/* One call, in the caller's memory from lend_call_start() until its done has begun. */
struct lend_call {
	uint32_t method;
	uint8_t priority; /* 0: the parent's, or LEND_NORMAL; 1 .. 8. The reply has it, too */
	/* 1: as the first call of a session it may go out with the very datagram that opens it, so
	 * that the reply takes one round trip in place of two; of no effect elsewhere. For a call
	 * that may be repeated safely, or whose caller minds `ran`: it runs at most once, as every
	 * call does, but when the server was started anew or lost the session meanwhile it ends
	 * UNAVAILABLE, ran maybe, where another would only have waited. The server must have
	 * answered such a call of this endpoint, to the same address as text, in the last 15 s, and
	 * request and head must fit one datagram. Nothing is ever run twice of what somebody copied
	 * or made up: a server remembers these calls for as long as they could come again. */
	uint8_t early;
	lend_ns timeout; /* 0: the parent's time left, or the endpoint's default; LEND_NEVER */
	/* The request this call serves: it ends no later, and is cancelled with it. id 0: none. */
	lend_request parent;
	/* Taken at start (NULL: empty); yours again in done, or NULL while a peer may still read
	 * it: then the pool gets it. */
	struct lend_buf *request;
	/* In: where to put the reply, or NULL. Out: the reply, the caller's to give; never NULL
	 * with LEND_OK. A reply too long for the memory given: RESOURCE_EXHAUSTED, ran yes, that
	 * memory with len 0, and reply_len. */
	struct lend_buf *reply;
	/* Exactly once, inside a turn; may start and end anything, also this call anew. May be
	 * NULL. */
	void (*done)(struct lend_call *call);
	enum lend_status status; /* in done, like ran; LEND_UNKNOWN from the start until then */
	enum lend_ran ran;
	uint64_t reply_len;   /* out: bytes of the reply, also of one that was too long */
	uint64_t reserved[8]; /* the runtime's */
};
/* 0; else nothing is taken and done will not run: -EAGAIN (no free slot: wait for one to end),
 * -EMSGSIZE (longer than the peer takes), -ESTALE (session or parent), -EALREADY (this call is
 * under way), -EINVAL (a buffer is in use, no such priority), -ENOMEM. */
int lend_call_start(struct lend_ep *ep, lend_session session, struct lend_call *call);
/* Ends it with LEND_CANCELLED unless it has ended; done still runs, once, in the next turn. */
void lend_call_cancel(struct lend_ep *ep, struct lend_call *call);
/* Starts it and turns until done. 0 (look at status), or what lend_call_start() and lend_poll()
 * give. */
int lend_call_sync(struct lend_ep *ep, lend_session session, struct lend_call *call);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
