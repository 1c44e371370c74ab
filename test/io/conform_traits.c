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
	compare(kind, LEND_CARRIER_REGISTERS, io->ops->reg, "registers");
	cr_expect(!io->path.lossless || kind->traits & LEND_CARRIER_LOSSLESS);
	cr_expect(!(kind->traits & LEND_CARRIER_USER) || kind->traits & LEND_CARRIER_SAME_HOST);
	cr_expect(!io->one_sided || (kind->traits | kind->some) & LEND_CARRIER_ONE_SIDED);
	cr_expect_leq(io->path.mtu, kind->mtu);
	conform_close(&p);
}
