/* fail_nth_start - the start of lend-mn, with one worker on udp and with two on shm, with a failure
 * in it. It prints a remedy and exits with 1, or serves and exits with 0; nothing is left either
 * way. Part of fail_nth_world.h. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kill/fail_nth_world.h"

enum { LEAKED = 99 };
int lend_mn_main(int argc, char **argv);

static void live(const char *listen, const char *workers, enum nth which, uint32_t n, int out,
		 int count)
{
	const char *argv[] = {"lend-mn",   "--listen", listen,      "--size", "4M",
			      "--clients", "4",        "--workers", workers,  NULL};
	struct nth_world after = {.lstat_failed = which == NTH_lstat};
	uint32_t calls;
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, 1);
	dup2(out, 2);
	nth_arm(which, 0, 0);
	nth_world_base();
	nth_arm(which, n, n ? 1 : 0);
	rc = lend_mn_main(9, (char **)(uintptr_t)argv);
	for (int f = 0; !n && f < NTH_COUNT; f++) {
		calls = nth_calls((enum nth)f);
		(void)!write(count, &calls, sizeof(calls));
	}
	nth_world_leaks(&after);
	if (after.why[0])
		fprintf(stderr, "%s\n", after.why);
	_exit(after.why[0] ? LEAKED : rc);
}

/* Reads all its output; sends it SIGTERM once it serves. */
static int hear(pid_t pid, int fd, char *text, size_t cap)
{
	size_t at = 0;
	ssize_t n;
	int status;

	text[0] = 0;
	while (at + 1 < cap && (n = read(fd, text + at, cap - 1 - at)) > 0) {
		at += (size_t)n;
		text[at] = 0;
		if (strstr(text, " at "))
			kill(pid, SIGTERM);
	}
	(void)waitpid(pid, &status, 0);
	return status;
}

static bool once(const char *scheme, enum nth which, uint32_t n, uint32_t *calls)
{
	int out[2], count[2], status;
	char listen[64], text[512];
	pid_t pid;
	bool served, fine;

	(void)snprintf(listen, sizeof(listen),
		       strcmp(scheme, "shm") ? "udp:127.0.0.1:0" : "shm:s%d", (int)getpid());
	if (pipe(out) || pipe(count))
		return false;
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		live(listen, strcmp(scheme, "shm") ? "1" : "2", which, n, out[1], count[1]);
	close(out[1]);
	close(count[1]);
	status = hear(pid, out[0], text, sizeof(text));
	if (!n)
		(void)!read(count[0], calls, NTH_COUNT * sizeof(*calls));
	close(out[0]);
	close(count[0]);
	served = strstr(text, " at ") != NULL;
	fine = WIFEXITED(status) && WEXITSTATUS(status) == !served &&
	       (served || strchr(text + strlen("lend-mn:"), ':') || strchr(text, ';'));
	if (!fine)
		printf("lend-mn on %s, call %u of %s: status %x, \"%s\"\n", scheme, n,
		       nth_name[which], status, text);
	return fine;
}

void nth_start_all(uint32_t *runs, uint32_t *bad)
{
	static const char *const scheme[] = {"shm", "udp"};
	uint32_t calls[NTH_COUNT] = {0};

	for (int s = 0; s < 2; s++) {
		*bad += !once(scheme[s], 0, 0, calls);
		for (int f = 0; f < NTH_COUNT; f++)
			for (uint32_t n = 1; n <= calls[f] && n <= 40; n++) {
				*bad += !once(scheme[s], (enum nth)f, n, NULL);
				++*runs;
			}
	}
}
