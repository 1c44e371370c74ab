/* survivor - the client that outlives the others: random operations compared with the model, and
 * the exact audit of its node and itself. Layer: test. It lives in the supervisor. */
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
	lend_session look[WORKERS_MAX]; /* sessions for the queries of the node's workers */
	uint32_t looking;               /* number of them, open */
	uint64_t life[WORKERS_MAX];     /* life of this client at each worker; 0: not known */
	struct thing *open[PUBLIC];     /* objects that every process may adopt */
	struct node_counts counts;      /* the last one */
};

/* 0 or -errno. The node serves at page->node. */
int survivor_open(struct survivor *s, struct kill_page *page, uint64_t seed);
void survivor_close(struct survivor *s);
/* Makes, or makes again, the objects that every process may adopt. */
void survivor_publish(struct survivor *s);
/* One random operation. */
void survivor_step(struct survivor *s);
/* Kills the node by stop(arg) while operations are in progress: each must end with a status that
 * reports it. */
void survivor_outlive_node(struct survivor *s, void (*stop)(void *), void *arg);
/* The node was replaced: all objects are gone. */
void survivor_new_node(struct survivor *s);
/* Opens a lost session again, and an ended life. False: retry; *bad is the reason. */
bool survivor_revive(struct survivor *s, const char **bad);
/* Waits until node and client hold exactly what the model has, 10 s at most; then audits every
 * ledger. False: a violation, reported. */
bool survivor_audit(struct survivor *s, const char *after);
/* False: a worker ended this client's life; the model is updated. */
bool survivor_follow(struct survivor *s);
/* Queries the node; false: it did not answer. */
bool survivor_look(struct survivor *s, bool whole);

#endif
