/* dpdk/open - opens a dpdk carrier: its address, its device or its name.
 * Layer: io. Threads: any; the carrier then belongs to the thread that opened it.
 */
#include "io/dpdk/bell.h"
#include "io/dpdk/port_burst.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/rand.h"
#include "sys/last_error.h"

/* Opens an ethdev that EAL's arguments made. */
static int open_device(struct dpdk *io, const struct dpdk_address *address)
{
	struct dpdk_port *port = dpdk_port_new();
	int rc;

	if (port == NULL)
		return -ENOMEM;
	rc = dpdk_port_add(io, port);
	if (rc >= 0)
		rc = dpdk_shared_port_open(io, address, port);
	if (rc == 0)
		rc = dpdk_wake_open(io);
	if (rc < 0)
		return rc;
	io->pool = port->share->pool[port->owner->queue];
	/* With a second queue, urgent datagrams do not wait behind others. */
	io->io.path.counts = port->share->ways == 1 && port->share->tx_slots > 0;
	port->used = port->active = true;
	dpdk_port_check(io);
	dpdk_neigh_announce(io, port);
	return 0;
}

/* Returns a random address of the link-local range, to be unique. */
static struct lend_ip made_up(bool four)
{
	struct lend_ip ip = {{0xfe, 0x80}};
	uint8_t bits[8];

	lend_random(bits, sizeof(bits));
	if (four)
		return lend_ip_of4(
		    (const uint8_t[4]){169, 254, (uint8_t)(bits[2] % 254 + 1), bits[3]});
	memcpy(ip.b + 8, bits, 8);
	return ip;
}

/* Chooses our own address, to which peers reply. A listener's is given; a client's is given, that
 * of another endpoint on its device, or random. */
static void choose_address(struct dpdk *io, const struct dpdk_address *address)
{
	bool device = io->kind == DPDK_DEVICE;
	uint16_t udp;

	lend_random(&udp, sizeof(udp));
	io->self.udp = address->udp;
	io->self.ip = address->ip;
	io->self.vlan = device ? address->vlan : 0;
	if (!io->listening || (device && io->self.udp == 0))
		io->self.udp = udp | 0xc000;
	if (!io->listening)
		io->self.ip =
		    address->has_from ? address->from : made_up(lend_ip_is4(&address->ip));
	io->self.mac[0] = 2;
	memcpy(io->self.mac + 2, io->self.ip.b + 12, 4);
}

static int open_kind(struct dpdk *io, const struct dpdk_address *address)
{
	bool memif = io->kind == DPDK_MEMIF;
	int rc = memif ? dpdk_bell_open(io) : 0;

	if (rc == 0)
		rc = dpdk_world_add(io, memif);

	if (rc < 0)
		return rc;
	if (io->kind == DPDK_DEVICE)
		return open_device(io, address);
	/* Memory of this machine, as with shm: the path cannot corrupt data undetected. */
	io->io.path.lossless = io->io.path.proven = io->io.path.checked = true;
	if (!io->listening)
		return 0;
	return io->kind == DPDK_RING ? dpdk_ring_listen(io) : dpdk_memif_listen(io);
}

static int make_carrier(const struct lend_io_config *config, const struct dpdk_address *address,
			struct dpdk *io)
{
	int rc = dpdk_zerocopy_open(io);

	io->io.ops = &dpdk_ops;
	io->io.path.mtu = DPDK_FRAME_MAX - LEND_ETH_HEAD4;
	io->io.path.writable = true;
	io->kind = address->kind;
	io->links = address->links;
	io->lock = io->listener = io->bell_fd = io->wake_fds = -1;
	memcpy(io->device, address->device, sizeof(io->device));
	io->listening = config->listen != NULL;
	io->describe = config->describe;
	io->user = config->user;
	dpdk_peer_init(io);
	choose_address(io, address);
	pthread_mutex_lock(&dpdk_world);
	if (rc == 0)
		rc = dpdk_eal_start(config->eal);
	if (rc == 0)
		io->pool = dpdk_eal_pool();
	if (rc == 0)
		rc = open_kind(io, address);
	pthread_mutex_unlock(&dpdk_world);
	if (config->mtu > 0 && config->mtu < io->io.path.mtu)
		io->io.path.mtu = config->mtu;
	return rc;
}

__attribute__((visibility("default"))) int lend_io_dpdk_open(const struct lend_io_config *config,
							     struct lend_io **out)
{
	const char *text = config->listen ? config->listen : config->peer;
	struct dpdk_address address;
	struct dpdk *io;
	int rc;

	if (text == NULL)
		return lend_fail(
		    EINVAL,
		    "a dpdk carrier needs an address to listen at or to connect to: give one");
	rc = dpdk_address_parse(text, &address);
	if (rc < 0)
		return rc;
	io = calloc(1, sizeof(*io));
	if (io == NULL)
		return lend_fail(ENOMEM, "no memory for a dpdk carrier");
	rc = make_carrier(config, &address, io);
	if (rc < 0) {
		dpdk_close(&io->io);
		return rc;
	}
	dpdk_eal_thread();
	*out = &io->io;
	return 0;
}
