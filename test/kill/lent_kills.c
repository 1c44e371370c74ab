/* lent_kills - kills processes of a chain of calls that lend their argument: the caller, whose
 * memory is lent, the middle, the end, or two of them. The others get typed statuses, go on with
 * the processes that follow at the same addresses, and hold no more than before. Part of
 * lent_role.h. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kill/lent_role.h"

enum { FUSE_BITS = 13, FEW_CALLS = 8 };
#define WAIT (15 * SECOND)

struct chain {
	struct lent_chain *shared;
	struct lend_rng rng;
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

static bool is_within(const struct lent_count *now, const struct lent_count *most)
{
	return !now->live && now->sessions <= most->sessions && now->maps <= most->maps &&
	       now->fds <= most->fds + 2; /* udp: two sockets for much or urgent data */
}

static int find_excess(const struct chain *c)
{
	int i = 0;

	while (i < LENT_ROLES && is_within(&c->shared->count[i], &c->most[i]))
		i++;
	return i;
}

/* Stops the calls and counts. Returns the first role that holds too much, or LENT_ROLES. */
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
	while ((excess = count_roles(c, false)) != LENT_ROLES && goes_on(c, until))
		sleep_shortly();
	if (excess != LENT_ROLES)
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

static void run_round(struct chain *c)
{
	unsigned victims = 1 + kill_below(&c->rng, (1 << LENT_ROLES) - 2);
	uint32_t sleeps = kill_below(&c->rng, 40);

	for (int i = 0; i < LENT_ROLES; i++)
		if (victims >> i & 1 && FUSES && kill_below(&c->rng, 2))
			fuse_arm(&c->shared->fuse[i],
				 (int32_t)(1 + kill_below(&c->rng,
							  1u << kill_below(&c->rng, FUSE_BITS))));
	while (sleeps--)
		sleep_shortly();
	for (int i = 0; i < LENT_ROLES; i++)
		if (victims >> i & 1)
			kill_role(c, i);
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
}

void lent_run(struct kill_page *page, bool udp, uint64_t seed, uint64_t until)
{
	struct chain c = {.shared = mmap(NULL, sizeof(*c.shared), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0)};

	if (c.shared == MAP_FAILED)
		return;
	page->udp = udp;
	c.shared->page = page;
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
