/* kill - what the processes of a kill run share: a page in shared memory, the report of a
 * violation, the pattern of bytes. Layer: test. Threads: several processes write the page; each
 * field names its writer. */
#ifndef TEST_KILL_KILL_H
#define TEST_KILL_KILL_H

#include <stdbool.h>
#include <sys/types.h>

#include "kill/kill_at_store.h"
#include "lend/mem.h"
#include "util/rng.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

enum kill_role { ROLE_NODE, ROLE_CLIENT, ROLE_SERVER, ROLES };
enum { PUBLIC = 3, PUBLIC_LEN = 3 * 4096 + 17 };

struct kill_page {
	struct fuse fuse[ROLES]; /* set by the supervisor, counted down by the role */
	/* Written by the supervisor, read by the others meanwhile. */
	bool udp, verbose;
	bool pool;                      /* clients map the node's pages and store to them */
	uint32_t workers;               /* workers of the memory node */
	_Atomic bool node_dies;         /* in this round: calls to a dead node may fail */
	char node[104];                 /* the memory node's address */
	struct lend_ref public[PUBLIC]; /* SHARED with a long TTL; bytes by kill_fill(.., i) */
	/* Written by the server. */
	char server[104];
	_Atomic bool serving;
	/* Written by any process: the first violation. */
	_Atomic uint32_t bad;
	char why[256];
	/* For the report. */
	int32_t stores_seen; /* stores of the last operation that was counted */
	uint64_t stores;     /* sum of the stores that operations have */
	uint64_t kills, audits, ops, points, stalls, fenced, rounds;
	_Atomic uint64_t victim_ops;
	_Atomic uint64_t early_reads; /* reads that waited at a node for bytes on their way */
};

/* Reports a violation: the first one is kept in the page. */
void kill_bad(struct kill_page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fills with bytes that depend on seed and position. */
void kill_fill(void *data, size_t len, uint64_t seed);
/* In a fork's child: closes all but stdin, stdout and stderr; the child dies with its parent. */
void kill_be_alone(void);
uint64_t kill_now(void);
uint32_t kill_below(struct lend_rng *rng, uint32_t n);

#endif
