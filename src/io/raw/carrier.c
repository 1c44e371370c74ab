/* raw/carrier - the carrier over a raw packet queue pair. Received datagrams are lent in the
 * device's receive buffers; sending copies.
 *
 * Layer: io. Threads: one per carrier.
 */
#include "io/raw/raw.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/last_error.h"

static const lend_ns look_ns = 100000000;

static struct raw *self(struct lend_io *io)
{
	return (struct raw *)io;
}

static bool count_drop(uint64_t *counter)
{
	++*counter;
	return false;
}

static bool is_for_us(const struct raw *io, const struct lend_eth_frame *frame)
{
	return frame->to_udp == io->self.udp && frame->vlan == io->self.vlan &&
	       lend_ip_same(&frame->to, &io->self.ip);
}

/* Returns whether the frame became a datagram. Else it was counted, or used for address resolution.
 */
static bool take_frame(struct raw *io, const struct raw_frame *raw, struct lend_in *in)
{
	struct lend_io_stats *stats = &io->io.stats;
	struct lend_eth_frame frame;
	int32_t peer;

	switch (lend_eth_read(raw->data, raw->len, &frame)) {
	case LEND_ETH_UDP:
		break;
	case LEND_ETH_NEIGH:
		raw_peer_update(io, raw->data, raw->len);
		return false;
	case LEND_ETH_FOREIGN:
		return count_drop(&stats->rx_foreign);
	case LEND_ETH_FRAGMENT:
		return count_drop(&stats->rx_fragment);
	case LEND_ETH_CHECKSUM:
		return count_drop(&stats->rx_checksum);
	case LEND_ETH_BAD:
		return count_drop(&stats->rx_bad);
	}
	if (!is_for_us(io, &frame))
		return count_drop(&stats->rx_foreign);
	if (!raw->udp_ok && !lend_eth_sum_good(&frame))
		return count_drop(&stats->rx_checksum);
	peer = raw_peer_of(io, &frame);
	if (peer < 0)
		return false;
	*in = (struct lend_in){.data = frame.data,
			       .len = frame.len,
			       .peer = (uint32_t)peer,
			       .ecn = frame.ecn,
			       .addr = frame.ip + (frame.ip4 ? 12 : 8), /* both IPs, source port */
			       .addr_len = frame.ip4 ? 4 + 4 + 2 : 16 + 16 + 2};
	return true;
}

/* Restarts the receive queue after an error, when no frame is lent. */
static void restart_queue(struct raw *io)
{
	io->io.stats.rx_bad++;
	io->io.stats.resets++;
	io->broken = false;
	if (io->device->ops->revive(io->device, RAW_RECEIVING) < 0)
		io->removed = true;
	else
		raw_rx_start(&io->rx);
}

static void check_health(struct raw *io, lend_ns now)
{
	struct raw_health was = io->health;

	io->looked = now;
	io->device->ops->look(io->device, &io->health);
	io->removed |= io->health.link == RAW_REMOVED;
	io->io.stats.link_down += was.link == RAW_UP && io->health.link != RAW_UP;
	io->io.stats.rx_missed += io->health.overruns - was.overruns;
}

/* Runs periodic work, not needed at every poll. */
static void run_periodic(struct raw *io)
{
	lend_ns now = lend_clock_now();

	raw_peer_tick(io, now);
	raw_send_reap(io);
	if (now - io->looked >= look_ns)
		check_health(io, now);
}

/* Reports all peers as gone, because the device is gone. */
static uint32_t report_gone(struct raw *io, struct lend_in *in, uint32_t cap)
{
	uint32_t n = 0;

	for (; io->gone_reported < io->peers.top && n < cap; io->gone_reported++) {
		if (lend_udp_peers_at(&io->peers, io->gone_reported))
			in[n++] = (struct lend_in){.peer = io->gone_reported, .gone = 1};
	}
	return n;
}

static uint32_t receive_burst(struct lend_io *base, struct lend_in *in, uint32_t cap)
{
	struct raw *io = self(base);
	struct raw_frame frame;
	uint32_t n = 0;

	if (io->removed)
		return report_gone(io, in, cap);
	if (io->broken)
		restart_queue(io);
	if (io->polls++ % RAW_TICK == 0)
		run_periodic(io);
	for (uint32_t looked = 0; n < cap && looked < 4 * RAW_BURST; looked++) {
		enum raw_got got = raw_rx_next(&io->rx, &frame);

		if (got == RAW_NOTHING)
			break;
		io->broken = got == RAW_BROKEN;
		if (io->broken)
			break;
		n += got == RAW_FRAME && take_frame(io, &frame, &in[n]);
	}
	return n;
}

static void rx_done(struct lend_io *base)
{
	struct raw *io = self(base);

	if (!io->broken && !io->removed)
		raw_rx_done(&io->rx);
}

static int get_fd(struct lend_io *base)
{
	return self(base)->device->fd;
}

/* Prepares for sleep. False while the send queue is full: it has room again within microseconds,
 * and no event signals that. */
static bool prepare_sleep(struct lend_io *base)
{
	struct raw *io = self(base);

	if (io->removed)
		return io->gone_reported >= io->peers.top;
	if (raw_send_is_full(io))
		raw_send_reap(io);
	if (io->broken || raw_send_is_full(io))
		return false;
	io->device->ops->calm(io->device);
	io->device->ops->arm(io->device, io->rx.next);
	return !raw_rx_waiting(&io->rx);
}

static int resolve_address(struct lend_io *base, const char *address, uint32_t *peer)
{
	struct raw *io = self(base);
	struct lend_eth_address to;

	if (!lend_eth_address_parse("raw", address, RAW_KEYS, &to) || to.udp == 0 ||
	    strcmp(to.device, io->name) != 0 || (to.vlan && to.vlan != io->self.vlan) ||
	    lend_ip_is4(&to.ip) != lend_ip_is4(&io->self.ip))
		return lend_fail(
		    EINVAL,
		    "%.100s: not an address that this raw:%s carrier reaches: name one "
		    "on that device, of the same IP version and VLAN",
		    address, io->name);
	return raw_peer_resolve(io, &to, peer);
}

static void pin_peer(struct lend_io *base, uint32_t peer, bool kept)
{
	lend_udp_peers_pin(&self(base)->peers, peer, kept);
}

static void describe_peer(struct lend_io *base, uint32_t index, struct lend_io_peer_info *info)
{
	struct raw *io = self(base);
	const struct lend_udp_peer *peer = lend_udp_peers_at(&io->peers, index);
	struct lend_eth_end end = {.vlan = io->self.vlan};

	memset(info, 0, sizeof(*info));
	info->uid = -1;
	if (peer == NULL)
		return;
	memcpy(&end.ip, peer->key.ip, sizeof(end.ip));
	end.udp = (uint16_t)lend_eth_get16((const uint8_t *)&peer->key.port);
	(void)lend_eth_address_print("raw", io->name, &end, info->address, sizeof(info->address));
}

static int write_name(struct lend_io *base, char *address, size_t cap)
{
	struct raw *io = self(base);

	return lend_eth_address_print("raw", io->name, &io->self, address, cap);
}

void raw_close(struct lend_io *base)
{
	struct raw *io = self(base);

	if (io->device)
		io->device->ops->close(io->device);
	lend_mapping_unmap(&io->memory);
	if (io->claim >= 0)
		(void)close(io->claim);
	lend_udp_peers_free(&io->peers);
	free(io->peer);
	free(io);
}

const struct lend_io_ops raw_ops = {
    .rx = receive_burst,
    .rx_done = rx_done,
    .tx = raw_tx,
    .queued = raw_queued,
    .fd = get_fd,
    .arm = prepare_sleep,
    .resolve = resolve_address,
    .pin = pin_peer,
    .peer_info = describe_peer,
    .name = write_name,
    .close = raw_close,
};
