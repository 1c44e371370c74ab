/* Goal: EAL's interrupt thread does not disturb a polling thread while it has no work, and runs
 * when it has some. A foreign epoll that watches the same descriptor numbers changes nothing.
 * Method: the context switches of that thread while a memif link is polled; then one more link, and
 * the end of one.
 * Covers: src/io/dpdk/intr_gate.c */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/conform.h"
#include "io/dpdk_fixture.h"

enum { POLLED_MS = 300, SWITCHES_MAX = 100, NUMBERS = 200 };

static void address(char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:memif@127.0.0.1:0?links=2");
}

static const struct conform_row memif = {
    .name = "dpdk-memif", .absent = dpdk_absent, .address = address};

/* Copies the text behind begin from the line of /proc/self/task/TID/FILE that starts with it.
 * False: there is no such line. */
static bool read_task(const char *tid, const char *file, const char *begin, char line[256])
{
	char path[64];
	bool found = false;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%.16s/%s", tid, file);
	f = fopen(path, "re");
	while (f != NULL && !found && fgets(line, 256, f) != NULL)
		found = strncmp(line, begin, strlen(begin)) == 0;
	if (f != NULL)
		(void)fclose(f);
	if (found)
		memmove(line, line + strlen(begin), strlen(line + strlen(begin)) + 1);
	return found;
}

/* Returns how often EAL's interrupt thread went to sleep. */
static unsigned long sleeps(void)
{
	DIR *all = opendir("/proc/self/task");
	unsigned long count = 0;
	struct dirent *entry;
	char line[256];

	cr_assert_not_null(all);
	while ((entry = readdir(all)) != NULL) {
		if (read_task(entry->d_name, "comm", "eal-intr", line) &&
		    read_task(entry->d_name, "status", "voluntary_ctxt_switches:", line))
			count = strtoul(line, NULL, 10);
	}
	(void)closedir(all);
	cr_assert_gt(count, 0, "no interrupt thread");
	return count;
}

/* Makes an epoll that watches every free descriptor number although none is open. A program can
 * inherit such an epoll from its parent. */
static void decoy(void)
{
	int epoll = epoll_create1(0), file = eventfd(0, 0);
	struct epoll_event none = {.events = 0};

	cr_assert(epoll >= 0 && file >= 0);
	for (int fd = file + 1; fd < NUMBERS; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		cr_assert_eq(dup2(file, fd), fd);
		cr_assert_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &none), 0);
		(void)close(fd);
	}
}

Test(dpdk_intr_gate, interrupt_thread__runs_only_for_events, .timeout = 60)
{
	struct conform_pair p;
	struct lend_io *other;
	unsigned long before;
	uint64_t end;

	decoy();
	conform_open(&p, &memif);
	before = sleeps();
	end = conform_ms() + POLLED_MS;
	while (conform_ms() < end)
		cr_assert_eq(conform_take(p.server, NULL, NULL), 0);
	cr_assert_lt(sleeps() - before, SWITCHES_MAX);
	other = conform_client(p.address);
	cr_assert_eq(conform_send(other, conform_resolve(other, p.address, p.server), 1, 1, 64),
		     LEND_SENT);
	end = conform_ms() + conform_patience_ms;
	while (conform_take(p.server, NULL, NULL) == 0)
		cr_assert_lt(conform_ms(), end);
	other->ops->close(other);
	while (conform_take(p.server, NULL, NULL) == 0)
		cr_assert_lt(conform_ms(), end, "the end is reported");
	conform_close(&p);
}
