/* kill_round - one supervisor: a node, a survivor, and those that are killed, round after round.
 * Layer: test. A process of its own; what it found is in the page. */
#ifndef TEST_KILL_KILL_ROUND_H
#define TEST_KILL_KILL_ROUND_H

#include "kill/survivor.h"
#include "kill/victim.h"

struct run {
	struct kill_page *page;
	struct node node;
	struct survivor survivor;
	struct lend_rng rng;
	pid_t server; /* 0: none lives */
	char server_listen[64];
	unsigned fds; /* of this process before anything was opened */
	struct footprint {
		uint64_t sessions, node_fds, node_rings, fds, rings;
	} at_start; /* with nobody here but node and survivor */
};

/* Node and survivor are there, and what the survivor publishes. size: of the node. */
void run_open(struct run *run, struct kill_page *page, bool udp, const char *size, uint64_t seed);
/* Everybody leaves in order: nothing of anybody may be left. */
void run_close(struct run *run);
void run_server(struct run *run); /* one serves from now on */
void run_kill_server(struct run *run);
/* Turns the survivor until a process ended; false: it did not for a while, and was killed. */
bool run_wait(struct run *run, pid_t pid, uint64_t wait, int *status);
/* The same for one that nothing but SIGKILL may end. */
void run_reap(struct run *run, pid_t pid, uint64_t wait);
/* A node in place of the one that died; the survivor knows. */
void run_restart(struct run *run);

/* Random deaths at random moments until a time on kill_now(). round: only this one, again and
 * again; -1: all. */
void loop_run(struct kill_page *page, bool udp, uint64_t seed, uint64_t until, int64_t round);
/* Each operation killed before each of its stores, in an order that spreads them, until a time or
 * until all were had. */
void points_run(struct kill_page *page, bool udp, uint64_t seed, uint64_t until);

#endif
