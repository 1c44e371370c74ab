/* planted_carriers - carriers with one bug each, for planted.py: the case for that bug must fail.
 *
 * The bug is between the suite and a real carrier that passes the suite. Layer: test. Threads: each
 * end has its own state; the bug is selected before any carrier is opened. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/builtin.h"
#include "io/conform.h"

enum bug {
	NONE,
	SWAPS,      /* two datagrams of a burst */
	LOSES,      /* one in 997 */
	REPEATS,    /* one in 997, sent twice */
	COMPARES,   /* drops a datagram that equals the previous one */
	OVERFLOWS,  /* reports sent when the queue is full */
	HOLDS_UP,   /* a full peer blocks the rest of the burst */
	NO_EMPTY,   /* drops empty datagrams */
	PADS,       /* empty datagrams get 18 bytes */
	BELOW_MTU,  /* refuses the longest */
	ABOVE_MTU,  /* accepts MTU + 1 bytes, and loses it */
	UNCOUNTED,  /* refuses it without counting */
	CUTS,       /* to 1,024 bytes */
	LATE,       /* reads pieces after it released them */
	NEVER_BACK, /* never releases them */
	KEEPS_LAST, /* sends each datagram with the next one, and never the last */
	KEEPS_NAME, /* after close */
	SLEEPS,     /* without a last poll */
	NO_ROOM,    /* sleeps for room without telling the peer */
	FLIPS,      /* one bit in 997 datagrams */
	NO_TAIL,    /* sends without the trailer */
	HEAD_8_BIT, /* keeps the head's length in 8 bits */
	ONE_CLIENT, /* all clients have one index */
	ONE_WAY,    /* urgent datagrams do not overtake */
};

struct faulty {
	struct lend_io io;
	struct lend_io *inner;
	uint64_t count;
	bool full; /* a datagram was refused since the last poll */
	uint32_t late_n;
	struct lend_out late;
	char late_head[256];
	char late_body[1024];
	struct lend_seg late_seg[8];
	uint8_t last[128], pad[18];
	uint32_t last_len;
};

static enum bug bug;

static struct faulty *self(struct lend_io *io)
{
	return (struct faulty *)(void *)io;
}

static void mirror(struct faulty *f)
{
	uint64_t dead = f->io.stats.tx_dead;

	f->io.path = f->inner->path;
	f->io.stats = f->inner->stats;
	if (bug == UNCOUNTED)
		f->io.stats.tx_dead = dead;
	if (bug == ABOVE_MTU)
		f->io.stats.tx_dead = dead;
}

static void send_late(struct faulty *f)
{
	struct lend_bufs bufs = {f->late_seg, 8};

	if (f->late_n > 0)
		f->inner->ops->tx(f->inner, &bufs, &f->late, 1);
	f->late_n = 0;
}

/* Applies a receive bug to a datagram. Returns how many of it are delivered. */
static uint32_t meddle(struct faulty *f, struct lend_in *in)
{
	bool now = ++f->count % 997 == 0;
	bool same = in->len == f->last_len && in->len <= sizeof(f->last) &&
		    memcmp(in->data, f->last, in->len) == 0;

	if (in->gone)
		return 1;
	if (bug == ONE_CLIENT)
		in->peer = 0;
	if (bug == PADS && in->len == 0)
		in->data = f->pad, in->len = sizeof(f->pad);
	if (bug == CUTS && in->len > 1024)
		in->len = 1024;
	if (bug == FLIPS && now && in->len > 0)
		((uint8_t *)(uintptr_t)in->data)[in->len - 1] ^= 4;
	f->last_len = in->len;
	if (in->len <= sizeof(f->last) && in->len > 0)
		memcpy(f->last, in->data, in->len);
	if ((bug == LOSES && now) || (bug == NO_EMPTY && in->len == 0) ||
	    (bug == COMPARES && same && in->len > 0))
		return 0;
	return bug == REPEATS && now ? 2 : 1;
}

static uint32_t rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	struct faulty *f = self(io);
	struct lend_in got[32];
	uint32_t n, out = 0;

	if (bug == LATE)
		send_late(f);
	n = f->inner->ops->rx(f->inner, got, cap < 16 ? cap : 16);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t times = meddle(f, &got[i]);

		for (uint32_t k = 0; k < times && out < cap; k++)
			in[out++] = got[i];
	}
	mirror(f);
	return out;
}

static void rx_done(struct lend_io *io)
{
	self(io)->inner->ops->rx_done(self(io)->inner);
}

static void keep_late(struct faulty *f, const struct lend_bufs *bufs, struct lend_out *out)
{
	f->late = *out;
	f->late.head = memcpy(f->late_head, out->head, out->head_len);
	memcpy(f->late_seg, bufs->seg, (bufs->n < 8 ? bufs->n : 8) * sizeof(f->late_seg[0]));
	if (bug == KEEPS_LAST) {
		memcpy(f->late_body, lend_piece_data(bufs, &out->piece[0]), out->piece[0].len);
		f->late.piece[0] = (struct lend_piece){1, 0, out->piece[0].len};
		f->late_seg[1] = (struct lend_seg){.data = f->late_body, .len = 1024, .cap = 1024};
	}
	f->late_n = 1;
	out->sent = LEND_SENT;
}

/* Applies a send bug. True: the datagrams are not to be sent any more. */
static bool send_badly(struct faulty *f, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	bool fits = out->n == 1 && out->piece[0].len <= sizeof(f->late_body);

	if ((bug == LATE || (bug == KEEPS_LAST && fits)) && n == 1 && out->n > 0 &&
	    out->tail_len == 0) {
		send_late(f);
		keep_late(f, bufs, out);
		return true;
	}
	if (bug == BELOW_MTU && lend_out_len(out) == f->inner->path.mtu) {
		out->sent = LEND_SENT_DEAD;
		return true;
	}
	if (bug == ABOVE_MTU && lend_out_len(out) == f->inner->path.mtu + 1) {
		out->sent = LEND_SENT;
		return true;
	}
	return false;
}

static void mark_badly(struct faulty *f, struct lend_out *out, uint32_t n)
{
	bool full = false;

	for (uint32_t i = 0; i < n; i++) {
		f->full |= out[i].sent == LEND_SENT_FULL;
		full |= out[i].sent == LEND_SENT_FULL;
		if (full && bug == HOLDS_UP)
			out[i].sent = LEND_SENT_FULL;
		if (bug == OVERFLOWS && out[i].sent == LEND_SENT_FULL)
			out[i].sent = LEND_SENT;
	}
}

static void tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct faulty *f = self(io);
	struct lend_out first = out[0];

	if (bug == NO_TAIL)
		for (uint32_t i = 0; i < n; i++)
			out[i].tail_len = 0;
	if (bug == HEAD_8_BIT)
		for (uint32_t i = 0; i < n; i++)
			out[i].head_len &= UINT8_MAX;
	if (bug == ONE_WAY)
		for (uint32_t i = 0; i < n; i++)
			out[i].fast = 0;
	if (send_badly(f, bufs, out, n))
		return;
	if (bug == SWAPS && n > 1 && ++f->count % 10 == 0)
		out[0] = out[1], out[1] = first;
	f->inner->ops->tx(f->inner, bufs, out, n);
	mark_badly(f, out, n);
	mirror(f);
}

static bool flush(struct lend_io *io, uint32_t buf)
{
	return bug != NEVER_BACK && lend_io_flush(self(io)->inner, buf);
}

static int fd(struct lend_io *io)
{
	return self(io)->inner->ops->fd(self(io)->inner);
}

static bool arm(struct lend_io *io)
{
	struct faulty *f = self(io);
	bool full = f->full;

	f->full = false;
	if (bug == SLEEPS || (bug == NO_ROOM && full))
		return true;
	return f->inner->ops->arm(f->inner);
}

static int reg(struct lend_io *io, void *memory, size_t len)
{
	return lend_io_reg(self(io)->inner, memory, len);
}

static int resolve(struct lend_io *io, const char *address, uint32_t *peer)
{
	return self(io)->inner->ops->resolve(self(io)->inner, address, peer);
}

static void pin(struct lend_io *io, uint32_t peer, bool kept)
{
	self(io)->inner->ops->pin(self(io)->inner, peer, kept);
}

static void describe_peer(struct lend_io *io, uint32_t peer, struct lend_io_peer_info *info)
{
	self(io)->inner->ops->peer_info(self(io)->inner, peer, info);
}

static int name(struct lend_io *io, char *address, size_t cap)
{
	return self(io)->inner->ops->name(self(io)->inner, address, cap);
}

static void close_it(struct lend_io *io)
{
	if (bug != KEEPS_NAME)
		self(io)->inner->ops->close(self(io)->inner);
	free(io);
}

static const struct lend_io_ops ops = {
    .rx = rx,
    .rx_done = rx_done,
    .tx = tx,
    .flush = flush,
    .fd = fd,
    .arm = arm,
    .reg = reg,
    .resolve = resolve,
    .pin = pin,
    .peer_info = describe_peer,
    .name = name,
    .close = close_it,
};

static struct lend_io *wrap(struct lend_io *inner)
{
	struct faulty *f = calloc(1, sizeof(*f));

	cr_assert_not_null(f);
	f->io.ops = &ops;
	f->inner = inner;
	mirror(f);
	return &f->io;
}

static const struct conform_row shm = {.name = "shm",
				       .address = conform_shm_address,
				       .wrap = wrap,
				       .rebinds = true,
				       .threads = true,
				       .clients = 40,
				       .both = true};
static const struct conform_row udp = {.name = "udp",
				       .address = conform_udp_address,
				       .wrap = wrap,
				       .rebinds = true,
				       .threads = true,
				       .counts = true,
				       .clients = 40,
				       .both = true};

#define PLANTED(suite, row, kind, noun)                                                            \
	Test(suite, kind##__##noun, .timeout = 60)                                                 \
	{                                                                                          \
		bug = kind;                                                                        \
		conform_patience_ms = kind == NONE ? conform_patience_ms : 1000;                   \
		conform_##noun(row);                                                               \
	}
/* The same cases without a bug, which must pass. */
#define SOUND(noun)                                                                                \
	PLANTED(sound_shm, &shm, NONE, noun)                                                       \
	PLANTED(sound_udp, &udp, NONE, noun)

SOUND(order)
SOUND(loss)
SOUND(duplicates)
SOUND(zero_length)
SOUND(mtu_plus_1)
SOUND(stopped_peer)
SOUND(wait)
PLANTED(sound_shm, &shm, NONE, urgent)

PLANTED(planted_shm, &shm, SWAPS, order)
PLANTED(planted_shm, &shm, LOSES, loss)
PLANTED(planted_shm, &shm, REPEATS, duplicates)
PLANTED(planted_shm, &shm, OVERFLOWS, back_pressure)
PLANTED(planted_shm, &shm, HOLDS_UP, stopped_peer)
PLANTED(planted_shm, &shm, CUTS, mtu_plus_1)
PLANTED(planted_shm, &shm, KEEPS_LAST, close_in_flight)
PLANTED(planted_shm, &shm, KEEPS_NAME, restart)
PLANTED(planted_shm, &shm, SLEEPS, wait)
PLANTED(planted_shm, &shm, NO_ROOM, wait_for_room)
PLANTED(planted_shm, &shm, ONE_WAY, urgent)
PLANTED(planted_udp, &udp, SWAPS, order)
PLANTED(planted_udp, &udp, LOSES, loss)
PLANTED(planted_udp, &udp, REPEATS, duplicates)
PLANTED(planted_udp, &udp, COMPARES, duplicates)
PLANTED(planted_udp, &udp, NO_EMPTY, zero_length)
PLANTED(planted_udp, &udp, PADS, zero_length)
PLANTED(planted_udp, &udp, BELOW_MTU, mtu)
PLANTED(planted_udp, &udp, CUTS, mtu)
PLANTED(planted_udp, &udp, ABOVE_MTU, mtu_plus_1)
PLANTED(planted_udp, &udp, UNCOUNTED, mtu_plus_1)
PLANTED(planted_udp, &udp, LATE, flush)
PLANTED(planted_udp, &udp, NEVER_BACK, flush)
PLANTED(planted_udp, &udp, KEEPS_NAME, restart)
PLANTED(planted_udp, &udp, FLIPS, content)
PLANTED(planted_udp, &udp, NO_TAIL, pieces)
PLANTED(planted_udp, &udp, HEAD_8_BIT, long_head)
PLANTED(planted_udp, &udp, ONE_CLIENT, clients)
