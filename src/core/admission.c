#include "core/admission.h"

#include "core/control.h"
#include "core/cookie.h"

void lend_connect_refuse(struct lend_core *c, const struct lend_in *in,
			 const struct lend_pkt_connect *b, uint8_t reason, uint32_t wait_ms)
{
	const struct lend_ctl e = {.sess = LEND_NONE,
				   .peer = in->peer,
				   .id = b->session,
				   .call = wait_ms,
				   .kind = LEND_PKT_RETRY,
				   .probed = reason,
				   .connect = b->connect,
				   .name = lend_core_address(c, in)};

	if (reason == LEND_RETRY_FULL)
		LEND_COUNT(c, refused);
	else if (reason == LEND_RETRY_LEVEL)
		LEND_COUNT(c, rx_level);
	else
		LEND_COUNT(c, retries);
	lend_ctl_push(c, &e);
}

void lend_core_set_suites(struct lend_core *c, uint8_t suites)
{
	c->cfg.sealed = 1;
	c->cfg.suites = suites;
}

bool lend_connect_is_own(const struct lend_core *c, uint64_t connect)
{
	return connect - c->connects_first - 1 < c->connects - c->connects_first;
}

bool lend_connect_is_known(const struct lend_core *c, const struct lend_pkt_connect *b)
{
	return b->pattern < LEND_PATTERN_NN ? !b->least
					    : c->cfg.sealed && b->pattern < LEND_PATTERNS;
}

bool lend_connect_fits(const struct lend_pkt_connect *b, const struct lend_core_policy *policy)
{
	if (b->pattern < LEND_PATTERN_NN)
		return policy->least == 0;
	return b->level >= policy->least && b->level > 0 && b->level >= b->least && b->suite < 8 &&
	       policy->suites >> b->suite & 1;
}
