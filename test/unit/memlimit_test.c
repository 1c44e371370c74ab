/* Goal: the lowest of all memory limits of a process is found. Method: trees of /proc and cgroup
 * folders as systemd, Docker with and without a cgroup namespace, and cgroup v1 show them. Covers:
 * src/sys/memlimit.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/memlimit.h"

#define MIB  (UINT64_C(1) << 20)
#define V2   "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1   "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define INFO "MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\nSwapFree: 1048576 kB\n"

static const struct {
	const char *name, *cgroup, *mounts, *info;
	struct {
		const char *path, *text;
	} file[3];
	uint64_t bytes;
	const char *source;
	bool of_cgroup;
} table[] = {
    {"nothing", "", "", "", {{0}}, UINT64_MAX, "nothing", false},
    {"available and swap", "", "", INFO, {{0}}, 3072 * MIB, "MemAvailable", false},
    {"v2, no limit",
     "0::/a\n",
     V2,
     INFO,
     {{"/sys/fs/cgroup/a/memory.max", "max\n"}},
     3072 * MIB,
     "MemAvailable",
     false},
    {"v2, its own",
     "0::/a/b\n",
     V2,
     INFO,
     {{"/sys/fs/cgroup/a/b/memory.max", "67108864\n"}},
     64 * MIB,
     "memory.max",
     true},
    {"v2, an ancestor's",
     "0::/a/b\n",
     V2,
     INFO,
     {{"/sys/fs/cgroup/a/b/memory.max", "max\n"}, {"/sys/fs/cgroup/a/memory.max", "1048576\n"}},
     MIB,
     "memory.max",
     true},
    {"v2, the topmost of a namespace",
     "0::/\n",
     V2,
     INFO,
     {{"/sys/fs/cgroup/memory.max", "2097152\n"}},
     2 * MIB,
     "memory.max",
     true},
    {"v1",
     "4:cpu,memory:/a\n0::/\n",
     V1,
     INFO,
     {{"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n"}},
     MIB,
     "memory.limit_in_bytes",
     true},
    {"v1, without limit",
     "4:memory:/\n",
     V1,
     INFO,
     {{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     3072 * MIB,
     "MemAvailable",
     false},
    {"only a subtree is mounted",
     "4:memory:/docker/x/y\n",
     "31 23 0:27 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
     INFO,
     {{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "4194304\n"},
      {"/sys/fs/cgroup/memory/y/memory.limit_in_bytes", "8388608\n"}},
     4 * MIB,
     "memory.limit_in_bytes",
     true},
    {"a path of another namespace",
     "0::/../z\n",
     V2,
     INFO,
     {{"/sys/fs/cgroup/memory.max", "1048576\n"}},
     MIB,
     "memory.max",
     true},
    {"a cgroup that is not below the mounted one",
     "4:memory:/a\n",
     "31 23 0:27 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
     INFO,
     {{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "4194304\n"}},
     4 * MIB,
     "memory.limit_in_bytes",
     true},
    {"a cgroup whose name begins like the mounted one's",
     "4:memory:/docker/xy\n",
     "31 23 0:27 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
     INFO,
     {{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "4194304\n"}},
     4 * MIB,
     "memory.limit_in_bytes",
     true},
    {"garbage",
     "0\n::\n:\n",
     "x\n - \n1 2 3 4 - cgroup2\n",
     "MemAvailable: many\n",
     {{0}},
     UINT64_MAX,
     "nothing",
     false},
};

static void write_file(const char *root, const char *path, const char *text)
{
	char full[512], command[600];
	FILE *file;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	(void)snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", full);
	cr_assert_eq(system(command), 0);
	file = fopen(full, "w");
	cr_assert_not_null(file);
	(void)fputs(text, file);
	(void)fclose(file);
}

Test(memlimit, the_least_that_applies)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char root[] = "/tmp/lend-memlimit-XXXXXX", command[64];
		struct lend_memlimit limit;

		cr_assert_not_null(mkdtemp(root));
		write_file(root, "/proc/self/cgroup", table[i].cgroup);
		write_file(root, "/proc/self/mountinfo", table[i].mounts);
		write_file(root, "/proc/meminfo", table[i].info);
		for (int k = 0; k < 3 && table[i].file[k].path; k++)
			write_file(root, table[i].file[k].path, table[i].file[k].text);
		limit = lend_memlimit(root);
		cr_assert_eq(limit.bytes, table[i].bytes, "%s: %llu", table[i].name,
			     (unsigned long long)limit.bytes);
		cr_assert_str_eq(limit.name, table[i].source, "%s", table[i].name);
		cr_assert_eq(limit.cgroup, table[i].of_cgroup, "%s", table[i].name);
		(void)snprintf(command, sizeof(command), "rm -r %s", root);
		cr_assert_eq(system(command), 0);
	}
}

Test(memlimit, of_this_process)
{
	struct lend_memlimit limit = lend_memlimit("");

	cr_assert_gt(limit.bytes, MIB);
	cr_assert_lt(limit.bytes, UINT64_MAX);
}
