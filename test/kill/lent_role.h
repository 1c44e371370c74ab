/* lent_role - the processes of a chain of calls with a long argument, in the caller's memory or on
 * a node: a caller, a middle that reads it and passes it on, an end that maps it. Layer: test. Each
 * is a fork of the supervisor. */
#ifndef TEST_KILL_LENT_ROLE_H
#define TEST_KILL_LENT_ROLE_H

#include "kill/kill.h"

enum lent_role { LENT_CALLER, LENT_MIDDLE, LENT_END, LENT_ROLES };

/* What a process holds while no call is in flight. */
struct lent_count {
	uint32_t sessions, fds, maps, live;
};

/* In shared memory. */
struct lent_chain {
	struct kill_page *page;
	struct fuse fuse[LENT_ROLES];
	/* Written by the supervisor. */
	_Atomic uint32_t question; /* odd: the caller starts no calls, and all processes count */
	_Atomic bool leave;        /* all processes close and exit */
	bool by_node;              /* the argument is put on the node at page->node */
	/* Written by the role. */
	char address[LENT_ROLES][104];
	_Atomic bool up[LENT_ROLES];
	struct lent_count count[LENT_ROLES];
	_Atomic uint32_t answer[LENT_ROLES];
	_Atomic uint64_t fine, failed, read, late; /* calls by end; reads by end */
};

/* Starts the process of a role, to be killed, or to exit with status 0 when it may leave. */
pid_t lent_start(struct lent_chain *chain, enum lent_role role);

/* lent_kills.c: kills processes of a chain, and its node, until a time on kill_now(). */
void lent_run(struct kill_page *page, bool udp, bool by_node, uint64_t seed, uint64_t until);

#endif
