/* eal_poll - waits for the event sources of EAL's interrupt thread, without using that thread's
 * epoll.
 *
 * EAL does not publish its sources: they are in an epoll instance that it makes again whenever they
 * change. So they are read from /proc, which lists the descriptors that an epoll instance watches.
 * The right instance is the one that watches the file at `own`. The number alone is not enough,
 * because an instance inherited from the parent process may watch the same number for another file.
 *
 * Layer: io. Threads: EAL's interrupt thread, in a callback. Meanwhile EAL's list changes only
 * after a byte in a pipe that is on it.
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

/* Returns whether epoll watches the file at own. Sets EAL's event mask again unchanged, which the
 * kernel refuses for a file that is not watched. */
static bool is_watching(int epoll, int own)
{
	struct epoll_event as_eal = {.events = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP,
				     .data.fd = own};

	return epoll_ctl(epoll, EPOLL_CTL_MOD, own, &as_eal) == 0;
}

/* Reads the sources of EAL's epoll; false: this is not it. Marks them close-on-exec, because a
 * program that we start would keep our links open after our exit, and non-blocking, because EAL may
 * handle an event that is over. */
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
		(void)fcntl(fd, F_SETFL, O_NONBLOCK);
		if (fd != own)
			s->fd[s->n++] = (struct pollfd){.fd = fd, .events = POLLIN | POLLPRI};
	}
	(void)fclose(info);
	return s->n < SOURCES_MAX;
}

static bool find_sources(int own, struct sources *s)
{
	static int epoll = -1; /* where they were found last time */
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
	if (ns == 0)
		return false;
	(void)nanosleep(&blind, NULL);
	return true;
}
