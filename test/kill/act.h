/* act - each operation alone, from a client that was made for it: what the fault points run over.
 * Layer: test. Everything here runs in a fork of the supervisor. */
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
	bool (*prepare)(struct actor *); /* NULL: with endpoint and client opened, nothing else */
	void (*run)(struct actor *);     /* NULL: the start of a node, with no actor */
	bool server;                     /* needs one at page->server */
	bool bare;                       /* opens everything itself */
	bool coarse;                     /* thousands of stores, much alike: every 16th will do */
};

extern const struct act acts[];
extern const uint32_t act_count;

/* Runs one with role's fuse set to so many stores. A process of its own: it exits with 0 and
 * page->stores_seen says how many there were, or it was the one that was killed. */
pid_t act_start(struct kill_page *page, const struct act *act, enum kill_role role, int32_t fuse);

#endif
