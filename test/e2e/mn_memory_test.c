/* Goal: a node's memory is zero, of the requested length, found again by a later start, and not
 * writable by other processes once it is sealed; a file is never truncated, taken from another
 * user, or mapped without space for all of it; prepared memory needs one page fault per 2 MiB,
 * populated memory none.
 * Method: each kind that needs no privileges is opened, written, mapped a second time as another
 * process would, sealed, and adopted; bad kinds, short files and files of another node are refused
 * with one line. Covers: mn/memory.c, mn/backing.c */
#include "mn/memory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lend/rpc.h"
#include "util/bits.h"

enum { LEN = 3 * 4096 + 1, UNIT = 2 << 20 };

static void is_zero(const struct mn_memory *m)
{
	const uint8_t *at = m->base;

	for (size_t i = 0; i < m->len; i++)
		cr_assert_eq(at[i], 0, "byte %zu", i);
}

static void make_temporary(char path[64])
{
	int fd;

	snprintf(path, 64, "/tmp/lend-memory-XXXXXX");
	fd = mkstemp(path);
	cr_assert(fd >= 0);
	close(fd);
}

Test(mn_memory, kinds)
{
	static const char *const kinds[] = {"private", "shared", "shared", "memfd", "/tmp"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct mn_memory m;

		cr_assert_eq(mn_memory_open(&m, kinds[i], "test", LEN, false), 0, "%s", lend_why());
		cr_assert_geq(m.len, (size_t)LEN);
		cr_assert_eq(m.len % m.grain, 0);
		cr_assert_eq(m.fd >= 0, i > 2);
		is_zero(&m);
		cr_assert_eq(!strcmp(mn_memory_pages(&m), "reserved huge"), m.grain > 4096);
		memset(m.base, 1, m.len);
		mn_memory_close(&m);
		mn_memory_close(&m);
	}
}

/* Returns the page faults of the first writes to 2 MiB, without those of a sanitizer's own memory.
 */
__attribute__((no_sanitize("address", "undefined"))) static long write_unit(char *unit)
{
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	for (size_t i = 0; i < UNIT; i += 4096)
		unit[i] = 1;
	getrusage(RUSAGE_SELF, &after);
	return after.ru_minflt - before.ru_minflt;
}

Test(mn_memory, prepared_memory_is_on_huge_pages)
{
	static const char *const kinds[] = {"shared", "memfd"};

	for (size_t k = 0; k < 2; k++) {
		struct mn_memory m;
		long least = LONG_MAX;

		cr_assert_eq(mn_memory_open(&m, kinds[k], "test", 4 * UNIT, false), 0);
		((char *)m.base)[5] = 7;
		mn_memory_prepare(&m, (char *)m.base + 4096, 3 * UNIT + 1);
		cr_assert_eq(((char *)m.base)[5], 7);
		for (size_t i = 1; i < 3; i++)
			least = (long)lend_min_u64((uint64_t)least,
						   (uint64_t)write_unit((char *)m.base + i * UNIT));
		if (!strcmp(mn_memory_pages(&m), "transparent huge"))
			cr_assert_lt(least, 64, "%s: %ld faults", kinds[k], least);
		mn_memory_prepare(&m, m.base, m.len);
		mn_memory_close(&m);
	}
}

Test(mn_memory, populated_memory_needs_no_page_fault)
{
	static const char *const kinds[] = {"private", "shared", "memfd"};

	for (size_t k = 0; k < 3; k++) {
		struct mn_memory m;
		long least = LONG_MAX;

		cr_assert_eq(mn_memory_open(&m, kinds[k], "test", 4 * UNIT, false), 0);
		((char *)m.base)[5] = 7;
		cr_assert_eq(mn_memory_populate(&m), 0, "%s", lend_why());
		cr_assert_eq(((char *)m.base)[5], 7);
		for (size_t i = 0; i < 4; i++)
			least = (long)lend_min_u64((uint64_t)least,
						   (uint64_t)write_unit((char *)m.base + i * UNIT));
		cr_assert_lt(least, 8, "%s: %ld faults", kinds[k], least);
		mn_memory_close(&m);
	}
}

Test(mn_memory, a_later_start_finds_the_bytes)
{
	struct mn_memory a, b;

	cr_assert_eq(mn_memory_open(&a, "memfd", "test", LEN, false), 0);
	memset(a.base, 7, LEN);
	cr_assert_eq(mn_memory_adopt(&b, dup(a.fd), "test", LEN), 0, "%s", lend_why());
	cr_assert_eq(memcmp(a.base, b.base, LEN), 0);
	((char *)b.base)[1] = 8;
	cr_assert_eq(((char *)a.base)[1], 8, "one file, two mappings");
	mn_memory_close(&b);
	mn_memory_close(&a);
}

Test(mn_memory, sealed)
{
	struct mn_memory a, b;
	void *other;

	cr_assert_eq(mn_memory_open(&a, "memfd", "test", LEN, false), 0);
	memset(a.base, 7, LEN);
	cr_assert_eq(mn_memory_seal(&a), 0, "%s", lend_why());
	cr_assert(a.sealed);
	cr_assert_eq(mn_memory_seal(&a), 0, "twice is fine");
	((char *)a.base)[0] = 9;
	cr_assert_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, a.fd, 0), MAP_FAILED);
	cr_assert_eq(pwrite(a.fd, "x", 1, 0), -1);
	cr_assert_eq(ftruncate(a.fd, 0), -1);
	other = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, a.fd, 0);
	cr_assert_neq(other, MAP_FAILED);
	((char *)other)[1] = 3;
	cr_assert_eq(((char *)a.base)[1], 7, "a private view changes nothing");
	munmap(other, 4096);
	cr_assert_eq(mn_memory_adopt(&b, dup(a.fd), "test", LEN), 0, "%s", lend_why());
	cr_assert_eq(memcmp(a.base, b.base, LEN), 0, "a later start has a copy");
	((char *)b.base)[1] = 8;
	cr_assert_eq(((char *)a.base)[1], 7);
	mn_memory_close(&b);
	mn_memory_close(&a);
}

Test(mn_memory, bad)
{
	struct mn_memory a, b;
	char path[64];

	cr_assert_eq(mn_memory_open(&a, "nonsense", "test", LEN, false), -EINVAL);
	cr_assert_eq(mn_memory_open(&a, "memfd", "test", 0, false), -EINVAL);
	cr_assert_eq(mn_memory_open(&a, "/nowhere/at/all", "test", LEN, false), -ENOENT);
	cr_assert(strstr(lend_why(), "/nowhere/at/all"));
	cr_assert_eq(mn_memory_open(&a, "memfd", "test", LEN, false), 0);
	cr_assert_eq(mn_memory_adopt(&b, a.fd, "test", LEN * 4), -EINVAL);
	cr_assert(strstr(lend_why(), "--size"));
	mn_memory_close(&a);
	make_temporary(path);
	cr_assert_eq(mn_memory_open(&a, path, "test", LEN, false), 0, "%s", lend_why());
	cr_assert_not(a.sealable);
	cr_assert_eq(mn_memory_open(&b, path, "test", LEN, false), -EBUSY);
	cr_assert(strstr(lend_why(), "another memory node"));
	memset(a.base, 5, a.len);
	mn_memory_close(&a);
	cr_assert_eq(mn_memory_open(&b, path, "test", LEN, false), 0);
	is_zero(&b);
	mn_memory_close(&b);
	unlink(path);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void has_text(const char *path, const char *text)
{
	char found[64] = {0};
	int fd = open(path, O_RDONLY);

	cr_assert(fd >= 0 && read(fd, found, sizeof(found) - 1) >= 0);
	close(fd);
	cr_assert_str_eq(found, text);
}

Test(mn_memory, file_with_content__is_not_overwritten)
{
	struct mn_memory m;
	char path[64];

	make_temporary(path);
	write_file(path, "a letter");
	cr_assert_eq(mn_memory_open(&m, path, "test", LEN, false), -EEXIST);
	cr_assert(strstr(lend_why(), "--overwrite"), "%s", lend_why());
	has_text(path, "a letter");
	cr_assert_eq(mn_memory_open(&m, path, "test", LEN, true), 0, "%s", lend_why());
	is_zero(&m);
	mn_memory_close(&m);
	unlink(path);
}

/* A client of the earlier node may still map its pages. */
Test(mn_memory, file_of_a_node__is_replaced_and_not_cut)
{
	struct mn_memory old, new;
	char path[64];

	make_temporary(path);
	cr_assert_eq(mn_memory_open(&old, path, "test", LEN, false), 0, "%s", lend_why());
	int fd = open(path, O_RDONLY);
	void *view = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);

	cr_assert_neq(view, MAP_FAILED);
	close(fd);
	memset(old.base, 5, old.len);
	mn_memory_close(&old);
	cr_assert_eq(mn_memory_open(&new, path, "test", LEN, false), 0, "%s", lend_why());
	is_zero(&new);
	cr_assert_eq(((char *)view)[LEN - 1], 5);
	munmap(view, LEN);
	mn_memory_close(&new);
	unlink(path);
}

Test(mn_memory, file_that_others_can_open__is_refused)
{
	char path[64], other[80];
	struct mn_memory m;

	make_temporary(path);
	for (mode_t mode = 0601; mode <= 0640; mode = (mode & 077) << 1 | 0600) {
		cr_assert_eq(chmod(path, mode), 0);
		cr_assert_eq(mn_memory_open(&m, path, "test", LEN, true), -EPERM, "%o", mode);
		cr_assert(strstr(lend_why(), "chmod 600"), "%s", lend_why());
	}
	cr_assert_eq(chmod(path, 0600), 0);
	snprintf(other, sizeof(other), "%s.link", path);
	cr_assert_eq(symlink(path, other), 0);
	cr_assert_eq(mn_memory_open(&m, other, "test", LEN, true), -ELOOP);
	unlink(other);
	if (geteuid() == 0) {
		cr_assert_eq(chown(path, 65534, 65534), 0);
		cr_assert_eq(mn_memory_open(&m, path, "test", LEN, true), -EPERM);
		cr_assert(strstr(lend_why(), "user 65534"), "%s", lend_why());
	}
	unlink(path);
}

Test(mn_memory, file_size_limit__is_an_error_and_no_signal)
{
	static const char *const kinds[] = {"memfd", "/tmp"};
	struct rlimit small = {LEN - 1, RLIM_INFINITY};
	struct mn_memory m;

	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		cr_assert_eq(mn_memory_open(&m, kinds[i], "test", LEN, false), -EFBIG);
		cr_assert(strstr(lend_why(), "ulimit -f"), "%s", lend_why());
	}
	cr_assert_eq(mn_memory_open(&m, "private", "test", LEN, false), 0);
	mn_memory_close(&m);
}
