/* sealing - the records of an endpoint (seal/record.h) between its core and its carriers: which
 * carriers have them, and their memory. The keys come from sealed_sessions.h.
 *
 * The level of a carrier (level_rules.h) is that of its sessions, and the least one. Layer: rpc.
 * Threads: the endpoint's. */
#ifndef LEND_RPC_SEALING_H
#define LEND_RPC_SEALING_H

#include "core/core.h"
#include "io/io.h"
#include "rpc/level_rules.h"
#include "seal/record.h"
#include "sys/mapped_memory.h"

enum { LEND_KEY_CHUNKS = 4096 };

struct lend_sealing {
	struct lend_records records;
	struct lend_records_path path[LEND_CARRIERS_MAX];
	uint8_t carriers; /* whose datagrams pass through records, by bit */
	uint8_t copied;   /* whose received datagrams are copied first, by bit */
	struct lend_level_rules rules;
	struct lend_mapping table;
	struct lend_mapping tx;                    /* memory of a burst to send */
	struct lend_mapping rx[LEND_CARRIERS_MAX]; /* copies of a burst, until its turn ends */
	void *keys;                                /* free blocks of keys: a list */
	struct lend_mapping chunk[LEND_KEY_CHUNKS];
	uint32_t chunks;
};

struct lend_ep;
/* 0, or -ENOMEM with lend_why(). */
int lend_sealing_open(struct lend_ep *ep);
void lend_sealing_close(struct lend_ep *ep);
/* Returns the path of a new carrier as the core has it. 0, or -ENOMEM with lend_why(). */
int lend_sealing_add(struct lend_ep *ep, uint32_t carrier, const char *address,
		     const struct lend_path *path, struct lend_path *to);
/* Opens a burst of a carrier. Returns how many datagrams are left. */
uint32_t lend_sealing_rx(struct lend_ep *ep, uint32_t carrier, struct lend_in *in, uint32_t n);
/* Seals and sends a burst. */
void lend_sealing_tx(struct lend_ep *ep, uint32_t carrier, struct lend_out *out, uint32_t n);

static inline bool lend_sealing_has(const struct lend_sealing *s, uint32_t carrier)
{
	return s->carriers >> carrier & 1;
}

#endif
