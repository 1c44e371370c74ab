#include "sim/lent/lent_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/lent/lent.h"
#include "sim/sim_args.h"
#include "util/check.h"

enum { JOBS_MAX = 16, RUNS_MANY = 100 };

struct sums {
	uint64_t sum[LENT_COMMAND_SUMS];
};

/* Runs every jobs-th seed from first on, until a time in seconds. */
static void run_job(const struct lent_command *c, struct sums *sums, unsigned long first,
		    unsigned long last, uint32_t jobs, time_t until)
{
	c->run_seed(0);
	memset(c->sum, 0, c->n * sizeof(*c->sum));
	for (unsigned long seed = first; seed <= last && time(NULL) < until; seed += jobs)
		c->run_seed(seed);
	memcpy(sums->sum, c->sum, c->n * sizeof(*c->sum));
}

struct options {
	uint64_t first, last, seconds;
	uint32_t jobs;
	bool json;
};

static void take_trace(const struct lend_option *option, void *args, char *value)
{
	(void)option, (void)args, (void)value;
	lent_traced = true;
}

static const struct lend_option options[] = {
    OPT_SEEDS(struct options, first, "Seeds to run (1..200)"),
    OPT_NUMBER(struct options, seconds, "seconds", 0, 86400, "Start no seed later (3600)"),
    OPT_NUMBER(struct options, jobs, "jobs", 1, JOBS_MAX, "Processes (1)"),
    OPT_TAKEN("trace", NULL, take_trace, "Print each step"),
    OPT_JSON(struct options, json),
    {.name = NULL}};

/* Prints the sums. Returns the number of violations: a sum that many runs did not reach is one. */
static unsigned print_sums(const struct lent_command *c, const uint64_t *sum, unsigned violations,
			   bool json)
{
	for (size_t i = 0; i < c->n; i++) {
		const char *name = c->text[2 * i], *text = c->text[2 * i + 1];

		if (sum[0] >= RUNS_MANY && !sum[i]) {
			fprintf(stderr, "%s: no run reached this: %s\n", c->name, text);
			violations++;
		}
		if (json)
			printf("%s\"%s_%s\":%lu", i ? "," : "{", c->name, name,
			       (unsigned long)sum[i]);
		else
			printf("%12lu %s\n", (unsigned long)sum[i], text);
	}
	printf(json ? ",\"violations\":%u}\n" : "%12u violations\n", violations);
	return violations;
}

/* Runs all jobs, each in a process. Returns how many of them failed; leaks are a failure, too. */
static unsigned run_jobs(const struct lent_command *c, const struct options *o, struct sums *sums)
{
	time_t until = time(NULL) + (time_t)o->seconds;
	unsigned failed = 0;
	int status;

	for (uint32_t i = 0; i < o->jobs; i++)
		if (fork() == 0) {
			run_job(c, &sums[i], o->first + i, o->last, o->jobs, until);
			exit(0);
		}
	while (wait(&status) > 0)
		failed += status != 0;
	return failed;
}

int lent_command_run(const struct lent_command *command, int argc, char **argv)
{
	struct options o = {1, 200, 3600, 1, false};
	struct sums all = {{0}}, *sums;
	unsigned failed;

	LEND_CHECK(command->n <= LENT_COMMAND_SUMS);
	lend_options_read(&(struct lend_syntax){.option = options}, NULL, argc, argv, &o);
	sums = mmap(NULL, JOBS_MAX * sizeof(*sums), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	LEND_CHECK(sums != MAP_FAILED);
	failed = run_jobs(command, &o, sums);
	for (uint32_t i = 0; i < o.jobs; i++)
		for (size_t k = 0; k < command->n; k++)
			all.sum[k] += sums[i].sum[k];
	return print_sums(command, all.sum, failed, o.json) != 0;
}
