/* random_kills - random kills of client, server, node, or several at once, by the clock or at a
 * store. Part of kill_round.h. */
#include <stdio.h>
#include <sys/wait.h>

#include "kill/kill_round.h"

enum { FUSE_BITS = 14 };

/* From 1 to 2^bits, evenly over orders of magnitude. */
static uint32_t some_log(struct run *run, uint32_t bits)
{
	return 1 + (uint32_t)(lend_rng_next(&run->rng) >> 33 >> (31 - kill_below(&run->rng, bits)));
}

/* Draws a number of stores; 0: kill by the clock, after *wait. */
static int32_t draw(struct run *run, uint64_t *wait)
{
	if (FUSES && kill_below(&run->rng, 2)) {
		*wait = 20 * MS;
		return (int32_t)some_log(run, FUSE_BITS);
	}
	*wait = some_log(run, 10) * 10000; /* up to 10 ms */
	return 0;
}

/* Counts whether the fuse killed it; turns the fuse off. */
static void note(struct run *run, enum kill_role role)
{
	run->page->points += fuse_stop(&run->page->fuse[role]) == FUSE_BURNT;
}

static void some_steps(struct run *run)
{
	for (uint32_t n = kill_below(&run->rng, 5); n && !atomic_load(&run->page->bad); n--)
		survivor_step(&run->survivor);
}

static pid_t start_client(struct run *run, uint64_t *wait)
{
	fuse_arm(&run->page->fuse[ROLE_CLIENT], draw(run, wait));
	return victim_client(run->page, lend_rng_next(&run->rng));
}

static void client_dies(struct run *run)
{
	uint64_t wait;
	pid_t pid = start_client(run, &wait);

	some_steps(run);
	run_reap(run, pid, wait);
	note(run, ROLE_CLIENT);
}

/* Kills one or both ends of a chain of calls. */
static void chain_dies(struct run *run)
{
	uint32_t ends = 1 + kill_below(&run->rng, 3);
	uint64_t wait, server_wait;
	pid_t pid;

	run_server(run);
	pid = start_client(run, &wait);
	if (ends & 2)
		fuse_arm(&run->page->fuse[ROLE_SERVER], draw(run, &server_wait));
	some_steps(run);
	if (ends & 2) {
		run_reap(run, run->server, server_wait);
		run->server = 0;
		atomic_store(&run->page->serving, false);
	}
	run_reap(run, pid, wait);
	note(run, ROLE_SERVER);
	note(run, ROLE_CLIENT);
}

static void stop_node(void *arg)
{
	struct run *run = arg;
	uint64_t wait, until;
	int32_t fuse = draw(run, &wait);

	fuse_arm(&run->page->fuse[ROLE_NODE], fuse);
	until = kill_now() + wait;
	while (!node_is_dead(&run->node) && kill_now() < until)
		(void)lend_wait(run->survivor.ep, kill_now() + MS / 4);
	node_kill(&run->node);
	note(run, ROLE_NODE);
}

/* Kills the node, perhaps with a client, and perhaps the restarted node again. */
static void node_dies(struct run *run)
{
	bool too = kill_below(&run->rng, 2);
	uint64_t wait;
	pid_t pid;

	run->page->node_dies = true;
	pid = too ? start_client(run, &wait) : 0;
	/* A live server would end with a status that reports the node's end. */
	run_kill_server(run);
	some_steps(run);
	survivor_outlive_node(&run->survivor, stop_node, run);
	if (too)
		run_reap(run, pid, wait);
	if (FUSES && kill_below(&run->rng, 3) == 0 &&
	    !node_start(&run->node, (int32_t)some_log(run, 10)))
		run->page->kills++;
	note(run, ROLE_NODE);
	note(run, ROLE_CLIENT);
	node_kill(&run->node);
	run_restart(run);
	run->page->node_dies = false;
}

static const char *one_round(struct run *run)
{
	uint32_t what = kill_below(&run->rng, 16);

	if (what < 8)
		client_dies(run);
	else if (what < 13)
		chain_dies(run);
	else
		node_dies(run);
	return what < 8 ? "a client's death" : what < 13 ? "a chain's death" : "the node's death";
}

void loop_run(struct kill_page *page, bool udp, uint64_t seed, uint64_t until, int64_t round)
{
	static struct run run;
	int64_t n = round < 0 ? 0 : round;

	run_open(&run, page, udp, "24M", seed);
	while (!atomic_load(&page->bad) && kill_now() < until) {
		uint64_t start = kill_now(), killed;
		char after[64];

		lend_rng_seed(&run.rng, seed ^ ((uint64_t)n << 32));
		run.survivor.rng = run.rng;
		lend_rng_next(&run.rng);
		(void)snprintf(after, sizeof(after), "round %lld, %s", (long long)n,
			       one_round(&run));
		killed = kill_now();
		(void)survivor_audit(&run.survivor, after);
		if (page->verbose)
			fprintf(stderr, "%s: %.2f ms, audit %.2f ms\n", after,
				(double)(killed - start) / 1e6,
				(double)(kill_now() - killed) / 1e6);
		page->rounds = (uint64_t)n;
		n += round < 0;
	}
	run_close(&run);
}
