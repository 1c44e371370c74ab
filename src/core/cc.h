/* cc - congestion control of what a session sends: how many datagrams of long messages may be in
 * flight, and how long to wait from one to the next. Chosen by name per endpoint.
 *
 * An algorithm sees the peer's reports and nothing else, and answers with two numbers: window and
 * gap. Whatever the reports say (no delay, a minute, a clock that jumped, marks of more datagrams
 * than came) both stay within their bounds, so a session can always go on. Who receives under
 * `credit` grants besides, see grant.h.
 *
 * Layer: core (pure). No state of its own: struct lend_cc_state lives in its session. */
#ifndef LEND_CORE_CC_H
#define LEND_CORE_CC_H

#include "util/dgram.h"

enum lend_cc {
	LEND_CC_NONE,   /* as much as the peer's grants allow */
	LEND_CC_TIMELY, /* rate by the gradient of the round trip, as eRPC has it */
	LEND_CC_SWIFT,  /* window by a target for the delay */
	LEND_CC_DCTCP,  /* window by the share of datagrams marked on the way */
	LEND_CC_CREDIT, /* the receiver grants for its own downlink; the sender minds marks */
	LEND_CC_KINDS,
};

enum {
	LEND_CC_WINDOW_MAX = 256, /* datagrams */
	LEND_CC_ONE = 1024,       /* a datagram, in units of lend_cc_state.window */
};
#define LEND_CC_GAP_MAX UINT64_C(1000000) /* ns: slower than that nobody is made */

/* Of what a session sends. Times are in ns and cut to 32 bits: what is longer than 4 s is not
 * congestion. */
struct lend_cc_state {
	uint32_t window;  /* 1/1024 datagrams; below one, gap spreads them */
	uint32_t gap;     /* ns from one datagram to the next; 0: none */
	uint32_t rtt;     /* the last */
	uint32_t rtt_min; /* ever; 0: none was measured */
	int32_t slope;    /* timely: of the round trip, smoothed, ns per sample */
	uint32_t rate;    /* timely: bytes per us */
	uint32_t alpha;   /* dctcp: share of marked ones, smoothed, of 65536 */
	uint32_t ecn;     /* the peer's count of marks in its newest report */
	uint32_t seen;    /* datagrams reported in this round */
	uint32_t marked;  /* of them */
	uint64_t round;   /* it ends when a number from here on is reported */
	lend_ns cut;      /* when it last gave way */
	uint32_t grown;   /* swift: growth that is less than a unit yet */
	uint32_t zero;
};
_Static_assert(sizeof(struct lend_cc_state) <= 64, "a session is to stay small");

/* A report of the peer. */
struct lend_cc_report {
	lend_ns now;
	lend_ns rtt;      /* without the peer's own delay; 0: not measured */
	uint64_t acked;   /* largest number that it saw */
	uint64_t next;    /* number of the datagram to be sent next */
	uint32_t seen;    /* datagrams that are reported for the first time */
	uint32_t marked;  /* of them, marked on the way */
	uint32_t lost;    /* datagrams judged lost */
	uint32_t payload; /* bytes of a full datagram */
};

const char *lend_cc_name(enum lend_cc cc);
/* LEND_CC_KINDS: no such name. */
enum lend_cc lend_cc_named(const char *name);
void lend_cc_open(struct lend_cc_state *s, enum lend_cc cc);
/* Works out window and gap anew, if it tells of a long message. */
void lend_cc_report(struct lend_cc_state *s, enum lend_cc cc, const struct lend_cc_report *r);

/* cc_timely.c, cc_swift.c, cc_dctcp.c */
void lend_cc_timely(struct lend_cc_state *s, const struct lend_cc_report *r);
void lend_cc_swift(struct lend_cc_state *s, const struct lend_cc_report *r);
void lend_cc_dctcp(struct lend_cc_state *s, const struct lend_cc_report *r);

/* Datagrams that may be in flight now, 1 .. LEND_CC_WINDOW_MAX. */
static inline uint32_t lend_cc_window(const struct lend_cc_state *s)
{
	return s->window < LEND_CC_ONE ? 1 : s->window / LEND_CC_ONE;
}

/* Once per round trip is often enough to give way. */
static inline bool lend_cc_may_cut(const struct lend_cc_state *s, const struct lend_cc_report *r)
{
	return r->now - s->cut >= s->rtt;
}

#endif
