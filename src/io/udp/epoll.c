/* epoll - what one sleeps on for a socket that is polled most of the time.
 *
 * A socket that an epoll holds wakes it for every datagram, asleep or not, which costs the sender's
 * system call 0.35 us. So the carrier shows an epoll of its own, and the sockets are in it only
 * from arm() until so many receives found something that nobody seems to sleep. Who sleeps often
 * never takes it out. Layer: io. One thread's. */
#include "io/udp/udp.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sys/last_error.h"

enum { BUSY = 32 }; /* receives: so much costs more than to take it out and put it back */

int lend_udp_watch_open(struct io_udp *u)
{
	u->epoll = epoll_create1(EPOLL_CLOEXEC);
	return u->epoll < 0 ? lend_fail(errno, "udp: nothing to sleep on; raise ulimit -n") : 0;
}

void lend_udp_watch_busy(struct io_udp *u)
{
	if (!u->watched || ++u->busy < BUSY)
		return;
	lend_udp_watch_again(u);
	u->busy = 0;
}

static bool set(const struct io_udp *u, int what, struct epoll_event *event)
{
	int fd[3] = {u->fd, u->line.fd == u->fd ? -1 : u->line.fd, u->fast.fd};
	bool done = true;

	for (int i = 0; i < 3; i++)
		done &= fd[i] < 0 || epoll_ctl(u->epoll, what, fd[i], event) == 0;
	return done;
}

void lend_udp_watch_again(struct io_udp *u)
{
	if (u->watched)
		(void)set(u, EPOLL_CTL_DEL, NULL);
	u->watched = false;
}

int lend_udp_fd(struct lend_io *io)
{
	return lend_udp_self(io)->epoll;
}

/* Where the kernel has no memory for it, nobody sleeps. */
bool lend_udp_arm(struct lend_io *io)
{
	struct io_udp *u = lend_udp_self(io);
	struct pollfd p[3] = {{.fd = u->fd, .events = POLLIN},
			      {.fd = u->line.fd, .events = POLLIN},
			      {.fd = u->fast.fd, .events = POLLIN}};
	struct epoll_event event = {.events = EPOLLIN};

	u->busy = 0;
	if (!u->watched)
		u->watched = set(u, EPOLL_CTL_ADD, &event);
	if (!u->watched)
		(void)set(u, EPOLL_CTL_DEL, NULL);
	if (!u->watched || u->rx.at < u->rx.n || u->fast.lent)
		return false;
	if (poll(p, 3, 0) == 0)
		return true;
	if (p[2].revents != 0)
		lend_udp_fast_late(u);
	return false;
}
