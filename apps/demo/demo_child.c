/* demo_child - runs one command of the demo as a process, so that a failing command costs only its
 * row.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/demo/demo.h"

enum { WORDS_MAX = 24, TICK_NS = 50000000 };
#define CHILD_NS UINT64_C(180000000000) /* timeout of a command */

static pid_t start_child(const char *const words[], int out, int err)
{
	const char *argv[WORDS_MAX + 2] = {"lend"};
	pid_t pid;

	for (unsigned i = 0; i < WORDS_MAX && words[i]; i++)
		argv[i + 1] = words[i];
	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* Waits for the child; kills it after CHILD_NS. Returns its exit status as waitpid() does. */
static int wait_end(pid_t pid, void (*tick)(void *), void *arg)
{
	const struct timespec delay = {.tv_nsec = TICK_NS};
	lend_ns until = app_now() + CHILD_NS;
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (app_now() > until)
			kill(pid, SIGKILL);
		nanosleep(&delay, NULL);
		tick(arg);
	}
	return status;
}

/* Returns the content of a memfd as a string; NULL without memory. */
static char *read_memfd(int fd)
{
	off_t len = lseek(fd, 0, SEEK_END);
	char *text = calloc(1, (size_t)(len < 0 ? 0 : len) + 1);

	if (text && len > 0 && pread(fd, text, (size_t)len, 0) < 0)
		text[0] = 0;
	return text;
}

/* Copies the last line of the output to why, without the command's name. */
static void last_line(char *text, char why[DEMO_WHY])
{
	size_t len = strlen(text);
	char *line, *colon;

	while (len && text[len - 1] == '\n')
		text[--len] = 0;
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	colon = strncmp(line, "lend", 4) ? NULL : strstr(line, ": ");
	snprintf(why, DEMO_WHY, "%s", colon ? colon + 2 : line);
}

char *demo_child(const char *const words[], char why[DEMO_WHY], void (*tick)(void *), void *arg)
{
	int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);
	pid_t pid = out < 0 || err < 0 ? -1 : start_child(words, out, err);
	char *text = NULL, *said;
	int status;

	if (pid < 0)
		app_die("cannot start a process: %s; end some", strerror(errno));
	status = wait_end(pid, tick, arg);
	said = read_memfd(err);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		text = read_memfd(out);
	else if (said && said[0])
		last_line(said, why);
	else
		snprintf(why, DEMO_WHY, WIFSIGNALED(status) ? "ended by signal %d" : "exit code %d",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	free(said);
	close(out);
	close(err);
	return text;
}

double demo_number(const char *json, const char *key)
{
	char quoted[64];
	const char *at;

	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	at = strstr(json, quoted);
	return at ? strtod(at + strlen(quoted), NULL) : 0;
}
