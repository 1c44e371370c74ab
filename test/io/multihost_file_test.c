/* Goal: invalid memory in a file is refused without a descriptor left open. A link's rings are
 * allocated before they are touched.
 * Method: a sparse file in /dev/shm, its allocated bytes and this process's lowest free descriptor
 * before and after.
 * Covers: src/io/shm/multihost_memory.c, src/sys/mapfile.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/shm/multihost_memory.h"
#include "sys/last_error.h"

enum { MEMORY = 24 << 20 /* five links */ };

static char path[] = "/dev/shm/lend-pod-file-XXXXXX";

static void make_file(void)
{
	int fd = mkstemp(path);

	cr_assert(fd >= 0 && ftruncate(fd, MEMORY) == 0);
	(void)close(fd);
}

static void remove_file(void)
{
	(void)unlink(path);
}

TestSuite(pod_file, .init = make_file, .fini = remove_file);

static int lowest_free_descriptor(void)
{
	int fd = dup(0);

	(void)close(fd);
	return fd;
}

Test(pod_file, mapped_or_refused__no_descriptor_is_left)
{
	int first = lowest_free_descriptor();
	struct lend_multihost pod;

	cr_assert_eq(lend_multihost_map(&pod, path), 0, "%s", lend_why_text());
	lend_multihost_unmap(&pod);
	cr_assert_eq(lowest_free_descriptor(), first, "mapped");
	cr_assert_eq(lend_multihost_map(&pod, "/dev/null"), -EINVAL);
	cr_assert_eq(lowest_free_descriptor(), first, "no memory");
	cr_assert_eq(chmod(path, 0640), 0);
	cr_assert_eq(lend_multihost_map(&pod, path), -EPERM);
	cr_assert_eq(lowest_free_descriptor(), first, "open to others");
}

static uint64_t allocated_bytes(void)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

Test(pod_file, back__allocates_one_link)
{
	struct lend_multihost pod;
	uint64_t before, after;

	cr_assert_eq(lend_multihost_map(&pod, path), 0, "%s", lend_why_text());
	before = allocated_bytes();
	cr_assert_geq(before, LEND_MULTIHOST_PAIRS);
	cr_assert_lt(before, LEND_MULTIHOST_PAIRS + LEND_SHM_PAIR_LEN);
	cr_assert_eq(lend_multihost_allocate(&pod, 2), 0, "%s", lend_why_text());
	after = allocated_bytes();
	cr_assert_eq(after, before + LEND_SHM_PAIR_LEN);
	memset(lend_multihost_link_pair(&pod, 2), 1, LEND_SHM_PAIR_LEN);
	cr_assert_eq(allocated_bytes(), after, "pages of the link were missing");
	lend_multihost_unmap(&pod);
}
