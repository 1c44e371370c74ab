/* Goal: the next start removes the files that killed processes left in the runtime folder, and none
 * of a living process. Method: sockets and lock files of children that end without closing them,
 * next to every kind of file that has to stay; then many processes that open, die and sweep at
 * once, and each check that their own file stays. Covers: src/sys/sweep.c,
 * src/sys/unix_listener.c */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/unix_listener.h"
#include "sys/rundir.h"
#include "sys/sweep.h"
#include "util/rng.h"

enum { CHILDREN = 1500, AT_ONCE = 8, NAMES = 8, LOOKS = 10 };

static char parent[] = "/tmp/lend-sweep-XXXXXX", folder[64];

static void setup(void)
{
	cr_assert_not_null(mkdtemp(parent));
	setenv("XDG_RUNTIME_DIR", parent, 1);
	cr_assert_eq(lend_rundir(folder, sizeof(folder)), 0);
}

static void teardown(void)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -r %s", parent);
	if (system(command) != 0)
		abort(); /* Criterion ignores assertions here */
}

static const char *path_of(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static bool is_there(const char *name)
{
	struct stat st;

	return lstat(path_of(name), &st) == 0;
}

static void open_listener(struct lend_unix_listener *listener, const char *name, int type)
{
	strcpy(listener->at.sun_path, path_of(name));
	cr_assert_eq(lend_unix_listener_open(listener, type | SOCK_NONBLOCK, name), 0);
}

static int hold_lock(const char *name)
{
	int fd = open(path_of(name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	return fd;
}

static void leave_dead(void)
{
	struct lend_unix_listener listener;

	if (fork() == 0) {
		open_listener(&listener, "dead", SOCK_SEQPACKET);
		open_listener(&listener, "dead.pool", SOCK_SEQPACKET);
		open_listener(&listener, "dead.admin", SOCK_STREAM);
		open_listener(&listener, "memif-127.0.0.1-1", SOCK_SEQPACKET);
		(void)hold_lock("memif-127.0.0.1-1.lock");
		(void)hold_lock("memif-127.0.0.1-1.0.lock");
		open_listener(&listener, "memif-127.0.0.1-3", SOCK_SEQPACKET); /* lock file gone */
		_exit(0);
	}
	(void)wait(NULL);
}

Test(sweep, dead_go__living_and_foreign_stay, .init = setup, .fini = teardown)
{
	static const char *const dead[] = {"dead",
					   "dead.pool",
					   "dead.admin",
					   "memif-127.0.0.1-1",
					   "memif-127.0.0.1-1.lock",
					   "memif-127.0.0.1-1.0.lock",
					   "memif-127.0.0.1-3"};
	static const char *const alive[] = {
	    "live",       "bound", "memif-127.0.0.1-2", "memif-127.0.0.1-2.lock", "notes",
	    "notes.lock", ".lock", "a-folder"};
	struct lend_unix_listener live, memif;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int bound = socket(AF_UNIX, SOCK_SEQPACKET, 0), lock;

	leave_dead();
	open_listener(&live, "live", SOCK_SEQPACKET);
	open_listener(&memif, "memif-127.0.0.1-2", SOCK_SEQPACKET);
	lock = hold_lock("memif-127.0.0.1-2.lock");
	strcpy(at.sun_path, path_of("bound"));
	cr_assert_eq(bind(bound, (void *)&at, sizeof(at)), 0); /* not listening yet */
	cr_assert_geq(close(open(path_of("notes"), O_CREAT | O_WRONLY, 0600)), 0);
	cr_assert_geq(close(open(path_of("notes.lock"), O_CREAT | O_WRONLY, 0600)), 0);
	cr_assert_eq(mkdir(path_of("a-folder"), 0700), 0);
	lend_sweep();
	for (size_t i = 0; i < sizeof(dead) / sizeof(dead[0]); i++)
		cr_assert(!is_there(dead[i]), "%s", dead[i]);
	for (size_t i = 0; i < sizeof(alive) / sizeof(alive[0]); i++)
		cr_assert(is_there(alive[i]), "%s", alive[i]);
	cr_assert_lt(accept(live.fd, NULL, NULL), 0, "a living server was dialled");
	(void)close(lock);
	(void)close(bound);
	lend_unix_listener_close(&live);
	lend_unix_listener_close(&memif);
}

Test(sweep, another_users_files_stay, .init = setup, .fini = teardown)
{
	if (geteuid() != 0)
		return; /* cannot give files away */
	leave_dead();
	cr_assert_eq(lchown(path_of("dead"), 1, 1), 0);
	cr_assert_eq(lchown(path_of("memif-127.0.0.1-1.lock"), 1, 1), 0);
	lend_sweep();
	cr_assert(is_there("dead"));
	cr_assert(is_there("memif-127.0.0.1-1.lock"));
	cr_assert(!is_there("dead.pool"));
}

/* Listens at that name in a network namespace of its own until it is killed; -1: not allowed. */
static pid_t listen_elsewhere(const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int ready[2], fd;
	pid_t child;
	char byte;

	strcpy(at.sun_path, path_of(name));
	cr_assert_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
			_exit(0);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (bind(fd, (void *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0 &&
		    write(ready[1], "r", 1) == 1)
			(void)pause();
		_exit(0);
	}
	(void)close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		child = -1;
	(void)close(ready[0]);
	return child;
}

/* It is not in this namespace's /proc/net/unix, and a connect() of another type fails with an error
 * that is not ECONNREFUSED. */
Test(sweep, living_in_another_network_namespace__stays, .init = setup, .fini = teardown)
{
	pid_t child = listen_elsewhere("live.admin");

	if (child < 0)
		cr_skip("no network namespace can be made here");
	lend_sweep();
	cr_assert(is_there("live.admin"));
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
}

/* Exit status 0: its file stayed as long as it lived. */
static int live_and_die(uint32_t seed)
{
	struct lend_rng rng;
	struct lend_unix_listener listener = {.fd = -1};
	struct stat st;
	char name[16];

	lend_rng_seed(&rng, seed);
	(void)snprintf(name, sizeof(name), "n%u", (unsigned)(lend_rng_next(&rng) % NAMES));
	if (lend_rng_next(&rng) % 2)
		lend_sweep();
	strcpy(listener.at.sun_path, path_of(name));
	if (lend_unix_listener_open(&listener, SOCK_SEQPACKET | SOCK_NONBLOCK, name) < 0)
		return 0; /* another process holds the name */
	for (int i = 0; i < LOOKS; i++) {
		if (lstat(listener.at.sun_path, &st) < 0 || st.st_ino != listener.ino)
			return 1;
		(void)sched_yield();
	}
	if (lend_rng_next(&rng) % 2)
		lend_unix_listener_close(&listener);
	return 0;
}

Test(sweep, never_takes_a_living_name, .init = setup, .fini = teardown, .timeout = 60)
{
	uint32_t seed = (uint32_t)getpid();
	int running = 0, status;

	fprintf(stderr, "seed %u\n", seed);
	for (uint32_t i = 0; i < CHILDREN || running > 0; i++) {
		if (i < CHILDREN && fork() == 0)
			_exit(live_and_die(seed + i));
		running += i < CHILDREN;
		if (running < AT_ONCE && i < CHILDREN)
			continue;
		cr_assert_gt(wait(&status), 0);
		running--;
		cr_assert_eq(status, 0, "seed %u: a living name's file is gone", seed);
	}
}
