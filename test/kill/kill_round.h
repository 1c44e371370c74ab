/* kill_round - one supervisor: a node, a survivor, and the processes that are killed, round after
 * round. Layer: test. A process of its own; its results are in the page. */
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
	unsigned fds; /* open descriptors of this process before anything was opened */
	struct footprint {
		uint64_t sessions, node_fds, node_rings, fds, rings;
	} at_start; /* with only node and survivor */
};

/* Starts node and survivor, and publishes the survivor's objects. size: of the node. */
void run_open(struct run *run, struct kill_page *page, bool udp, const char *size, uint64_t seed);
/* All processes exit in order; nothing may be left. */
void run_close(struct run *run);
void run_server(struct run *run); /* starts a server */
void run_kill_server(struct run *run);
/* Runs the survivor's turns until a process ended; false: it took too long, and was killed. */
bool run_wait(struct run *run, pid_t pid, uint64_t wait, int *status);
/* The same for a process that only SIGKILL may end. */
void run_reap(struct run *run, pid_t pid, uint64_t wait);
/* Starts a node instead of the one that died; the survivor is notified. */
void run_restart(struct run *run);

/* Random deaths at random moments until a time on kill_now(). round: this one only, repeatedly; -1:
 * all. */
void loop_run(struct kill_page *page, bool udp, uint64_t seed, uint64_t until, int64_t round);
/* Kills each operation before each of its stores, in an order that spreads them, until a time or
 * until all were done. */
void points_run(struct kill_page *page, bool udp, uint64_t seed, uint64_t until);

#endif
