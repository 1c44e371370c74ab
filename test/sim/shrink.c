/* shrink - makes a failing plan smaller: fewer faults, fewer nodes, less work.
 *
 * Numbers move to their default, or half of the way, while the violation stays the same. Layer:
 * test/sim. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/command.h"
#include "sim/plan_run.h"

void sim_limit(unsigned seconds)
{
	struct itimerval t = {.it_value.tv_sec = (time_t)seconds};

	setitimer(ITIMER_VIRTUAL, &t, NULL);
}

void sim_died(int status, char why[SIM_WHY])
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGVTALRM)
		snprintf(why, SIM_WHY, "it does not end in time");
	else if (WIFSIGNALED(status))
		snprintf(why, SIM_WHY, "it dies by signal %d", WTERMSIG(status));
	else
		snprintf(why, SIM_WHY, "it exits with status %d", WEXITSTATUS(status));
}

/* The child's run, in shared memory, so that its trace survives the child. */
static struct sim *sim;

bool sim_try(const struct sim_plan *plan, unsigned limit_s, char why[SIM_WHY])
{
	int status;
	pid_t child;

	if (!sim)
		sim = mmap(NULL, sizeof(*sim), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			   -1, 0);
	LEND_CHECK(sim != MAP_FAILED);
	fflush(NULL);
	child = fork();
	LEND_CHECK(child >= 0);
	if (child == 0) {
		sim_limit(limit_s);
		sim_run(sim, plan);
		_exit(0);
	}
	LEND_CHECK(waitpid(child, &status, 0) == child);
	if (WIFSIGNALED(status) || WEXITSTATUS(status))
		sim_died(status, why);
	else
		memcpy(why, sim->why, SIM_WHY);
	return !why[0];
}

/* True when both texts are the same except for numbers. */
static bool same_kind(const char *a, const char *b)
{
	for (;; a++, b++) {
		while (isdigit((unsigned char)*a))
			a++;
		while (isdigit((unsigned char)*b))
			b++;
		if (*a != *b || !*a)
			return *a == *b;
	}
}

struct shrinking {
	struct sim_failure *best;
	time_t end;
	uint32_t tries;
};

/* Another seed may show the violation where this one no longer does. */
static bool still_fails(struct shrinking *s, struct sim_plan plan)
{
	uint64_t seed = plan.seed;
	char why[SIM_WHY];

	for (uint64_t i = 0; i < 3 && time(NULL) < s->end; i++) {
		plan.seed = i ? i : seed;
		s->tries++;
		if (!sim_try(&plan, 20, why) && same_kind(why, s->best->why)) {
			s->best->plan = plan;
			memcpy(s->best->why, why, SIM_WHY);
			return true;
		}
	}
	return false;
}

/* Shrinks one number: all of the way, else by halves as long as that works. */
static bool try_smaller(struct shrinking *s, size_t field)
{
	struct sim_plan plan = s->best->plan;
	uint64_t *value, calm, was;
	bool any = false;

	if (!sim_plan_field(&plan, field, &value, &calm) || *value == calm)
		return false;
	was = *value;
	*value = calm;
	if (still_fails(s, plan))
		return true;
	while (was > calm && time(NULL) < s->end) {
		plan = s->best->plan;
		*value = was - (was - calm + 1) / 2;
		if (*value == was || !still_fails(s, plan))
			break;
		was = *value;
		any = true;
	}
	return any;
}

/* Reduces the work to zero, which is not its default. */
static bool try_fewer(struct shrinking *s, size_t field)
{
	struct sim_plan plan = s->best->plan;
	uint64_t *value, calm;
	const char *name = sim_plan_field(&plan, field, &value, &calm);
	bool any = false;

	if (strcmp(name, "calls") && strcmp(name, "span_us") && strcmp(name, "len_max"))
		return false;
	while (*value > 1 && time(NULL) < s->end) {
		*value -= (*value + 3) / 4;
		if (!still_fails(s, plan))
			break;
		plan = s->best->plan;
		any = true;
	}
	return any;
}

void sim_shrink(struct sim_failure *failure, unsigned limit_s)
{
	struct shrinking s = {.best = failure, .end = time(NULL) + (time_t)limit_s};
	uint64_t *value, calm;
	bool any = true;

	while (any && time(NULL) < s.end) {
		any = false;
		for (size_t i = 1; sim_plan_field(&failure->plan, i, &value, &calm); i++)
			any |= try_fewer(&s, i);
		for (size_t i = 1; sim_plan_field(&failure->plan, i, &value, &calm); i++)
			any |= try_smaller(&s, i);
	}
}

void sim_print_failure(const struct sim_failure *failure)
{
	char text[SIM_PLAN_TEXT];

	sim_plan_write(&failure->plan, text);
	fprintf(stderr, "%s\n  lend-sim replay '%s'\n", failure->why, text);
}

void sim_print_trace(const struct sim_failure *failure)
{
	char why[SIM_WHY];

	sim_try(&failure->plan, 120, why);
	sim_trace_print(&sim->trace, stderr);
	fprintf(stderr, "%s\n", why);
}

int sim_cmd_shrink(int argc, char **argv)
{
	struct sim_failure f;
	unsigned seconds = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 60;

	if (argc < 2 || argc > 3 || !sim_plan_read(argv[1], &f.plan)) {
		fprintf(stderr, "usage: lend-sim shrink 'seed=7 nodes=3 ...' [SECONDS]\n");
		return 2;
	}
	if (sim_try(&f.plan, 120, f.why)) {
		printf("no violation\n");
		return 0;
	}
	sim_shrink(&f, seconds);
	sim_print_failure(&f);
	sim_print_trace(&f);
	return 1;
}
