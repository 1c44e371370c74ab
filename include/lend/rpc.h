/* lend/rpc.h - calls between endpoints.
 *
 * An endpoint belongs to one thread and does nothing unless that thread polls it. Functions that
 * can fail return 0 or a negative errno. Unless they state otherwise, they have then taken nothing
 * and changed nothing, and lend_why() gives the reason in one line. The result of a call is a
 * status. Statuses are gRPC's canonical codes, so a service that also serves gRPC uses one set.
 *
 * Handles (session, request) are values with a generation: a stale one gives -ESTALE and never does
 * harm. Operations are structs in the caller's own memory, without an allocation per call: embed
 * them, and set unused fields to zero. The endpoint is an argument of each function, which uses it
 * only until it returns.
 *
 * Threads: functions are for the endpoint's thread, and not from inside a turn of the same endpoint
 * where -EDEADLK is listed. From any thread: lend_reply(), lend_request_left(),
 * lend_request_priority(), lend_request_cancelled(), lend_stop(), lend_now(), lend_why(). In a
 * LEND_SLOW handler's thread as well: lend_buf_take(), lend_buf_wrap(), lend_buf_give(),
 * lend_request_take(), lend_request_ep().
 *
 * The child of a fork does not have its parent's endpoints: functions that run turns return -EPERM,
 * and lend_close() does nothing. Message memory over shm (of lend_buf_take(), of requests and
 * replies) is not mapped in the child: an access raises SIGSEGV and never changes a message of
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

/* Nanoseconds: a duration, or a time on the clock of lend_now(). */
typedef uint64_t lend_ns;
/* A time that does not come, or a duration without an end. */
#define LEND_NEVER UINT64_MAX

/* An endpoint: made by lend_open(). */
struct lend_ep;
/* Name and metadata of a call: lend/metadata.h. */
struct lend_call_head;
/* Handle of a session at one endpoint. */
typedef struct {
	uint64_t id; /* 0: none */
} lend_session;
/* Handle of a request that this endpoint serves. */
typedef struct {
	uint64_t id; /* 0: none */
} lend_request;

/* Result of a call or of an operation. A handler may answer with any of them. */
enum lend_status {
	LEND_OK = 0,                  /* success */
	LEND_CANCELLED = 1,           /* ended by the caller, or with its parent request */
	LEND_UNKNOWN = 2,             /* not ended yet, or a status that is not in this list */
	LEND_INVALID_ARGUMENT = 3,    /* the request is malformed */
	LEND_DEADLINE_EXCEEDED = 4,   /* the time of the call is over */
	LEND_NOT_FOUND = 5,           /* no such object, or it is gone */
	LEND_ALREADY_EXISTS = 6,      /* the object exists already */
	LEND_PERMISSION_DENIED = 7,   /* the caller lacks the right */
	LEND_RESOURCE_EXHAUSTED = 8,  /* full, busy or over quota: try later */
	LEND_FAILED_PRECONDITION = 9, /* the object is not in the state that this needs */
	LEND_ABORTED = 10,            /* lost to a concurrent change: retry */
	LEND_OUT_OF_RANGE = 11,       /* past the end of the object */
	LEND_UNIMPLEMENTED = 12,      /* no handler for this method */
	LEND_INTERNAL = 13,           /* an invariant of the service is broken */
	LEND_UNAVAILABLE = 14,        /* the peer is gone, does not answer or closes */
	LEND_DATA_LOSS = 15,          /* bytes are lost */
	LEND_UNAUTHENTICATED = 16,    /* the caller has not proved its identity */
};

/* Whether the handler ran: exact for every call that ends, or MAYBE where it cannot be known. */
enum lend_ran {
	LEND_RAN_NO,    /* it did not run, and never will */
	LEND_RAN_YES,   /* it ran */
	LEND_RAN_MAYBE, /* the peer was lost before it reported this */
};

/* Priority of a call, 1 to 8. More urgent calls are sent first, are served first by LEND_SLOW
 * handlers, and are marked for networks: DSCP and 802.1Q priority. Against starvation, a waiting
 * priority sends one part in 32 of what more urgent priorities send. */
enum {
	LEND_URGENT = 1, /* most urgent */
	LEND_NORMAL = 4, /* default */
	LEND_BULK = 8,   /* least urgent */
};

/* lend_open(3) - open and close an endpoint.
 *
 * Threads: the endpoint's, unless a function states otherwise. */

/* Order of calls with the same priority. LEND_SLOW handlers of one priority start by deadline with
 * LEND_EARLIEST_FIRST, otherwise in the order of arrival. */
enum lend_schedule {
	LEND_SHORTEST_FIRST, /* shortest remaining length first, by powers of four (SRPT) */
	LEND_EARLIEST_FIRST, /* earliest deadline first */
	LEND_AS_THEY_COME,   /* FIFO, which also ignores priorities */
	/* As LEND_SHORTEST_FIRST, but peers that send long messages to this endpoint get equal
	 * shares of its downlink. Messages above 64 KB take longer under load. */
	LEND_FAIR_SHARES,
};

/* Configuration of an endpoint. Initialize with LEND_CONFIG_INIT; every field may stay zero. */
struct lend_config {
	uint32_t size; /* sizeof(struct lend_config): later fields read as zero */
	/* At once, both directions; 0: 512; at most 2^20. One peer is given at most eight ninths
	 * of them. */
	uint32_t sessions;
	uint32_t calls; /* in flight per session and direction; 0: 128; at most 1024 */
	/* Addresses to listen on: "shm:shop,udp:0.0.0.0:31850"; port 0 picks one. NULL: a client.
	 * "http2:HOST:PORT" lets stock gRPC clients call the methods with names: such a call comes
	 * from a session of the endpoint with itself. "?cert=FILE&key=FILE" behind it: over TLS;
	 * "slow=MS" there: a client's time for its headers; 10,000. "keepalive=SECONDS": silence
	 * before a PING; 7,200. "keepalive_timeout=SECONDS" for its answer; 20.
	 * "ping_min=SECONDS": between PINGs of a client; 300, and 7,200 without calls.
	 * "max_idle=SECONDS": a connection without requests is asked to end, by GOAWAY.
	 * "max_age=SECONDS": so is one that began so long ago, 10 % more or less; its requests end
	 * after "max_age_grace=SECONDS". Without these, connections last.
	 * "reuseport": other processes of the user may listen there, too. Needs libnghttp2,
	 * OpenSSL, zlib. An endpoint has at most 4 carriers, including those that it opens to
	 * connect. */
	const char *listen;
	const char *eal; /* DPDK's EAL arguments, for a process's first dpdk endpoint */
	/* Bytes of one message received, without its name and metadata; 0: 16 MiB; at most 1 GiB,
	 * then with them. */
	uint64_t message_max;
	uint64_t receive_budget; /* bytes granted to peers at once; 0: 64 MiB */
	/* The secret that this endpoint proves to peers that call lend_session_knows(): a key of 64
	 * hex digits, or any text, from which a key is derived by Argon2id with 64 MiB of memory.
	 * "": none. NULL: the secret of the process's first endpoint with one, else $LEND_SECRET,
	 * else the first key of $LEND_KEYS, else, on networks, that of ~/.config/lend/keys.
	 * Needs libsodium. */
	const char *secret;
	uint32_t workers; /* LEND_SLOW threads, started with the first handler; 0: 2; at most 256 */
	lend_ns timeout;  /* timeout of a call that has none; 0: 5 s */
	lend_ns probe;    /* idle time before a keepalive; 0: 500 ms */
	lend_ns dead;     /* idle time before a session ends; 0: 5 s */
	/* Bytes of message buffers, including free ones; 0: 512 MiB, four times message_max and
	 * twice receive_budget. */
	uint64_t memory_max;
	/* Path of a pcapng file with every datagram of this endpoint, for Wireshark with the
	 * dissector of share/lend/wireshark. %p is replaced by the process id. Endpoints of a
	 * process with the same path share the file. A file of another process is left unchanged:
	 * then the process id is put before the suffix. If the file cannot be opened, lend_open()
	 * fails; a later write error ends only the capture, with a line on stderr. NULL:
	 * $LEND_CAPTURE; "": none. */
	const char *capture;
	/* Size in bytes at which the file is renamed to PATH.1 and a new one begins, at least
	 * 64 KiB. 0: $LEND_CAPTURE_LIMIT, else none. */
	uint64_t capture_limit;
	/* Bytes captured of each datagram; the first 256 include every field. 0:
	 * $LEND_CAPTURE_SNAP, else all. */
	uint32_t capture_snap;
	uint32_t schedule; /* enum lend_schedule */
	/* Congestion control on networks, by name: "none", "timely", "swift", "dctcp" or "credit".
	 * Each end chooses it for the data that it sends; a receiver under "credit" also for the
	 * data that it receives. NULL: $LEND_CC, else "credit". Sources: Timely (SIGCOMM 2015) with
	 * the constants of eRPC (NSDI 2019), Swift (SIGCOMM 2020), DCTCP (RFC 8257). "credit":
	 * grants of the receiver for its own downlink. */
	const char *cc;
	/* Bytes of a message's name and metadata (lend/metadata.h), sent and received; 0: 8192, the
	 * maximum. Longer ones end RESOURCE_EXHAUSTED. */
	uint32_t head_max;
	/* Protection of datagrams: "encrypt", "authenticate" or "none", on carriers that others may
	 * reach. Both ends of a session need the same, and a key that both have. "+local" behind
	 * it: also between processes of one user on one host, over shm, dpdk:ring and dpdk:memif.
	 * "CARRIER=LEVEL": for one carrier; several items have commas between them, and the last
	 * one that fits decides: "encrypt,dpdk=none". NULL: $LEND_LEVEL, else "encrypt". The first
	 * encrypted carrier makes the file of keys if neither a secret nor the file exists. */
	const char *level;
};
#ifdef __cplusplus
static inline struct lend_config lend_config_init(void)
{
	struct lend_config config = {};

	config.size = sizeof(config);
	return config;
}
#define LEND_CONFIG_INIT lend_config_init()
#else
/* Initial value of a struct lend_config. */
#define LEND_CONFIG_INIT                                                                           \
	{                                                                                          \
		.size = sizeof(struct lend_config)                                                 \
	}
#endif

/* Opens an endpoint for the calling thread; a thread may have several. config NULL: all defaults.
 * Returns: 0; -EINVAL: an address or field is out of range; -EADDRINUSE: the name or port is taken;
 * -ENODEV: no such carrier or device, or no libsodium for a secret; -ENOSPC: more than 4 carriers;
 * -ENOENT: no such host, or $LEND_KEYS names no file; -ENOMEM: no memory; -EMFILE: no file
 * descriptor; -EPERM: the device needs more rights; or another -errno of the system.
 * Ownership: borrows config and its texts; *ep is the caller's until lend_close().
 * Threads: any. */
int lend_open(const struct lend_config *config, struct lend_ep **ep);
/* Closes an endpoint: ends every call (LEND_CANCELLED; done runs, and may not start others) and
 * session, waits for running LEND_SLOW handlers and frees everything. Must not be called inside a
 * turn. NULL does nothing. In the child of a fork it does nothing: the endpoint is the parent's.
 * Ownership: takes ep. Gives back memory that is still lent: gone of every wrap runs. Buffers taken
 * and not given are freed: do not access them afterwards. */
void lend_close(struct lend_ep *ep);
/* Returns the calling thread's last error and how to fix it, in one line.
 * Returns: the text, never NULL; "" before the first error.
 * Ownership: borrowed from the thread until its next error.
 * Threads: any. */
const char *lend_why(void);
/* Writes the address of this endpoint, as lend_connect() takes it: "shm:shop",
 * "udp:10.0.0.2:31850". Several, in the order of listen, are separated by commas; "" for a client.
 * Returns: 0; -ERANGE: longer than cap bytes; or -errno of the system.
 * Ownership: borrows text, which has room for cap bytes. */
int lend_address(struct lend_ep *ep, char *text, size_t cap);

/* lend_poll(3) - run the event loop of an endpoint.
 *
 * A turn receives datagrams, runs handlers and done functions, and sends. An endpoint does nothing
 * between turns. Use lend_run() in a server's thread, lend_wait() to wait for results, and
 * lend_poll() in a loop that has other work. With an event loop of the application: while
 * lend_prepare_sleep() returns true, wait until lend_fd() is readable; then call lend_poll().
 *
 * Threads: the endpoint's, unless a function states otherwise. */

/* Runs one turn. Never blocks.
 * Returns: the number of handlers and done functions that ran; -EDEADLK: inside a turn; -EPERM: in
 * the child of a fork. */
int lend_poll(struct lend_ep *ep);
/* Runs turns until a handler or done function ran, a time came or lend_stop(). Polls for a time
 * that adapts to recent waits, then sleeps. To wait for several calls at once: while (!done)
 * lend_wait(ep, LEND_NEVER). until is a time on the clock of lend_now().
 * Returns: the number of handlers and done functions that ran; -EDEADLK: inside a turn; -EPERM: in
 * the child of a fork. */
int lend_wait(struct lend_ep *ep, lend_ns until);
/* Runs turns until lend_stop() or a time on the clock of lend_now(). An earlier lend_stop() counts.
 * Returns: 0; -EDEADLK: inside a turn; -EPERM: in the child of a fork. */
int lend_run(struct lend_ep *ep, lend_ns until);
/* Ends one lend_run() and one lend_wait(), the current or the next one; lend_prepare_sleep()
 * returns false once. If a loop around lend_wait() reads a flag, set it before this call: the wait
 * that ends may be one inside the library, as in lend_call_sync().
 *
 * Threads: any, and signal handlers. */
void lend_stop(struct lend_ep *ep);
/* Lets the requests in progress end before lend_close(), and new ones go to another server. Native
 * callers' new requests end UNAVAILABLE, not run. Clients of HTTP/2 get GOAWAY, and its listeners
 * are closed. Runs turns until no request is in progress, the replies have arrived, and HTTP/2's
 * clients have gone, or the time has passed; the application may call it again.
 * Returns: 0; -ETIMEDOUT: requests are still in progress; -EINTR: lend_stop() ended it; -EDEADLK:
 * inside a turn; -EPERM: in the child of a fork. */
int lend_drain(struct lend_ep *ep, lend_ns timeout);
/* Returns a file descriptor for the application's own event loop: readable when lend_poll() has
 * work.
 * Returns: the descriptor.
 * Ownership: the endpoint's until lend_close(); do not read or close it. */
int lend_fd(struct lend_ep *ep);
/* Prepares to sleep on lend_fd().
 * Returns: true: sleep; false: there is work, or this endpoint may not sleep here (inside a turn,
 * in the child of a fork): call lend_poll() instead. */
bool lend_prepare_sleep(struct lend_ep *ep);
/* Returns the time of the clock that deadlines use: CLOCK_MONOTONIC.
 * Returns: nanoseconds.
 * Threads: any. */
lend_ns lend_now(struct lend_ep *ep);

/* lend_buf(3) - message buffers.
 *
 * A message is a chain of segments; its bytes have no alignment.
 *
 * Threads: the endpoint's, and that of a LEND_SLOW handler, which uses its worker's own pool. */

/* A segment of a message buffer: memory that every carrier can send from. */
struct lend_buf {
	void *data;   /* the bytes; the user may move it forward */
	uint32_t len; /* bytes of the message in this segment; the user sets it */
	/* Bytes from the original data on. Landing memory is written from data on: lower cap by as
	 * much as data was moved. */
	uint32_t cap;
	struct lend_buf *next; /* next segment, which the user sets; NULL: the last one */
};
/* Takes one segment of at least cap bytes, len 0, next NULL. cap is at most 1 GiB.
 * Returns: the segment; NULL: memory_max is reached.
 * Ownership: the caller's until lend_buf_give(), or until it is sent as a reply or taken by a
 * call. */
struct lend_buf *lend_buf_take(struct lend_ep *ep, uint32_t cap);
/* Gives back a whole chain, each segment once; NULL does nothing. Segments of other endpoints
 * return to their own pool. Giving a segment twice, or while a call has it, ends the program with a
 * line that names the mistake.
 * Ownership: takes the chain. */
void lend_buf_give(struct lend_ep *ep, struct lend_buf *buf);
/* Makes a segment of the caller's own memory, for requests, replies and landing memory. The memory
 * is not copied, with two exceptions: carriers that need registered memory, and chains with
 * segments so short that one datagram would span more than four; these are gathered.
 * Returns: the segment, with len and cap len; NULL: there are too many buffers.
 * Ownership: the segment is as one of lend_buf_take(). Borrows data until gone(arg) runs, once:
 * after the segment was given back and no carrier uses it any more, at the latest in lend_close().
 * gone may be NULL. */
struct lend_buf *lend_buf_wrap(struct lend_ep *ep, void *data, uint32_t len,
			       void (*release)(void *), void *arg);
/* Registers memory of the caller with the carriers, so that those that need registered memory send
 * from it without a copy. It is resident from then on. len is in bytes.
 * Returns: 0; -EINVAL: NULL or no bytes; -ENOMEM: no memory; or the first error of a device: its
 * carrier copies from this memory, and all others have registered it.
 * Ownership: borrows memory until lend_close(): carriers may read and write it.
 * Threads: the endpoint's. */
int lend_register(struct lend_ep *ep, void *memory, size_t len);

/* lend_serve(3) - serve methods.
 *
 * A handler runs inside a turn, and answers then or later, once, with lend_reply(). A LEND_SLOW
 * handler runs in a worker thread, and may wait for calls on lend_request_ep(). A request is not
 * run if its deadline has passed, or if it was cancelled while it waited for a worker.
 *
 * Threads: the endpoint's, unless a function states otherwise. */

/* Handles one request. bytes is never NULL; its len may be 0. The bytes are read-only. Over shm
 * they may be the caller's own memory, which the caller can change meanwhile: copy bytes from an
 * untrusted caller before checking them. A request of several segments is one gathered copy, or
 * with LEND_CHAIN a chain. A LEND_SLOW handler gets a message buffer of its own.
 * Ownership: bytes are lent until the handler returns, unless lend_request_take() takes them.
 * Threads: the endpoint's; with LEND_SLOW a worker's. */
typedef void lend_handler_fn(lend_request request, const struct lend_buf *bytes, void *arg);
/* Flags of lend_serve(). */
enum {
	LEND_SLOW = 1,     /* the handler runs in a worker thread, and may block */
	LEND_RESERVED = 2, /* the program implements or replaces a service of Lend itself */
	LEND_CHAIN = 4,    /* the handler's bytes may be a chain of buffers, linked by next */
};
/* First method number of Lend's own services: statistics (lend/stats.h), ping, memory nodes,
 * benchmark servers. A benchmark calls reserved methods only, so it never runs an application's
 * handler. */
#define LEND_METHOD_RESERVED_FIRST 0x4c454e00u
/* Last method number of Lend's own services. All numbers outside are the application's. */
#define LEND_METHOD_RESERVED_LAST 0x4c454effu
/* Method that every endpoint serves: an empty reply. `lend ping` calls it. */
#define LEND_METHOD_PING 0x4c454e50u
/* Serves a method from now on. A second call replaces the first handler; handler NULL removes it:
 * calls then end UNIMPLEMENTED, not run.
 * Returns: 0; -EINVAL: an unknown flag, a reserved number without LEND_RESERVED, or config.workers
 * is too large; -EEXIST: the number is that of a name: lend_serve_name(); -ENOMEM: no memory;
 * -EAGAIN: no thread.
 * Ownership: borrows arg until the handler is replaced or lend_close(). */
int lend_serve(struct lend_ep *ep, uint32_t method, lend_handler_fn *handler, void *arg,
	       unsigned flags);
/* Chooses the landing memory of a request of more than 64 KiB. Runs before its bytes land. len:
 * bytes of the request; first: its first n bytes.
 * Returns: memory of len bytes in total, which the handler gets as its bytes; NULL: refuse the
 * request (RESOURCE_EXHAUSTED, not run).
 * Ownership: first is lent until the function returns; the memory is taken. */
typedef struct lend_buf *lend_landing_fn(lend_session session, uint32_t method, uint64_t len,
					 const void *first, uint32_t n, void *arg);
/* Installs a function for a method's landing memory; NULL removes it. Without one, the
 * pool is used. Requests longer than message_max are refused in both cases.
 * Returns: 0; -ENOMEM: no memory; -EINVAL: a reserved number that this endpoint does not serve.
 * Ownership: borrows arg until the function is replaced or lend_close(). */
int lend_serve_long(struct lend_ep *ep, uint32_t method, lend_landing_fn *landing, void *arg);
/* Answers a request. reply NULL: an empty message. A status that is not in enum lend_status becomes
 * LEND_UNKNOWN. A reply of more than 1 GiB becomes RESOURCE_EXHAUSTED.
 * Returns: 0; -ESTALE: the caller is gone or was answered, harmless; -ENOMEM, from another thread:
 * not answered yet, try again.
 * Ownership: takes reply in any case; it returns to its pool when it has arrived.
 * Threads: any. */
int lend_reply(struct lend_ep *ep, lend_request request, enum lend_status status,
	       struct lend_buf *reply);
/* Answers a request with a copy of len bytes. The quickest way for short replies, which need no
 * buffer then. If another reply finds no buffer, the status becomes RESOURCE_EXHAUSTED.
 * Returns: as lend_reply().
 * Ownership: borrows data until it returns.
 * Threads: the endpoint's, and that of a LEND_SLOW handler. */
int lend_reply_copy(struct lend_ep *ep, lend_request request, enum lend_status status,
		    const void *data, uint32_t len);
/* Answers a request with a status and a text for people that explains it: UTF-8, of which the first
 * 200 bytes count. The caller reads it with lend_call_why().
 * Returns: as lend_reply().
 * Ownership: borrows text.
 * Threads: the endpoint's, and that of a LEND_SLOW handler. */
int lend_reply_why(struct lend_ep *ep, lend_request request, enum lend_status status,
		   const char *text);
/* Ends a request for which the handler did nothing: the call ends with this status, not run.
 * Returns: as lend_reply().
 * Threads: any. */
int lend_refuse(struct lend_ep *ep, lend_request request, enum lend_status status);
/* Continues a request in a worker thread, as LEND_SLOW does. The handler runs in any case, also
 * when the caller no longer waits: see lend_request_cancelled(). bytes: of lend_request_take().
 * Returns: 0; -ESTALE: the request has ended, or its bytes were not taken; -EINVAL: config.workers
 * is too large; -ENOMEM: no memory; -EAGAIN: no thread.
 * Ownership: takes bytes, which the handler gets; after a failure they are the caller's. Borrows
 * arg until the handler returns. */
int lend_request_defer(struct lend_ep *ep, lend_request request, struct lend_buf *bytes,
		       lend_handler_fn *handler, void *arg);
/* Withdraws a reply that has not arrived, to get its memory back: no further byte of it is sent,
 * and its buffers return as soon as no carrier reads them. The caller sees the whole reply if all
 * of it was sent before, otherwise RESOURCE_EXHAUSTED, ran maybe. A reply that has arrived, and a
 * request that was not answered, are unchanged. */
void lend_reply_withdraw(struct lend_ep *ep, lend_request request);

/* lend_request(3) - query a request that is being served.
 *
 * Threads: the endpoint's, unless a function states otherwise. */

/* Takes the bytes of a request while its handler runs, to keep or forward them without a copy.
 * Bytes of one datagram, and over shm all, are copied once.
 * Returns: the bytes; NULL: the handler has returned, they were taken before, or there is no free
 * buffer.
 * Ownership: the bytes are the caller's, as of lend_buf_take().
 * Threads: the handler's. */
struct lend_buf *lend_request_take(struct lend_ep *ep, lend_request request);
/* Returns the session that the request came from.
 * Returns: its handle; id 0: the request was answered, or its session is gone. */
lend_session lend_request_session(struct lend_ep *ep, lend_request request);
/* Returns the time until the request's deadline.
 * Returns: nanoseconds; LEND_NEVER: no deadline; 0: past, or answered.
 * Threads: any. */
lend_ns lend_request_left(struct lend_ep *ep, lend_request request);
/* Returns the request's priority.
 * Returns: 1 to 8; 0: it was answered.
 * Threads: any. */
unsigned lend_request_priority(struct lend_ep *ep, lend_request request);
/* Checks whether work on a request is still of use.
 * Returns: true: the caller no longer waits, or the request was answered; false: continue.
 * Threads: any. */
bool lend_request_cancelled(struct lend_ep *ep, lend_request request);
/* Returns the endpoint for nested calls: in a LEND_SLOW handler the worker's own, otherwise ep. The
 * worker's has its own sessions: call lend_connect() on it.
 * Returns: the endpoint; NULL: the worker's cannot be opened.
 * Ownership: the library's, until lend_close(ep).
 * Threads: the handler's. */
struct lend_ep *lend_request_ep(struct lend_ep *ep, lend_request request);

/* lend_connect(3) - open, describe and end sessions.
 *
 * Both ends of a session can call the functions that describe it.
 *
 * Threads: the endpoint's. */

/* Opens a session, which may be used at once: calls wait until it is up, or end UNAVAILABLE.
 * "http2:HOST:PORT" is a stock gRPC server, of which methods with names can be called; not from
 * lend_request_ep() of a worker. Over TLS: "?tls", or "?ca=FILE" with the certificates to trust,
 * and "&name=NAME" if the server's has another name. The connection is made for the first call,
 * and again when it was lost; until then calls fail at once after a failed attempt, not run. Each
 * time, a thread looks HOST up, and its addresses are tried in turn.
 * Without TLS, calls with "authorization" metadata end UNAUTHENTICATED, not run. While there are
 * calls, "?keepalive=SECONDS" sends a PING after so long a silence of the server, and ends the
 * connection after "keepalive_timeout=SECONDS", 20, without an answer.
 * Returns: 0; -EINVAL: address; -ENOENT: no such host; -ECONNREFUSED: the carrier detects that no
 * endpoint listens there; -EHOSTUNREACH: no route; -ENOSPC: sessions, peers or carriers are used
 * up; -ENODEV: no such carrier or device; -ENOMEM: no memory; -ESHUTDOWN: in lend_close() or in the
 * child of a fork; or another -errno of the system.
 * Ownership: borrows address and session. */
int lend_connect(struct lend_ep *ep, const char *address, lend_session *session);
/* Opens a session as lend_connect(), with another key than the endpoint's own: the first key of the
 * process with an id that begins with this byte. For servers that know only one of several keys. 0,
 * or a byte that no key has: as lend_connect().
 * Returns: 0, or an error of lend_connect().
 * Ownership: borrows address and session. */
int lend_connect_key(struct lend_ep *ep, const char *address, uint8_t first, lend_session *session);
/* Opens a session as lend_connect(). name (NULL: the address) determines the incarnation that the
 * server sees: all sessions of a process with one name show the same bytes, sessions with another
 * name show other bytes.
 * Returns: 0, or an error of lend_connect().
 * Ownership: borrows address, name and session.
 * Source: the incarnation is SipHash-2-4-128 of the name under a key of this process. */
int lend_connect_as(struct lend_ep *ep, const char *address, const char *name,
		    lend_session *session);
/* Ends a session: its calls end (LEND_CANCELLED; done runs in the next turn), and the peer is
 * notified. The handle is stale at once; a stale one does nothing. */
void lend_disconnect(struct lend_ep *ep, lend_session session);
/* Sets the application's pointer of a session; a stale session does nothing.
 * Ownership: pointer stays the caller's; the library does not access it. */
void lend_session_set(struct lend_ep *ep, lend_session session, void *pointer);
/* Returns the application's pointer of a session. Works until the watch has been notified of the
 * session's end.
 * Returns: the pointer; NULL: none was set, or the session is stale.
 * Ownership: the pointer stays the caller's. */
void *lend_session_get(struct lend_ep *ep, lend_session session);
/* The peer of a session. */
struct lend_peer {
	/* Identifies one start of the peer's process to this process; another server sees other
	 * bytes from it. Zeros until the session is up. */
	uint8_t incarnation[16];
	int64_t uid;       /* user id of the peer's process, from the kernel; -1: unknown */
	char address[104]; /* as connected to while it is resolved; "": unknown */
};
/* Describes the peer of a session.
 * Returns: 0; -ESTALE: the session is gone.
 * Ownership: borrows peer. */
int lend_session_peer(struct lend_ep *ep, lend_session session, struct lend_peer *peer);
/* Memory of a session's peer that is mapped into this process for reading. */
struct lend_peer_memory {
	const void *at; /* the first byte */
	uint64_t len;   /* bytes */
	uint32_t peer;  /* the runtime's */
};
/* Finds the memory of a session's peer that this process can read: over shm, the peer's
 * lend_malloc_shared() memory. The peer may change any byte at any time.
 * Returns: 0; -ESTALE: the session is gone; -EAGAIN: its address is being resolved; -ENOTSUP: no
 * memory of the peer is mapped.
 * Ownership: borrows memory; the peer's memory is lent until the next turn, or until it is
 * released. */
int lend_session_memory(struct lend_ep *ep, lend_session session, struct lend_peer_memory *memory);
/* Keeps a peer's memory mapped, also when the session has ended. Each call needs a release.
 * Ownership: borrows memory, which lend_session_memory() filled in during this turn. */
void lend_peer_memory_hold(struct lend_ep *ep, const struct lend_peer_memory *memory);
/* Undoes one lend_peer_memory_hold(), before lend_close().
 * Ownership: borrows memory; the peer's memory is not lent any more after the last release. */
void lend_peer_memory_release(struct lend_ep *ep, const struct lend_peer_memory *memory);
/* Returns whether a session is that of a gateway: its requests are those of a stock gRPC client,
 * which came by an http2: address of this endpoint.
 * Returns: true; false: its peer is an endpoint, or it is gone. */
bool lend_session_gateway(struct lend_ep *ep, lend_session session);
/* Returns the length of the longest message that a session's peer takes: its message_max.
 * Returns: bytes; 1 GiB until the session is up; 0 for a stale session. */
uint64_t lend_session_message_max(struct lend_ep *ep, lend_session session);
/* Notifies of a session that begins (up) or ends, opened here or by a peer. The end of every
 * session is reported, also of one that never came up. Runs inside a turn, at the end of a session
 * after its calls have ended.
 * Ownership: incarnation is lent until the function returns. */
typedef void lend_watch_fn(lend_session session, const uint8_t incarnation[16], bool up, void *arg);
/* Sets the endpoint's only watch; NULL ends it.
 * Returns: 0.
 * Ownership: borrows arg until the watch is replaced or lend_close(). */
int lend_watch_sessions(struct lend_ep *ep, lend_watch_fn *watch, void *arg);

/* lend_alarm(3) - run a function at a time.
 *
 * Threads: the endpoint's. */

/* An alarm, in the caller's memory. Set next to NULL. */
struct lend_alarm {
	/* Runs once, inside the first turn at or after the time, or up to 100 us later in an
	 * endpoint that is busy with short messages; the alarm may be set again. */
	void (*ring)(struct lend_alarm *alarm);
	lend_ns at;              /* the time, as of lend_now(); LEND_NEVER: not set */
	struct lend_alarm *next; /* the runtime's */
};
/* Sets an alarm, which replaces its earlier time. LEND_NEVER: it does not ring.
 * Ownership: borrows alarm until it rings, or is set to LEND_NEVER. */
void lend_alarm_set(struct lend_ep *ep, struct lend_alarm *alarm, lend_ns at);

/* lend_watch_fd(3) - run a function when a file descriptor is ready.
 *
 * One thread then serves calls and the sockets of other libraries, and sleeps in one place.
 *
 * Threads: the endpoint's. */

/* Events of a file descriptor. */
enum {
	LEND_FD_READ = 1,  /* a read would not block */
	LEND_FD_WRITE = 2, /* a write would not block */
};
/* A watched file descriptor, in the caller's memory. Set ready and fd, and events to 0. */
struct lend_fd_watch {
	/* Runs inside a turn, again until the descriptor is not ready any more. events: which of
	 * the requested ones are; all of them after an error or a hang-up. May change and end any
	 * watch. */
	void (*ready)(struct lend_fd_watch *watch, unsigned events);
	int fd;          /* the file descriptor */
	unsigned events; /* the runtime's: the requested ones; 0: not watched */
};
/* Watches a file descriptor for LEND_FD_* events, which replace the earlier ones; 0 ends the watch.
 * End it before the descriptor is closed. An endpoint that does not sleep looks at descriptors
 * every 5 us, and every 100 us while it is busy with short messages.
 * Returns: 0; -EINVAL: an unknown event, or no ready; -EBADF: fd is not open; -EEXIST: another
 * watch has it; -EPERM: it is a file or directory, or this is the child of a fork; -EMFILE,
 * -ENOSPC, -ENOMEM: a limit of the system.
 * Ownership: borrows watch until it is ended, or lend_close(). */
int lend_watch_fd(struct lend_ep *ep, struct lend_fd_watch *watch, unsigned events);

/* lend_secret(3) - prove secrets between endpoints.
 *
 * In the handshake of a session the client proves that it has the key of its config.secret. The
 * server proves that it has the same key. A server accepts proofs of its own secret and of those of
 * lend_accept_secret(). A copied datagram proves nothing. Secrets need
 * libsodium.
 *
 * Threads: the endpoint's, unless a function states otherwise.
 *
 * Source: a proof is an HMAC-SHA-256 over the handshake; a key of a text is derived by Argon2id
 * (RFC 9106). */

/* Creates a file with one new key, accessible to this user only, and the folders on its path. path
 * NULL: $LEND_KEYS or ~/.config/lend/keys, the files in which endpoints look for keys. An existing
 * file is left unchanged.
 * Returns: 0; -EEXIST: the file exists; -ENODEV: no libsodium; -ENOENT: path is NULL and $HOME is
 * not set; -EIO: a write failed; or another -errno of the system.
 * Ownership: borrows path, and made, which receives the path in at most cap bytes.
 * Threads: any. */
int lend_keygen(const char *path, char *made, size_t cap);
/* Makes a key pair for a server: its line for the server's file of keys, and its public key for the
 * lines "server ADDRESS KEY" of its clients, as text with a zero at the end.
 * Returns: 0; -ENODEV: no libsodium.
 * Ownership: borrows both.
 * Threads: any. */
int lend_keygen_static(char line[80], char public_key[65]);
/* Returns the id of the key that an endpoint was opened with, and proves to peers. Sealed sessions
 * of an endpoint without one prove the first key of ~/.config/lend/keys.
 * Returns: the first 8 bytes of the key's SHA-256; 0: no key.
 * Threads: any. */
uint64_t lend_key_id(const struct lend_ep *ep);
/* Adds a secret that peers may prove from now on to any endpoint of this process.
 * Returns: 0; -EINVAL: no text, or $LEND_CLUSTER is too long; -ENODEV: no libsodium; -ENOMEM: no
 * memory to derive a key.
 * Ownership: borrows secret.
 * Threads: any. */
int lend_accept_secret(const char *secret);
/* Reads the file of keys again. Sessions end, with BYE, if their key is not accepted any more.
 * Returns: 0; what lend_open() returns for such a file: then the keys stay as they were. */
int lend_reload_keys(void);
/* Reads the file of keys again at each SIGHUP from now on, in a thread of its own. A file that
 * cannot be taken costs a line on stderr, which begins with program.
 * Returns: 0; -EAGAIN: no more threads.
 * Ownership: keeps program.
 * Threads: once, before all others are created, which then block the signal. */
int lend_reload_keys_on_hangup(const char *program);
/* Checks whether a session's peer proved, in this session's handshake, that it has a secret.
 * Returns: true: it did; false: it did not, or the session is stale or not up.
 * Ownership: borrows secret. */
bool lend_session_knows(struct lend_ep *ep, lend_session session, const char *secret);
/* Reads the tenant of a session: of the key that its peer proved, as the file of keys names it.
 * Returns: true; false: there is none, or it is longer than cap - 1 bytes; name is "" then.
 * Ownership: borrows name. */
bool lend_session_tenant(struct lend_ep *ep, lend_session session, char *name, size_t cap);
/* Writes the channel binding: 32 bytes that both ends of a session compute identically, different
 * for each session.
 * Returns: 0; -ESTALE: the session has ended, or is not up yet.
 * Ownership: borrows out.
 * Source: two SipHash-2-4-128 of what both ends know of the session. */
int lend_session_context(struct lend_ep *ep, lend_session session, uint8_t out[32]);

/* lend_call(3) - make calls.
 *
 * A call is a struct in the caller's memory. Fill in its method and request, start it, and run
 * turns until done has run.
 *
 * Threads: the endpoint's. */

/* One call. The runtime uses it from lend_call_start() until its done has begun. */
struct lend_call {
	uint32_t method;  /* number given to lend_serve() at the peer */
	uint8_t priority; /* 0: the parent's, or LEND_NORMAL; 1 to 8. Also used for the reply */
	/* 1: a 0-RTT call. The first call of a session may be part of the datagram that opens the
	 * session: the reply takes one round trip instead of two. No effect on later calls.
	 * Use it for a call that is safe to repeat, or if the caller checks ran. Like every call it
	 * runs at most once. But if the server restarted or lost the session meanwhile, it ends
	 * UNAVAILABLE, ran maybe, where another call would only have waited. Two conditions: the
	 * server has answered such a call of this endpoint, to the same address as text, in the
	 * last 15 s; request and head fit one datagram. A copied or forged datagram never makes a
	 * call run twice: a server remembers 0-RTT calls for as long as they could be replayed. */
	uint8_t zero_rtt;
	/* In: 1: this call passes on what the parent's message refers to; a message of
	 * lend_request_take() needs no such mark. Out: services that the message went through; 0:
	 * none ran. */
	uint8_t hops;
	/* 1: if no slot is free, the call waits for one in the session's queue, up to its deadline.
	 * The most urgent call gets the next slot, of equal ones the first. 0: -EAGAIN. */
	uint8_t queue;
	/* 1: the reply is the endpoint's: valid until done returns, read-only, and maybe in place,
	 * without a copy. lend_call_keep() makes it the caller's. No effect with landing memory,
	 * and in lend_call_sync(). LEND_CHAIN: the same, and it may be a chain of buffers: over shm
	 * each part is where the server has it, and the server may still write to it. 0, the
	 * default: the reply is the caller's, a copy that stays as it is after done, too. */
	uint8_t in_place;
	lend_ns timeout; /* 0: the parent's remaining time, or the endpoint's default; LEND_NEVER */
	/* The request that this call serves: the call ends no later, and is cancelled with it. id
	 * 0: none. */
	lend_request parent;
	/* The message, taken at start; NULL: empty. In done it is the caller's again, or NULL if a
	 * peer may still read it: then it goes to the pool. */
	struct lend_buf *request;
	/* In: landing memory for the reply, or NULL. Out: the reply, given back by the caller;
	 * never NULL with LEND_OK. If the reply is too long for that memory: RESOURCE_EXHAUSTED,
	 * ran yes, that memory with len 0, and reply_len. */
	struct lend_buf *reply;
	/* Runs exactly once, inside a turn; may start and end anything, and start this call again.
	 * May be NULL. */
	void (*done)(struct lend_call *call);
	enum lend_status status; /* in done; LEND_UNKNOWN from the start until then */
	enum lend_ran ran;       /* in done: whether the handler ran */
	uint64_t reply_len;      /* in done: bytes of the reply, also of one that was too long */
	/* In: the method's name, which sets method, and metadata: lend/metadata.h; NULL: none. */
	const struct lend_call_head *head;
	uint64_t reserved[8]; /* the runtime's; zero before the first start */
};
/* Starts a call. If it fails, done will not run.
 * Returns: 0; -EAGAIN: no free slot, wait for a call to end or set queue; -EMSGSIZE: the request is
 * longer than the peer takes; -ESTALE: the session or the parent is gone; -EALREADY: this call is
 * in progress; -EINVAL: a buffer is in use, no such priority, or a text of head is not UTF-8;
 * -E2BIG: head has more than config.head_max bytes; -EACCES: it has "authorization" metadata, and
 * the session is not over shm, to a process of this user; -ENOMEM: no memory, or too many buffers.
 * Ownership: borrows call until done begins; takes its request and its landing memory until then.
 * Borrows head and what it points to until it returns. After a failure nothing is taken. */
int lend_call_start(struct lend_ep *ep, lend_session session, struct lend_call *call);
/* Returns the text with which the server explained the status of a call that has ended. It is valid
 * in the call's done, and after lend_call_sync(). A server can write anything into it.
 * Returns: UTF-8, of lend_reply_why() at most 200 bytes; "": none was given.
 * Ownership: borrows call; the text is the endpoint's until another call ends. */
const char *lend_call_why(struct lend_ep *ep, const struct lend_call *call);
/* Cancels a call: ends it with LEND_CANCELLED unless it has ended. done still runs, once, in the
 * next turn.
 * Ownership: borrows call. */
void lend_call_cancel(struct lend_ep *ep, struct lend_call *call);
/* Keeps the reply of a call with in_place, in its done.
 * Returns: 0; -ENOMEM: no buffer for a copy is left, call->reply is unchanged.
 * Ownership: call->reply is the caller's from now on. */
int lend_call_keep(struct lend_ep *ep, struct lend_call *call);
/* Starts a call and runs turns until done.
 * Returns: 0, with the result in call->status; an error of lend_call_start(); -EDEADLK: inside a
 * turn; -EPERM: in the child of a fork.
 * Ownership: as lend_call_start(). */
int lend_call_sync(struct lend_ep *ep, lend_session session, struct lend_call *call);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
