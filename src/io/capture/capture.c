#include "io/capture/capture.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/capture/file.h"
#include "io/capture/header.h"
#include "io/builtin.h"
#include "sys/last_error.h"
#include "util/bits.h"

enum {
	PARTS = 3 + LEND_PARTS, /* parts of a packet, at most: lead, head, pieces or a chain of
				   segments, tail */
	KEPT_MAX = 128 << 10, /* bytes kept of a datagram: Wireshark refuses some of over 256 KiB */
};

struct capture {
	struct lend_io_ops ops; /* first: what io->ops points to */
	const struct lend_io_ops *under;
	struct lend_capture_file *file;
	struct lend_capture_port port;
	uint32_t snap; /* bytes of a datagram that are kept */
	struct lend_capture_headers headers;
};

static _Atomic uint32_t carriers; /* number of carriers that were captured in this process */

static struct capture *self(struct lend_io *io)
{
	return (struct capture *)(uintptr_t)io->ops;
}

static const char *comment_of(uint8_t event)
{
	switch ((enum lend_capture_event)event) {
	case LEND_CAPTURE_FULL:
		return "not sent: the carrier was full";
	case LEND_CAPTURE_DEAD:
		return "not sent: the peer is gone";
	case LEND_CAPTURE_GONE:
		return "the peer hung up";
	case LEND_CAPTURE_SENT:
	case LEND_CAPTURE_RECEIVED:
		break;
	}
	return NULL;
}

/* Puts one packet: part[0] is left free for the header; len bytes follow in the others. */
static void put_packet(struct lend_io *io, struct lend_capture_header *lead, uint8_t event,
		       lend_ns now, struct lend_pcapng_bytes *part, uint32_t n)
{
	struct capture *c = self(io);
	bool out = event <= LEND_CAPTURE_DEAD;
	uint32_t len = 0, ahead = lead->len[out];
	struct lend_pcapng_packet packet = {.time = now, .out = out, .comment = comment_of(event)};

	for (uint32_t i = 1; i < n; i++)
		len += part[i].len;
	lead->bytes[out][lead->at + 1] = event;
	part[0] = (struct lend_pcapng_bytes){lead->bytes[out], ahead};
	packet.len = ahead + len;
	packet.kept = ahead + lend_min_u32(len, c->snap);
	if (!lend_capture_file_put(c->file, &c->port, &packet, part, n))
		io->stats.capture_lost++;
}

/* Lists the payload of a received datagram that is apart from its head; returns its parts. */
static uint32_t put_body(struct lend_pcapng_bytes *part, const struct lend_in *in)
{
	part[0] = (struct lend_pcapng_bytes){in->body, in->body_len};
	for (uint32_t i = 0; i < in->parts; i++)
		part[i] = (struct lend_pcapng_bytes){in->part[i].data, in->part[i].len};
	return in->parts ? in->parts : 1;
}

/* Lists the bytes of a piece, which may be a chain; returns how many segments it has. */
static uint32_t put_piece(struct lend_pcapng_bytes *part, const struct lend_bufs *bufs,
			  struct lend_piece piece)
{
	uint32_t n = 0;

	for (; n < LEND_PARTS && piece.len > bufs->seg[piece.buf].len; n++) {
		const struct lend_seg *seg = &bufs->seg[piece.buf];

		part[n] = (struct lend_pcapng_bytes){seg->data, seg->len};
		piece = (struct lend_piece){.buf = seg->next, .len = piece.len - seg->len};
	}
	if (n == LEND_PARTS)
		return n;
	part[n] = (struct lend_pcapng_bytes){lend_piece_data(bufs, &piece), piece.len};
	return n + 1;
}

static uint32_t capture_rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	struct capture *c = self(io);
	uint32_t n = c->under->rx(io, in, cap);
	lend_ns now;

	if (n == 0) {
		lend_capture_file_idle(c->file);
		return 0;
	}
	now = lend_capture_now();
	lend_capture_file_begin(c->file);
	for (uint32_t i = 0; i < n; i++) {
		struct lend_capture_header *lead =
		    lend_capture_header_of(&c->headers, io, c->under, in[i].peer, &in[i]);
		struct lend_pcapng_bytes part[PARTS] = {{NULL, 0}, {in[i].data, in[i].len}};

		put_packet(io, lead, in[i].gone ? LEND_CAPTURE_GONE : LEND_CAPTURE_RECEIVED, now,
			   part, 2 + put_body(&part[2], &in[i]));
		if (in[i].gone)
			lend_capture_header_forget(&c->headers, in[i].peer);
	}
	lend_capture_file_end(c->file);
	return n;
}

static void put_out(struct lend_io *io, struct lend_bufs *bufs, const struct lend_out *out,
		    lend_ns now)
{
	struct capture *c = self(io);
	struct lend_pcapng_bytes part[PARTS];
	uint32_t n = 1;

	part[n++] = (struct lend_pcapng_bytes){out->head, out->head_len};
	for (uint32_t i = 0; i < out->n; i++)
		n += put_piece(&part[n], bufs, out->piece[i]);
	part[n++] = (struct lend_pcapng_bytes){out->tail, out->tail_len};
	put_packet(io, lend_capture_header_of(&c->headers, io, c->under, out->peer, NULL),
		   out->sent, now, part, n);
}

/* Takes the time before sending, so that in one file a reply never looks older than its request. */
static void capture_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct capture *c = self(io);
	lend_ns now = lend_capture_now();

	c->under->tx(io, bufs, out, n);
	lend_capture_file_begin(c->file);
	for (uint32_t i = 0; i < n; i++)
		put_out(io, bufs, &out[i], now);
	lend_capture_file_end(c->file);
}

static bool capture_arm(struct lend_io *io)
{
	lend_capture_file_flush(self(io)->file);
	return self(io)->under->arm(io);
}

static int capture_resolve(struct lend_io *io, const char *address, uint32_t *peer)
{
	int rc = self(io)->under->resolve(io, address, peer);

	if (rc == 0)
		lend_capture_header_forget(&self(io)->headers, *peer);
	return rc;
}

static void capture_pin(struct lend_io *io, uint32_t peer, bool kept)
{
	lend_capture_header_forget(&self(io)->headers, peer);
	self(io)->under->pin(io, peer, kept);
}

static void capture_close(struct lend_io *io)
{
	struct capture *c = self(io);

	io->ops = c->under;
	io->ops->close(io);
	lend_capture_file_close(c->file);
	free(c);
}

static void describe_port(struct capture *c, struct lend_io *io,
			  const struct lend_io_config *config)
{
	const char *what = config->listen ? config->listen : config->peer;

	if (c->under->name(io, c->headers.self, sizeof(c->headers.self)) < 0)
		c->headers.self[0] = 0;
	c->headers.carrier = atomic_fetch_add_explicit(&carriers, 1, memory_order_relaxed) + 1;
	c->headers.checked = io->path.checked;
	(void)snprintf(c->port.name, sizeof(c->port.name), "%s",
		       c->headers.self[0] ? c->headers.self : what);
	(void)snprintf(c->port.text, sizeof(c->port.text), "%s %s, MTU %u",
		       config->listen ? "listens at" : "reaches", what, io->path.mtu);
}

/* Reads a whole number with an optional K, M or G from the environment, unless *value is set
 * already. 0 or -EINVAL. */
static int env_size(const char *name, uint64_t *value)
{
	static const char units[] = "KMG";
	const char *text = secure_getenv(name), *unit;
	char *end;

	if (!text || !*text || *value)
		return 0;
	errno = 0;
	*value = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end & ~0x20) : NULL;
	if (unit) {
		*value <<= 10 * (unit - units + 1);
		end++;
	}
	if (text[0] < '0' || text[0] > '9' || errno || *end)
		return lend_fail(EINVAL, "%s=%.80s: give a size such as 128, 64K or 1G", name,
				 text);
	return 0;
}

static int open_file(const struct lend_io_config *config, struct lend_capture_file **file,
		     uint64_t *snap)
{
	const char *path = config->capture ? config->capture : secure_getenv("LEND_CAPTURE");
	uint64_t limit = config->capture_limit;
	int rc;

	*file = NULL;
	*snap = config->capture_snap;
	if (!path || !*path)
		return 0;
	rc = env_size("LEND_CAPTURE_SNAP", snap);
	if (rc == 0)
		rc = env_size("LEND_CAPTURE_LIMIT", &limit);
	return rc < 0 ? rc : lend_capture_file_open(path, limit, file);
}

int lend_capture_open(const struct lend_io_config *config, struct lend_capture_file **file)
{
	uint64_t snap;

	return open_file(config, file, &snap);
}

int lend_capture_start(const struct lend_io_config *config, struct lend_io *io)
{
	struct lend_capture_file *file;
	struct capture *c;
	uint64_t snap;
	int rc = open_file(config, &file, &snap);

	if (rc < 0 || !file)
		return rc;
	c = calloc(1, sizeof(*c));
	if (!c) {
		lend_capture_file_close(file);
		return lend_fail(ENOMEM, "no memory for a capture");
	}
	c->file = file;
	c->under = io->ops;
	c->snap = snap && snap < KEPT_MAX ? (uint32_t)snap : KEPT_MAX;
	c->port.snap = c->snap == KEPT_MAX ? 0 : c->snap + LEND_CAPTURE_HEADER_MAX;
	describe_port(c, io, config);
	c->ops = *io->ops;
	c->ops.rx = capture_rx;
	c->ops.tx = capture_tx;
	c->ops.arm = capture_arm;
	c->ops.resolve = capture_resolve;
	c->ops.pin = capture_pin;
	c->ops.close = capture_close;
	io->ops = &c->ops;
	return 0;
}
