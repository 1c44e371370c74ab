/* points - every operation killed before its first store, its second, and so on: once in the
 * client, once in the node, once in the server. Part of kill_round.h. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "kill/act.h"
#include "kill/kill_round.h"

/* An operation in a role, and the stores that were done: the k-th is k * stride mod n. */
struct point {
	const struct act *act;
	enum kill_role role;
	uint32_t n, done, stride;
};

static const char *const role_name[ROLES] = {"node", "client", "server"};

static void wait_for(struct run *run, pid_t pid)
{
	int status = 0;

	if (!run_wait(run, pid, 20 * SECOND, &status)) {
		kill_bad(run->page, "an operation hung");
	} else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
		run->page->kills++;
		run->page->points++;
	} else if (status) {
		kill_bad(run->page, "an operation ended its process: %x", status);
	}
}

/* Its sockets show a process's end a moment before waitpid() does. */
static void reap_server(struct run *run)
{
	int status = 0;

	(void)waitpid(run->server, &status, 0);
	run->server = 0;
	atomic_store(&run->page->serving, false);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		kill_bad(run->page, "the server ended by itself: %x", status);
	run->page->kills++;
	run->page->points++;
}

static void replace_node(struct run *run)
{
	node_kill(&run->node);
	run->page->points++;
	run_kill_server(run); /* the server may learn late that its node was replaced */
	run_restart(run);
}

/* Kills a node before it serves; another one takes its place. */
static void kill_start(struct run *run, int32_t fuse)
{
	bool served;
	int32_t left;

	run_kill_server(run);
	node_kill(&run->node);
	served = node_start(&run->node, fuse);
	left = fuse_stop(&run->page->fuse[ROLE_NODE]);
	run->page->stores_seen = left > 0 ? fuse - left : 0;
	run->page->points += !served;
	run->page->kills += !served;
	node_kill(&run->node);
	run_restart(run);
}

/* One death, or none when the fuse was longer than the operation. */
static void kill_at(struct run *run, const struct point *p, int32_t fuse)
{
	char after[128];
	bool burnt;

	(void)snprintf(after, sizeof(after), "store %d of \"%s\" in the %s", fuse, p->act->name,
		       role_name[p->role]);
	if (p->act->server)
		run_server(run);
	run->page->node_dies = p->role == ROLE_NODE;
	if (p->act->run)
		wait_for(run, act_start(run->page, p->act, p->role, fuse));
	else
		kill_start(run, fuse);
	burnt = fuse_stop(&run->page->fuse[p->role]) == FUSE_BURNT;
	if (burnt && p->role == ROLE_SERVER)
		reap_server(run);
	else if (burnt && p->role == ROLE_NODE)
		replace_node(run);
	(void)survivor_audit(&run->survivor, after);
	if (run->page->verbose)
		fprintf(stderr, "%s\n", after);
}

static bool is_fair(const struct act *act, enum kill_role role)
{
	return act->run ? role != ROLE_SERVER || act->server : role == ROLE_NODE;
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
	return b ? gcd(b, a % b) : a;
}

/* Counts the stores by one run without a kill. */
static uint32_t list_points(struct run *run, struct point *point)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < act_count; i++)
		for (int role = 0; role < ROLES && !atomic_load(&run->page->bad); role++) {
			struct point *p = &point[n];

			*p = (struct point){.act = &acts[i], .role = (enum kill_role)role};
			if (!is_fair(p->act, p->role))
				continue;
			kill_at(run, p, FUSE_COUNT);
			p->n = (uint32_t)run->page->stores_seen;
			if (p->act->coarse)
				p->n /= 16;
			for (p->stride = p->n * 5 / 8 | 1; p->n && gcd(p->stride, p->n) > 1;)
				p->stride += 2;
			run->page->stores += p->n;
			if (run->page->verbose)
				fprintf(stderr, "%6u stores: \"%s\", %s\n", p->n, p->act->name,
					role_name[role]);
			n += p->n > 0;
		}
	return n;
}

void points_run(struct kill_page *page, bool udp, uint64_t seed, uint64_t until)
{
	static struct point point[ROLES * 32];
	static struct run run;
	uint64_t left = 1;
	uint32_t n;

	run_open(&run, page, udp, "24M", seed);
	n = list_points(&run, point);
	while (left && !atomic_load(&page->bad) && kill_now() < until) {
		left = 0;
		for (uint32_t i = 0; i < n && !atomic_load(&page->bad) && kill_now() < until; i++) {
			struct point *p = &point[i];
			uint32_t k =
			    (uint32_t)(((uint64_t)p->done + seed) % p->n * p->stride % p->n);

			if (p->done == p->n)
				continue;
			left++;
			p->done++;
			kill_at(&run, p, (int32_t)(p->act->coarse ? k * 16 : k) + 1);
		}
	}
	run_close(&run);
}
