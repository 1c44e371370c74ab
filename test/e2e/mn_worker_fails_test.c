/* Goal: a worker of a memory node that fails ends the node, with one line that names the worker and
 * the cause. Method: lend-mn's own main() in a child, whose lend_cpu_pin() fails in one worker.
 * Covers: mn/lend_mn.c, mn/node_worker.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/last_error.h"

enum { BOUND_S = 20 };

int lend_mn_main(int argc, char **argv);
int __wrap_lend_cpu_pin(int cpu);

static pid_t first_thread; /* thread id of worker 0 */
static bool fails_first;

int __wrap_lend_cpu_pin(int cpu)
{
	(void)cpu;
	return (gettid() == first_thread) == fails_first ? lend_fail(EPERM, "made to fail") : 0;
}

static void run_node(int to)
{
	static char text[][24] = {"lend-mn", "--listen=udp:0.0.0.0:0", "--size=8M", "--pin",
				  "--workers=2"};
	enum { N = sizeof(text) / sizeof(text[0]) };
	char *argv[N + 1] = {NULL};

	for (int i = 0; i < N; i++)
		argv[i] = text[i];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(BOUND_S); /* a node that goes on is killed */
	dup2(to, STDERR_FILENO);
	close(to);
	if (!freopen("/dev/null", "w", stdout))
		_exit(2);
	first_thread = gettid();
	_exit(lend_mn_main(N, argv));
}

/* Runs a node to its end. Returns its wait status, and its first line on stderr. */
static int end_of_node(char *line, int len)
{
	int fds[2], status;
	FILE *errors;
	pid_t pid;

	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (pid == 0)
		run_node(fds[1]);
	close(fds[1]);
	errors = fdopen(fds[0], "r");
	if (!fgets(line, len, errors))
		line[0] = 0;
	cr_expect_eq(fgetc(errors), EOF, "more than one line");
	fclose(errors);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void check_end(const char *want)
{
	char line[256];
	int status = end_of_node(line, sizeof(line));

	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %#x", status);
	cr_expect_str_eq(line, want);
}

Test(mn_worker_fails, worker_1__the_node_ends)
{
	fails_first = false;
	check_end("lend-mn: worker 1: made to fail\n");
}

Test(mn_worker_fails, worker_0__the_node_ends)
{
	fails_first = true;
	check_end("lend-mn: made to fail\n");
}
