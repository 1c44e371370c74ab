/* raw/open - opens a raw carrier: its device, its addresses, its port, its memory.
 *
 * Layer: io. Threads: any; the carrier then belongs to the thread that opened it.
 */
#include "io/raw/raw.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/module/module.h"
#include "sys/last_error.h"

LEND_IO_EXPORT lend_io_open_fn lend_io_raw_open;

static bool ip_of(const struct sockaddr *address, struct lend_ip *ip)
{
	if (address && address->sa_family == AF_INET)
		*ip = lend_ip_of4(
		    (const uint8_t *)&((const struct sockaddr_in *)(const void *)address)
			->sin_addr);
	else if (address && address->sa_family == AF_INET6)
		memcpy(ip, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
	else
		return false;
	return true;
}

static bool is_link_local(const struct lend_ip *ip)
{
	return ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80;
}

/* Finds an address of the device's interface, of the same IP version and scope as `to`. */
static bool own_address(const char *netdev, const struct lend_ip *to, struct lend_ip *ip)
{
	struct ifaddrs *all;
	struct lend_ip at;
	bool found = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		found = strcmp(i->ifa_name, netdev) == 0 && ip_of(i->ifa_addr, &at) &&
			lend_ip_is4(&at) == lend_ip_is4(to) &&
			is_link_local(&at) == is_link_local(to);
	}
	freeifaddrs(all);
	if (found)
		*ip = at;
	return found;
}

/* Reserves our UDP port in the kernel by a bound socket, so that no other program or endpoint of
 * this host gets it. The address need not be one of the kernel's. */
static int claim_port(struct raw *io)
{
	struct lend_udp_key key = {0};
	struct sockaddr_storage at;
	int yes = 1, small = 0, family = lend_ip_is4(&io->self.ip) ? AF_INET : AF_INET6;
	socklen_t len = sizeof(at);

	memcpy(key.ip, &io->self.ip, sizeof(key.ip));
	key.port = htons(io->self.udp);
	io->claim = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (io->claim < 0)
		return lend_fail(errno, "raw:%s: no socket to hold a port with: raise ulimit -n",
				 io->name);
	(void)setsockopt(io->claim, family == AF_INET ? SOL_IP : SOL_IPV6,
			 family == AF_INET ? IP_FREEBIND : IPV6_FREEBIND, &yes, sizeof(yes));
	(void)setsockopt(io->claim, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (bind(io->claim, (struct sockaddr *)&at, lend_udp_key_to(&key, family, &at)) < 0)
		return lend_fail(
		    errno,
		    "raw:%s: UDP port %u is in use on this host: choose another, or 0 for any",
		    io->name, io->self.udp);
	if (getsockname(io->claim, (struct sockaddr *)&at, &len) < 0 ||
	    !lend_udp_key_from(&key, &at))
		return lend_fail(EADDRNOTAVAIL, "raw:%s: no free UDP port: close some programs",
				 io->name);
	io->self.udp = ntohs(key.port);
	return 0;
}

static uint32_t clip_value(uint32_t value, const uint8_t range[2])
{
	return value < range[0] ? range[0] : value > range[1] ? range[1] : value;
}

static int choose_addresses(struct raw *io, const struct lend_eth_address *address, bool listening)
{
	const struct raw_facts *facts = &io->device->facts;

	memcpy(io->self.mac, facts->mac, 6);
	io->self.vlan = address->vlan;
	if (listening) {
		io->self.ip = address->ip;
		io->self.udp = address->udp;
	} else if (address->given & LEND_ETH_FROM) {
		io->self.ip = address->from;
	} else if (!own_address(facts->netdev, &address->ip, &io->self.ip)) {
		return lend_fail(EADDRNOTAVAIL,
				 "raw:%s: its interface %s has no %s address to send from: give it "
				 "one, or name one (?from=IP)",
				 io->name, facts->netdev,
				 lend_ip_is4(&address->ip) ? "IPv4" : "IPv6");
	}
	return claim_port(io);
}

static int choose_mtu(struct raw *io, const struct lend_eth_address *address, uint32_t most)
{
	uint32_t mtu = io->device->facts.mtu;

	if (address->mtu > mtu)
		return lend_fail(EINVAL,
				 "raw:%s: an MTU of %u is more than its interface's %u: raise that "
				 "(ip link set %s mtu %u), or ask for less",
				 io->name, address->mtu, mtu, io->device->facts.netdev,
				 address->mtu);
	if (address->mtu > 0)
		mtu = address->mtu;
	if (mtu > RAW_FRAME_MAX - LEND_ETH_HEAD_MAX)
		mtu = RAW_FRAME_MAX - LEND_ETH_HEAD_MAX;
	io->slot_len = (mtu + LEND_ETH_HEAD_MAX + 63) & ~63u;
	mtu -= lend_ip_is4(&io->self.ip) ? LEND_ETH_UDP4 : LEND_ETH_UDP6;
	io->io.path.writable = true;
	io->io.path.mtu = most > 0 && most < mtu ? most : mtu;
	return 0;
}

static bool is_power(uint32_t n)
{
	return n > 0 && (n & (n - 1)) == 0;
}

/* Checks the queue's shape: its completions must not overflow, and rx.c must be able to read it. */
static bool is_usable(const struct raw_queue *q, const struct raw_memory *m, uint32_t frame)
{
	return frame <= 1u << (m->stride_log + m->strides_log) && is_power(q->cqe_n) &&
	       is_power(q->wqe_n) && q->wqe_n <= RAW_BUFFERS && q->cqe_len >= RAW_CQE_LEN &&
	       q->wqe_len >= RAW_WQE_LEN && q->cqe_n >= q->wqe_n << m->strides_log;
}

static int start_device(struct raw *io)
{
	struct raw_device *device = io->device;
	struct raw_memory memory = {
	    .stride_log = clip_value(RAW_STRIDE_LOG, device->facts.stride_log),
	    .strides_log = clip_value(RAW_STRIDES_LOG, device->facts.strides_log),
	    .buffers = RAW_BUFFERS,
	    .sends = RAW_SEND_SLOTS,
	};
	size_t receive = (size_t)RAW_BUFFERS << (memory.stride_log + memory.strides_log);
	int rc = lend_mapping_map(&io->memory, receive + (size_t)io->slot_len * RAW_SEND_SLOTS);

	if (rc < 0)
		return rc;
	memory.memory = io->memory.base;
	memory.len = io->memory.len;
	io->slots = memory.memory + receive;
	rc = device->ops->start(device, &memory);
	if (rc < 0)
		return rc;
	if (!is_usable(&device->queue, &memory, io->slot_len))
		return lend_fail(
		    EOPNOTSUPP,
		    "raw:%s: its receive queue has an unknown layout: use dpdk: or udp: there",
		    io->name);
	io->rx = (struct raw_rx){.q = device->queue,
				 .memory = memory.memory,
				 .stride_log = memory.stride_log,
				 .strides_log = memory.strides_log};
	raw_rx_start(&io->rx);
	return 0;
}

static int steer_frames(struct raw *io)
{
	struct raw_flow flow = {.kind = RAW_FLOW_UDP, .to = io->self};
	int rc = io->device->ops->steer(io->device, &flow);

	if (rc < 0)
		return rc;
	flow.kind = RAW_FLOW_NEIGHBOURS;
	io->deaf = io->device->ops->steer(io->device, &flow) < 0;
	return 0;
}

static int make_carrier(struct raw *io, const struct lend_io_config *config,
			const struct lend_eth_address *address)
{
	int rc = lend_udp_peers_init(&io->peers);

	if (rc < 0)
		return lend_fail(ENOMEM, "no memory for a table of peers");
	rc = raw_device_ops.open(address->device, &io->device);
	if (rc < 0)
		return rc;
	io->device->ops->look(io->device, &io->health);
	if (io->health.link != RAW_UP)
		return lend_fail(ENETDOWN,
				 "raw:%s: its port is down: check the cable, or ip link set %s up",
				 io->name, io->device->facts.netdev);
	rc = choose_addresses(io, address, config->listen != NULL);
	if (rc == 0)
		rc = choose_mtu(io, address, config->mtu);
	if (rc == 0)
		rc = start_device(io);
	return rc < 0 ? rc : steer_frames(io);
}

int lend_io_raw_open(const struct lend_io_config *config, struct lend_io **out)
{
	const char *text = config->listen ? config->listen : config->peer;
	struct lend_eth_address address;
	struct raw *io;
	int rc;

	if (text == NULL || !lend_eth_address_parse("raw", text, RAW_KEYS, &address))
		return lend_fail(EINVAL,
				 "%.100s: does not parse; write raw:DEVICE@IP:PORT or "
				 "raw:DEVICE@[IPV6]:PORT, then ?mac=, vlan=, mtu= or from=",
				 text ? text : "(none)");
	io = calloc(1, sizeof(*io));
	if (io == NULL)
		return lend_fail(ENOMEM, "no memory for a raw carrier");
	io->io.ops = &raw_ops;
	io->claim = -1;
	memcpy(io->name, address.device, sizeof(io->name));
	rc = make_carrier(io, config, &address);
	if (rc < 0) {
		raw_close(&io->io);
		return rc;
	}
	*out = &io->io;
	return 0;
}
