#include "kill/kill_round.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lend/alloc.h"

/* Over udp an endpoint has up to two sockets more when it sends much to one peer, or urgent calls
 * to many peers. Over shm a worker has rings for its next client, with their descriptor, except
 * while it is busy. So the counts must be near those at the start. */
static bool near(uint64_t now, uint64_t start, uint64_t by)
{
	return (now > start ? now - start : start - now) <= by;
}

static bool as_began(const struct run *run, const struct footprint *now)
{
	const struct footprint *start = &run->at_start;
	bool udp = run->page->udp;
	uint32_t workers = run->page->workers;
	/* The survivor connects to the pool of a worker when it first uses it: 3 descriptors, and
	 * one of the node, which each worker counts. */
	uint32_t pools = run->page->pool ? workers - 1 : 0;

	return now->fds && now->sessions == start->sessions &&
	       near(now->node_rings, start->node_rings, udp ? 0 : workers) &&
	       now->rings == start->rings &&
	       near(now->node_fds, start->node_fds,
		    udp ? 2 * workers : workers + 2 * pools * workers) &&
	       near(now->fds, start->fds, udp ? 2 : 4 * pools);
}

/* Checks the sockets, rings and sessions of node and survivor against those at the start, once the
 * dead processes' are gone. On a network a session ends by timeout, so this takes a while. At the
 * start: the survivor's three sessions at each worker exist. */
static void footprint(struct run *run, bool start)
{
	uint64_t until = kill_now() + 12 * SECOND;
	struct survivor *s = &run->survivor;
	uint64_t all = UINT64_C(3) * run->page->workers;
	struct footprint now = {.fds = 0};
	const char *bad;

	do { /* where a session ends by timeout, it may do so meanwhile */
		if (!survivor_revive(s, &bad) || !survivor_look(s, false) ||
		    s->counts.sessions < all)
			continue;
		now = (struct footprint){s->counts.sessions, s->counts.fds, s->counts.rings,
					 kill_open_fds(), kill_ring_maps()};
		if (start && now.sessions == all)
			run->at_start = now;
	} while (!as_began(run, &now) && kill_now() < until);
	if (!as_began(run, &now))
		kill_bad(run->page,
			 "node: %d sessions, %d descriptors, %d rings more than at the start; "
			 "survivor: %d descriptors, %d rings",
			 (int)(now.sessions - run->at_start.sessions),
			 (int)(now.node_fds - run->at_start.node_fds),
			 (int)(now.node_rings - run->at_start.node_rings),
			 (int)(now.fds - run->at_start.fds),
			 (int)(now.rings - run->at_start.rings));
}

/* On shm an audit of 10 s must not be satisfied by a lease that ends instead of a hang-up. A third
 * of the lease is the time until the survivor renews its own at a new node. */
enum { SHM_LEASE = 12000 };

void run_open(struct run *run, struct kill_page *page, bool udp, const char *size, uint64_t seed)
{
	memset(run, 0, sizeof(*run));
	run->page = page;
	page->udp = udp;
	lend_free(lend_malloc_shared(1)); /* opens the arena, which stays */
	run->fds = kill_open_fds();
	lend_rng_seed(&run->rng, seed);
	run->node = (struct node){.page = page, .size = size, .lease_ms = udp ? 20 : SHM_LEASE};
	(void)snprintf(run->node.listen, sizeof(run->node.listen),
		       udp          ? "udp:127.0.0.1:0"
		       : page->pool ? "pool:node%d"
				    : "shm:node%d",
		       (int)getpid());
	(void)snprintf(run->server_listen, sizeof(run->server_listen),
		       udp ? "udp:127.0.0.1:0" : "shm:server%d", (int)getpid());
	if (!node_start(&run->node, 0))
		kill_bad(page, "the node did not start");
	else if (survivor_open(&run->survivor, page, lend_rng_next(&run->rng)) < 0)
		kill_bad(page, "the survivor did not open: %s", lend_why());
	else if (survivor_audit(&run->survivor, "the start"))
		footprint(run, true);
}

void run_close(struct run *run)
{
	int status;

	if (!atomic_load(&run->page->bad))
		run_server(run); /* an orderly exit removes its socket's name */
	if (run->server > 0) {
		kill(run->server, SIGTERM);
		if (waitpid(run->server, &status, 0) < 0 || status)
			kill_bad(run->page, "the server left with %x", status);
	}
	if (atomic_load(&run->page->bad)) {
		node_kill(&run->node);
		return;
	}
	footprint(run, false);
	survivor_close(&run->survivor);
	if (!node_stop(&run->node))
		kill_bad(run->page, "the node did not leave with status 0");
	if (kill_open_fds() != run->fds || kill_ring_maps())
		kill_bad(run->page, "%u descriptors, not %u; %u rings mapped", kill_open_fds(),
			 run->fds, kill_ring_maps());
}

void run_server(struct run *run)
{
	uint64_t until = kill_now() + 5 * SECOND;

	if (run->server <= 0)
		run->server = victim_server(run->page, run->server_listen);
	while (!atomic_load(&run->page->serving) && kill_now() < until &&
	       waitpid(run->server, NULL, WNOHANG) == 0)
		(void)lend_wait(run->survivor.ep, kill_now() + MS / 5);
}

bool run_wait(struct run *run, pid_t pid, uint64_t wait, int *status)
{
	uint64_t until = kill_now() + wait;
	pid_t got;

	while ((got = waitpid(pid, status, WNOHANG)) == 0 && kill_now() < until)
		(void)lend_wait(run->survivor.ep, kill_now() + MS / 4);
	if (got != 0)
		return true;
	kill(pid, SIGKILL);
	(void)waitpid(pid, status, 0);
	return false;
}

/* Only SIGKILL ends these processes. */
void run_reap(struct run *run, pid_t pid, uint64_t wait)
{
	int status = 0;

	(void)run_wait(run, pid, wait, &status);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		run->page->kills++;
	else
		kill_bad(run->page, "a victim ended by itself: %x", status);
}

void run_kill_server(struct run *run)
{
	if (run->server <= 0)
		return;
	run_reap(run, run->server, 0);
	run->server = 0;
	atomic_store(&run->page->serving, false);
}

void run_restart(struct run *run)
{
	run->page->kills++;
	if (!node_start(&run->node, 0))
		kill_bad(run->page, "no node could be started instead of the dead one");
	else
		survivor_new_node(&run->survivor);
}
