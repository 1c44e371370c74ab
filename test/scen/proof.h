/* proof - answers LEND_EV_PROVE as a runtime does, with SipHash instead of HMAC. */
#ifndef TEST_SCEN_PROOF_H
#define TEST_SCEN_PROOF_H

#include "core/core.h"
#include "util/siphash.h"

/* salt: this end's secret; ends with different secrets do not accept each other. */
static inline void proof_answer(struct lend_core *core, lend_ns now, const struct lend_event *ev,
				uint8_t salt)
{
	const uint8_t key[16] = {salt, (uint8_t)ev->tag};
	uint8_t text[LEND_TRANSCRIPT + 1];
	struct lend_core_proof proof;

	if (lend_core_transcript(core, ev, text) < 0)
		return;
	text[LEND_TRANSCRIPT] = 's';
	lend_siphash128(key, text, sizeof(text), proof.tag);
	text[LEND_TRANSCRIPT] = 'c';
	lend_siphash128(key, text, sizeof(text), proof.proof);
	text[LEND_TRANSCRIPT] = 'b';
	lend_siphash128(key, text, sizeof(text), proof.binding);
	(void)lend_core_prove(core, now, ev, &proof);
}

#endif
