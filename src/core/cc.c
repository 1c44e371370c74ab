#include "core/cc.h"

#include <string.h>

#include "util/bits.h"

static const char *const names[LEND_CC_KINDS] = {
    [LEND_CC_NONE] = "none",   [LEND_CC_TIMELY] = "timely", [LEND_CC_SWIFT] = "swift",
    [LEND_CC_DCTCP] = "dctcp", [LEND_CC_CREDIT] = "credit",
};

const char *lend_cc_name(enum lend_cc cc)
{
	return cc < LEND_CC_KINDS ? names[cc] : "";
}

/* Compares two names: pure code does not call strcmp(). */
static bool names_equal(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

enum lend_cc lend_cc_named(const char *name)
{
	unsigned i = 0;

	while (i < LEND_CC_KINDS && !names_equal(names[i], name))
		i++;
	return (enum lend_cc)i;
}

void lend_cc_open(struct lend_cc_state *s, enum lend_cc cc, uint32_t credits)
{
	/* Swift and DCTCP start with 16 datagrams, which any network can absorb. Under receiver
	 * grants the sender needs less caution. Timely controls the rate: its window is only a
	 * limit. */
	bool careful = cc == LEND_CC_SWIFT || cc == LEND_CC_DCTCP;

	memset(s, 0, sizeof(*s));
	s->window = LEND_CC_WINDOW_MAX * LEND_CC_ONE;
	if (careful)
		s->window = 16 * LEND_CC_ONE;
	else if (cc == LEND_CC_TIMELY)
		s->window = (credits > 0 ? credits : LEND_CC_TIMELY_WINDOW) * LEND_CC_ONE;
}

void lend_cc_report(struct lend_cc_state *s, enum lend_cc cc, const struct lend_cc_report *r)
{
	if (r->rtt > 0 && r->rtt < UINT32_MAX) {
		s->rtt = (uint32_t)r->rtt;
		s->rtt_min = s->rtt_min ? lend_min_u32(s->rtt_min, s->rtt) : s->rtt;
	}
	/* Single-datagram messages do not wait for the window, so a report of only those does not
	 * update it. */
	if ((r->seen | r->lost) == 0)
		return;
	switch (cc) {
	case LEND_CC_TIMELY:
		lend_cc_timely(s, r);
		break;
	case LEND_CC_SWIFT:
		lend_cc_swift(s, r);
		break;
	case LEND_CC_DCTCP:
	case LEND_CC_CREDIT:
		lend_cc_dctcp(s, r, cc == LEND_CC_CREDIT);
		break;
	case LEND_CC_NONE:
	case LEND_CC_KINDS:
		break;
	}
}
