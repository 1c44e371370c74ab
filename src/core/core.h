/* core - one endpoint of the protocol, as a pure state machine.
 *
 *   lend_core_input(now, datagrams) -->+-----------+--> lend_core_output(now)  datagrams to send
 *   lend_core_call, _reply, _cancel -->| lend_core |--> lend_core_next()       what happened
 *   lend_core_tick(now) -------------->+-----------+--> lend_core_deadline()   when to tick next
 *
 * Bytes and time go in; bytes, events and one deadline come out. A core makes no system call, reads
 * no clock, allocates nothing after init and never calls back, so the same object code runs over
 * DPDK, verbs, shared memory and test/sim, and a seed replays a run exactly.
 *
 * Memory: one flat arena without pointers; lend_core_hash() is its state. Buffers are handles; the
 * caller's table from handle to memory is an argument where bytes must be touched.
 * Threads: none. A core belongs to the one thread that calls it. Time: now never goes back.
 */
#ifndef LEND_CORE_CORE_H
#define LEND_CORE_CORE_H

#include <stddef.h>

#include "core/stats.h"
#include "util/dgram.h"

struct lend_core;
enum lend_event_kind {
	LEND_EV_SESSION_UP,   /* accepted here or there; tag tells which connect, 0 for an accept */
	LEND_EV_SESSION_DOWN, /* status says why; every call on it has already ended */
	LEND_EV_NEED,         /* a long message begins: attach memory for len bytes, or refuse */
	LEND_EV_REQUEST,      /* server: a whole request; answer with lend_core_reply() */
	LEND_EV_CANCELLED,    /* server: the caller no longer waits for this request */
	LEND_EV_REPLY_END,    /* server: exactly once per lend_core_reply(); buf is that reply */
	LEND_EV_CALL_END,     /* client: exactly once per lend_core_call(); status, ran, reply */
	LEND_EV_BUF_BACK,     /* buf was attached or supplied for a message that died */
	LEND_EV_PEER_KEEP,    /* the carrier must hold this peer's index */
	LEND_EV_PEER_DROP,    /* and may let it go */
	LEND_EV_PROVE, /* both handshake datagrams are known: answer with lend_core_prove() */
};

/* Every buffer that goes in comes out once, with an event. data is valid until the next input().
 */
struct lend_event {
	uint8_t kind;
	uint8_t status; /* gRPC's canonical code */
	uint8_t ran;    /* enum lend_ran: no, yes, maybe */
	uint8_t class;
	uint8_t maybe_queued; /* a carrier may still read buf: flush it first */
	uint32_t data_len;    /* of data: the whole message, or its first bytes with NEED */
	uint32_t method;
	uint32_t peer;    /* SESSION_*, PEER_*: carrier and index */
	uint64_t session; /* handle: index and generation, so that a stale one is caught */
	uint64_t call;    /* likewise */
	uint64_t tag;     /* as given to lend_core_call() or lend_core_connect(); PROVE: key id */
	uint64_t len;     /* of the message; CALL_END: of the reply, even if it was too long */
	/* Now the caller's; 0: none. CALL_END: the request; REQUEST: the message, in memory of its
	 * own; REPLY_END: the reply. */
	uint32_t buf;
	uint32_t reply;   /* CALL_END: memory with the reply, or attached for it; 0: none */
	const void *data; /* of one datagram, in place until the end of the turn; else NULL */
};

enum { LEND_CARRIERS_MAX = 4 };
/* A peer as the core names it: carrier in the top 4 bits, the carrier's own index below. */
#define LEND_PEER(carrier, index) ((uint32_t)(carrier) << 28 | (index))
#define LEND_PEER_CARRIER(peer)   ((peer) >> 28)
#define LEND_PEER_INDEX(peer)     ((peer)&0x0fffffffu)

/* Within a class: the message with least left first; the earliest deadline first; without classes,
 * as they came. */
enum lend_order { LEND_ORDER_SHORTEST, LEND_ORDER_DEADLINE, LEND_ORDER_FIFO };

struct lend_core_config {
	uint32_t sessions;     /* 1 .. 2^20 */
	uint32_t calls;        /* in flight per session and direction, 1 .. 1024 */
	uint32_t inflight;     /* calls in flight on the whole endpoint, per direction */
	uint32_t reassemblies; /* messages of several datagrams under way, per direction */
	/* By carrier; mtu 0: not there yet, see lend_core_path(). */
	struct lend_path path[LEND_CARRIERS_MAX];
	uint8_t incarnation[16]; /* of this process, as it names itself to clients */
	uint64_t message_max;    /* bytes; longer messages are refused */
	uint64_t receive_budget; /* bytes that peers may have granted at once */
	uint32_t unscheduled;    /* bytes that a session may send before a grant: 65536 */
	lend_ns probe, dead;     /* silence before a probe, before the end */
	uint8_t seed[32];        /* the only source of randomness */
	uint8_t congestion;      /* enum lend_cc, see cc.h */
	uint8_t order;           /* enum lend_order */
	/* See zero_rtt.h: how long a ticket lives, 0: none is given and none is used; and how many
	 * attempts that bore one are remembered at once, a power of two. */
	lend_ns pass;
	uint32_t attempts;
};

/* Bytes of memory that lend_core_init() needs, or 0 if the config is not valid. */
size_t lend_core_size(const struct lend_core_config *config);
/* Builds a core inside mem, cache-line aligned and zero; the caller keeps owning mem. Writes little
 * of it, however many sessions and calls there may be. */
struct lend_core *lend_core_init(void *mem, const struct lend_core_config *config, lend_ns now);
uint64_t lend_core_hash(const struct lend_core *core);
/* Sessions that can still begin, here or by a peer. */
uint32_t lend_core_sessions_free(const struct lend_core *core);
/* The lower halves of all calls' handles so far are below it. */
uint32_t lend_core_calls_top(const struct lend_core *core);
const struct lend_core_stats *lend_core_stats(const struct lend_core *core);

void lend_core_input(struct lend_core *core, lend_ns now, struct lend_bufs *bufs,
		     const struct lend_in *in, uint32_t n);
void lend_core_tick(struct lend_core *core, lend_ns now);
/* Fills out[0..cap) with what may be sent now, most urgent first; returns how many. */
uint32_t lend_core_output(struct lend_core *core, lend_ns now, struct lend_bufs *bufs,
			  struct lend_out *out, uint32_t cap);
/* Tells what became of them: full ones are offered again, dead peers' sessions end. */
void lend_core_sent(struct lend_core *core, const struct lend_out *out, uint32_t n);
/* A carrier was opened after init. */
void lend_core_path(struct lend_core *core, uint32_t carrier, const struct lend_path *path);
/* The next event in the order things happened, in place until the one after it is asked for; NULL:
 * none. */
const struct lend_event *lend_core_next(struct lend_core *core);
/* The earliest time at which tick() or output() would do something; LEND_NEVER when idle. */
lend_ns lend_core_deadline(const struct lend_core *core);

/* How a client names itself to one server, and the key that both ends are to prove (0: none). */
struct lend_core_self {
	uint8_t incarnation[16];
	uint64_t key_id;
};
/* 0 and *session usable at once: calls wait until it is up. self NULL: config.incarnation, no key.
 * -ENOSPC, -EHOSTUNREACH. A server without a free session ends it RESOURCE_EXHAUSTED. */
int lend_core_connect(struct lend_core *core, lend_ns now, uint32_t peer, uint64_t tag,
		      const struct lend_core_self *self, uint64_t *session);
/* The bytes that the proofs of an EV_PROVE are computed over, the same at both ends: CONNECT and
 * ACCEPT without numbers, cookie and tag. 0, or -ESTALE: the session has ended. */
enum { LEND_TRANSCRIPT = 408 };
int lend_core_transcript(struct lend_core *core, const struct lend_event *ev,
			 uint8_t out[LEND_TRANSCRIPT]);
struct lend_core_proof {
	uint8_t tag[16];     /* of the server, in ACCEPT: the core compares or sends it */
	uint8_t proof[16];   /* of the client, in PROOF: likewise */
	uint8_t binding[16]; /* see struct lend_core_names */
};
/* Answers an EV_PROVE in the same turn. proof NULL: the key is not known here; then a server
 * accepts without proof, and a client drops the ACCEPT. 0, or -ESTALE. */
int lend_core_prove(struct lend_core *core, lend_ns now, const struct lend_event *ev,
		    const struct lend_core_proof *proof);
/* The server of a session just made, by a name that outlives sessions: what is kept of it lets a
 * call ride on a later CONNECT (zero_rtt.h). Before the next output(). */
void lend_core_known(struct lend_core *core, uint64_t session, uint64_t name);
/* Ends its calls (CANCELLED) and says goodbye; SESSION_DOWN follows. */
void lend_core_disconnect(struct lend_core *core, uint64_t session);

struct lend_core_call {
	uint32_t method;
	uint8_t class;           /* 0 most urgent .. 7 */
	uint8_t early;           /* may ride on its session's CONNECT */
	lend_ns deadline;        /* LEND_NEVER: none */
	uint32_t request, reply; /* buffers; reply 0: delivered in place or through NEED */
	uint64_t tag;
};
/* Takes the buffers on success (0), none on -EAGAIN (no free slot), -EMSGSIZE or -ESTALE. */
int lend_core_call(struct lend_core *core, lend_ns now, uint64_t session, struct lend_bufs *bufs,
		   const struct lend_core_call *call, uint64_t *handle);
/* Calls of this class that a session may have at once: the last slots are kept for classes that are
 * more urgent than NORMAL, or as urgent. */
uint32_t lend_core_slots(const struct lend_core *core, uint8_t class);
/* Ends the call with this status (CANCELLED, say); CALL_END follows. A stale handle does nothing.
 */
void lend_core_cancel(struct lend_core *core, uint64_t call, uint8_t status);
/* Answers an EV_REQUEST, once. Always takes reply: it comes back with REPLY_END, at once when the
 * caller is gone (0 still). -ESTALE: no such request or answered before; reply is then not taken.
 */
enum { LEND_REPLY_NOT_RUN = 0x80 }; /* with a status: no handler ran */
int lend_core_reply(struct lend_core *core, lend_ns now, uint64_t call, struct lend_bufs *bufs,
		    uint8_t status, uint32_t reply);
/* Before `until` only control and what may pass by others goes out; a time in the past: all does.
 */
void lend_core_hush(struct lend_core *core, lend_ns until);
/* When the caller of this request stops waiting: a time, LEND_NEVER; 0 for a stale handle. */
lend_ns lend_core_request_deadline(const struct lend_core *core, uint64_t call);
/* The caller no longer waits, or the handle is stale. */
bool lend_core_request_cancelled(const struct lend_core *core, uint64_t call);
/* Who is at the other end: 0, or -ESTALE. incarnation is zeros until the session is up. */
int lend_core_session_peer(const struct lend_core *core, uint64_t session, uint32_t *peer,
			   uint8_t incarnation[16]);
/* Bytes of the longest message that the peer takes; the largest there is until the session is up; 0
 * for a stale session. */
uint64_t lend_core_session_message_max(const struct lend_core *core, uint64_t session);
/* What both ends of one session know, and no other session has. */
struct lend_core_names {
	uint64_t connect, client, server; /* the attempt; both ids */
	uint64_t key_id;     /* of the key that the peer proved to have; 0: it did not */
	uint8_t binding[16]; /* as lend_core_prove() got it */
};
/* 0; -ESTALE: it has ended, or is not up yet. */
int lend_core_session_names(const struct lend_core *core, uint64_t session,
			    struct lend_core_names *names);
struct lend_core_look {
	uint64_t sent, seen; /* datagrams: how many were sent; the newest of the peer's */
	lend_ns rtt, rtt_var;
	lend_ns gap;                /* from one datagram to the next, at least */
	uint32_t in_flight, window; /* datagrams since the oldest of a long message under way */
	uint32_t credit;            /* bytes that may go without a grant */
	uint32_t calls[2][8];       /* made here, served here; by class */
	uint64_t queued[8];         /* bytes that wait to be sent */
	uint64_t granted;           /* bytes that the peer may send and has not yet */
};
/* How a session is doing; O(calls of it). 0 or -ESTALE. */
int lend_core_look(const struct lend_core *core, uint64_t session, struct lend_core_look *look);
/* Answers an EV_NEED: memory of at least the announced length, or 0 to refuse (RESOURCE_EXHAUSTED).
 * Takes buf on success; it comes back with REQUEST or CALL_END, or with EV_BUF_BACK when the
 * message dies. -ESTALE: the message died meanwhile, buf is not taken. */
int lend_core_attach(struct lend_core *core, uint64_t call, struct lend_bufs *bufs, uint32_t buf);
/* When memory for NEED runs short, of `all` bytes. hoards(): whether the peer of this request has
 * more of it attached than its share (table_share.h): the rest is for others. yield(): ends long
 * requests of peers over their share, of which nothing comes, and raises this NEED once more behind
 * their EV_BUF_BACK; false: there were none. */
bool lend_core_hoards(struct lend_core *core, uint64_t call, uint64_t all);
bool lend_core_yield(struct lend_core *core, uint64_t call, struct lend_bufs *bufs);
/* Adds a buffer of at least config.unscheduled bytes, one segment, to the pool that messages of
 * several datagrams land in before (or instead of) memory of their own. Delivered ones leave with
 * REQUEST or CALL_END: keep lend_core_supply_wanted() at 0. */
uint32_t lend_core_supply_wanted(const struct lend_core *core);
void lend_core_supply(struct lend_core *core, uint32_t buf);

#endif
