/* descriptors - file descriptors of the application, watched by the endpoint's own wait.
 *
 * They are in an epoll of their own, which is one descriptor of the endpoint's epoll: so a sleep
 * ends when any of them is ready, however many there are. An endpoint that does not sleep looks at
 * them every few microseconds, because a look is a system call; while one was ready not long ago,
 * also in each turn that finds nothing else. Layer: rpc. Threads: the endpoint's. Watches are their
 * callers'. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rpc/endpoint.h"
#include "sys/last_error.h"

enum {
	LOOK_NS = 5000,
	BUSY_NS = 200000, /* longer than a round trip over TCP */
};

static int explain_failure(int err, const struct lend_fd_watch *watch)
{
	switch (err) {
	case EPERM:
		return lend_fail(EPERM,
				 "file descriptor %d is a file or directory, which is always ready",
				 watch->fd);
	case EEXIST:
		return lend_fail(EEXIST, "file descriptor %d is watched already: end that watch",
				 watch->fd);
	case EBADF:
		return lend_fail(EBADF, "file descriptor %d is not open", watch->fd);
	default:
		return lend_fail(err,
				 "cannot watch file descriptor %d: raise ulimit -n or fs.epoll "
				 "limits",
				 watch->fd);
	}
}

static int open_epoll(struct lend_ep *ep)
{
	int fd = epoll_create1(EPOLL_CLOEXEC), err;
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (fd >= 0 && epoll_ctl(ep->epoll, EPOLL_CTL_ADD, fd, &event) == 0) {
		ep->descriptors.epoll = fd;
		return 0;
	}
	err = errno;
	if (fd >= 0)
		close(fd);
	return lend_fail(err, "no file descriptor left to watch others: raise ulimit -n");
}

/* Removes a watch from the events that the current look still has to report. */
static void forget_ready(struct lend_descriptors *d, const struct lend_fd_watch *watch)
{
	for (uint32_t i = 0; i < d->left; i++)
		if (d->ready[i].data.ptr == watch)
			d->ready[i].data.ptr = NULL;
}

int lend_watch_fd(struct lend_ep *ep, struct lend_fd_watch *watch, unsigned events)
{
	struct lend_descriptors *d = &ep->descriptors;
	struct epoll_event event = {.data.ptr = watch};
	int op = !events ? EPOLL_CTL_DEL : watch->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, rc = 0;

	if (events & ~(unsigned)(LEND_FD_READ | LEND_FD_WRITE) || (events && !watch->ready))
		return lend_fail(EINVAL,
				 "events 0x%x: LEND_FD_READ and LEND_FD_WRITE are known, "
				 "and a watch needs its function ready",
				 events);
	if (!*ep->alive)
		return lend_fail(EPERM, "this endpoint is the parent's: open one in the child");
	if (!events && !watch->events)
		return 0;
	if (d->epoll < 0)
		rc = open_epoll(ep);
	if (rc < 0)
		return rc;
	event.events = (events & LEND_FD_READ ? (uint32_t)EPOLLIN : 0) |
		       (events & LEND_FD_WRITE ? (uint32_t)EPOLLOUT : 0);
	/* A descriptor that was closed first has left the epoll already. */
	if (epoll_ctl(d->epoll, op, watch->fd, &event) < 0 && events)
		return explain_failure(errno, watch);
	d->n += events && !watch->events;
	d->n -= !events;
	watch->events = events;
	d->look_at = d->n ? 0 : LEND_NEVER;
	d->busy_until = d->n ? d->busy_until : 0;
	forget_ready(d, watch);
	return 0;
}

/* Reports each ready descriptor once. A function that runs may end any watch. */
void lend_descriptors_look(struct lend_ep *ep)
{
	struct lend_descriptors *d = &ep->descriptors;
	int n = epoll_wait(d->epoll, d->ready, LEND_READY_MAX, 0);

	if (n > 0)
		d->busy_until = ep->now + BUSY_NS;
	d->look_at = ep->now + LOOK_NS;
	for (d->left = n > 0 ? (uint32_t)n : 0; d->left > 0;) {
		const struct epoll_event *event = &d->ready[--d->left];
		struct lend_fd_watch *watch = event->data.ptr;
		unsigned events;

		if (!watch)
			continue;
		events = (event->events & EPOLLIN ? LEND_FD_READ : 0u) |
			 (event->events & EPOLLOUT ? LEND_FD_WRITE : 0u);
		if (event->events & (EPOLLERR | EPOLLHUP))
			events = watch->events;
		ep->ran++;
		watch->ready(watch, events & watch->events);
	}
}

void lend_descriptors_close(struct lend_ep *ep)
{
	if (ep->descriptors.epoll >= 0)
		close(ep->descriptors.epoll);
}
