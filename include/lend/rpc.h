/* lend/rpc.h - calls between endpoints.
 *
 * An endpoint belongs to one thread and does nothing unless that thread polls it. Functions that
 * can fail return 0 or a negative errno, and on failure have taken nothing and changed nothing;
 * lend_why() gives the reason in one line. The result of a call is a status. Statuses are gRPC's
 * canonical codes, so a service that also serves gRPC uses one set.
 *
 * Handles (session, request) are values with a generation: a stale one gives -ESTALE and never does
 * harm. Operations are structs in the caller's own memory, without an allocation per call: embed
 * them, and set unused fields to zero. From any thread: lend_reply(), lend_request_left(),
 * _priority(), _cancelled(), lend_stop(), lend_now(), lend_why(). In a LEND_SLOW handler's thread
 * as well: lend_buf_take(), _wrap(), _give(), lend_request_take(), _ep(). All other functions: only
 * the endpoint's thread, and not from inside a turn of the same endpoint where -EDEADLK is listed.
 *
 * The child of a fork does not have its parent's endpoints: functions that run turns return -EPERM,
 * and lend_close() does nothing. Message memory over shm (of lend_buf_take(), of requests and
 * replies) is not mapped in the child, so an access raises SIGSEGV and never changes a message of
 * the parent. The child may open endpoints of its own, and exec. It has a copy of its parent's
 * lend_malloc() memory. */
#ifndef LEND_RPC_H
#define LEND_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef uint64_t lend_ns; /* nanoseconds: a duration, or a time on the clock of lend_now() */
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

/* Whether the handler ran: exact for every call that ends, or MAYBE where it cannot be known. */
enum lend_ran { LEND_RAN_NO, LEND_RAN_YES, LEND_RAN_MAYBE };

/* Priority of a call. More urgent calls are sent first, are served first by LEND_SLOW handlers, and
 * are marked for networks that support it (see src/io/TRANSPORTS.md). Against starvation, a waiting
 * priority gets 1/32 of the bytes that it and the more urgent priorities send. */
enum { LEND_URGENT = 1, LEND_NORMAL = 4, LEND_BULK = 8 };

/* Order of calls with the same priority: shortest remaining length first, earliest deadline first,
 * or FIFO, which also ignores priorities. LEND_SLOW handlers of one priority start by deadline with
 * LEND_EARLIEST_FIRST, otherwise in the order of arrival. */
enum lend_schedule { LEND_SHORTEST_FIRST, LEND_EARLIEST_FIRST, LEND_AS_THEY_COME };

/* Configuration of an endpoint. Initialize with LEND_CONFIG_INIT; every field may stay zero. */
struct lend_config {
	uint32_t size;     /* sizeof(struct lend_config): later fields read as zero */
	uint32_t sessions; /* at once, both directions; 0: 512; at most 2^20 */
	uint32_t calls;    /* in flight per session and direction; 0: 128; at most 1024 */
	/* Addresses to listen on: "shm:shop,udp:0.0.0.0:31850"; port 0 picks one. NULL: a
	 * client. */
	const char *listen;
	const char *eal;         /* DPDK's EAL arguments, for a process's first dpdk endpoint */
	uint64_t message_max;    /* bytes of one message received; 0: 16 MiB; at most 1 GiB */
	uint64_t receive_budget; /* bytes granted to peers at once; 0: 64 MiB */
	/* The secret that this endpoint proves to peers that call lend_session_knows(): a key of 64
	 * hex digits, or any text, from which a key is derived in 0.1 s with 64 MiB. "": none.
	 * NULL: the secret of the process's first endpoint with one, else $LEND_SECRET, else the
	 * first key of $LEND_KEYS or ~/.config/lend/keys, else none. Needs libsodium. */
	const char *secret;
	uint32_t workers;    /* LEND_SLOW threads, started with the first handler; 0: 2 */
	lend_ns timeout;     /* of a call without a timeout; 0: 5 s */
	lend_ns probe, dead; /* idle time before a keepalive / the end; 0: 500 ms / 5 s */
	/* Bytes of message buffers, including free ones; 0: 512 MiB plus what the limits above
	 * need. */
	uint64_t memory_max;
	/* Path of a pcapng file with every datagram of this endpoint, for Wireshark with the
	 * dissector of scripts/wireshark. %p is replaced by the process id. Endpoints of a process
	 * with the same path share the file. A file of another process is left unchanged: then the
	 * process id is put before the suffix. If the file cannot be opened, lend_open() fails; a
	 * later write error ends only the capture, with a line on stderr. NULL: $LEND_CAPTURE; "":
	 * none. */
	const char *capture;
	/* Size in bytes at which the file is renamed to PATH.1 and a new one begins, at least 64
	 * KiB. 0: $LEND_CAPTURE_LIMIT, else none. */
	uint64_t capture_limit;
	/* Bytes captured of each datagram; the first 256 include every field. 0:
	 * $LEND_CAPTURE_SNAP, else all. */
	uint32_t capture_snap;
	uint32_t schedule; /* enum lend_schedule */
	/* Congestion control on networks, by name: "none", "timely", "swift", "dctcp" or "credit"
	 * (described in src/core/PROTOCOL.md). Each end chooses it for the data that it sends; a
	 * receiver under "credit" also for the data that it receives. NULL: $LEND_CC, else
	 * "credit". */
	const char *cc;
};
#define LEND_CONFIG_INIT                                                                           \
	{                                                                                          \
		.size = sizeof(struct lend_config)                                                 \
	}

/* Opens an endpoint for the calling thread; a thread may have several. config is copied; NULL: all
 * defaults. 0, or -EADDRINUSE (the name or port is taken), -EINVAL (address or field out of range),
 * -ENODEV (no such carrier or device), -ENOMEM, -EPERM, -EMFILE. */
int lend_open(const struct lend_config *config, struct lend_ep **ep);
/* Closes an endpoint: ends every call (LEND_CANCELLED; done runs, and may not start others) and
 * session, waits for running slow handlers, gives back buffers that are still lent (gone() of every
 * wrap runs) and frees everything. This includes buffers taken and not given: do not access them
 * afterwards. Outside a turn. In the child of a fork it does nothing: the endpoint is the
 * parent's. */
void lend_close(struct lend_ep *ep);
/* Returns this thread's last error and how to fix it, in one line; never NULL, valid until the next
 * error. */
const char *lend_why(void);
/* Creates a file with one new key, accessible to this user only. path NULL: $LEND_KEYS or
 * ~/.config/lend/keys, the files in which endpoints look for keys. An existing file is left
 * unchanged. made receives the path. 0; -EEXIST, -ENODEV (no libsodium), or -errno of the
 * system. */
int lend_keygen(const char *path, char *made, size_t cap);
/* Returns the id of the key that an endpoint proves to peers (config.secret); 0: none. */
uint64_t lend_key_id(const struct lend_ep *ep);
/* Writes the address of this endpoint, as lend_connect() takes it: "shm:shop",
 * "udp:10.0.0.2:31850"; several, in the order of listen, are separated by commas; "" for a client.
 * 0, -ERANGE, or -errno of the system. */
int lend_address(struct lend_ep *ep, char *text, size_t cap);

/* Runs one turn: receives, runs handlers and done functions, sends. Never blocks. Returns the
 * number of functions that ran; -EDEADLK inside a turn, -EPERM in the child of a fork. */
int lend_poll(struct lend_ep *ep);
/* Runs turns until lend_stop() or a time on lend_now()'s clock. Polls for about a round trip, then
 * sleeps. An earlier lend_stop() counts. 0, -EDEADLK or -EPERM. */
int lend_run(struct lend_ep *ep, lend_ns until);
/* Ends one lend_run() and one lend_turn(), the current or the next one; lend_arm() returns false
 * once. If a loop around lend_turn() reads a flag, set it before this call: the wait that ends may
 * be one inside the library, as in lend_call_sync(). From any thread and from signal handlers. */
void lend_stop(struct lend_ep *ep);
/* Returns the time of the clock that deadlines use: nanoseconds of CLOCK_MONOTONIC. */
lend_ns lend_now(struct lend_ep *ep);
/* Runs turns until a handler or done function ran, a time came or lend_stop(); may sleep. To wait
 * for several calls at once: while (!done) lend_turn(ep, LEND_NEVER). Returns as lend_poll(). */
int lend_turn(struct lend_ep *ep, lend_ns until);
/* Returns a file descriptor for the application's own event loop: readable when lend_poll() has
 * work. The endpoint owns it; do not read or close it. */
int lend_fd(struct lend_ep *ep);
/* Prepares to sleep on lend_fd(). Returns true: sleep; false: there is work, call lend_poll()
 * instead. */
bool lend_arm(struct lend_ep *ep);

/* A segment of a message buffer: memory that every carrier can send from. A message is a chain of
 * segments; its bytes have no alignment. The user may move data forward, and sets len and next; cap
 * counts from the original data. */
struct lend_buf {
	void *data;
	uint32_t len, cap;
	struct lend_buf *next;
};
/* Takes one segment of at least cap bytes, len 0. Returns NULL when memory_max is reached.
 * Ownership: the caller's until it is given back, sent as a reply or taken by a call. In a
 * LEND_SLOW handler it comes from the worker's own pool. */
struct lend_buf *lend_buf_take(struct lend_ep *ep, uint32_t cap);
/* Gives back the whole chain, each segment once; NULL does nothing. Segments of other endpoints
 * return to their own pool. */
void lend_buf_give(struct lend_ep *ep, struct lend_buf *buf);
/* Registers memory of the caller with the carriers, which may read and write it from now on, until
 * lend_close(). 0, -ENOMEM, -EINVAL, or a device's error. */
int lend_register(struct lend_ep *ep, void *memory, size_t len);
/* Makes a segment of the caller's own memory, for requests, replies and landing memory. gone (may
 * be NULL) runs once, after the segment was given back and no carrier uses it any more, at the
 * latest in lend_close(). The memory is not copied, with two exceptions: carriers that need
 * registered memory, and chains with segments so short that one datagram would span more than four;
 * these are gathered. Returns NULL when there are too many buffers. */
struct lend_buf *lend_buf_wrap(struct lend_ep *ep, void *data, uint32_t len, void (*gone)(void *),
			       void *arg);

/* Serving. A handler runs inside a turn, and answers then or later, once, with lend_reply(). The
 * request's bytes (never NULL, len may be 0) are lent until the handler returns, unless it takes
 * them. They are read-only. Over shm they may be the caller's own memory, which the caller can
 * change meanwhile: copy bytes from an untrusted caller before checking them. A LEND_SLOW handler
 * runs in a worker thread with a message buffer of its own, and may wait for calls on
 * lend_request_ep(). A request is not run if its deadline has passed, or if it was cancelled while
 * it waited for a worker. */
typedef void lend_handler(lend_request request, const struct lend_buf *bytes, void *arg);
enum { LEND_SLOW = 1 };
/* Serves a method from now on; a second call replaces the first handler, handler NULL removes it
 * (UNIMPLEMENTED, not run). 0, -EINVAL (flags), -ENOMEM, -EAGAIN (no thread). */
int lend_serve(struct lend_ep *ep, uint32_t method, lend_handler *handler, void *arg,
	       unsigned flags);
/* Answers a request. Always takes reply (NULL: empty), which returns to its pool when it has
 * arrived. From any thread. 0; -ESTALE: the caller is gone or was answered, harmless; -ENOMEM from
 * another thread: not answered yet, try again. A status that is not in the list becomes
 * LEND_UNKNOWN. */
int lend_reply(struct lend_ep *ep, lend_request request, enum lend_status status,
	       struct lend_buf *reply);
/* Takes the request's bytes, to forward them without a copy (those of one datagram, and over shm
 * all, are copied once); the caller gives them back. Only while the handler runs, and once;
 * otherwise NULL, also when there is no free buffer. */
struct lend_buf *lend_request_take(struct lend_ep *ep, lend_request request);
/* Returns the session that the request came from; id 0 when it was answered, or its session is
 * gone. */
lend_session lend_request_session(struct lend_ep *ep, lend_request request);
/* Returns the nanoseconds until the request's deadline; LEND_NEVER: none; 0: past, or answered.
 * From any thread. */
lend_ns lend_request_left(struct lend_ep *ep, lend_request request);
/* Returns the request's priority, 1 .. 8; 0: it was answered. From any thread. */
unsigned lend_request_priority(struct lend_ep *ep, lend_request request);
/* Returns true when the caller no longer waits, or the request was answered. From any thread. */
bool lend_request_cancelled(struct lend_ep *ep, lend_request request);
/* Returns the endpoint for nested calls: in a LEND_SLOW handler the worker's own, which lives until
 * lend_close(ep), otherwise ep. NULL: it cannot be opened. It has its own sessions: call
 * lend_connect() on it. */
struct lend_ep *lend_request_ep(struct lend_ep *ep, lend_request request);
/* Chooses the landing memory of a request of more than 64 KiB before its bytes arrive: memory of
 * len bytes in total, or NULL to refuse (RESOURCE_EXHAUSTED, not run). first: the first n bytes of
 * the request, lent until the function returns. The handler gets that memory as its bytes. Without
 * such a function the pool is used, up to message_max. */
typedef struct lend_buf *lend_place(lend_session session, uint32_t method, uint64_t len,
				    const void *first, uint32_t n, void *arg);
/* Installs such a function for a method; place NULL removes it. 0, -ENOMEM. */
int lend_serve_long(struct lend_ep *ep, uint32_t method, lend_place *place, void *arg);
/* Sets and returns the application's pointer of a session; NULL for a stale one. It is still valid
 * while a watch is notified of the session's end. */
void lend_session_set(struct lend_ep *ep, lend_session session, void *pointer);
void *lend_session_get(struct lend_ep *ep, lend_session session);
/* The peer of a session. Either end may ask for it. */
struct lend_peer {
	/* Identifies one start of the peer's process to this process; another server sees other
	 * bytes from it. Zeros until the session is up. */
	uint8_t incarnation[16];
	int64_t uid; /* -1: unknown */
	char address[104];
};
/* Describes the peer of a session. 0, or -ESTALE. */
int lend_session_peer(struct lend_ep *ep, lend_session session, struct lend_peer *peer);
/* Returns the bytes of the longest message that a session's peer takes (its message_max); 1 GiB
 * until the session is up; 0 for a stale session. Either end may call. */
uint64_t lend_session_message_max(struct lend_ep *ep, lend_session session);
/* Returns whether a session's peer proved, in this session's handshake, that it has this secret;
 * false also for a stale session. A server accepts proofs of its own secret and of those of
 * lend_accept_secret(). A copied datagram proves nothing. */
bool lend_session_knows(struct lend_ep *ep, lend_session session, const char *secret);
/* Adds a secret that peers may prove from now on to any endpoint of this process. 0, -EINVAL (no
 * text, $LEND_CLUSTER too long), -ENODEV (no libsodium), -ENOMEM. Threads: any. */
int lend_accept_secret(const char *secret);
/* Writes the channel binding: 32 bytes that both ends of a session compute identically, different
 * for each session. 0, or -ESTALE: gone, or not up yet. */
int lend_session_context(struct lend_ep *ep, lend_session session, uint8_t out[32]);
/* Notifies of sessions that begin and end, opened here or by a peer. The end of every session is
 * reported, also of one that never came up. One watch per endpoint, NULL ends it. Runs inside a
 * turn, after the session's calls have ended. */
typedef void lend_watch(lend_session session, const uint8_t incarnation[16], bool up, void *arg);
/* Sets the endpoint's watch. Returns 0. */
int lend_watch_sessions(struct lend_ep *ep, lend_watch *watch, void *arg);

/* Calling. Opens a session, which may be used at once: calls wait until it is up, or end
 * UNAVAILABLE. 0; -EINVAL (address), -ENOENT (no such host), -ECONNREFUSED and the like where the
 * carrier detects that no endpoint listens there, -EHOSTUNREACH, -ENOSPC (sessions, carriers),
 * -ENODEV, -ENOMEM; -ESHUTDOWN in lend_close() and in the child of a fork. */
int lend_connect(struct lend_ep *ep, const char *address, lend_session *session);
/* Opens a session as lend_connect(). name (NULL: the address) determines the incarnation that the
 * server sees: all sessions of a process with one name show the same bytes, sessions with another
 * name show other bytes. */
int lend_connect_as(struct lend_ep *ep, const char *address, const char *name,
		    lend_session *session);
/* Ends a session: its calls end (LEND_CANCELLED; done runs in the next turn), and the peer is
 * notified. The handle is stale at once; a stale one does nothing. */
void lend_disconnect(struct lend_ep *ep, lend_session session);

/* One call, in the caller's memory. The runtime uses it from lend_call_start() until its done has
 * begun. */
struct lend_call {
	uint32_t method;
	uint8_t priority; /* 0: the parent's, or LEND_NORMAL; 1 .. 8. Also used for the reply */
	/* 1: a 0-RTT call. The first call of a session may be part of the datagram that opens the
	 * session, so that the reply takes one round trip instead of two; no effect on later calls.
	 * Use it for a call that is safe to repeat, or if the caller checks `ran`. Like every call
	 * it runs at most once. But if the server restarted or lost the session meanwhile, it ends
	 * UNAVAILABLE, ran maybe, where another call would only have waited. Two conditions: the
	 * server has answered such a call of this endpoint, to the same address as text, in the
	 * last 15 s; request and head fit one datagram. A copied or forged datagram never makes a
	 * call run twice: a server remembers 0-RTT calls for as long as they could be replayed. */
	uint8_t early;
	lend_ns timeout; /* 0: the parent's remaining time, or the endpoint's default; LEND_NEVER */
	/* The request that this call serves: the call ends no later, and is cancelled with it. id
	 * 0: none. */
	lend_request parent;
	/* Taken at start (NULL: empty). In done it is the caller's again, or NULL if a peer may
	 * still read it: then it goes to the pool. */
	struct lend_buf *request;
	/* In: landing memory for the reply, or NULL. Out: the reply, given back by the caller;
	 * never NULL with LEND_OK. If the reply is too long for that memory: RESOURCE_EXHAUSTED,
	 * ran yes, that memory with len 0, and reply_len. */
	struct lend_buf *reply;
	/* Runs exactly once, inside a turn; may start and end anything, and start this call again.
	 * May be NULL. */
	void (*done)(struct lend_call *call);
	enum lend_status status; /* in done, like ran; LEND_UNKNOWN from the start until then */
	enum lend_ran ran;
	uint64_t reply_len;   /* out: bytes of the reply, also of one that was too long */
	uint64_t reserved[8]; /* the runtime's */
};
/* Starts a call. 0; otherwise nothing is taken and done will not run: -EAGAIN (no free slot: wait
 * for one to end), -EMSGSIZE (longer than the peer takes), -ESTALE (session or parent), -EALREADY
 * (this call is in progress), -EINVAL (a buffer is in use, no such priority), -ENOMEM. */
int lend_call_start(struct lend_ep *ep, lend_session session, struct lend_call *call);
/* Cancels a call: ends it with LEND_CANCELLED unless it has ended; done still runs, once, in the
 * next turn. */
void lend_call_cancel(struct lend_ep *ep, struct lend_call *call);
/* Starts a call and runs turns until done. 0 (see status), or an error of lend_call_start() or
 * lend_poll(). */
int lend_call_sync(struct lend_ep *ep, lend_session session, struct lend_call *call);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
