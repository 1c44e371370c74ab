/* udp_watch - what one sleeps on for a socket that is polled most of the time.
 *
 * A socket that an epoll holds wakes it for every datagram, asleep or not, which costs the sender's
 * system call 0.35 us. So the carrier shows an epoll of its own, and the socket is in it only from
 * arm() until so many receives found something that nobody seems to sleep. Who sleeps often never
 * takes it out. Layer: io. One thread's. */
#include "io/io_udp.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sys/why.h"

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
	u->watched = epoll_ctl(u->epoll, EPOLL_CTL_DEL, u->fd, NULL) != 0;
	u->busy = 0;
}

int lend_udp_fd(struct lend_io *io)
{
	return lend_udp_self(io)->epoll;
}

/* Where the kernel has no memory for it, nobody sleeps. */
bool lend_udp_arm(struct lend_io *io)
{
	struct io_udp *u = lend_udp_self(io);
	struct pollfd p = {.fd = u->fd, .events = POLLIN};
	struct epoll_event event = {.events = EPOLLIN};

	u->busy = 0;
	if (!u->watched)
		u->watched = epoll_ctl(u->epoll, EPOLL_CTL_ADD, u->fd, &event) == 0;
	return u->watched && u->rx.at == u->rx.n && poll(&p, 1, 0) == 0;
}
