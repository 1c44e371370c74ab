/* conform_traits - compares an open carrier with its row of the table of carriers. The traits that
 * other cases test are not here: a loss, a hang-up and an urgent datagram. Layer: test. */
#include <string.h>
#include <unistd.h>

#include "io/conform.h"

bool conform_has(const struct conform_row *row, uint32_t trait)
{
	char address[104];

	row->address(address, sizeof(address));
	return lend_carrier_traits(address) & trait;
}

static void keep_peer(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	(void)id;
	(void)seq;
	*(uint32_t *)arg = in->peer;
}

/* Returns the user of the client, as the server knows it. */
static int64_t user_of_client(struct conform_pair *p)
{
	struct lend_io_peer_info info = {.uid = -1};
	uint32_t peer = UINT32_MAX, seq = 0;
	uint64_t end = conform_ms() + 5000;

	while (peer == UINT32_MAX && conform_ms() < end) {
		(void)conform_send(p->client, p->peer, 1, seq++, 64);
		(void)conform_take(p->server, keep_peer, &peer);
	}
	cr_assert_neq(peer, UINT32_MAX, "no datagram arrived");
	p->server->ops->peer_info(p->server, peer, &info);
	return info.uid;
}

/* Receives for 50 ms. Returns whether a datagram equals want. */
static bool await_bytes(struct lend_io *io, const char *want, uint32_t len)
{
	uint64_t end = conform_ms() + 50;
	bool arrived = false;

	while (!arrived && conform_ms() < end) {
		struct lend_in in;

		if (io->ops->rx(io, &in, 1) == 0)
			continue;
		arrived = !in.gone && in.len == len && memcmp(in.data, want, len) == 0;
		io->ops->rx_done(io);
	}
	return arrived;
}

/* Sends a long piece of registered memory. Returns whether the device, or its driver, read it in
 * place. */
static bool sends_in_place(struct conform_pair *p)
{
	static char memory[4096], want[4096] = "h";
	uint32_t most = p->client->path.mtu - 1, len = most < 3000 ? most : 3000;
	struct lend_seg seg[2] = {{0}, {.data = memory, .len = len, .cap = sizeof(memory)}};
	struct lend_bufs bufs = {seg, 2};
	struct lend_out out = {
	    .head = "h", .head_len = 1, .peer = p->peer, .n = 1, .piece = {{1, 0, len}}};
	uint64_t before = p->client->stats.tx_in_place, end = conform_ms() + 10000;

	memset(memory, 'm', len);
	memcpy(want + 1, memory, len);
	cr_assert_eq(lend_io_reg(p->client, memory, sizeof(memory)), 0);
	do { /* it may be lost behind the datagrams of user_of_client() */
		cr_assert_lt(conform_ms(), end, "a long piece never arrives");
		p->client->ops->tx(p->client, &bufs, &out, 1);
	} while (!await_bytes(p->server, want, len + 1));
	while (!lend_io_flush(p->client, 1))
		cr_assert_lt(conform_ms(), end);
	return p->client->stats.tx_in_place > before;
}

static void compare(const struct lend_carrier_kind *kind, uint32_t trait, bool is, const char *what)
{
	if (!(kind->some & trait))
		cr_expect_eq((kind->traits & trait) != 0, is, "%s%s: the table says of \"%s\": %s",
			     kind->begin, kind->part ? kind->part : "", what, is ? "no" : "yes");
}

void conform_traits(const struct conform_row *row)
{
	struct conform_pair p;
	const struct lend_carrier_kind *kind;
	const struct lend_io *io;
	char own[104];

	conform_open(&p, row);
	io = p.server;
	cr_assert_eq(p.server->ops->name(p.server, own, sizeof(own)), 0);
	kind = lend_carrier_kind(own);
	cr_assert_not_null(kind, "%s", own);
	compare(kind, LEND_CARRIER_NAMES, !strchr(strchr(own, ':') + 1, ':'), "named");
	compare(kind, LEND_CARRIER_USER, user_of_client(&p) == getuid(), "one user");
	compare(kind, LEND_CARRIER_CHECKED, io->path.checked, "checked");
	compare(kind, LEND_CARRIER_PROVEN, io->path.proven, "proven");
	compare(kind, LEND_CARRIER_IN_PLACE, io->ops->peer_memory, "in place");
	compare(kind, LEND_CARRIER_WAKES, io->ops->fd(p.server) >= 0, "wakes");
	compare(kind, LEND_CARRIER_COUNTS, io->path.counts, "counts");
	cr_expect(!io->path.counts || io->ops->queued);
	if (p.client->ops == p.server->ops) /* the client is of this kind, too: not with a broker */
		compare(kind, LEND_CARRIER_REGISTERS, sends_in_place(&p), "registers");
	cr_expect(!io->path.lossless || kind->traits & LEND_CARRIER_LOSSLESS);
	cr_expect(!(kind->traits & LEND_CARRIER_USER) || kind->traits & LEND_CARRIER_SAME_HOST);
	cr_expect(!io->one_sided || (kind->traits | kind->some) & LEND_CARRIER_ONE_SIDED);
	cr_expect_leq(io->path.mtu, kind->mtu);
	conform_close(&p);
}
