#include "io/dpdk/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/last_error.h"
#include "sys/rand.h"
#include "sys/rundir.h"

enum { BYTES_MAX = 16 }; /* bytes taken from the socket after a sleep */

static const char name_format[] = "/bell-%016" PRIx64;

/* Writes the address of a socket in the runtime folder. */
static void write_address(struct sockaddr_un *at, size_t folder, uint64_t number)
{
	(void)snprintf(at->sun_path + folder, sizeof(at->sun_path) - folder, name_format, number);
}

int dpdk_bell_open(struct dpdk *io)
{
	struct sockaddr_un *at = &io->bell_at;
	int rc = lend_rundir(at->sun_path, sizeof(at->sun_path) - sizeof("/bell-0123456789abcdef"));

	if (rc < 0)
		return rc;
	at->sun_family = AF_UNIX;
	io->folder_len = strlen(at->sun_path);
	lend_random(&io->bell_number, sizeof(io->bell_number));
	write_address(at, io->folder_len, io->bell_number);
	io->bell_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (io->bell_fd < 0)
		return lend_fail(errno, "dpdk:memif: no socket: raise ulimit -n");
	if (bind(io->bell_fd, (const void *)at, sizeof(*at)) == 0)
		return 0;
	rc = lend_fail(errno, "%s: %s; make its folder writable", at->sun_path, strerror(errno));
	(void)close(io->bell_fd);
	io->bell_fd = -1;
	return rc;
}

void dpdk_bell_close(struct dpdk *io)
{
	if (io->bell_fd < 0)
		return;
	(void)unlink(io->bell_at.sun_path);
	(void)close(io->bell_fd);
}

/* Maps the lock file that fd refers to. False: it is too short, or no memory is left. */
static bool map_bell(const struct dpdk *io, struct dpdk_port *port, int fd)
{
	struct stat st;
	void *at;

	if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof(struct dpdk_bell))
		return false;
	at = mmap(NULL, sizeof(struct dpdk_bell), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return false;
	port->bell = at;
	atomic_store(&port->bell->end[port->side].asleep, 0);
	atomic_store(&port->bell->end[port->side].socket, io->bell_number);
	return true;
}

/* The file is never shortened: a listener may still map it for the last client of this id. */
int dpdk_bell_make(const struct dpdk *io, struct dpdk_port *port)
{
	struct stat st;
	bool fits =
	    fstat(port->lock, &st) == 0 && (st.st_size >= (off_t)sizeof(struct dpdk_bell) ||
					    ftruncate(port->lock, sizeof(struct dpdk_bell)) == 0);

	port->side = 1;
	if (fits && map_bell(io, port, port->lock)) {
		dpdk_bell_forget(port);
		return 0;
	}
	return lend_fail(ENOMEM, "dpdk:memif: no memory for a link, or the runtime folder is "
				 "full: free some");
}

static void attach_port(const struct dpdk *io, struct dpdk_port *port)
{
	char path[DPDK_PATH_MAX + 1], tail[24];
	int fd;

	(void)snprintf(tail, sizeof(tail), ".%u.lock", port->link_id);
	if (dpdk_rendezvous_path(&io->self.ip, io->self.udp, tail, path) < 0)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)map_bell(io, port, fd);
	(void)close(fd);
}

void dpdk_bell_attach(struct dpdk *io)
{
	for (uint32_t i = 0; i < io->looks; i++)
		if (io->look[i].port->bell == NULL)
			attach_port(io, io->look[i].port);
}

bool dpdk_bell_wakes(const struct dpdk *io)
{
	for (uint32_t i = 0; i < io->looks; i++) {
		const struct dpdk_port *port = io->look[i].port;

		if (port->bell == NULL || atomic_load(&port->bell->end[1 - port->side].socket) == 0)
			return false;
	}
	return true;
}

void dpdk_bell_forget(struct dpdk_port *port)
{
	atomic_store(&port->bell->end[1 - port->side].socket, 0);
}

void dpdk_bell_detach(struct dpdk_port *port)
{
	if (port->bell)
		(void)munmap(port->bell, sizeof(*port->bell));
	if (port->ringer >= 0)
		(void)close(port->ringer);
	port->bell = NULL;
	port->ringer = -1;
	port->rings = 0;
}

static void send_byte(const struct dpdk *io, const struct sockaddr_un *to)
{
	/* A queue that is full has a wake-up already; a socket that is gone had its end. */
	(void)sendto(io->bell_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (const void *)to,
		     sizeof(*to));
}

void dpdk_bell_wake(const struct dpdk *io)
{
	send_byte(io, &io->bell_at);
}

/* Sends a byte to the other end's socket of that number, by a socket that is connected to it: the
 * kernel would look a name up for as long as it takes to send. */
static void ring_socket(const struct dpdk *io, struct dpdk_port *port, uint64_t number)
{
	struct sockaddr_un at = io->bell_at;

	if (port->rings == number) {
		(void)send(port->ringer, "", 1, MSG_NOSIGNAL);
		return;
	}
	write_address(&at, io->folder_len, number);
	send_byte(io, &at);
	if (port->ringer < 0)
		port->ringer = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (port->ringer >= 0 && connect(port->ringer, (const void *)&at, sizeof(at)) == 0)
		port->rings = number;
}

/* The byte comes first and clearing `asleep` second: if this process stops in between, the next
 * sender still wakes the sleeper. By then it may sleep again, under another number. */
__rte_noinline void dpdk_bell_ring(const struct dpdk *io, struct dpdk_port *port)
{
	struct dpdk_bell_end *other = &port->bell->end[1 - port->side];
	uint32_t sleep = atomic_load(&other->asleep);

	if (sleep == 0)
		return; /* an end that does not see the room yet may sleep again */
	port->drained = false;
	ring_socket(io, port, atomic_load(&other->socket));
	(void)atomic_compare_exchange_strong(&other->asleep, &sleep, 0);
}

static void set_asleep(struct dpdk *io, uint32_t number)
{
	for (uint32_t i = 0; i < io->looks; i++) {
		struct dpdk_port *port = io->look[i].port;

		if (port->bell)
			atomic_store_explicit(&port->bell->end[port->side].asleep,
					      number ? number | port->refused : 0,
					      memory_order_relaxed);
	}
}

/* Checks the other ends' states, after a fence. False: there is room for refused frames, because a
 * peer sleeps only when it has taken all. */
static bool waits_for_others(struct dpdk *io)
{
	bool waits = true;

	for (uint32_t i = 0; i < io->looks; i++) {
		struct dpdk_port *port = io->look[i].port;

		if (port->bell == NULL)
			continue;
		dpdk_bell_polled(io, port, 0);
		waits &= !port->refused || dpdk_bell_other(port) == 0;
	}
	return waits;
}

bool dpdk_bell_arm(struct dpdk *io)
{
	io->sleeps = io->sleeps + 2 > 0 ? io->sleeps + 2 : 2;
	io->armed = true;
	set_asleep(io, io->sleeps);
	atomic_thread_fence(memory_order_seq_cst);
	return waits_for_others(io) && !atomic_load(&io->changed);
}

void dpdk_bell_end_sleep(struct dpdk *io)
{
	struct mmsghdr message[BYTES_MAX] = {0};

	io->armed = false;
	set_asleep(io, 0);
	for (uint32_t i = 0; i < io->looks; i++)
		io->look[i].port->refused = false;
	(void)recvmmsg(io->bell_fd, message, BYTES_MAX, MSG_DONTWAIT, NULL);
}
