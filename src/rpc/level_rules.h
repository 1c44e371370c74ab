/* level_rules - the level of protection of each carrier, by config.level or $LEND_LEVEL.
 *
 * A text is items with commas between them: LEVEL for carriers that others may reach, LEVEL+local
 * for all, CARRIER=LEVEL for one. The last item that fits decides. Layer: rpc. Threads: any. */
#ifndef LEND_RPC_LEVEL_RULES_H
#define LEND_RPC_LEVEL_RULES_H

#include <stdbool.h>
#include <stdint.h>

enum { LEND_LEVEL_ITEMS = 8, LEND_LEVEL_CARRIER = 16 };

struct lend_level_rules {
	struct {
		char carrier[LEND_LEVEL_CARRIER]; /* "": all of them */
		uint8_t level;                    /* enum lend_level */
		bool local;                       /* those of one user on one host as well */
	} item[LEND_LEVEL_ITEMS];
	uint32_t n;
};

/* Reads a text; NULL or "": encrypt. 0, or -EINVAL with lend_why(). */
int lend_level_rules_read(struct lend_level_rules *rules, const char *text);
/* Returns the level of the carrier of an address; NULL: of a network. */
uint8_t lend_level_rules_of(const struct lend_level_rules *rules, const char *address);

#endif
