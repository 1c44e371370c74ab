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

#include "core/counters.h"
#include "util/dgram.h"

struct lend_core;
enum lend_event_kind {
	LEND_EV_SESSION_UP, /* the session is accepted; tag: of lend_core_connect(), 0 for one that
			       was accepted here */
	LEND_EV_SESSION_DOWN, /* status is the cause; every call on it has already ended */
	LEND_EV_NEED,         /* a long message begins: attach memory for len bytes, or refuse it */
	LEND_EV_REQUEST,      /* server: a whole request; answer with lend_core_reply() */
	LEND_EV_CANCELLED,    /* server: the caller no longer waits for this request */
	LEND_EV_REPLY_END,    /* server: exactly once per lend_core_reply(); buf is that reply */
	LEND_EV_CALL_END,     /* client: exactly once per lend_core_call(); status, ran, reply */
	LEND_EV_BUF_BACK,     /* buf was attached or supplied for a message that was dropped */
	LEND_EV_PEER_KEEP,    /* the carrier must hold this peer's index */
	LEND_EV_PEER_DROP,    /* the carrier may release this peer's index: the session has ended */
	LEND_EV_PROVE, /* both handshake datagrams are known: answer with lend_core_prove() */
};

/* Every buffer given to the core is returned once, with an event. data is valid until the next
 * input(). */
struct lend_event {
	union {
		struct {
			uint8_t kind;
			uint8_t status; /* gRPC's canonical code */
			uint8_t ran;    /* whether the handler ran: enum lend_ran */
			uint8_t class;
			uint8_t maybe_queued; /* a carrier may still read buf: flush it first */
			uint8_t parts;        /* entries of part[]; 0: data is contiguous */
			uint8_t more_hops; /* CALL_END: as the server reports, up to 63; 0 without a
					      reply */
			uint8_t head; /* NEED, REQUEST, CALL_END: the message begins with a head,
					 as its datagrams state */
		};
		uint64_t what; /* all of them */
	};
	uint32_t data_len; /* bytes of data: the whole message, or its first bytes with NEED */
	uint32_t method;
	uint32_t peer;    /* SESSION_*, PEER_*: carrier and index; undefined in others */
	uint64_t session; /* handle: index and generation, so that a stale one is caught; undefined
			     in PEER_KEEP */
	uint64_t call; /* handle of the call: index and generation, so that a stale one is caught */
	/* tag: as given to lend_core_call() or lend_core_connect(); PROVE: key id. deadline of a
	 * REQUEST: when its caller stops waiting; LEND_NEVER: never. */
	union {
		uint64_t tag;
		lend_ns deadline;
	};
	uint64_t len; /* bytes of the message; CALL_END: of the reply, even if it was too long */
	/* Owned by the caller from now on; 0: none. CALL_END: the request; REQUEST: the message, in
	 * a buffer of its own; REPLY_END: the reply. */
	uint32_t buf;
	uint32_t reply; /* CALL_END: memory with the reply, or attached for it; 0: none */
	/* The message of one datagram, or the first bytes with NEED; valid until the turn ends;
	 * else NULL. A reply of one datagram with a head is here even if memory was named for it:
	 * that memory is unchanged. */
	union {
		const void *data;
		const struct lend_part *part;
	};
};

enum { LEND_CARRIERS_MAX = 4 };
/* A peer's number in the core: the carrier in the top 4 bits, the carrier's own index below. */
#define LEND_PEER(carrier, index) ((uint32_t)(carrier) << 28 | (index))
#define LEND_PEER_CARRIER(peer)   ((peer) >> 28)
#define LEND_PEER_INDEX(peer)     ((peer)&0x0fffffffu)

/* Order within a class: the message with the fewest bytes left first, or the earliest deadline
 * first. FIFO: in order of arrival, and without classes. FAIR: as shortest first, but peers that
 * send long messages to this endpoint get equal shares of its downlink. */
enum lend_order { LEND_ORDER_SHORTEST, LEND_ORDER_DEADLINE, LEND_ORDER_FIFO, LEND_ORDER_FAIR };
/* Which short messages take the fast path (coalesce.h, kept_reply.h): all that can, none, or half
 * of them, drawn from the seed. The last two are for tests. */
enum lend_fast { LEND_FAST_ALWAYS, LEND_FAST_NEVER, LEND_FAST_COIN };

struct lend_core_config {
	uint32_t sessions;     /* 1 .. 2^20 */
	uint32_t calls;        /* calls in flight per session and direction, 1 .. 1024 */
	uint32_t inflight;     /* calls in flight on the whole endpoint, per direction */
	uint32_t reassemblies; /* messages of several datagrams in reassembly, per direction */
	/* Sessions that may have up to 4,096 datagrams in flight at once, others have 256; each
	 * takes 86 KB when it does. */
	uint32_t wide_rings;
	/* By carrier; mtu 0: the carrier is not open yet, see lend_core_path(). */
	struct lend_path path[LEND_CARRIERS_MAX];
	uint8_t incarnation[16]; /* identity of this process, sent to clients */
	/* Bytes; longer messages are refused. Not counted: a head, and the first note_len bytes of
	 * a request of note_method, which precede a stream's message. */
	uint64_t message_max;
	uint32_t note_method, note_len;
	uint64_t receive_budget; /* bytes that peers may be granted at once, in total */
	uint32_t unscheduled;    /* bytes that a session may send before a grant: 65536 */
	lend_ns probe, dead;     /* time without a datagram before a keepalive probe, and before the
				    session ends */
	uint8_t seed[32];        /* the only source of randomness */
	uint8_t congestion;      /* enum lend_cc, see cc.h */
	uint8_t credits;         /* datagrams of a session in flight under timely; 0: 32 */
	uint8_t order;           /* enum lend_order */
	uint8_t fast;            /* enum lend_fast */
	uint8_t features; /* LEND_FEATURE_* of wire/head.h: what the caller of the core reads */
	/* 1: the caller opens and seals the datagrams of sealed sessions (LEND_PATTERN_NN and
	 * above), so the core reads and writes all of them in clear. */
	uint8_t sealed;
	uint8_t suites; /* bit s: suite s can be used here */
	/* See zero_rtt.h. ticket_ns: lifetime of a 0-RTT ticket; 0: tickets are not issued and not
	 * used. attempts: how many attempts with a ticket are remembered at once, a power of two.
	 */
	lend_ns ticket_ns;
	uint32_t attempts;
};

/* Returns the bytes of memory that lend_core_init() needs, or 0 if the config is not valid. */
size_t lend_core_size(const struct lend_core_config *config);
/* Builds a core inside mem, which is cache-line aligned and zero; the caller keeps owning mem.
 * Writes only a small part of it, whatever the number of sessions and calls. */
struct lend_core *lend_core_init(void *mem, const struct lend_core_config *config, lend_ns now);
uint64_t lend_core_hash(const struct lend_core *core);
/* Returns how many more sessions can be opened, by this core or by peers. */
uint32_t lend_core_sessions_free(const struct lend_core *core);
/* Returns an upper bound: the lower 32 bits of every request's handle so far are below it. */
uint32_t lend_core_calls_top(const struct lend_core *core);
/* Returns the number of requests of peers: received in part, being served, or with a reply that is
 * not acknowledged. */
uint32_t lend_core_requests(const struct lend_core *core);
const struct lend_core_stats *lend_core_stats(const struct lend_core *core);

void lend_core_input(struct lend_core *core, lend_ns now, struct lend_bufs *bufs,
		     const struct lend_in *in, uint32_t n);
/* Answers a datagram that could not be decoded, because its session has no keys here: with RESET if
 * there is no such session. in->data is a head. */
void lend_core_stray(struct lend_core *core, lend_ns now, const struct lend_in *in);
void lend_core_tick(struct lend_core *core, lend_ns now);
/* Fills out[0..cap) with the datagrams that may be sent now, most urgent first; returns their
 * number. */
uint32_t lend_core_output(struct lend_core *core, lend_ns now, struct lend_bufs *bufs,
			  struct lend_out *out, uint32_t cap);
/* Reports the outcome of each datagram of the last output(): those that the carrier had no room for
 * are offered again, sessions of dead peers end. */
void lend_core_sent(struct lend_core *core, const struct lend_out *out, uint32_t n);
/* Reports the bytes in the host's own queue below a carrier whose path counts them, see
 * host_queue.h. To be called before output() while host_queue_due(). */
void lend_core_host_queue(struct lend_core *core, lend_ns now, uint32_t carrier, uint64_t bytes);
bool lend_core_host_queue_due(const struct lend_core *core, uint32_t carrier);
/* Sets the path of a carrier that was opened after init. */
void lend_core_path(struct lend_core *core, uint32_t carrier, const struct lend_path *path);
/* Returns the address of the number of events that wait, for as long as the core exists. */
const uint32_t *lend_core_waiting(const struct lend_core *core);
/* Takes the oldest events, in order, and returns their number; 0: there are none. They are valid
 * until the next call of this function, of the one below, or of input(). */
uint32_t lend_core_events(struct lend_core *core, const struct lend_event **ev);
/* Takes the oldest event; NULL: there is none. */
const struct lend_event *lend_core_next(struct lend_core *core);
/* Returns the earliest time at which tick() or output() has work to do; LEND_NEVER when idle. */
lend_ns lend_core_deadline(const struct lend_core *core);

/* A client's identity towards one server, and the key that both ends are to prove (0: none). */
struct lend_core_identity {
	uint8_t incarnation[16];
	uint64_t key_id;
	/* enum lend_pkt_pattern, with a key; 0: LEND_PATTERN_PROOF. The others are of sealed
	 * sessions.
	 */
	uint8_t pattern;
	uint8_t suite, level, least;
	uint8_t loops; /* 1: the address is one of our own, so our CONNECT comes back to us */
	uint8_t zero[3];
};
/* Opens a session to a peer. Returns 0 and *session, which is usable at once: its calls wait until
 * the session is up. self NULL: config.incarnation, no key. Errors: -ENOSPC, -EHOSTUNREACH. If the
 * server has no free session, the session ends with RESOURCE_EXHAUSTED. */
int lend_core_connect(struct lend_core *core, lend_ns now, uint32_t peer, uint64_t tag,
		      const struct lend_core_identity *self, uint64_t *session);
/* What a server demands of a session. */
struct lend_core_policy {
	uint8_t suites; /* bit s: suite s will do */
	uint8_t least;  /* level; 0: sessions may be open */
};
/* Sets config.sealed, and config.suites, after init. */
void lend_core_set_suites(struct lend_core *core, uint8_t suites);
/* Judges a CONNECT by what it has in clear, before it is opened: our own one, a copy, one without a
 * cookie while cookies are demanded, or one against the policy is answered or dropped here. Returns
 * whether it is to be opened and passed to lend_core_input(). */
bool lend_core_screen(struct lend_core *core, lend_ns now, const struct lend_in *in,
		      const struct lend_core_policy *policy);
/* Returns a number for the sender's address, to which tickets and cookies are bound; 0: it has
 * none. If a carrier's addresses cannot be forged, all its peers share one number. */
uint64_t lend_core_address(const struct lend_core *core, const struct lend_in *in);
/* Sets the channel binding of a session whose handshake the caller has finished. */
void lend_core_bind(struct lend_core *core, uint64_t session, const uint8_t binding[16]);
/* Copies the secret of the ticket that a session's CONNECT carries. Returns false if there is none.
 */
bool lend_core_ticket_secret(struct lend_core *core, uint64_t session, uint8_t secret[32]);
/* Writes the bytes that the proofs of an EV_PROVE are computed over, the same at both ends: CONNECT
 * and ACCEPT without numbers, cookie and tag. Returns 0, or -ESTALE: the session has ended. */
enum { LEND_TRANSCRIPT = 408 };
int lend_core_transcript(struct lend_core *core, const struct lend_event *ev,
			 uint8_t out[LEND_TRANSCRIPT]);
struct lend_core_proof {
	uint8_t tag[16];     /* proof of the server, in ACCEPT: the core compares or sends it */
	uint8_t proof[16];   /* proof of the client, in PROOF: the core compares or sends it */
	uint8_t binding[16]; /* see struct lend_core_names */
};
/* Answers an EV_PROVE in the same turn. proof NULL: the key is unknown here; then a server accepts
 * the session without proof, and a client drops the ACCEPT. Returns 0 or -ESTALE. */
int lend_core_prove(struct lend_core *core, lend_ns now, const struct lend_event *ev,
		    const struct lend_core_proof *proof);
/* Sets the name of the server of a session just made. The name outlives sessions: a ticket stored
 * under it allows a 0-RTT call with a later CONNECT (zero_rtt.h). Call it before the next output().
 */
void lend_core_set_server(struct lend_core *core, uint64_t session, uint64_t name);
/* Closes a session: ends its calls (CANCELLED) and sends BYE; SESSION_DOWN follows. */
void lend_core_disconnect(struct lend_core *core, uint64_t session);

/* Combined with a class: the request begins with a head (wire/head.h). */
enum { LEND_CALL_HEAD = 0x20 };
struct lend_core_call {
	uint32_t method;
	uint8_t class;    /* 0 most urgent .. 7; with LEND_CALL_HEAD */
	uint8_t zero_rtt; /* may be sent with its session's CONNECT (0-RTT), without a head */
	lend_ns deadline; /* LEND_NEVER: none */
	uint32_t request, reply; /* buffers; reply 0: delivered in place or through NEED */
	uint64_t tag;
};
/* Starts a call. Takes the buffers on success (0); takes none on -EAGAIN (no free slot), -EMSGSIZE
 * or -ESTALE; -ENOTSUP: a head to a peer that reads none; if that is not known yet, the call ends
 * UNIMPLEMENTED, not run. */
int lend_core_call(struct lend_core *core, lend_ns now, uint64_t session, struct lend_bufs *bufs,
		   const struct lend_core_call *call, uint64_t *handle);
/* Returns how many calls of this class a session may have at once: the last slots are reserved for
 * NORMAL and more urgent classes. */
uint32_t lend_core_slots(const struct lend_core *core, uint8_t class);
/* Ends the call with this status, for example CANCELLED; CALL_END follows. A stale handle does
 * nothing. */
void lend_core_cancel(struct lend_core *core, uint64_t call, uint8_t status);
/* Answers an EV_REQUEST, once. 0: reply is taken and comes back with REPLY_END; at once if the
 * caller is gone, or if the reply was copied. -ESTALE: there is no such request, or it was answered
 * before. -EINVAL: a datagram would need too many segments of reply. -EMSGSIZE: reply is longer
 * than LEND_MESSAGE_MAX. -ENOTSUP: a head to a caller that reads none. On an error reply is not
 * taken. */
/* Combined with a status: no handler ran; the reply begins with a head. */
enum {
	LEND_REPLY_NOT_RUN = 0x80,
	LEND_REPLY_MAYBE = 0x40,
	LEND_REPLY_HEAD = 0x20,
	LEND_REPLY_STATUS = 0x1f /* the other bits */
};
int lend_core_reply(struct lend_core *core, lend_ns now, uint64_t call, struct lend_bufs *bufs,
		    uint8_t status, uint32_t reply);
/* Answers an EV_REQUEST with at most LEND_KEPT_MAX bytes without a head, which it copies. 0: done,
 * without any event. -EAGAIN: use lend_core_reply(); nothing was done. */
enum { LEND_KEPT_MAX = 64 };
int lend_core_reply_short(struct lend_core *core, lend_ns now, uint64_t call, uint8_t status,
			  const void *data, uint32_t len);
/* Sets how many hops beyond this one the message of a request went, at most LEND_HOPS_MAX. The
 * reply that follows reports it. A stale handle does nothing. */
enum { LEND_HOPS_MAX = 31 };
void lend_core_reply_hops(struct lend_core *core, uint64_t call, uint8_t more);
/* Withdraws a reply that is not acknowledged yet: REPLY_END gives its buffer back, and the caller
 * gets RESOURCE_EXHAUSTED, ran maybe, unless all of the reply was sent before. Does nothing for a
 * stale handle or before lend_core_reply(). */
void lend_core_withdraw(struct lend_core *core, lend_ns now, uint64_t call);
/* Pauses output: before `until`, sends only control datagrams and fast ones, which may overtake
 * others. A time in the past ends the pause. */
void lend_core_pause_bulk(struct lend_core *core, lend_ns until);
/* Cuts long messages that begin before `until` into datagrams of an eighth of the full length, so
 * that urgent datagrams wait for less at both ends. Datagrams of less than 8 KiB stay whole. */
void lend_core_cut_fine(struct lend_core *core, lend_ns until);
/* Returns whether the caller no longer waits, or the handle is stale. */
bool lend_core_request_cancelled(const struct lend_core *core, uint64_t call);
/* Returns the peer of a session and its incarnation, which is zeros until the session is up. 0, or
 * -ESTALE. */
int lend_core_session_peer(const struct lend_core *core, uint64_t session, uint32_t *peer,
			   uint8_t incarnation[16]);
/* Returns the length in bytes of the longest message that the peer accepts; the protocol's maximum
 * until the session is up; 0 for a stale session. */
uint64_t lend_core_session_message_max(const struct lend_core *core, uint64_t session);
/* Returns whether the peer of a session that is up reads heads of requests. */
bool lend_core_session_reads_heads(const struct lend_core *core, uint64_t session);
/* Returns the largest number of a datagram of this session that the peer has reported; 0: none. */
uint64_t lend_core_session_acked(const struct lend_core *core, uint64_t session);
/* Returns how many calls a session can have in each direction; 0: it has ended. */
uint32_t lend_core_session_calls(const struct lend_core *core, uint64_t session);
/* Values that both ends of a session know and that differ from those of every other session. */
struct lend_core_names {
	uint64_t connect, client, server; /* number of the attempt; ids at both ends */
	uint64_t key_id;                  /* id of the key that the peer has proven; 0: none */
	uint8_t binding[16];              /* channel binding, as passed to lend_core_prove() */
};
/* Fills *names. Returns 0; -ESTALE: the session has ended, or is not up yet. */
int lend_core_session_names(const struct lend_core *core, uint64_t session,
			    struct lend_core_names *names);
struct lend_core_sess_stats {
	uint64_t sent, seen; /* datagrams sent; number of the peer's newest datagram */
	lend_ns rtt, rtt_var;
	lend_ns gap;                /* minimum from one datagram to the next */
	uint32_t in_flight, window; /* datagrams since the oldest one of a long message in flight */
	uint32_t credit;            /* bytes that may be sent without a grant */
	uint32_t calls[2][8];       /* calls made here, calls served here; by class */
	uint64_t queued[8];         /* bytes that wait to be sent */
	uint64_t granted;           /* bytes granted to the peer that have not arrived */
};
/* Fills *look with the state of a session; O(its calls). Returns 0 or -ESTALE. */
int lend_core_sess_stats(const struct lend_core *core, uint64_t session,
			 struct lend_core_sess_stats *look);
/* Answers an EV_NEED with memory of at least the announced length, or with 0 to refuse the message
 * (RESOURCE_EXHAUSTED). Takes buf on success; buf is returned with REQUEST or CALL_END, or with
 * EV_BUF_BACK if the message is dropped. -ESTALE: the message was dropped meanwhile, buf is not
 * taken. */
int lend_core_attach(struct lend_core *core, uint64_t call, struct lend_bufs *bufs, uint32_t buf);
/* For use when memory for NEED, `all` bytes in total, runs short. defer(): asks for 32 KiB of
 * this request first, for which it has a buffer, and raises NEED again when they are
 * here; so a request that is begun and not continued takes no memory of its own. Returns false if
 * they are here, or the handle is stale. over_share(): returns whether the peer of this request has
 * more memory attached than its share (table_share.h); the rest is reserved for other peers.
 * reclaim(): ends long requests of peers above their share, if no data arrives for them any more,
 * and raises this NEED again after their EV_BUF_BACK; returns false if there were none. */
bool lend_core_defer(struct lend_core *core, uint64_t call);
bool lend_core_over_share(struct lend_core *core, uint64_t call, uint64_t all);
bool lend_core_reclaim(struct lend_core *core, uint64_t call, struct lend_bufs *bufs);
/* Adds a buffer of at least config.unscheduled bytes, one segment, to the pool that messages of
 * several datagrams land in before (or instead of) memory of their own. Buffers of delivered
 * messages leave the pool with REQUEST or CALL_END: call supply() until supply_wanted() returns 0.
 */
uint32_t lend_core_supply_wanted(const struct lend_core *core);
void lend_core_supply(struct lend_core *core, uint32_t buf);

#endif
