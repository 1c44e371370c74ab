/* cc - congestion control of a session's transmissions: how many datagrams of long messages may be
 * in flight, and the minimum gap between two of them. Chosen by name per endpoint.
 *
 * An algorithm reads only the peer's reports and sets two values: window and gap. Whatever a report
 * contains (zero delay, a delay of a minute, a clock that jumped, more marks than datagrams), both
 * stay within their bounds, so a session can always make progress. Under `credit` the receiver also
 * grants, see grant.h.
 *
 * Layer: core (pure). No state of its own: struct lend_cc_state lives in its session. */
#ifndef LEND_CORE_CC_H
#define LEND_CORE_CC_H

#include "util/dgram.h"

enum lend_cc {
	LEND_CC_NONE,   /* limited by the peer's grants only */
	LEND_CC_TIMELY, /* rate by the gradient of the RTT, as in eRPC */
	LEND_CC_SWIFT,  /* window by a target delay */
	LEND_CC_DCTCP,  /* window by the share of datagrams with ECN marks */
	LEND_CC_CREDIT, /* the receiver grants for its own downlink; the sender reacts to ECN marks
			 */
	LEND_CC_KINDS,
};

enum {
	LEND_CC_WINDOW_MAX = 4096,  /* datagrams */
	LEND_CC_TIMELY_WINDOW = 32, /* eRPC's session credits */
	LEND_CC_ONE = 1024,         /* a datagram, in units of lend_cc_state.window */
};
#define LEND_CC_GAP_MAX UINT64_C(1000000) /* ns: the largest gap */

/* Congestion state of a session's transmissions. Times are in ns, cut to 32 bits: delays above 4 s
 * are not congestion. */
struct lend_cc_state {
	uint32_t window;  /* 1/1024 datagrams; below one, gap spreads them */
	uint32_t gap;     /* ns from one datagram to the next; 0: none */
	uint32_t rtt;     /* the newest sample */
	uint32_t rtt_min; /* smallest sample so far; 0: none was measured */
	union {
		int32_t slope;  /* timely: of the round trip, smoothed, ns per sample */
		uint32_t alpha; /* dctcp: share of marked ones, smoothed, of 65536 */
	};
	union {
		uint32_t rate;  /* timely: bytes per us */
		uint32_t grown; /* swift: accumulated growth below one unit */
	};
	uint32_t ecn;    /* the peer's count of marks in its newest report */
	uint32_t seen;   /* datagrams reported in this round */
	uint32_t marked; /* datagrams among them with an ECN mark */
	/* credit: datagrams declared lost, and reported, since the last judgement */
	uint16_t lost, came;
	uint64_t round; /* the round ends when this number or a larger one is reported */
	lend_ns cut;    /* time of the last reduction */
};
_Static_assert(sizeof(struct lend_cc_state) == 56, "a session is to stay small");

/* A report of the peer. */
struct lend_cc_report {
	lend_ns now;
	lend_ns rtt;      /* without the peer's own delay; 0: not measured */
	uint64_t acked;   /* largest number that the peer has seen */
	uint64_t next;    /* number of the datagram to be sent next */
	uint32_t seen;    /* datagrams that are reported for the first time */
	uint32_t marked;  /* how many of them carried an ECN mark */
	uint32_t lost;    /* datagrams declared lost */
	uint32_t payload; /* bytes of a full datagram */
};

const char *lend_cc_name(enum lend_cc cc);
/* Returns LEND_CC_KINDS for an unknown name. */
enum lend_cc lend_cc_named(const char *name);
/* credits: datagrams that may be in flight under timely; 0: LEND_CC_TIMELY_WINDOW. */
void lend_cc_open(struct lend_cc_state *s, enum lend_cc cc, uint32_t credits);
/* Updates window and gap if the report covers datagrams of a long message. */
void lend_cc_report(struct lend_cc_state *s, enum lend_cc cc, const struct lend_cc_report *r);

/* cc_timely.c, cc_swift.c, cc_dctcp.c */
void lend_cc_timely(struct lend_cc_state *s, const struct lend_cc_report *r);
void lend_cc_swift(struct lend_cc_state *s, const struct lend_cc_report *r);
/* granted: the receiver's grants limit the queue, so random loss is no sign of congestion. */
void lend_cc_dctcp(struct lend_cc_state *s, const struct lend_cc_report *r, bool granted);

/* Returns how many datagrams may be in flight now, 1 .. LEND_CC_WINDOW_MAX. */
static inline uint32_t lend_cc_window(const struct lend_cc_state *s)
{
	return s->window < LEND_CC_ONE ? 1 : s->window / LEND_CC_ONE;
}

/* Returns whether the window may be reduced: at most once per round trip. */
static inline bool lend_cc_may_cut(const struct lend_cc_state *s, const struct lend_cc_report *r)
{
	return r->now - s->cut >= s->rtt;
}

#endif
