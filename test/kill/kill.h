/* kill - what the processes of a kill run share: a page, what a violation is, how bytes are made.
 * Layer: test. Threads: the page is written by several processes; each field says by whom. */
#ifndef TEST_KILL_KILL_H
#define TEST_KILL_KILL_H

#include <stdbool.h>
#include <sys/types.h>

#include "kill/fuse.h"
#include "lend/mem.h"
#include "util/rng.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

enum kill_role { ROLE_NODE, ROLE_CLIENT, ROLE_SERVER, ROLES };
enum { PUBLIC = 3, PUBLIC_LEN = 3 * 4096 + 17 };

struct kill_page {
	struct fuse fuse[ROLES]; /* the supervisor arms, the role burns */
	/* The supervisor's, for the others to read while it does not write. */
	bool udp, verbose;
	bool pool;                      /* the node offers its pages; clients store to them */
	uint32_t workers;               /* of the memory node */
	_Atomic bool node_dies;         /* in this round: who reaches nobody may say so */
	char node[104];                 /* the memory node's address */
	struct lend_ref public[PUBLIC]; /* SHARED for long; bytes by kill_fill(.., i) */
	/* The server's. */
	char server[104];
	_Atomic bool serving;
	/* Anybody's: the first one says what was wrong. */
	_Atomic uint32_t bad;
	char why[256];
	/* For the report. */
	int32_t stores_seen; /* stores of the last operation that was counted */
	uint64_t stores;     /* that operations were found to have */
	uint64_t kills, audits, ops, points, stalls, fenced, rounds;
	_Atomic uint64_t victim_ops;
};

/* A violation: noted in the page once. */
void kill_bad(struct kill_page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Bytes that depend on seed and position. */
void kill_fill(void *data, size_t len, uint64_t seed);
/* In a fork's child: only stdin, stdout, stderr stay; it dies with its parent. */
void kill_be_alone(void);
uint64_t kill_now(void);
uint32_t kill_below(struct lend_rng *rng, uint32_t n);

#endif
