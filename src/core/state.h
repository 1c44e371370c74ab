/* state - the tables of a core and their entries. arena.h has the access functions.
 *
 * One arena holds everything. Tables are at offsets kept in struct lend_core and refer to each
 * other by index, so the arena can be copied, compared and hashed as bytes. The part after `hashed`
 * (counters, events, the heads of the datagrams being sent) does not belong to the state.
 *
 * Layer: core (pure), private to it. Threads: none. */
#ifndef LEND_CORE_STATE_H
#define LEND_CORE_STATE_H

#include <string.h>

#include "core/cc.h"
#include "core/core.h"
#include "core/frags.h"
#include "core/output.h"
#include "core/pools.h"
#include "core/fair_share.h"
#include "util/bits.h"
#include "util/list.h"
#include "util/index_pool.h"
#include "util/prioq.h"
#include "wire/pkt.h"

enum {
	LEND_MANY = 1024,                    /* sessions that the caches cannot hold */
	LEND_RING = 256,                     /* datagrams of long messages in flight per session */
	LEND_WIDE_RING = LEND_CC_WINDOW_MAX, /* the same on a path that holds more */
	LEND_FEW = 16, /* datagrams of long messages in flight in a session without a ring; nearly
			  all sessions have none */
	LEND_RINGS = 512,    /* sessions with a ring at once; others are slower */
	LEND_SLOT_RUN = 8,   /* adjacent slots of a session */
	LEND_ACK_EVERY = 16, /* data datagrams per acknowledgement, at most */
	LEND_ACK_GAP = 4,    /* the same while a fragment is missing */
	/* Replies of one datagram per acknowledgement, at most. A report's map of 64 numbers then
	 * covers these and one more burst. */
	LEND_ACK_SHORT = 33,
	LEND_ACK_DELAY_MS = 20, /* ms that a reply's ACK may wait, as on a lossless carrier */
	LEND_REORDER = 3,       /* numbers below a PROBE's that may still arrive */
	LEND_CTL = 1024, /* control datagrams in the queue; more are dropped, and requested again */
	LEND_OUT = 64,   /* datagrams per lend_core_output() */
	LEND_PIECES = 4, /* segments of a message in one datagram, as in struct lend_out */
	LEND_OVERRUNS_MAX = 16, /* datagrams beyond the grant that end a session */
	LEND_EAGER = 16384,     /* unscheduled bytes of a message that waits for a grant */
};

/* For short functions that every call runs through: always inlined. */
#define LEND_HOT static inline __attribute__((always_inline))

/* For conditions that mostly do not hold: without it, code behind many of them counts as cold. */
#define LEND_RARE(condition) __builtin_expect(condition, 0)

#define LEND_US           UINT64_C(1000)
#define LEND_MS           UINT64_C(1000000)
#define LEND_SENT_UNIT    UINT64_C(64)  /* ns per unit of the times in struct lend_sent_rec */
#define LEND_RTO_MIN      (1 * LEND_MS) /* least RTO: longer than the pauses of a busy thread */
#define LEND_RTO_MAX      (100 * LEND_MS)
#define LEND_RTO_FIRST    (5 * LEND_MS)  /* RTO before the first RTT sample */
#define LEND_RTO_LOSSLESS (20 * LEND_MS) /* there, the timer only sends a PROBE */
#define LEND_RTT_BITS     14
#define LEND_REPORT       (20 * LEND_US) /* longest delay of a report to the peer */
/* Interval of the PINGs that ask for parked calls: less than the usual cfg.probe, so that the
 * server sends none of its own. */
#define LEND_PARKED_PING (400 * LEND_MS)
#define LEND_GRANT_BYTES (UINT64_C(1) << 20)
#define LEND_INDEX_MASK                                                                            \
	((UINT64_C(1) << 24) - 1) /* index part of a session's id; the rest is random */

/* gRPC's canonical codes and `ran`, as include/lend/rpc.h numbers them. */
enum {
	OK = 0,
	CANCELLED = 1,
	DEADLINE_EXCEEDED = 4,
	RESOURCE_EXHAUSTED = 8,
	UNIMPLEMENTED = 12,
	UNAVAILABLE = 14,
	UNAUTHENTICATED = 16
};
enum { RAN_NO, RAN_YES, RAN_MAYBE };
enum { STATUS_MAX = 16, UNKNOWN = 2 };
/* Linux's numbers: <errno.h> is not a pure header. */
enum { E_AGAIN = -11, E_INVAL = -22, E_NOSPC = -28 };
enum { E_MSGSIZE = -90, E_NOTSUP = -95, E_HOSTUNREACH = -113, E_STALE = -116 };

/* An outgoing message. */
struct lend_tx {
	uint32_t buf;     /* handle of its chain; 0: empty message */
	uint32_t len;     /* bytes */
	uint32_t total;   /* fragments, at least 1 */
	uint32_t next;    /* first fragment never sent */
	uint32_t low;     /* all below have arrived */
	uint32_t granted; /* bytes that may be sent */
	uint32_t resend;  /* fragments marked in the window's resend map */
	uint32_t win;     /* index into windows; LEND_NONE for a message of one fragment */
	uint32_t charged; /* unscheduled credit of the session it holds */
	uint32_t seg;     /* cursor: handle of a segment of the chain */
	uint32_t base;    /* cursor: offset in the message where that segment begins */
	uint32_t since;   /* datagrams with smaller numbers do not count, see lend_tx_restart() */
	struct lend_link ready;
	uint32_t fine; /* 1: cut into shorter datagrams; valid while win is */
};

/* Bits by fragment % LEND_FRAGS_WINDOW, valid in [low, low + WINDOW). */
struct lend_win {
	uint64_t acked[LEND_FRAGS_WINDOW / 64];
	uint64_t resend[LEND_FRAGS_WINDOW / 64];
};

/* State of a message for which memory was missing. */
enum lend_memq_state {
	LEND_MEMQ_NONE,
	LEND_MEMQ_WAITS,  /* the message waits in the memory queue, and its sender must wait */
	LEND_MEMQ_NOTIFY, /* the message has memory now, and its sender must be notified */
};

/* An incoming message of several fragments, or into memory that waits for it. */
struct lend_rx {
	uint32_t buf;        /* handle of its memory; 0: none yet */
	uint32_t len;        /* bytes; valid while frags is */
	uint32_t frags;      /* index into reassemblies; LEND_NONE: no fragment arrived yet */
	uint32_t granted;    /* bytes offered to the sender */
	uint32_t charged;    /* bytes of the receive budget: granted and not yet here */
	uint32_t got;        /* bytes that have arrived */
	uint32_t credit;     /* bytes of the window of grant.h: granted and not yet here */
	uint32_t asked_from; /* first byte of the grant that is being timed */
	lend_ns asked;       /* time when that grant was made; 0: none is being timed */
	uint8_t pooled;      /* buf is from the supplied pool */
	uint8_t needed;      /* NEED was raised and not yet answered */
	uint8_t memq_state;  /* enum lend_memq_state */
	uint8_t attached;    /* buf was given for this message */
	uint32_t seg, base;
	uint8_t evictions; /* times that it was evicted for others */
	uint8_t behind; /* 1: it waits behind messages of peers that hold less, see table_share.h */
	uint8_t yields; /* 1: its grants wait behind those of other peers, see grant.h */
	uint8_t deferred; /* 1: gets its memory only when half of the supplied buffer is full */
	lend_ns last;     /* arrival of the newest fragment */
	struct lend_link memq_link; /* link in a queue for budget or memory */
	struct lend_link partial;
	/* 1: cut into shorter datagrams; valid while frags is, or the message waits for memory */
	uint32_t fine;
};

enum lend_call_state {
	/* client: QUEUED -> OPEN -> (freed) | DRAINING -> (freed) */
	LEND_CALL_FREE,
	LEND_CALL_QUEUED,   /* no byte of it was sent */
	LEND_CALL_OPEN,     /* sending, waiting or receiving the reply */
	LEND_CALL_DRAINING, /* ended here; the slot waits for GONE */
	/* server: PARTIAL -> RUNNING -> REPLYING -> (freed), RUNNING -> ORPHAN -> (freed) */
	LEND_CALL_PARTIAL,
	LEND_CALL_RUNNING,
	LEND_CALL_REPLYING,
	LEND_CALL_ORPHAN, /* the handler runs, the caller does not wait */
};

/* Marks of a call. ZERO_RTT: it may be sent with its session's CONNECT. HEAD_OUT: the message sent
 * begins with a head; HEAD_IN: the message received in part does. REPEATED: the request was sent
 * before its last frame. */
enum {
	LEND_MARK_ZERO_RTT = 1,
	LEND_MARK_HEAD_IN = 2,
	LEND_MARK_REPEATED = 4,
	LEND_MARK_HEAD_OUT = LEND_PKT_WITH_HEAD
};

/* Four cache lines; a call of short_call.h touches the first three. */
struct lend_call_rec {
	uint32_t gen;  /* generation of the record; with the index, it is the handle */
	uint32_t self; /* index of this record; never changes */
	uint64_t sess_id;
	uint32_t sess; /* index of its session; an orphan's may have been reused: see sess_id */
	uint32_t wire; /* number of the call on the wire: slot and sequence */
	union {
		struct {
			uint8_t state; /* enum lend_call_state */
			uint8_t class;
			uint8_t tries; /* timer expiries since the last progress */
			uint8_t server : 1;
			uint8_t fast : 1;      /* its datagrams may overtake others */
			uint8_t in_window : 1; /* client: counts in its session's window */
			uint8_t whole : 1;     /* client: the server has all of the request */
			uint8_t received : 1;  /* rx was used; else only rx.granted is valid */
			uint8_t cancelled : 1; /* server: the caller no longer waits */
			uint8_t refused : 1;   /* server: answered by the core, so no REPLY_END */
			uint8_t shared : 1;    /* the outgoing message: see lend_tx_is_shared() */
		};
		uint32_t phase; /* all of them, for short_call.h */
	};
	uint32_t method;
	union {
		struct {
			uint8_t status, ran; /* of the call, from the reply */
			uint8_t ack_queued;
			uint8_t waits;  /* tx.ready is a link of its session's waiting list; see
					   LEND_WAITS_* */
			uint8_t queue;  /* the ready list that it is on */
			uint8_t paused; /* the receiver has no memory: nothing is sent until it has
					   some */
			uint8_t marks;  /* LEND_MARK_* */
			uint8_t more_hops; /* server: hops that the reply reports */
		};
		uint64_t rare; /* all of them: 0 in most calls */
	};
	uint64_t number; /* number of the datagram sent or received at `stamp` */
	lend_ns stamp;   /* client: last transmission; server: arrival that completed the request */
	lend_ns deadline;

	lend_ns timer; /* client: next retransmission or PROBE; server: last ACK of the reply */
	union {
		uint64_t tag;   /* client */
		uint64_t sslot; /* server: position of its slot, see lend_slot_position() */
	};
	uint32_t reply_cap; /* client: bytes of room in rx.buf, when attached */
	uint32_t serial;    /* of a handle that names the slot; 0: it names this record */
	struct lend_tx tx;
	struct lend_rx rx;
	uint32_t spare[2];
};
_Static_assert(offsetof(struct lend_call_rec, timer) == 64, "a line");
_Static_assert(sizeof(struct lend_call_rec) == 256, "four cache lines");

/* Calls with datagrams to send: a queue per class and size of the rest, see sched.h. */
enum { LEND_CLASSES = 8, LEND_SIZES = 8, LEND_SCHED_QUEUES = LEND_CLASSES * LEND_SIZES };
struct lend_ready {
	struct lend_list queue[LEND_SCHED_QUEUES];
	uint32_t n, single_n, single_queue; /* n: calls in queue and single */
	uint32_t single[LEND_OUT]; /* fast path: equal calls of one datagram, while no other call is
				     ready */
	struct lend_fair_share classes, sizes[LEND_CLASSES];
};

/* Messages that wait for memory or budget, see memory_queue.h. */
struct lend_memq {
	struct lend_list of[LEND_CLASSES];
	struct lend_fair_share share;
	uint32_t n;
};

/* Values of a slot's record index without a record. REFUSED: no record was free for the request.
 * RELEASED: the reply's record was released before the caller acknowledged the reply. A repetition
 * of the request is answered accordingly, see table_share.h. KEPT: the slot has the reply, see
 * kept_reply.h. SHORT: the slot is the call, see short_call.h. */
#define LEND_SLOT_REFUSED  (LEND_NONE - 1)
#define LEND_SLOT_RELEASED (LEND_NONE - 2)
#define LEND_SLOT_KEPT     (LEND_NONE - 3)
#define LEND_SLOT_SHORT    (LEND_NONE - 4)

/* Returns whether this value of a slot's record index names no call. */
static inline bool lend_slot_is_empty(uint32_t rec)
{
	return rec >= LEND_SLOT_KEPT;
}

/* The slot of a call that this end makes. The fields from method on are those of a short call. */
struct lend_cslot {
	union {
		struct {
			uint32_t seq; /* sequence of the last call made */
			/* record of its call; LEND_SLOT_SHORT; LEND_NONE: the slot is free */
			uint32_t rec;
		};
		uint64_t place; /* both */
	};
	/* Of the last short call. The upper half counts them modulo 2^32, and is 0 only before the
	 * first. */
	uint64_t handle;
	union {
		struct {
			uint32_t method;
			uint16_t len; /* of the request */
			uint8_t class, fast;
		};
		uint64_t kind; /* all of them */
	};
	uint64_t number; /* of the datagram with its request */
	lend_ns stamp;   /* when that was written */
	lend_ns deadline;
	uint64_t tag;
	union {
		struct { /* request; bytes of the reply that may be sent at once */
			uint32_t buf, grant;
		};
		uint64_t memory; /* both */
	};
};
_Static_assert(sizeof(struct lend_cslot) == 64, "a line");

struct lend_sslot {
	uint64_t number; /* largest ever seen on this slot */
	uint32_t seq;
	uint32_t rec; /* LEND_NONE: the call has ended; or LEND_SLOT_* */
	/* The reply that the slot keeps; its bytes are in a table of their own. */
	lend_ns arrived; /* arrival of the request; LEND_NEVER: it yields no sample of the RTT */
	union {
		struct {
			uint8_t status, ran;
			uint8_t class;
			uint8_t len;
			uint8_t queued; /* the reply is in the control queue */
			uint8_t zero[3];
		};
		uint64_t kept; /* all of them */
	};
};
_Static_assert(sizeof(struct lend_sslot) == 32, "two in a line");

struct lend_sent_rec {
	uint32_t call;   /* record index */
	uint32_t gen;    /* generation of that record; 0: acknowledged or not needed */
	uint32_t frag;   /* LEND_SENT_LOST: declared lost, but it may still be reported */
	uint32_t number; /* its low bits: the entry may belong to an earlier round */
	uint32_t when;   /* in units of 64 ns, wrapping after more than four minutes */
};

#define LEND_SENT_LOST (UINT32_C(1) << 31)

/* Records of what the newest numbers of a session carried, by number modulo LEND_RING. */
struct lend_ring {
	struct lend_sent_rec sent[LEND_RING];
	uint8_t class_of[LEND_RING]; /* valid while a long message is in flight and may be lost */
};

/* The same, by number modulo LEND_WIDE_RING. */
struct lend_wide_ring {
	struct lend_sent_rec sent[LEND_WIDE_RING];
	uint8_t class_of[LEND_WIDE_RING];
};

/* See reorder.h. */
struct lend_reorder {
	uint32_t window; /* ns; 0: the least */
	uint32_t trip;   /* newest RTT sample, ns */
	lend_ns at;      /* when the window was last needed or decayed */
	lend_ns episode; /* when datagrams were last declared lost */
	uint32_t undo; /* congestion window before the losses of this episode; 0: none may return */
	uint32_t lost, needless; /* datagrams of the episode; those of them that had arrived */
	uint32_t came; /* receiver: datagrams of granted messages that arrived, at most 256, less
			  those that counted as missing */
	/* Receiver: bit i: number late_base - i arrived late. */
	uint64_t late_base, late_map;
	uint64_t settled; /* receiver: numbers up to this one are counted if they are missing */
};

/* Measurements of a session's path, see flight.h. */
struct lend_flight {
	uint64_t round;  /* the round ends when this number or a larger one is reported */
	lend_ns began;   /* of the round */
	lend_ns trip_at; /* when `trip` was measured */
	uint32_t trip;   /* smallest RTT, ns; 0: unknown */
	uint32_t fresh;  /* the smallest of a drained queue; 0: none */
	uint32_t out;    /* datagrams of long messages in flight; may be too high after a timeout */
	uint32_t acked, lost; /* those reported, and declared lost, in this round */
	uint32_t rate[2]; /* datagrams per second: the largest since the last change, and before */
	uint32_t limit;   /* datagrams in flight; UINT32_MAX: no rate is known */
	uint8_t rounds;   /* rounds that the limit held back since the last change */
	uint8_t flat;     /* rounds held back in a row without a higher rate */
	uint8_t calm;     /* rounds left without more in flight than the path holds */
	uint8_t drain;    /* rounds left in which the queue drains */
	bool held;        /* the limit held back a datagram in this round */
};

/* The host's own queue below a carrier, see host_queue.h. */
struct lend_host_queue {
	uint64_t queued;   /* bytes as last reported, and those of long messages sent since */
	uint64_t limit;    /* largest `queued`; 0: the carrier reports none */
	uint64_t least;    /* least bytes left in this period when messages had waited */
	uint64_t rate;     /* bytes per second */
	lend_ns at, moved; /* last report; last progress; or later: begin of the queue */
	uint32_t rounds;   /* times in this period that messages waited */
	uint32_t held;     /* 1: a message has waited since a long one was sent last */
};

/* What loss detection keeps of a session. One that makes only short calls never touches it, so it
 * is not initialised when the session opens. */
struct lend_few {
	/* As in struct lend_ring, by number modulo LEND_FEW: of a session without a ring. */
	struct lend_sent_rec sent[LEND_FEW];
	uint8_t class_of[LEND_FEW];
	/* By class: the largest number of this class or a less urgent one that the peer has seen.
	 * Numbers of more urgent classes do not count, because they may have overtaken it. Valid
	 * while a long message is in flight and may be lost. */
	uint64_t passed[LEND_CLASSES];
	struct lend_reorder reorder; /* valid if lend_sess.has_reorder is set */
	struct lend_flight flight;   /* valid if lend_sess.has_flight is set */
};

enum lend_sess_state {
	/* FREE -> CONNECTING -> UP -> CLOSING -> FREE at the client; FREE -> HALF -> UP ... at the
	   server */
	LEND_SESS_FREE,
	LEND_SESS_CONNECTING,
	LEND_SESS_HALF, /* accepted, address not proven */
	LEND_SESS_UP,
	LEND_SESS_CLOSING, /* BYE is being retransmitted; SESSION_DOWN was raised */
};

/* A short call touches only the first three cache lines. */
struct lend_sess {
	uint64_t id, peer_id; /* index in the low 24 bits, random above */
	uint32_t peer;
	uint32_t payload;
	uint8_t state;
	uint8_t ack_due; /* a reply of one datagram waits to be acknowledged */
	uint8_t lossless : 1;
	uint8_t client : 1;      /* made by lend_core_connect() */
	uint8_t bye_taken : 1;   /* the carrier took a BYE */
	uint8_t ctl_waits : 1;   /* a CONNECT, BYE or PROOF of it is in the control queue */
	uint8_t lingers : 1;     /* counts as a session with calls, see kept_reply.h */
	uint8_t has_blocked : 1; /* calls wait until the carrier has room */
	uint8_t has_reorder : 1; /* its struct lend_reorder is initialised */
	uint8_t coalesced;       /* index of its newest datagram of coalesce.h */
	uint16_t frame_limit;    /* requests shorter than this fit a frame; 0: none does */
	uint16_t predicted;      /* most bytes of frames in a datagram of lend_short_input() */
	uint64_t number;         /* number of the next datagram to send */
	uint64_t seen, seen_map;
	lend_ns seen_at;

	uint64_t oldest; /* lower numbers are not in flight; == number: no long message is */
	lend_ns last_rx;
	lend_ns timer;      /* as timer.h has it; LEND_NEVER: not on the wheel */
	lend_ns blocked[2]; /* backpressure: until then the carrier counts as full, [1]: for fast
			       ones; 0: it is not full */
	uint32_t pto_min;   /* ns: least pto */
	uint32_t peer_line; /* its struct lend_peer, in lines of 64 bytes from the core on */
	uint32_t pto;       /* first timeout of a call, derived from srtt, rttvar and pto_min */
	uint32_t ecn;
	uint32_t first_sent; /* bytes of a long message that the peer may send before a grant */
	uint16_t limit;      /* limit of calls in flight per direction, agreed by both ends */
	uint8_t zero;
	uint8_t level; /* bits of the largest slot used lately, see request_window.h */

	uint64_t slots;    /* bit set: client slot free; of slots from 64 on see lend_slots_at() */
	lend_ns ack_timer; /* when the pending ACK is sent; LEND_NEVER: none is pending */
	uint32_t srtt, rttvar;    /* ns */
	struct lend_list waiting; /* calls that wait for credit or for the carrier */
	struct lend_list queue;   /* requests that wait for the window */
	uint32_t ring; /* index, see sent_ring.h; LEND_NONE: none, its struct lend_few is used */
	uint16_t cslots, sslots; /* slots that were set up; slots from here on were never used */
	int16_t room;            /* requests that the window has room for, less those in `queue` */
	uint16_t calls;          /* open calls without orphans; found by lend_sess_next_call() */
	uint16_t unplaced;       /* calls in slots above the limit, which wait for one below */
	uint8_t window;          /* code of the request window, see request_window.h */
	uint8_t rtt_at;          /* time of the newest RTT sample, see lend_loss_rtt_first() */

	uint64_t acked;        /* largest number the peer has seen */
	uint64_t acked_map;    /* bit i: the peer has seen acked - 1 - i as well, and reported it */
	uint64_t loss_checked; /* lower numbers of replies of one datagram were checked for loss */
	uint32_t unacked;      /* fragments and short replies since the last acknowledgement */
	uint32_t first;        /* bytes of a long message that we may send before a grant */
	uint32_t reads; /* shortest message that the peer reads in our shared memory; 0: none */
	uint32_t message_max;
	uint16_t orphans;
	uint8_t strikes; /* datagrams beyond the grant, at most LEND_OVERRUNS_MAX */
	uint8_t ctl_tries;
	uint8_t features;  /* of the peer: LEND_FEATURE_* */
	uint8_t zero_rtt;  /* server: enum lend_pkt_zero_rtt, for ACCEPT */
	uint16_t incoming; /* number of its partly received messages */
	uint32_t hs;       /* index of its struct lend_hs; LEND_NONE: the handshake is over */
	uint32_t by_attempt, by_peer; /* next in the hash chains */
	uint16_t pace_slot;
	uint8_t doubts;         /* sealed: PINGs since an unproven RESET; 0: there was none */
	uint8_t sealed : 1;     /* its datagrams are authenticated before the core gets them */
	uint8_t has_flight : 1; /* its struct lend_flight is initialised */

	struct lend_cc_state cc;
	uint32_t unscheduled_used; /* by messages of several datagrams */
	/* When to ask for requests that the last report lacks, in units of LEND_SENT_UNIT; 0:
	 * never. */
	uint32_t ask_at;
	lend_ns pace;           /* no datagram of a long message before this time */
	struct lend_link paced; /* link in a slot of the wheel of pace.h */
	union {
		struct lend_link half;  /* half-open sessions of unproven addresses */
		struct lend_link waits; /* sessions with calls that wait for their peer's window */
	};
	lend_ns last_ping;
	lend_ns ctl_timer;    /* next retransmission of CONNECT, PROOF or BYE */
	uint32_t block_ns[2]; /* length of the wait in `blocked`; valid while that is not 0 */
	uint64_t name; /* zero_rtt.h: of the server; at the server, of the client's address */
	uint64_t tag;
	uint64_t connect;        /* number of the attempt */
	uint64_t key_id;         /* id of the key that the peer has proven; 0: none */
	uint8_t binding[16];     /* hash of both handshake datagrams, as the runtime computed it */
	uint8_t incarnation[16]; /* incarnation of the peer; zero until it is known */
	uint32_t unscheduled;    /* bytes of long messages that may be in flight without a grant */
	uint32_t probed;         /* when that last expired, in units of LEND_SENT_UNIT; 0: never */
};
_Static_assert(offsetof(struct lend_sess, oldest) == 64, "a line");
_Static_assert(offsetof(struct lend_sess, slots) == 128, "a line");
_Static_assert(offsetof(struct lend_sess, acked) == 192, "a line");
_Static_assert(sizeof(struct lend_sess) == 7 * 64, "a session is to stay small");

/* Sessions with calls of one level, see request_window.h. */
enum { LEND_WINDOW_LEVELS = 11 };
struct lend_window_level {
	uint32_t n;
	uint32_t low, span; /* the shares are valid while low <= n <= low + span */
};

struct lend_core {
	struct lend_core_config cfg;
	struct lend_grants grants;
	size_t hashed; /* bytes of state from the start of the arena */
	size_t size;
	size_t at_sess, at_calls, at_frags, at_wins, at_cslot, at_sslot, at_kept, at_supply, at_ctl;
	size_t at_free_sess, at_free_calls, at_free_frags, at_free_wins, at_timers;
	size_t at_rings, at_wide, at_free_wide, at_few, at_slots, at_free_rings, at_hs, at_free_hs;
	size_t at_by_attempt, at_by_peer, at_pace, at_zero_rtt, at_grant_heap, at_grant_heap_at,
	    at_unhashed, at_coalesced, at_peers, at_peer_hash, at_free_peers;
	struct lend_pool free_sess, free_calls, free_frags, free_wins, free_rings, free_wide,
	    free_hs, free_peers;
	struct lend_list idle_peers; /* entries without a session, the oldest first */
	uint32_t records;            /* number of call records: cfg.inflight for each direction */
	uint32_t used[2];            /* records in use by client, server */
	uint32_t buckets;            /* power of two */
	uint32_t timers;             /* number of sessions on the wheel of timer.h */
	uint32_t supply_n, supply_cap;
	uint32_t ctl_head, ctl_n;
	uint32_t exchanges; /* CONNECT and ACCEPT of sealed sessions in this event-loop iteration */
	uint32_t charged;   /* sealed CONNECTs since charged_at, see cookie.h */
	lend_ns charged_at;
	uint32_t fed; /* 1: memory or budget came back since the last tick */
	struct lend_window_level levels[LEND_WINDOW_LEVELS];
	/* Shares of a session by its level, as window codes: of our receive capacity; of what our
	 * own calls may use. */
	uint8_t share_sent[LEND_WINDOW_LEVELS], share_own[LEND_WINDOW_LEVELS];
	uint8_t shares_old; /* these are to be computed again */
	uint8_t fast;       /* enum lend_fast, see kept_reply.h */
	uint8_t joins;      /* a carrier sends adjacent datagrams of equal length as one */
	uint8_t in_burst;   /* a burst is open, see short_burst.h */
	/* Whether the last datagram with calls, and the last one with replies, had several. */
	uint8_t several[2];
	uint64_t budget_used;
	uint64_t connects, connects_first; /* attempt numbers: newest; random first one */
	lend_ns now;
	uint64_t drawn; /* random words drawn from the seed */
	struct lend_ready ready;
	struct lend_memq budget_queue;    /* messages that wait for receive budget */
	struct lend_memq memory_queue[2]; /* waiting for memory: [0] without, [1] with a buffer */
	uint32_t served; /* the call that waits for budget and is being served; LEND_NONE: none */
	struct lend_list partials; /* calls with a reassembly, the one checked longest ago first */
	struct lend_list half;
	uint32_t half_max;
	uint32_t paced_n;   /* number of sessions that wait on the wheel of pace.h */
	uint64_t pace_tick; /* the wheel's slots before this one are empty */
	lend_ns fine_until; /* messages that begin before this time are cut into short datagrams */
	lend_ns bulk_paused_until;  /* before this time only control and fast datagrams are sent */
	struct lend_memq behind[2]; /* peers over their share: waiting for budget, for memory */
	struct lend_fair fair[LEND_FAIR_KINDS];
	uint64_t memory; /* bytes that long requests share, see lend_core_over_share() */
	uint32_t
	    share_threshold; /* number of the server's records in use from which on shares apply */
	/* Positions where the last search for entries to release ended. */
	uint32_t fair_hand, fair_sess_hand;
	uint32_t coalesced_n, coalesced_cap; /* datagrams of coalesce.h: waiting, at most */
	uint32_t coalesced_stride;           /* bytes from one to the next */
	struct lend_host_queue host[LEND_CARRIERS_MAX];
};

/* A datagram of several messages, see coalesce.h. */
enum { LEND_COALESCED_MIN = 1408, LEND_COALESCED_MAX = 8192 };
struct lend_coalesced {
	uint64_t id;   /* of its session */
	lend_ns begun; /* the time that times in the frames are relative to, until output() */
	lend_ns due;   /* when the first of its requests is retransmitted */
	uint32_t peer;
	union { /* as in struct lend_out */
		struct {
			uint8_t class, zero, fast, none;
		};
		uint32_t rank;
	};
	uint32_t frames, withdrawn; /* frames; those of them without a call */
	uint32_t start, at, end;    /* offsets: the first frame, the next one, the limit */
	uint8_t acks;               /* carries a report that was due */
	uint8_t zeros[11];
	union {
		union lend_head head;
		uint8_t bytes[LEND_COALESCED_MAX];
	};
};
_Static_assert(sizeof(struct lend_coalesced) % 64 == 0, "lines");

/* A run of calls, or of replies, of one session and class that share a datagram. The
 * session's counters are brought up to date at its end, see short_burst.h. */
struct lend_burst {
	uint64_t calls;   /* session of a run of calls; 0: none is open */
	uint64_t replies; /* session of a run of replies; 0: none is open */
	size_t frame;     /* the next frame, in bytes from the core on */
	size_t limit;     /* `frame` and the length of a message are no more than this */
	uint32_t most;    /* bytes of a request, at most */
	uint32_t left;    /* messages that may still be added */
	uint32_t n;       /* messages that were added */
	uint32_t bytes;   /* of their requests */
	uint64_t number;  /* of the datagram */
	lend_ns begun;    /* the time that times in the frames are relative to */
	lend_ns deadline; /* of the last call */
	lend_ns earliest; /* deadline of all calls */
	uint64_t left_us; /* `deadline` as the frame has it, in the upper half */
	uint64_t slots;   /* client slots that may be taken */
	size_t slot;      /* the session's first client slot, in bytes from the core on */
	size_t stride;    /* bytes from a run of its slots to the next one, less those of a run */
	uint64_t memory;  /* bytes of a reply that may be sent at once, in the upper half */
	uint32_t window;  /* code of the request window, in the fourth byte */
	uint64_t kind;    /* lend_cslot.kind of a call of this class without method and length */
	uint64_t flags;   /* of a frame of this class, as its first word has them */
	uint32_t sess;    /* index of the session */
	uint8_t class;
	uint8_t entry; /* of the datagram */
};

/* State after the hashed part. */
struct lend_unhashed {
	struct lend_core_stats stats;
	_Alignas(64) struct lend_burst burst;
	uint32_t ev_first, ev_end, ev_n, ev_cap;
	uint32_t ev_room; /* see lend_event_room() */
	uint32_t reported_n;
	uint32_t reported[LEND_OUT]; /* sessions that report in every datagram of this output */
	uint32_t news;               /* 1: out[] has an entry with this flag */
	uint32_t coalesced_next;     /* entries of coalesced datagrams that were taken */
	uint32_t coalesced_open;     /* the first one that may get more frames */
	uint32_t coalesced_late;     /* datagrams that the last output left behind */
	/* The coalesced_n datagrams that wait: late ones, then by class, then by age. */
	uint8_t coalesced_last; /* class of the last one; 0 if it is late */
	uint8_t order[LEND_OUT];
	_Alignas(64) struct lend_out_rec out[LEND_OUT];
	struct lend_event ev[]; /* a ring of ev_cap: [ev_first, ev_end) wait for lend_core_next() */
};

#endif
