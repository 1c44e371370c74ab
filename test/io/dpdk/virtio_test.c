/* Goal: a DPDK driver with receive interrupts keeps the promises of a carrier, asleep too.
 * Method: the conformance cases over a virtio device and the vhost device behind it, in one
 * process: virtio arms and signals its queue as a card does. $LEND_CONFORM_SLEEPS=300000 races that
 * many sends against sleeps.
 * Covers: src/io/dpdk/rx_wake.c, src/io/dpdk/shared_port.c, src/io/dpdk/port_burst.c */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_ethdev.h>

#include "io/conform.h"
#include "sys/last_error.h"

/* Makes the devices: virtio connects when it is created, to vhost, which listens once it is used.
 */
static const char *make_devices(void)
{
	static char folder[] = "/tmp/lend-virtio-XXXXXX";
	static bool made;
	struct lend_io_config config = {.listen = "dpdk:net_vhost0@10.9.0.3:0"};
	char path[64], eal[200], device[120];
	struct rte_eth_link link = {.link_status = RTE_ETH_LINK_DOWN};
	struct lend_io *first, *near;
	uint16_t vhost;

	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	if (made)
		return NULL;
	made = true;
	if (mkdtemp(folder) == NULL)
		return "no folder in /tmp";
	(void)snprintf(path, sizeof(path), "%s/s", folder);
	(void)snprintf(eal, sizeof(eal),
		       "--no-huge -m 192 --no-pci --no-shconf --vdev=net_vhost0,iface=%s", path);
	(void)snprintf(device, sizeof(device), "path=%s,mac=02:00:00:00:00:01", path);
	config.eal = eal;
	cr_assert_eq(lend_io_open(&config, &first), 0, "%s", lend_why_text());
	cr_assert_eq(rte_eal_hotplug_add("vdev", "net_virtio_user0", device), 0);
	config.listen = "dpdk:net_virtio_user0@10.9.0.4:0";
	cr_assert_eq(lend_io_open(&config, &near), 0, "%s", lend_why_text());
	cr_assert_eq(rte_eth_dev_get_port_by_name("net_vhost0", &vhost), 0);
	for (uint64_t end = conform_ms() + conform_patience_ms;
	     link.link_status == RTE_ETH_LINK_DOWN && conform_ms() < end; sched_yield())
		(void)rte_eth_link_get_nowait(vhost, &link); /* its thread answers virtio */
	cr_assert(near->ops->fd(near) >= 0, "virtio has no receive interrupts");
	near->ops->close(near);
	(void)unlink(path);
	(void)rmdir(folder);
	return NULL;
}

static void near_address(char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:net_virtio_user0@10.9.0.1:0");
}

static void far_address(char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:net_vhost0@10.9.0.2:0");
}

/* Names the device of the other end. */
static void name_other(const char *address, char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:%s%s",
		       strstr(address, "vhost") ? "net_virtio_user0" : "net_vhost0",
		       strchr(address, '@'));
}

static const struct conform_row virtio = {.name = "virtio",
					  .absent = make_devices,
					  .address = near_address,
					  .far = far_address,
					  .across = name_other,
					  .rebinds = true,
					  .threads = true,
					  .clients = 12,
					  .both = true,
					  .one_way = true};

/* The cases that receive interrupts can break. A full queue blocks the sender, which shares its
 * thread with the receiver in the cases about full peers. */
CONFORM_CASE(dpdk_virtio, &virtio, order)
CONFORM_CASE(dpdk_virtio, &virtio, content)
CONFORM_CASE(dpdk_virtio, &virtio, clients)
CONFORM_CASE(dpdk_virtio, &virtio, both_ends)
CONFORM_CASE(dpdk_virtio, &virtio, restart)
CONFORM_CASE(dpdk_virtio, &virtio, close_in_flight)
CONFORM_CASE(dpdk_virtio, &virtio, wait)
CONFORM_CASE(dpdk_virtio, &virtio, ping_pong)
