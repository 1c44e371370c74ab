/* survivor - the client that outlives the others: random operations held against the model, and the
 * exact audit of what its node and itself keep. Layer: test. It lives in the supervisor. */
#ifndef TEST_KILL_SURVIVOR_H
#define TEST_KILL_SURVIVOR_H

#include "kill/model.h"

enum { WORKERS_MAX = 8 };
struct survivor {
	struct kill_page *page;
	struct lend_ep *ep;
	struct lend_mem *mem;
	struct lend_rng rng;
	struct model model;
	lend_session look[WORKERS_MAX]; /* on which the node's workers are asked about themselves */
	uint32_t looking;               /* of them, open */
	uint64_t life[WORKERS_MAX];     /* ours at each worker; 0: not known */
	struct thing *open[PUBLIC];     /* those that everybody may adopt */
	struct node_sight sight;        /* the last one */
};

/* 0 or -errno. The node serves at page->node. */
int survivor_open(struct survivor *s, struct kill_page *page, uint64_t seed);
void survivor_close(struct survivor *s);
/* Makes, or takes again, what everybody may adopt. */
void survivor_publish(struct survivor *s);
/* One random operation. */
void survivor_step(struct survivor *s);
/* Operations that are under way while the node is killed by stop(arg): each has to end with a
 * status that says so. */
void survivor_ride(struct survivor *s, void (*stop)(void *), void *arg);
/* The node that serves now is another one: nothing is left of what we had. */
void survivor_new_node(struct survivor *s);
/* A session that was lost is made again, and a life that was ended. False: to be asked again; *bad
 * says why. */
bool survivor_revive(struct survivor *s, const char **bad);
/* Until node and client hold exactly what the model says, 10 s at most; then every ledger is
 * counted anew. False: a violation, noted. */
bool survivor_audit(struct survivor *s, const char *after);
/* Has a worker ended our life? Then the model knows, too, and it is false. */
bool survivor_follow(struct survivor *s);
/* What the node says of itself; false: it did not answer. */
bool survivor_look(struct survivor *s, bool whole);

#endif
