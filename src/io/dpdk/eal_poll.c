/* eal_poll - waits for what EAL's interrupt thread waits for, without being that thread's
 * epoll.
 *
 * EAL keeps its sources to itself: an epoll of its own, made anew whenever they change. So they are
 * read from /proc, which lists what an epoll watches; the right one is that which watches `own`:
 * the file, for another's, inherited from who started this process, may watch that number.
 *
 * Layer: io. Threads: EAL's interrupt thread, in a callback: the list does not change meanwhile but
 * by a byte in a pipe that is on it.
 */
#include "io/dpdk/dpdk.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

enum { SOURCES_MAX = 256, BLIND_NS = 1000000 };

struct sources {
	struct pollfd fd[SOURCES_MAX];
	uint32_t n;
};

/* EAL's wish for a source is put again as it is: the kernel refuses where that file is not watched.
 */
static bool is_watching(int epoll, int own)
{
	struct epoll_event as_eal = {.events = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP,
				     .data.fd = own};

	return epoll_ctl(epoll, EPOLL_CTL_MOD, own, &as_eal) == 0;
}

/* What EAL's epoll watches, if this is it. None of it is for a program that we start: it would hold
 * our links when we are gone. */
static bool read_sources(int epoll, int own, struct sources *s)
{
	char path[40], line[160];
	FILE *info;
	int fd;

	*s = (struct sources){.n = 0};
	if (!is_watching(epoll, own))
		return false;
	(void)fcntl(epoll, F_SETFD, FD_CLOEXEC);
	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
	info = fopen(path, "re");
	if (info == NULL)
		return false;
	while (fgets(line, sizeof(line), info) != NULL && s->n < SOURCES_MAX) {
		if (sscanf(line, "tfd: %d", &fd) != 1)
			continue;
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
		if (fd != own)
			s->fd[s->n++] = (struct pollfd){.fd = fd, .events = POLLIN | POLLPRI};
	}
	(void)fclose(info);
	return s->n < SOURCES_MAX;
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
