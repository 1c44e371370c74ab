/* epoll - the descriptor to sleep on, for sockets that are polled most of the time.
 *
 * A socket registered in an epoll runs its wake-up code for every datagram, even if no thread
 * sleeps, which slows down the sender's system call. So the carrier returns an epoll of its own,
 * and registers the sockets in it at arm(). It removes them after BUSY receives that found
 * something without a sleep between them. A carrier that sleeps often never removes them. Layer:
 * io. One thread's.
 */
#include "io/udp/udp.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sys/last_error.h"

enum { BUSY = 32 }; /* receives: their wake-ups cost more than one removal and registration */

int lend_udp_epoll_open(struct io_udp *u)
{
	u->epoll = epoll_create1(EPOLL_CLOEXEC);
	return u->epoll < 0
		   ? lend_fail(errno, "udp: no file descriptor to sleep on; raise ulimit -n")
		   : 0;
}

void lend_udp_epoll_note_busy(struct io_udp *u)
{
	if (!u->watched || ++u->busy < BUSY)
		return;
	lend_udp_epoll_reset(u);
	u->busy = 0;
}

static bool set_events(const struct io_udp *u, int what, struct epoll_event *event)
{
	int fd[3] = {u->fd, u->connected.fd == u->fd ? -1 : u->connected.fd, u->urgent.fd};
	bool done = true;

	for (int i = 0; i < 3; i++)
		done &= fd[i] < 0 || epoll_ctl(u->epoll, what, fd[i], event) == 0;
	return done;
}

void lend_udp_epoll_reset(struct io_udp *u)
{
	if (u->watched)
		(void)set_events(u, EPOLL_CTL_DEL, NULL);
	u->watched = false;
}

int lend_udp_fd(struct lend_io *io)
{
	return lend_udp_self(io)->epoll;
}

/* Registers the sockets for a sleep. False: do not sleep, because datagrams wait or the kernel has
 * no memory for the registration. */
bool lend_udp_arm(struct lend_io *io)
{
	struct io_udp *u = lend_udp_self(io);
	struct pollfd p[3] = {{.fd = u->fd, .events = POLLIN},
			      {.fd = u->connected.fd, .events = POLLIN},
			      {.fd = u->urgent.fd, .events = POLLIN}};
	struct epoll_event event = {.events = EPOLLIN};

	u->busy = 0;
	if (!u->watched)
		u->watched = set_events(u, EPOLL_CTL_ADD, &event);
	if (!u->watched)
		(void)set_events(u, EPOLL_CTL_DEL, NULL);
	if (!u->watched || u->rx.at < u->rx.n || u->urgent.lent)
		return false;
	if (poll(p, 3, 0) == 0)
		return true;
	if (p[2].revents != 0)
		lend_udp_urgent_pending(u);
	return false;
}
