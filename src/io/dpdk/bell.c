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

enum { BYTES_MAX = 16 }; /* bytes taken from the pipe after a sleep */

static const char name_format[] = "/bell-%016" PRIx64;

/* Opens the pipe of that number in the runtime folder, for reading as well: so a write never finds
 * it without a reader, which would raise SIGPIPE. */
static int open_pipe(const struct dpdk *io, uint64_t number)
{
	char path[DPDK_PATH_MAX + 1];

	memcpy(path, io->bell_path, io->folder_len);
	(void)snprintf(path + io->folder_len, sizeof(path) - io->folder_len, name_format, number);
	return open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
}

int dpdk_bell_open(struct dpdk *io)
{
	int rc =
	    lend_rundir(io->bell_path, sizeof(io->bell_path) - sizeof("/bell-0123456789abcdef"));

	if (rc < 0)
		return rc;
	io->folder_len = strlen(io->bell_path);
	lend_random(&io->bell_number, sizeof(io->bell_number));
	(void)snprintf(io->bell_path + io->folder_len, sizeof(io->bell_path) - io->folder_len,
		       name_format, io->bell_number);
	if (mkfifo(io->bell_path, S_IRUSR | S_IWUSR) != 0)
		return lend_fail(errno, "%s: %s; make its folder writable", io->bell_path,
				 strerror(errno));
	io->bell_fd = open_pipe(io, io->bell_number);
	if (io->bell_fd >= 0)
		return 0;
	rc = lend_fail(errno, "dpdk:memif: no pipe: raise ulimit -n");
	(void)unlink(io->bell_path);
	return rc;
}

void dpdk_bell_close(struct dpdk *io)
{
	if (io->bell_fd < 0)
		return;
	(void)unlink(io->bell_path);
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
	port->ringer = fcntl(io->bell_fd, F_DUPFD_CLOEXEC, 0);
	atomic_store(&port->bell->end[port->side].asleep, 0);
	atomic_store(&port->bell->end[port->side].pipe, io->bell_number);
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

		if (port->bell == NULL || atomic_load(&port->bell->end[1 - port->side].pipe) == 0)
			return false;
	}
	return true;
}

void dpdk_bell_forget(struct dpdk_port *port)
{
	atomic_store(&port->bell->end[1 - port->side].pipe, 0);
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

/* A pipe that is full has a wake-up already. */
static void write_byte(int fd)
{
	ssize_t n = write(fd, "", 1);

	(void)n;
}

void dpdk_bell_wake(const struct dpdk *io)
{
	write_byte(io->bell_fd);
}

/* Writes a byte to the other end's pipe of that number. False: no descriptor is free to open it. */
static bool ring_pipe(const struct dpdk *io, struct dpdk_port *port, uint64_t number)
{
	if (port->rings != number) {
		if (port->ringer >= 0)
			(void)close(port->ringer);
		port->ringer = open_pipe(io, number);
		port->rings = port->ringer >= 0 ? number : 0;
	}
	if (port->ringer < 0)
		return errno == ENOENT; /* the other end was closed */
	write_byte(port->ringer);
	return true;
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
	if (ring_pipe(io, port, atomic_load(&other->pipe)))
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
	char bytes[BYTES_MAX];
	ssize_t n;

	io->armed = false;
	set_asleep(io, 0);
	for (uint32_t i = 0; i < io->looks; i++)
		io->look[i].port->refused = false;
	n = read(io->bell_fd, bytes, sizeof(bytes));
	(void)n; /* others remain for the next sleep, which ends at once */
}
