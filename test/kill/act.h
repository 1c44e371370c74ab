/* act - each operation by itself, from a client made for it: the operations that the fault points
 * cover. Layer: test. Everything here runs in a fork of the supervisor. */
#ifndef TEST_KILL_ACT_H
#define TEST_KILL_ACT_H

#include "kill/kill_client.h"

struct actor {
	struct client c;
	struct take own; /* what it has put */
	uint64_t seed;
	lend_space space; /* mapped, PUBLIC_LEN */
};

struct act {
	const char *name;
	bool (*prepare)(struct actor *); /* NULL: only opens endpoint and client */
	void (*run)(struct actor *);     /* NULL: the start of a node, without an actor */
	bool server;                     /* needs one at page->server */
	bool bare;                       /* opens everything itself */
	bool coarse;                     /* thousands of similar stores: every 16th is enough */
};

extern const struct act acts[];
extern const uint32_t act_count;

/* Runs one operation in a new process; the role's fuse burns for this many stores. The process
 * exits with 0 and sets page->stores_seen, or it was the one that was killed. */
pid_t act_start(struct kill_page *page, const struct act *act, enum kill_role role, int32_t fuse);

#endif
