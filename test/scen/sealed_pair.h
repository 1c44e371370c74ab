/* sealed_pair - a core_pair whose sessions are sealed: handshakes run as in the runtime, with
 * toy_seal.h. Later datagrams stay in clear; the record layer is not part of it. */
#ifndef TEST_SCEN_SEALED_PAIR_H
#define TEST_SCEN_SEALED_PAIR_H

#include "scen/core_pair.h"

enum { SEALED_KEY = 0x5ea1, SEALED_SUITES = 1 << 1 | 1 << 2 };

struct sealed_side {
	struct lend_shake shake;
	uint8_t psk[32], server[32], secret[32];
	struct lend_kex_result made; /* the newest finished handshake */
	uint32_t done;               /* their number */
	bool no_key;
};

struct sealed_pair {
	struct core_pair d;
	struct sealed_side side[2];
	struct lend_core_identity self;
};

/* Opens both sides, with the same key; side 0 proposes this pattern with suite 1 and level 2. */
void sealed_open(struct sealed_pair *p, uint8_t pattern);
void sealed_close(struct sealed_pair *p);
/* Makes side 1 forget everything, as a restart does; side 0 goes on. */
void sealed_restart(struct sealed_pair *p);
/* Both ends finished the same handshake. */
bool sealed_agree(const struct sealed_pair *p);
const struct lend_core_stats *sealed_core(const struct sealed_pair *p, int side);
const struct lend_kex_stats *sealed_kex(const struct sealed_pair *p, int side);

#endif
