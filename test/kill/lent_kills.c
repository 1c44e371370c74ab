/* lent_kills - kills processes of a chain of calls with a long argument: the caller, the middle,
 * the end, the node that has the argument, or several of them. The others get typed statuses, go on
 * with the processes that follow at the same addresses, and hold no more than before; the node
 * holds nothing once all calls have ended. Part of lent_role.h. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kill/lent_role.h"
#include "kill/node_process.h"
#include "kill/survivor.h"

enum { FUSE_BITS = 13, FEW_CALLS = 8, LENT_NODE = LENT_ROLES, LENT_NONE };
/* The first count of a role may lack this number of sessions: a session ends after 100 ms in which
 * its process gets no CPU. Each session has these descriptors, and over shm a ring. A leak at each
 * kill soon exceeds that. */
enum { MISSED = 2, FDS = 3, MAPS = 1 };
#define WAIT (15 * SECOND)

struct chain {
	struct lent_chain *shared;
	struct lend_rng rng;
	struct node node;
	struct node_counts counts; /* of the node, the last ones */
	pid_t pid[LENT_ROLES];
	struct lent_count most[LENT_ROLES]; /* with all processes alive, and connected */
};

static void sleep_shortly(void)
{
	(void)nanosleep(&(struct timespec){.tv_nsec = MS / 5}, NULL);
}

static bool goes_on(const struct chain *c, uint64_t until)
{
	return !atomic_load(&c->shared->page->bad) && kill_now() < until;
}

static bool have_answered(const struct chain *c, uint32_t question)
{
	for (int i = 0; i < LENT_ROLES; i++)
		if (atomic_load(&c->shared->answer[i]) != question)
			return false;
	return true;
}

/* Over shm an endpoint has rings for its next client, with their descriptor, except while it is
 * busy. Over udp it has up to two sockets for much or urgent data. */
static bool is_within(const struct lent_count *now, const struct lent_count *most)
{
	return !now->live && now->sessions <= most->sessions + MISSED &&
	       now->maps <= most->maps + 1 + MISSED * MAPS &&
	       now->fds <= most->fds + 2 + MISSED * FDS;
}

static int find_excess(const struct chain *c)
{
	int i = 0;

	while (i < LENT_ROLES && is_within(&c->shared->count[i], &c->most[i]))
		i++;
	return i < LENT_ROLES ? i : LENT_NONE;
}

/* Returns whether the node has no page, reference or hold, and its ledgers agree. The supervisor
 * has an endpoint only meanwhile: its forks inherit none. */
static bool node_is_empty(struct chain *c)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct survivor look = {.page = c->shared->page};
	struct node_counts *n = &c->counts;
	bool seen = lend_open(&config, &look.ep) == 0 && survivor_look(&look, true);

	while (look.looking)
		lend_disconnect(look.ep, look.look[--look.looking]);
	lend_close(look.ep);
	*n = look.counts;
	if (seen && n->bad[0])
		kill_bad(c->shared->page, "lent: the node's audit: %s", n->bad);
	return seen && !(n->pages | n->pinned | n->refs | n->holds | n->grants | n->spaces |
			 n->placements | n->pinned_maps);
}

/* Stops the calls and counts. Returns the first role that holds too much, or LENT_NONE. */
static int count_roles(struct chain *c, bool first)
{
	uint64_t until = kill_now() + WAIT;
	uint32_t question = atomic_fetch_add(&c->shared->question, 1) + 1;
	int excess;

	while (goes_on(c, until) && !have_answered(c, question))
		sleep_shortly();
	if (!have_answered(c, question))
		kill_bad(c->shared->page, "lent: a process hangs");
	if (first)
		memcpy(c->most, c->shared->count, sizeof(c->most));
	excess = find_excess(c);
	if (excess == LENT_NONE && c->shared->by_node && goes_on(c, until) && !node_is_empty(c))
		excess = LENT_NODE;
	atomic_fetch_add(&c->shared->question, 1);
	return excess;
}

static void wait_calls(struct chain *c)
{
	uint64_t until = kill_now() + WAIT, enough = atomic_load(&c->shared->fine) + FEW_CALLS;

	while (goes_on(c, until) && atomic_load(&c->shared->fine) < enough)
		sleep_shortly();
	if (atomic_load(&c->shared->fine) < enough)
		kill_bad(c->shared->page, "lent: the calls of survivors stay without success");
}

/* A session to a dead process may take a while to end. */
static void audit_roles(struct chain *c)
{
	uint64_t until = kill_now() + WAIT;
	int excess;

	wait_calls(c);
	while ((excess = count_roles(c, false)) != LENT_NONE && goes_on(c, until))
		sleep_shortly();
	if (excess == LENT_NODE)
		kill_bad(c->shared->page,
			 "lent: the node keeps %u pages, %u pinned, %u references, %u holds, %u "
			 "spaces",
			 (unsigned)c->counts.pages, (unsigned)c->counts.pinned,
			 (unsigned)c->counts.refs, (unsigned)c->counts.holds,
			 (unsigned)c->counts.spaces);
	else if (excess != LENT_NONE)
		kill_bad(c->shared->page,
			 "lent role %d: %u sessions (%u), %u descriptors (%u), %u rings (%u), %u "
			 "in progress",
			 excess, c->shared->count[excess].sessions, c->most[excess].sessions,
			 c->shared->count[excess].fds, c->most[excess].fds,
			 c->shared->count[excess].maps, c->most[excess].maps,
			 c->shared->count[excess].live);
	c->shared->page->audits++;
}

static void kill_role(struct chain *c, int role)
{
	int status = 0;

	kill(c->pid[role], SIGKILL);
	(void)waitpid(c->pid[role], &status, 0);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		kill_bad(c->shared->page, "lent role %d ended by itself: %x", role, status);
	c->shared->page->kills++;
	c->shared->page->points += fuse_stop(&c->shared->fuse[role]) == FUSE_BURNT;
}

/* The roles find the new node at the address of the old one. */
static void replace_node(struct chain *c)
{
	struct kill_page *page = c->shared->page;

	node_kill(&c->node);
	page->kills++;
	page->points += fuse_stop(&page->fuse[ROLE_NODE]) == FUSE_BURNT;
	if (!node_start(&c->node, 0))
		kill_bad(page, "lent: no node could be started instead of the dead one");
}

static void run_round(struct chain *c)
{
	unsigned n = LENT_ROLES + c->shared->by_node;
	unsigned victims = 1 + kill_below(&c->rng, (1u << n) - 2);
	uint32_t sleeps = kill_below(&c->rng, 40);

	for (unsigned i = 0; i < n; i++)
		if (victims >> i & 1 && FUSES && kill_below(&c->rng, 2))
			fuse_arm(i == LENT_NODE ? &c->shared->page->fuse[ROLE_NODE]
						: &c->shared->fuse[i],
				 (int32_t)(1 + kill_below(&c->rng,
							  1u << kill_below(&c->rng, FUSE_BITS))));
	while (sleeps--)
		sleep_shortly();
	for (int i = 0; i < LENT_ROLES; i++)
		if (victims >> i & 1)
			kill_role(c, i);
	if (victims >> LENT_NODE & 1)
		replace_node(c);
	for (int i = 0; i < LENT_ROLES; i++)
		if (victims >> i & 1)
			c->pid[i] = lent_start(c->shared, (enum lent_role)i);
	audit_roles(c);
}

static void end_chain(struct chain *c)
{
	bool bad = atomic_load(&c->shared->page->bad);
	int status;

	atomic_store(&c->shared->leave, true);
	for (int i = 0; i < LENT_ROLES; i++) {
		if (bad)
			kill(c->pid[i], SIGKILL);
		if (waitpid(c->pid[i], &status, 0) < 0 || (status && !bad))
			kill_bad(c->shared->page, "lent role %d left with %x", i, status);
	}
	if (bad)
		node_kill(&c->node);
	else if (c->shared->by_node && !node_stop(&c->node))
		kill_bad(c->shared->page, "lent: the node did not leave with status 0");
}

static void start_node(struct chain *c, bool udp)
{
	struct kill_page *page = c->shared->page;

	c->node = (struct node){.page = page, .size = "8M", .lease_ms = udp ? 100 : 12000};
	(void)snprintf(c->node.listen, sizeof(c->node.listen),
		       udp          ? "udp:127.0.0.1:0"
		       : page->pool ? "pool:lentnode%d"
				    : "shm:lentnode%d",
		       (int)getpid());
	if (!node_start(&c->node, 0))
		kill_bad(page, "lent: the node did not start");
}

void lent_run(struct kill_page *page, bool udp, bool by_node, uint64_t seed, uint64_t until)
{
	struct chain c = {.shared = mmap(NULL, sizeof(*c.shared), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0)};

	if (c.shared == MAP_FAILED)
		return;
	page->udp = udp;
	c.shared->page = page;
	c.shared->by_node = by_node;
	if (by_node)
		start_node(&c, udp);
	lend_rng_seed(&c.rng, seed);
	for (int i = 0; i < LENT_ROLES; i++) {
		(void)snprintf(c.shared->address[i], sizeof(c.shared->address[i]),
			       udp ? "udp:127.0.0.1:0" : "shm:lent%d.%d", (int)getpid(), i);
		c.pid[i] = lent_start(c.shared, (enum lent_role)i);
	}
	wait_calls(&c);
	(void)count_roles(&c, true);
	while (goes_on(&c, until))
		run_round(&c);
	end_chain(&c);
	page->ops += atomic_load(&c.shared->fine);
	(void)munmap(c.shared, sizeof(*c.shared));
}
