/* planted - how many seeds the simulator needs to find each planted bug: the test of the tests.
 *
 * Each bug is run in a child process: its own plan under a few seeds, if it has one; then the seed
 * that found it last; then the seeds of the swarm. A failure is a violation, a failed check of the
 * product, a signal, or more CPU time than any seed takes. The same plan must then pass without the
 * bug, or it does not count. Layer: test/sim. */
#include "sim/planted/plants.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/option_table.h"
#include "sim/command.h"
#include "sim/explore/explore.h"
#include "sim/lent/lent.h"
#include "sim/named/named.h"
#include "sim/sim.h"
#include "sim/stream/stream_run.h"

enum { JOBS_MAX = 16, PLANTS_MAX = 512, WHY = 160, HANG_SECONDS = 8, PLAN_TRIES = 4 };

struct options {
	uint64_t first, seeds;
	uint32_t jobs;
	uint32_t quarter; /* every fourth bug, from this one on; 0: all of them */
	bool json;
	const char *only; /* a bug's name, or NULL */
	const char *file; /* bugs of files with this name prefix, or NULL */
};

/* Runs a seed of another command than `run`, and ends the process at a violation. */
typedef void run_seed_fn(uint64_t seed);

/* State of one bug. Its child writes it, and after the child's death the parent. */
struct desk {
	uint64_t seed; /* seed that runs, or that failed; 0: the plan, or the explorer */
	uint64_t plan_seed;
	const char *plan;   /* a plan to run before all seeds, or NULL */
	uint64_t known;     /* a seed to run before all others, or 0 */
	run_seed_fn *other; /* runs are those of another command; NULL: of `run` */
	bool wanted, found;
	pid_t child;
	int said; /* read end of the child's stderr */
	char why[WHY];
};

/* LEND_PLANTED=NAME selects a bug for all other commands. */
__attribute__((constructor)) static void choose_plant(void)
{
	const char *name = getenv("LEND_PLANTED");

	for (unsigned i = 0; name && i < lend_plants_n; i++)
		if (strcmp(lend_plants[i].name, name) == 0)
			lend_planted = i + 1;
	if (name && !lend_planted) {
		fprintf(stderr, "LEND_PLANTED: no such plant: %s\n", name);
		exit(2);
	}
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Runs the explorer, for bugs that need an order of events too rare for seeds. */
static int explore_plant(struct desk *d, char *scope)
{
	char name[] = "explore", option[] = "--seconds", value[] = "20", of[] = "--scope";
	char *argv[] = {name, option, value, of, scope, NULL};

	dup2(d->said, 1);
	d->seed = 0;
	snprintf(d->why, WHY, "seen by the explorer, scope %s", scope);
	return sim_explore(5, argv) != 0;
}

/* True: it fails. */
static bool run_plan(struct desk *d, const struct sim_plan *plan)
{
	static struct sim sim;
	const struct itimerval limit = {.it_value = {.tv_sec = HANG_SECONDS}};

	setitimer(ITIMER_PROF, &limit, NULL);
	if (sim_run(&sim, plan))
		return false;
	snprintf(d->why, WHY, "%.*s", WHY - 1, sim.why);
	return true;
}

/* Runs its own plan with seeds from d->plan_seed on. One run may miss the bug after a change of the
 * product. */
static bool run_own(struct desk *d, unsigned tries)
{
	struct sim_plan plan;

	for (; tries > 0; tries--, d->plan_seed++) {
		if (!sim_plan_read(d->plan, &plan))
			return true;
		plan.seed = d->plan_seed;
		if (run_plan(d, &plan))
			return true;
	}
	return false;
}

/* True: it fails. */
static bool run_seed(struct desk *d, uint64_t seed)
{
	struct sim_plan plan = sim_plan_draw(seed);

	d->seed = seed;
	return run_plan(d, &plan);
}

/* Runs seeds of `lent`, `named` or `stream`. */
static int run_other(struct desk *d, uint64_t first, uint64_t last)
{
	const struct itimerval limit = {.it_value = {.tv_sec = HANG_SECONDS}};

	d->other(0);
	d->seed = d->known;
	if (d->known >= first && d->known <= last)
		d->other(d->known);
	for (d->seed = first; d->seed <= last; d->seed++) {
		setitimer(ITIMER_PROF, &limit, NULL);
		d->other(d->seed);
	}
	return 0;
}

/* Runs in the child. Returns 0 when its own plan and the seeds of [first, last] passed. */
static int run_seeds(struct desk *d, unsigned plant, uint64_t first, uint64_t last)
{
	char scope[16];

	lend_planted = plant;
	dup2(d->said, 2);
	if (plant && sscanf(lend_plants[plant - 1].seen, "the explorer in %15[a-z]", scope) == 1)
		return explore_plant(d, scope);
	d->seed = 0;
	if (d->other)
		return run_other(d, first, last);
	if (d->plan && run_own(d, plant ? PLAN_TRIES : 1))
		return 1;
	if (d->known >= first && d->known <= last && run_seed(d, d->known))
		return 1;
	for (; first <= last; first++)
		if (run_seed(d, first))
			return 1;
	return 0;
}

static void start_hunt(struct desk *d, unsigned plant, uint64_t first, uint64_t last)
{
	pid_t child;

	d->said = memfd_create("said", 0);
	LEND_CHECK(d->said >= 0);
	d->why[0] = '\0';
	fflush(NULL);
	child = fork();
	LEND_CHECK(child >= 0);
	if (child == 0)
		_exit(run_seeds(d, plant, first, last));
	d->child = child;
}

/* Stores the cause of the child's death. A failed check names itself on stderr. */
static void judge_death(struct desk *d, int status)
{
	char text[WHY];
	ssize_t n = pread(d->said, text, WHY - 1, 0);

	close(d->said);
	d->child = 0;
	d->found = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	if (!d->found || d->why[0])
		return;
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
		snprintf(d->why, WHY, "hangs");
	else if (text[0])
		memcpy(d->why, text, WHY);
	else
		snprintf(d->why, WHY, "signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* True when this seed, or this plan instead of one, fails without the bug, too. */
static bool fails_anyway(struct desk *control, const struct desk *d)
{
	int status;

	control->plan = d->seed ? NULL : d->plan;
	control->plan_seed = d->plan_seed;
	control->other = d->other;
	start_hunt(control, 0, d->seed + !d->seed, d->seed);
	waitpid(control->child, &status, 0);
	judge_death(control, status);
	return control->found;
}

/* Continues after a plan or a seed that does not count. The known seed was run out of order. */
static void run_known(struct desk *d, unsigned plant, uint64_t first, uint64_t last)
{
	d->found = false;
	d->plan = NULL;
	if (d->seed && d->seed != d->known)
		first = d->seed + 1;
	if (d->seed)
		d->known = 0;
	start_hunt(d, plant, first, last);
}

/* True: one child fewer. A seed that also fails without the bug does not count; the next one
 * follows. */
static bool wait_one(struct desk *desk, uint64_t first, uint64_t last)
{
	int status;
	pid_t pid = wait(&status);
	unsigned i = 1;

	while (pid > 0 && i <= lend_plants_n && desk[i].child != pid)
		i++;
	LEND_CHECK(pid > 0 && i <= lend_plants_n);
	judge_death(&desk[i], status);
	if (desk[i].found && (desk[i].seed || desk[i].plan) && fails_anyway(&desk[0], &desk[i])) {
		fprintf(stderr, "%s: seed %llu (0: its plan) fails without the bug: %s\n",
			lend_plants[i - 1].name, (unsigned long long)desk[i].seed, desk[0].why);
		run_known(&desk[i], i, first, last);
		return false;
	}
	fprintf(stderr, "%s: %llu: %s\n", lend_plants[i - 1].name, (unsigned long long)desk[i].seed,
		desk[i].found ? desk[i].why : "nothing seen");
	return true;
}

/* Returns the run of another command that finds a bug, by its `seen` field. */
static run_seed_fn *other_run(const char *seen)
{
	if (strncmp(seen, "lent: ", 6) == 0)
		return lent_run_seed;
	if (strncmp(seen, "named: ", 7) == 0)
		return named_run_seed;
	return strncmp(seen, "stream: ", 8) == 0 ? stream_run_seed : NULL;
}

static void run_all(struct desk *desk, const struct options *o)
{
	uint64_t first = o->first, last = o->first + o->seeds - 1;
	uint32_t busy = 0;

	for (unsigned i = 1; i <= lend_plants_n; i++) {
		if (!desk[i].wanted)
			continue;
		while (busy == o->jobs)
			busy -= wait_one(desk, first, last);
		desk[i].plan = lend_plants[i - 1].plan;
		desk[i].plan_seed = 1;
		desk[i].known = lend_plants[i - 1].seed;
		desk[i].other = other_run(lend_plants[i - 1].seen);
		start_hunt(&desk[i], i, first, last);
		busy++;
	}
	while (busy > 0)
		busy -= wait_one(desk, first, last);
	for (unsigned i = 1; i <= lend_plants_n; i++)
		desk[i].seed -= desk[i].seed ? o->first - 1 : 0; /* becomes the number of seeds */
}

static void print_json(const struct desk *desk, unsigned wanted, unsigned found, double seconds)
{
	const char *comma = "";

	printf("{\"planted\":%u,\"planted_found\":%u,\"planted_seconds\":%.1f,"
	       "\"planted_missed\":[",
	       wanted, found, seconds);
	for (unsigned i = 1; i <= lend_plants_n; i++)
		if (desk[i].wanted && !desk[i].found) {
			printf("%s\"%s\"", comma, lend_plants[i - 1].name);
			comma = ",";
		}
	printf("],\"planted_seeds\":{");
	comma = "";
	for (unsigned i = 1; i <= lend_plants_n; i++)
		if (desk[i].found) {
			printf("%s\"%s\":%llu", comma, lend_plants[i - 1].name,
			       (unsigned long long)desk[i].seed);
			comma = ",";
		}
	printf("}}\n");
}

static void print_text(const struct desk *desk, unsigned wanted, unsigned found, double seconds)
{
	printf("%-30s %6s  %s\n", "planted bug", "seeds", "seen as");
	for (unsigned i = 1; i <= lend_plants_n; i++) {
		if (!desk[i].wanted)
			continue;
		if (desk[i].found)
			printf("%-30s %6llu  %s\n", lend_plants[i - 1].name,
			       (unsigned long long)desk[i].seed, desk[i].why);
		else
			printf("%-30s MISSED  %s; to be seen by: %s\n", lend_plants[i - 1].name,
			       lend_plants[i - 1].does, lend_plants[i - 1].seen);
	}
	printf("%u of %u planted bugs found in %.1f s\n", found, wanted, seconds);
}

static const struct lend_option options[] = {
    OPT_NUMBER(struct options, first, "first", 0, UINT64_MAX, "First seed (1)"),
    OPT_NUMBER(struct options, seeds, "seeds", 1, UINT64_MAX, "For each bug, at most (10000)"),
    OPT_NUMBER(struct options, jobs, "jobs", 1, JOBS_MAX, "Processes (2)"),
    OPT_NUMBER(struct options, quarter, "quarter", 0, 4,
	       "Every fourth bug, from this one on (0: all)"),
    OPT_TEXT(struct options, only, "only", "NAME", "This bug only"),
    OPT_TEXT(struct options, file, "file", "PREFIX", "Bugs in files whose paths begin so"),
    OPT_JSON(struct options, json),
    {.name = NULL}};

int sim_cmd_planted(int argc, char **argv)
{
	struct options o = {.first = 1, .seeds = 10000, .jobs = 2};
	double since = now_s();
	struct desk *desk;
	unsigned wanted = 0, found = 0;

	lend_options_read(&(struct lend_syntax){.option = options}, NULL, argc, argv, &o);
	LEND_CHECK(lend_plants_n < PLANTS_MAX);
	desk = mmap(NULL, PLANTS_MAX * sizeof(*desk), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	LEND_CHECK(desk != MAP_FAILED);
	for (unsigned i = 1; i <= lend_plants_n; i++) {
		const struct lend_plant *p = &lend_plants[i - 1];

		desk[i].wanted = strncmp(p->seen, "scen: ", 6) != 0 &&
				 (!o.only || strcmp(p->name, o.only) == 0) &&
				 (!o.file || strncmp(p->file, o.file, strlen(o.file)) == 0) &&
				 (o.quarter == 0 || (i - 1) % 4 == o.quarter - 1);
		wanted += desk[i].wanted;
	}
	run_all(desk, &o);
	for (unsigned i = 1; i <= lend_plants_n; i++)
		found += desk[i].found;
	(o.json ? print_json : print_text)(desk, wanted, found, now_s() - since);
	return wanted == 0 || found != wanted;
}
