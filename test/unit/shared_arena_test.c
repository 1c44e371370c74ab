/* Goal: memory that peers may read is zero, a whole number of units, never handed out twice, and
 * read-only to them. After fork() the child has an arena of its own and cannot touch its parent's.
 * Method: the arena called directly, at its limits; a child that reads the parent's pointers.
 * Covers: src/sys/shared_arena.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lend/alloc.h"
#include "sys/shared_arena.h"

static bool is_zero(const uint8_t *p, size_t len)
{
	return p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

Test(shared_arena, takes_and_gives)
{
	uint8_t *one = lend_arena_take(LEND_ARENA_UNIT),
		*two = lend_arena_take(2 * LEND_ARENA_UNIT);
	const uint8_t *seen;
	uint64_t at;

	cr_assert(one && two);
	cr_assert_eq((uintptr_t)one % LEND_ARENA_UNIT, 0);
	cr_assert(two >= one + LEND_ARENA_UNIT || one >= two + 2 * LEND_ARENA_UNIT);
	cr_assert(is_zero(one, LEND_ARENA_UNIT));
	memset(one, 7, LEND_ARENA_UNIT);
	seen = mmap(NULL, LEND_ARENA_LEN, PROT_READ, MAP_SHARED, lend_arena_fd(), 0);
	cr_assert_neq(seen, MAP_FAILED);
	cr_assert(lend_arena_find(one, 1, &at));
	cr_assert_eq(seen[at], 7, "another mapping shows it");
	lend_arena_give(one, LEND_ARENA_UNIT);
	cr_assert_eq(seen[at], 0, "freed memory is not readable");
	cr_assert_eq(lend_arena_take(LEND_ARENA_UNIT), one, "the first that fits");
	cr_assert(is_zero(one, LEND_ARENA_UNIT));
	cr_assert_null(lend_arena_take(LEND_ARENA_LEN), "that much is not free");
}

/* Returns whether a process of this user can open the file for writing. */
static bool opens_to_write(uid_t user)
{
	char path[32];
	int status = -1, fd = dup(lend_arena_fd()); /* the child has no arena of its parent's */
	pid_t pid;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	pid = fork();
	if (pid == 0)
		_exit(setuid(user) != 0 ? 2 : open(path, O_RDWR) >= 0);
	waitpid(pid, &status, 0);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	close(fd);
	return WEXITSTATUS(status) == 1;
}

Test(shared_arena, file__given_to_peer__not_writable)
{
	enum { STRANGER = 65534 };
	int fd = lend_arena_fd();

	cr_assert_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	cr_assert_eq(errno, EACCES);
	cr_assert_eq(write(fd, "x", 1), -1);
	cr_assert_eq(errno, EBADF);
	if (geteuid() != 0)
		return;
	cr_assert(opens_to_write(0));
	cr_assert_not(opens_to_write(STRANGER));
}

Test(shared_arena, find__address__inside_or_not)
{
	uint8_t *p = lend_arena_take(LEND_ARENA_UNIT), *end = lend_arena_base + LEND_ARENA_LEN;
	int here = 0;
	uint64_t at;

	cr_assert(lend_arena_find(p, LEND_ARENA_UNIT, &at) && lend_arena_base + at == p);
	cr_assert(lend_arena_find(end - 1, 1, &at));
	cr_assert_not(lend_arena_find(end - 1, 2, &at), "it ends behind");
	cr_assert_not(lend_arena_find(end, 0, &at));
	cr_assert_not(lend_arena_find(lend_arena_base - 1, 1, &at));
	cr_assert_not(lend_arena_find(&here, sizeof(here), &at));
	cr_assert_not(lend_arena_find(NULL, 0, &at));
}

/* The child must not take what the parent has, or what the parent's arena may still hand out. */
Test(shared_arena, a_forks_child_has_its_own)
{
	uint8_t *ours = lend_malloc_shared(100000);
	int status;
	pid_t child;

	cr_assert_not_null(ours);
	memset(ours, 1, 100000);
	child = fork();
	if (child == 0) {
		uint8_t *own = lend_malloc_shared(100000);
		uint64_t at;

		memset(own, 2, 100000);
		_exit(own && own != ours && lend_arena_find(own, 100000, &at) &&
			      !lend_arena_find(ours, 1, &at)
			  ? 0
			  : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert_eq(ours[99999], 1);
	lend_free(ours);
}

/* A child that follows a pointer of its parent crashes; it changes nothing in the parent's
 * arena. */
Test(shared_arena, a_forks_child_cannot_touch_its_parents)
{
	volatile uint8_t *ours = lend_malloc_shared(100000);
	const struct rlimit no_core = {0, 0};
	int status;
	pid_t child;

	cr_assert_not_null(ours);
	ours[0] = 1;
	child = fork();
	if (child == 0) {
		(void)setrlimit(RLIMIT_CORE, &no_core);
		(void)signal(SIGSEGV, SIG_DFL);
		(void)lend_malloc(64 << 20);
		ours[0] = 2;
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %x", status);
	cr_assert_eq(ours[0], 1);
	lend_free((void *)(uintptr_t)ours);
}

/* lend_malloc()'s memory is private. */
Test(shared_arena, is_for_messages_only)
{
	uint8_t *shared = lend_malloc_shared(1 << 20), *own = lend_malloc(1 << 20);
	uint64_t at;

	cr_assert(shared && own);
	cr_assert(lend_arena_find(shared, 1 << 20, &at));
	cr_assert_not(lend_arena_find(own, 1, &at));
	lend_free(shared);
	lend_free(own);
}
