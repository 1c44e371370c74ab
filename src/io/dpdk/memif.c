/* memif - links between processes of one user, by net_memif devices made at run time.
 *
 * A listener NAME = IP-PORT has server devices with ids from 0, all on one socket in the runtime
 * folder. It keeps two more ids than have a link, up to `links` ids, because EAL has few ports. The
 * lock file of its name contains the number of ids and this limit. A client locks the file of the
 * lowest free id and makes a client device with that id. Locks end with their process, so a killed
 * process leaves its name and ids free; only small files remain.
 *
 * memif hardly checks the contents of the shared rings: processes that share a runtime folder trust
 * each other.
 *
 * Layer: io. Threads: the carrier's, with dpdk_world held.
 */
#include "io/dpdk/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_bus_vdev.h>

#include "sys/clock.h"
#include "sys/rand.h"
#include "sys/last_error.h"

enum {
	LOG2_SLOTS = 8,
	SPARE_IDS = 2,
	LINK_FDS =
	    9, /* socket, memory, lock file, ringer, an eventfd per queue, one during set-up */
};

/* Times after which a client's device is restarted: soon if there was no listener, late if an
 * answer is due. A connection must not be closed before it was accepted: net_memif's server would
 * then close a socket that EAL still waits on, and EAL panics. */
#define RETRY_NS  50000000u
#define ANSWER_NS 10000000000u

/* Makes the device and starts it. A client's device stays stopped if its server does not exist
 * yet. */
static int make_port(struct dpdk_port *port, const char *role, uint32_t id, const char *socket)
{
	static unsigned number;
	char args[256];
	int started = 0, rc;

	(void)snprintf(port->name, sizeof(port->name), "net_memif_lend%u", number++);
	(void)snprintf(args, sizeof(args),
		       "role=%s,id=%u,socket=%s,socket-abstract=no,bsize=%d,rsize=%d", role, id,
		       socket, DPDK_FRAME_MAX, LOG2_SLOTS);
	if (rte_vdev_init(port->name, args) != 0 ||
	    rte_eth_dev_get_port_by_name(port->name, &port->id) != 0) {
		port->name[0] = '\0';
		port->id = RTE_MAX_ETHPORTS;
		return lend_fail(ENODEV,
				 "%s: DPDK cannot make a memif device: see LEND_EAL_LOG=1, or "
				 "fewer links by ?links=",
				 socket);
	}
	port->used = true;
	port->ways = DPDK_ROUTES;
	port->reads = DPDK_AT_ONCE;
	rc = dpdk_eal_port(port->id, "dpdk:memif", DPDK_ROUTES, &started);
	port->connecting = started == 0;
	return rc;
}

static int take_name(struct dpdk *io)
{
	char path[DPDK_PATH_MAX + 1];
	uint16_t udp = io->self.udp;
	int fd, rc;

	for (int tries = 0; tries < 100; tries++) {
		if (io->self.udp == 0) {
			lend_random(&udp, sizeof(udp));
			udp |= 0xc000;
		}
		rc = dpdk_rendezvous_path(&io->self.ip, udp, ".lock", path);
		if (rc < 0)
			return rc;
		fd = dpdk_rendezvous_lock(path);
		if (fd >= 0) {
			io->self.udp = udp;
			return fd;
		}
		if (fd != -EWOULDBLOCK)
			return fd;
		if (io->self.udp != 0 &&
		    tries > 10) /* a lookup of the name locks the file only briefly */
			break;
		(void)usleep(500);
	}
	return lend_fail(EADDRINUSE,
			 "dpdk:memif port %u is in use; choose another or stop the other process",
			 io->self.udp);
}

/* Writes the number of ids, and its limit, to the lock file, for dpdk_rendezvous_find(). */
static int publish_ids(const struct dpdk *io, uint32_t links)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%4u %4u\n", io->made, links);

	if (pwrite(io->lock, text, (size_t)n, 0) == n)
		return 0;
	return lend_fail(
	    ENOSPC,
	    "dpdk:memif port %u: its lock file cannot be written; free space in the runtime folder",
	    io->self.udp);
}

static int make_server(struct dpdk *io)
{
	char path[DPDK_PATH_MAX + 1];
	struct dpdk_port *port = dpdk_port_new();
	int rc;

	if (port == NULL)
		return -ENOMEM;
	rc = dpdk_rendezvous_path(&io->self.ip, io->self.udp, "", path);
	port->link_id = io->made;
	if (rc == 0)
		rc = make_port(port, "server", io->made, path);
	if (rc == 0)
		rc = dpdk_port_add(io, port);
	if (rc < 0) {
		dpdk_port_free(port);
		return rc;
	}
	io->made++;
	return publish_ids(io, io->links);
}

static uint32_t count_spare(const struct dpdk *io)
{
	uint32_t spare = 0;

	for (uint32_t i = 0; i < io->ports_n; i++)
		spare += io->port[i] && io->port[i]->to_udp == 0 && !io->port[i]->active;
	return spare;
}

/* Makes server devices until enough are spare. Checks the descriptors for all spare ids: a
 * connection that the driver cannot accept would keep EAL's interrupt thread busy. */
static int grow_links(struct dpdk *io)
{
	uint32_t spare;
	int rc = 0;

	while (rc == 0 && io->made < io->links && (spare = count_spare(io)) < SPARE_IDS) {
		rc = dpdk_eal_descriptors((spare + 1) * LINK_FDS, "dpdk:memif: a link");
		if (rc == 0)
			rc = make_server(io);
	}
	return rc;
}

void dpdk_memif_grow(struct dpdk *io)
{
	int rc;

	io->grow = false;
	pthread_mutex_lock(&dpdk_world);
	dpdk_bell_attach(io);
	rc = grow_links(io);
	if (rc < 0) /* so that no client waits for one more */
		(void)publish_ids(io, io->made);
	if (rc < 0 && rc != -EMFILE) /* EAL has no more ports: the existing ids are the limit */
		io->links = io->made;
	pthread_mutex_unlock(&dpdk_world);
}

int dpdk_memif_listen(struct dpdk *io)
{
	char path[DPDK_PATH_MAX + 1];
	int rc = take_name(io);

	if (rc < 0)
		return rc;
	io->lock = rc;
	rc = dpdk_rendezvous_path(&io->self.ip, io->self.udp, "", path);
	if (rc < 0)
		return rc;
	(void)unlink(path);
	if (ftruncate(io->lock, 0) < 0)
		return lend_fail(
		    errno, "%s.lock: cannot be written; set XDG_RUNTIME_DIR to another folder",
		    path);
	rc = grow_links(io);
	io->listener = dpdk_rendezvous_socket(path, true);
	return rc;
}

void dpdk_memif_accept(struct dpdk *io)
{
	lend_ns end = lend_clock_now() + ANSWER_NS / 10;

	for (uint32_t i = 0; i < io->ports_n; i++) {
		const struct dpdk_port *port = io->port[i];

		while (port && port->connecting && port->to_udp != 0 && !atomic_load(&port->up) &&
		       atomic_load(&port->downs) == port->downs_seen && lend_clock_now() < end)
			(void)usleep(200);
	}
}

/* Replaces the listening socket, then removes the name. The driver loses that socket with its last
 * device, and leaves a callback that refers to freed memory. To prevent the callback, an eventfd
 * that never has an event takes the socket's descriptor number. */
void dpdk_memif_close(struct dpdk *io)
{
	char path[DPDK_PATH_MAX + 1];
	int quiet;

	if (io->listener >= 0) {
		quiet = eventfd(0, EFD_CLOEXEC);
		if (quiet >= 0) {
			(void)dup3(quiet, io->listener, O_CLOEXEC);
			(void)close(quiet);
		}
	}
	if (io->lock < 0)
		return;
	if (dpdk_rendezvous_path(&io->self.ip, io->self.udp, ".lock", path) == 0)
		(void)unlink(path);
	(void)close(io->lock);
}

static struct dpdk_port *find_port(struct dpdk *io, const struct dpdk_address *to, uint32_t *index)
{
	for (uint32_t i = 0; i < io->ports_n; i++) {
		struct dpdk_port *port = io->port[i];

		if (port && port->to_udp == to->udp && lend_ip_same(&port->to_ip, &to->ip)) {
			*index = i;
			return port;
		}
	}
	return NULL;
}

/* Locks the lowest free id. Returns the fd of its lock file. -EINPROGRESS: none is free now, and
 * the listener makes more as links come up. */
static int take_id(const struct dpdk_address *to, uint32_t made, uint32_t links, uint32_t *id)
{
	char path[DPDK_PATH_MAX + 1], tail[24];

	for (*id = 0; *id < made; ++*id) {
		int fd, rc;

		(void)snprintf(tail, sizeof(tail), ".%u.lock", *id);
		rc = dpdk_rendezvous_path(&to->ip, to->udp, tail, path);
		if (rc < 0)
			return rc;
		fd = dpdk_rendezvous_lock(path);
		if (fd != -EWOULDBLOCK)
			return fd;
	}
	if (made < links)
		return -EINPROGRESS;
	return lend_fail(
	    ENOSPC,
	    "dpdk:memif port %u: its %u links are in use; start it with more, ?links=N, or "
	    "a higher ulimit -n",
	    to->udp, links);
}

/* Returns another path of the same file. The driver keeps one record per path. With a client's
 * record for the path, this process could not listen there later. */
static const char *other_name(const char *path, char *other)
{
	const char *slash = strrchr(path, '/');

	(void)snprintf(other, DPDK_PATH_MAX + 3, "%.*s/.%s", (int)(slash - path), path, slash);
	return other;
}

static int make_client(struct dpdk *io, const struct dpdk_address *to, uint32_t made,
		       uint32_t links, uint32_t *index)
{
	char path[DPDK_PATH_MAX + 1], other[DPDK_PATH_MAX + 3];
	struct dpdk_port *port = dpdk_port_new();
	uint32_t id = 0;
	int rc;

	if (port == NULL)
		return -ENOMEM;
	rc = dpdk_rendezvous_path(&to->ip, to->udp, "", path);
	if (rc == 0)
		rc = port->lock = take_id(to, made, links, &id);
	if (rc >= 0)
		rc = dpdk_bell_make(io, port);
	if (rc == 0)
		rc = make_port(port, "client", id, other_name(path, other));
	if (rc == 0)
		rc = dpdk_port_add(io, port);
	if (rc < 0) {
		dpdk_port_free(port);
		return rc;
	}
	port->to_ip = to->ip;
	port->to_udp = to->udp;
	port->started_ns = lend_clock_now();
	port->started_pass = dpdk_gate_pass();
	*index = (uint32_t)rc;
	return 0;
}

/* Returns whether a connection to that listener is still open, so it may still be accepted. The
 * driver does not report this. */
static bool is_answer_due(const struct dpdk_port *port)
{
	char path[DPDK_PATH_MAX + 1];

	return dpdk_rendezvous_path(&port->to_ip, port->to_udp, "", path) == 0 &&
	       dpdk_rendezvous_socket(path, false) >= 0;
}

/* Restarts a client's device after its timeout: it connects only once, when it is started. */
static void start_again(struct dpdk_port *port)
{
	lend_ns waited = lend_clock_now() - port->started_ns;

	if (waited < RETRY_NS || dpdk_gate_pass() - port->started_pass < 2 ||
	    (waited < ANSWER_NS && is_answer_due(port)))
		return;
	(void)rte_eth_dev_stop(port->id);
	dpdk_bell_forget(port);
	port->connecting = rte_eth_dev_start(port->id) == 0;
	port->started_ns = lend_clock_now();
	port->started_pass = dpdk_gate_pass();
}

int dpdk_memif_resolve(struct dpdk *io, const struct dpdk_address *to, uint32_t *index)
{
	static uint64_t connected; /* the pass of the last connect: a listener in this process
				      accepts one per pass */
	struct dpdk_port *port = find_port(io, to, index);
	char path[DPDK_PATH_MAX + 1];
	uint32_t made, links;
	int rc = 0;

	if (port && port->active)
		return 0;
	if (port == NULL)
		rc = dpdk_eal_descriptors(LINK_FDS, "dpdk:memif: a link");
	if (rc == 0)
		rc = dpdk_rendezvous_path(&to->ip, to->udp, ".lock", path);
	if (rc < 0)
		return rc;
	if (!dpdk_rendezvous_find(path, &made, &links))
		return lend_fail(ECONNREFUSED,
				 "dpdk:memif port %u: no process listens there; start it first",
				 to->udp);
	if (connected == dpdk_gate_pass() + 1)
		return -EINPROGRESS;
	if (port == NULL)
		rc = make_client(io, to, made, links, index);
	else
		start_again(port);
	if (rc < 0)
		return rc;
	connected = dpdk_gate_pass() + 1;
	return -EINPROGRESS;
}
