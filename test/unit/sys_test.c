/* Goal: the clock never goes back and keeps the system clock's pace; arenas are zero; a runtime
 * folder that is open to other users is refused. Method: ten milliseconds next to clock_gettime(),
 * then temporary folders of every wrong kind. Covers: src/sys/clock.c, src/sys/cpu.c,
 * src/sys/mapped_memory.c, src/sys/rand.c, src/sys/rundir.c, src/sys/lockfile.h */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/cpu.h"
#include "sys/mapped_memory.h"
#include "sys/lockfile.h"
#include "sys/rand.h"
#include "sys/rundir.h"
#include "sys/last_error.h"

static lend_ns system_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (lend_ns)ts.tv_sec * 1000000000 + (lend_ns)ts.tv_nsec;
}

Test(clock, never_back_and_close_to_the_systems)
{
	lend_ns end = system_now() + 10000000, last = 0, before, now, after;

	do {
		before = system_now();
		now = lend_clock_now();
		after = system_now();
		cr_assert_geq(now, last);
		/* A thread that is preempted between two reads widens the bracket by itself. */
		cr_assert_geq(now + 100000, before);
		cr_assert_leq(now, after + 100000);
		last = now;
	} while (after < end);
	cr_assert_gt(lend_clock_cycles_per_second(), UINT64_C(1000000));
}

Test(cpu, pins_to_one_of_its_own)
{
	int n = lend_cpu_count();

	cr_assert_geq(n, 1);
	cr_assert_eq(lend_cpu_at(n), lend_cpu_at(0));
	cr_assert_eq(lend_cpu_pin(lend_cpu_at(n - 1)), 0);
	cr_assert_eq(lend_cpu_count(), 1);
	cr_assert_eq(lend_cpu_pin(-1), -EINVAL);
	cr_assert_gt(strlen(lend_why_text()), 0);
}

Test(heap, is_zero_and_as_large_as_asked)
{
	static const size_t len[] = {1, 4096, 4097, 2 << 20, (2 << 20) + 1, 5 << 20, 33 << 20};
	static const size_t n = sizeof(len) / sizeof(len[0]);

	for (size_t k = 0; k < 2 * n; k++) {
		struct lend_mapping heap;
		unsigned char *byte;
		size_t i = k % n;

		cr_assert_eq((k < n ? lend_mapping_map : lend_mapping_map_sparse)(&heap, len[i]),
			     0);
		cr_assert_geq(heap.len, len[i]);
		byte = heap.base;
		cr_assert_eq(byte[0] | byte[len[i] - 1], 0);
		byte[len[i] - 1] = 1;
		lend_mapping_unmap(&heap);
		lend_mapping_unmap(&heap);
	}
	struct lend_mapping none;

	cr_assert_eq(lend_mapping_map(&none, SIZE_MAX), -ENOMEM);
	cr_assert_eq(lend_mapping_map_sparse(&none, SIZE_MAX), -ENOMEM);
}

Test(rand, differs)
{
	unsigned char a[32], b[32];

	lend_random(a, sizeof(a));
	lend_random(b, sizeof(b));
	cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
}

Test(rundir, is_ours_alone)
{
	char parent[] = "/tmp/lend-sys-XXXXXX", path[128], want[128], small[8];
	struct stat st;

	cr_assert_not_null(mkdtemp(parent));
	setenv("XDG_RUNTIME_DIR", parent, 1);
	snprintf(want, sizeof(want), "%s/lend", parent);
	cr_assert_eq(lend_rundir(path, sizeof(path)), 0);
	cr_assert_str_eq(path, want);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0700);
	cr_assert_eq(lend_rundir(path, sizeof(path)), 0, "twice is fine");
	cr_assert_eq(lend_rundir(small, sizeof(small)), -ENAMETOOLONG);

	chmod(want, 0750);
	cr_assert_eq(lend_rundir(path, sizeof(path)), -EPERM);
	rmdir(want);
	cr_assert_eq(symlink("/tmp", want), 0);
	cr_assert_eq(lend_rundir(path, sizeof(path)), -EPERM, "a planted link");
	unlink(want);
	setenv("XDG_RUNTIME_DIR", "/nowhere/at/all", 1);
	cr_assert_eq(lend_rundir(path, sizeof(path)), -ENOENT);
	rmdir(parent);
}

/* The accepted sockets of a server that has ended keep its path in /proc/net/unix. */
Test(rundir, elsewhere__finds_listeners_only)
{
	char theirs[] = "/tmp/lend-sys-XXXXXX", ours[] = "/tmp/lend-sys-XXXXXX", name[32],
	     path[128], small[8], command[96];
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	cr_assert(mkdtemp(theirs) && mkdtemp(ours));
	setenv("XDG_RUNTIME_DIR", theirs, 1);
	cr_assert_eq(lend_rundir(path, sizeof(path)), 0);
	(void)snprintf(name, sizeof(name), "elsewhere%d", (int)getpid());
	strcat(strcat(strcpy(at.sun_path, path), "/"), name);
	cr_assert_eq(bind(fd, (void *)&at, sizeof(at)), 0);
	setenv("XDG_RUNTIME_DIR", ours, 1);
	cr_assert_not(lend_rundir_find_other(name, path, sizeof(path)), "bound, not listening");
	cr_assert_eq(listen(fd, 1), 0);
	cr_assert(lend_rundir_find_other(name, path, sizeof(path)));
	cr_assert_str_eq(path, at.sun_path);
	cr_assert_not(lend_rundir_find_other(name, small, sizeof(small)), "does not fit");
	cr_assert_not(lend_rundir_find_other(name + 1, path, sizeof(path)), "another name");
	setenv("XDG_RUNTIME_DIR", theirs, 1);
	cr_assert_not(lend_rundir_find_other(name, path, sizeof(path)), "in the own folder");
	(void)close(fd);
	(void)snprintf(command, sizeof(command), "rm -r %s %s", ours, theirs);
	cr_assert_eq(system(command), 0);
}

static int open_new(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	return fd;
}

Test(lockfile, is_the_file_at_its_path)
{
	char path[] = "/tmp/lend-sys-XXXXXX";
	int first = mkstemp(path), second = open_new(path);

	cr_assert_eq(lend_lockfile(first, path), 0);
	cr_assert_eq(lend_lockfile(second, path), -EWOULDBLOCK);
	(void)close(first);
	cr_assert_eq(lend_lockfile(second, path), 0, "the lock ended with its descriptor");
	(void)unlink(path);
	cr_assert_eq(lend_lockfile(second, path), -ESTALE, "removed");
	first = open_new(path);
	cr_assert_eq(lend_lockfile(second, path), -ESTALE, "replaced");
	cr_assert_eq(lend_lockfile(first, path), 0);
	(void)close(first);
	(void)close(second);
	(void)unlink(path);
}
