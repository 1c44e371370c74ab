/* io_dpdk_events - waits for what EAL's interrupt thread waits for, without being that thread's
 * epoll.
 *
 * EAL keeps its sources to itself: an epoll of its own, made anew whenever they change. So they are
 * read from /proc, which lists what an epoll watches; the right one is that which watches `own`.
 *
 * Layer: io. Threads: EAL's interrupt thread, in a callback: the list does not change meanwhile but
 * by a byte in a pipe that is on it.
 */
#include "io/io_dpdk.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SOURCES_MAX = 256, BLIND_NS = 1000000 };

struct sources {
	struct pollfd fd[SOURCES_MAX];
	uint32_t n;
	bool has_own;
};

/* What a descriptor watches, if it is an epoll. */
static bool read_sources(int epoll, int own, struct sources *s)
{
	char path[40], line[160];
	FILE *info;
	int fd;

	*s = (struct sources){.n = 0};
	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
	info = fopen(path, "re");
	if (info == NULL)
		return false;
	while (fgets(line, sizeof(line), info) != NULL && s->n < SOURCES_MAX) {
		if (sscanf(line, "tfd: %d", &fd) != 1)
			continue;
		s->has_own |= fd == own;
		if (fd != own)
			s->fd[s->n++] = (struct pollfd){.fd = fd, .events = POLLIN | POLLPRI};
	}
	(void)fclose(info);
	return s->has_own && s->n < SOURCES_MAX;
}

static bool find_sources(int own, struct sources *s)
{
	static int epoll = -1; /* where they were last time */
	struct dirent *entry;
	bool found = epoll >= 0 && read_sources(epoll, own, s);
	DIR *all = found ? NULL : opendir("/proc/self/fd");

	while (all != NULL && !found && (entry = readdir(all)) != NULL) {
		epoll = atoi(entry->d_name);
		found = read_sources(epoll, own, s);
	}
	if (all != NULL)
		(void)closedir(all);
	return found;
}

bool dpdk_events_wait(int own, uint64_t ns)
{
	const struct timespec most = {.tv_nsec = (long)ns}, blind = {.tv_nsec = BLIND_NS};
	struct sources s;

	if (find_sources(own, &s))
		return ppoll(s.fd, s.n, &most, NULL) != 0;
	(void)nanosleep(&blind, NULL);
	return true;
}
