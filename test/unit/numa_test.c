/* Goal: --numa restricts a process to the node's CPUs and reports a node that does not exist; a
 * device's node is found. Method: a table of the kernel's lists; a child process takes each option
 * and shows what came of it; a folder like sysfs. test/guest/numa.sh has a machine with two nodes.
 * Covers: src/cli/numa.c */
#include "cli/numa.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "teardown.h"

static char folder[] = "/tmp/lend-numa-XXXXXX";

static void remove_folder(void)
{
	teardown_remove(folder);
}

Test(numa, lists)
{
	static const struct {
		const char *text;
		bool good;
		int n, last;
	} rows[] = {
	    {"0", true, 1, 0},       {"0-3", true, 4, 3},      {"0-1,8,10-11", true, 5, 11},
	    {"1023", true, 1, 1023}, {"1024", false, 0, 0},    {"", false, 0, 0},
	    {"3-1", false, 0, 0},    {"0-99999", false, 0, 0}, {"0,", false, 0, 0},
	    {"0;1", false, 0, 0},    {"-1", false, 0, 0},      {"0-1x", false, 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cpu_set_t set;

		cr_expect_eq(lend_numa_list(rows[i].text, &set), rows[i].good, "%s", rows[i].text);
		if (rows[i].good)
			cr_expect(CPU_COUNT(&set) == rows[i].n && CPU_ISSET(rows[i].last, &set),
				  "%s", rows[i].text);
	}
}

/* Ends a process before a leak check of its exit, which writes to stderr, too. */
static void leave_process(int status, void *arg)
{
	(void)arg;
	_exit(status);
}

/* Takes --numa in a child. Returns its exit code; its line on stderr is in text. */
static int take_option(const char *node, char text[300])
{
	static const struct lend_option option = {.name = "numa"};
	int end[2], status;
	pid_t pid;
	size_t len = 0;

	cr_assert_eq(pipe(end), 0);
	pid = fork();
	if (pid == 0) {
		(void)dup2(end[1], STDERR_FILENO);
		(void)on_exit(leave_process, NULL);
		lend_numa_take(&option, NULL, (char *)(uintptr_t)node);
		_exit(0);
	}
	(void)close(end[1]);
	for (ssize_t n = 1; n > 0; len += (size_t)(n > 0 ? n : 0))
		n = read(end[0], text + len, 299 - len);
	text[len] = '\0';
	(void)close(end[0]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

Test(numa, node_0__taken)
{
	char text[300];

	cr_assert_eq(take_option("0", text), 0, "%s", text);
	cr_assert_str_empty(text);
}

Test(numa, no_such_node__one_line_with_those_that_exist)
{
	char text[300];

	cr_assert_eq(take_option("777", text), LEND_EXIT_USAGE);
	cr_assert_not_null(strstr(text, "no such NUMA node with memory; there are: 0"), "%s", text);
	cr_assert_eq(strchr(text, '\n') - text + 1, (long)strlen(text), "%s", text);
	cr_assert_eq(take_option("x", text), LEND_EXIT_USAGE);
	cr_assert_eq(take_option("1024", text), LEND_EXIT_USAGE);
}

static void make_device(const char *device, const char *node)
{
	char path[200];
	FILE *file;

	(void)snprintf(path, sizeof(path), "mkdir -p %s%s", folder, device);
	cr_assert_eq(system(path), 0);
	(void)snprintf(path, sizeof(path), "%s%s/numa_node", folder, device);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	(void)fprintf(file, "%s\n", node);
	(void)fclose(file);
}

Test(numa, node_of_a_device, .fini = remove_folder)
{
	static const struct {
		const char *address;
		int node;
	} rows[] = {
	    {"dpdk:0000:41:00.0@10.0.0.2:0", 1},
	    {"dpdk:0000:41:00.1@10.0.0.2:0", -1},
	    {"verbs:mlx5_0@10.0.0.2:0", 3},
	    {"raw:mlx5_0@[fd00::2]:0", 3},
	    {"raw:mlx5_1@10.0.0.2:0", -1},
	    {"udp:127.0.0.1:0", -1},
	    {"dpdk:memif@127.0.0.1:0", -1},
	    {"verbs:../mlx5_0@10.0.0.2:0", -1},
	    {"shm:x", -1},
	    {"shm:x,udp:127.0.0.1:0,verbs:mlx5_0@10.0.0.2:0,dpdk:0000:41:00.0@10.0.0.2:0", 3},
	    {"shm:x,", -1},
	    {"", -1},
	};

	cr_assert_not_null(mkdtemp(folder));
	make_device("/bus/pci/devices/0000:41:00.0", "1");
	make_device("/bus/pci/devices/0000:41:00.1", "-1");
	make_device("/class/infiniband/mlx5_0/device", "3");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_eq(lend_numa_of(folder, rows[i].address), rows[i].node, "%s",
			     rows[i].address);
}
