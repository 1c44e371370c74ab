#include "io/conform.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/last_error.h"
#include "util/bits.h"
#include "util/traffic_class.h"

enum { HEAD = 16, BODY_MAX = 65536 };

uint64_t conform_patience_ms = 10000;

uint64_t conform_ms(void)
{
	return lend_clock_now() / 1000000;
}

void conform_shm_address(char *text, size_t cap)
{
	static _Atomic unsigned count;

	(void)snprintf(text, cap, "shm:test-%d-%u", (int)getpid(), atomic_fetch_add(&count, 1));
}

void conform_udp_address(char *text, size_t cap)
{
	(void)snprintf(text, cap, "udp:127.0.0.1:0");
}

void conform_need(const struct conform_row *row)
{
	const char *reason = row->absent != NULL ? row->absent() : NULL;

	if (reason != NULL)
		cr_skip_test("not on this machine: %s", reason);
}

void conform_name(const struct conform_row *row, struct lend_io *io, char address[104])
{
	char own[104];

	cr_assert_eq(io->ops->name(io, own, sizeof(own)), 0);
	if (row->across != NULL)
		row->across(own, address, 104);
	else
		memcpy(address, own, sizeof(own));
}

struct lend_io *conform_open_as(const struct conform_row *row, const struct lend_io_config *config)
{
	struct lend_io *io = NULL;
	const char *at = config->listen != NULL ? config->listen : config->peer;

	cr_assert_eq(lend_io_open(config, &io), 0, "%s: %s", at, lend_why_text());
	return row->wrap != NULL ? row->wrap(io) : io;
}

static struct lend_io *listen_at(const struct conform_row *row, const char *at, char address[104])
{
	struct lend_io_config config = {.listen = at};
	struct lend_io *io = conform_open_as(row, &config);

	conform_name(row, io, address);
	return io;
}

struct lend_io *conform_listen(const struct conform_row *row, char address[104])
{
	char at[104];

	row->address(at, sizeof(at));
	return listen_at(row, at, address);
}

struct lend_io *conform_listen_far(const struct conform_row *row, char address[104])
{
	char at[104];

	(row->far != NULL ? row->far : row->address)(at, sizeof(at));
	return listen_at(row, at, address);
}

struct lend_io *conform_client(const char *address)
{
	static const struct conform_row any;

	return conform_caller(&any, address);
}

struct lend_io *conform_caller(const struct conform_row *row, const char *address)
{
	struct lend_io_config config = {.peer = address};

	return conform_open_as(row, &config);
}

uint32_t conform_resolve(struct lend_io *from, const char *address, struct lend_io *other)
{
	uint64_t end = conform_ms() + conform_patience_ms;
	uint32_t peer = 0;
	int err;

	while ((err = from->ops->resolve(from, address, &peer)) == -EINPROGRESS) {
		cr_assert_lt(conform_ms(), end, "%s: never resolved", address);
		if (other != NULL)
			(void)conform_take(other, NULL, NULL);
		(void)conform_take(from, NULL, NULL);
		sched_yield();
	}
	cr_assert_eq(err, 0, "%s: %d %s", address, err, lend_why_text());
	return peer;
}

uint64_t conform_seed(void)
{
	const char *given = getenv("SEED");

	return given != NULL ? strtoull(given, NULL, 0) : lend_clock_cycles();
}

void conform_open(struct conform_pair *pair, const struct conform_row *row)
{
	conform_need(row);
	*pair = (struct conform_pair){.row = row, .seed = conform_seed()};
	pair->server = conform_listen(row, pair->address);
	pair->client = conform_caller(row, pair->address);
	pair->peer = conform_resolve(pair->client, pair->address, pair->server);
}

void conform_close(struct conform_pair *pair)
{
	if (pair->client != NULL)
		pair->client->ops->close(pair->client);
	if (pair->server != NULL)
		pair->server->ops->close(pair->server);
}

static uint8_t byte_of(uint32_t id, uint32_t seq, uint32_t i)
{
	return (uint8_t)(id * 31 + seq * 7 + i * 3 + (i >> 8));
}

/* Datagrams of one burst. */
static _Thread_local struct {
	struct lend_seg seg[CONFORM_BURST + 1];
	struct lend_out out[CONFORM_BURST];
	uint8_t head[CONFORM_BURST][HEAD];
	uint8_t body[BODY_MAX];
	uint32_t used; /* bytes of body */
} tray;

static void put_message(uint32_t i, uint32_t peer, uint32_t id, uint32_t seq, uint32_t len)
{
	uint8_t *head = tray.head[i], *body = tray.body + tray.used;

	cr_assert(len >= HEAD && len - HEAD <= BODY_MAX - tray.used);
	tray.used += len - HEAD;
	tray.seg[i + 1] = (struct lend_seg){.data = body, .len = len - HEAD, .cap = len - HEAD};
	tray.out[i] = (struct lend_out){.head = head,
					.head_len = HEAD,
					.peer = peer,
					.n = len > HEAD,
					.class = LEND_CLASS_NORMAL,
					.sent = 0xff,
					.piece = {{i + 1, 0, len - HEAD}}};
	lend_store_u32(head, CONFORM_MAGIC);
	lend_store_u32(head + 4, id);
	lend_store_u32(head + 8, seq);
	lend_store_u32(head + 12, len);
	for (uint32_t k = 0; k < len - HEAD; k++)
		body[k] = byte_of(id, seq, k);
}

static void send_tray(struct lend_io *io, uint32_t n)
{
	struct lend_bufs bufs = {tray.seg, n + 1};

	io->ops->tx(io, &bufs, tray.out, n);
	for (uint32_t i = 0; i < n; i++)
		cr_assert_leq(tray.out[i].sent, LEND_SENT_DEAD, "marked");
	tray.used = 0;
}

enum lend_sent conform_send(struct lend_io *io, uint32_t peer, uint32_t id, uint32_t seq,
			    uint32_t len)
{
	put_message(0, peer, id, seq, len);
	send_tray(io, 1);
	return tray.out[0].sent;
}

enum lend_sent conform_send_fast(struct lend_io *io, uint32_t peer, uint32_t id, uint32_t seq,
				 uint32_t len)
{
	put_message(0, peer, id, seq, len);
	tray.out[0].class = 0;
	tray.out[0].fast = 1;
	send_tray(io, 1);
	return tray.out[0].sent;
}

uint32_t conform_burst(struct lend_io *io, uint32_t peer, uint32_t seq, const uint32_t *len,
		       uint32_t n)
{
	uint32_t sent = 0;

	for (uint32_t i = 0; i < n; i++)
		put_message(i, peer, 0, seq + i, len[i]);
	send_tray(io, n);
	while (sent < n && tray.out[sent].sent == LEND_SENT)
		sent++;
	for (uint32_t i = sent; i < n; i++)
		cr_assert_eq(tray.out[i].sent, LEND_SENT_FULL, "after one that was refused");
	return sent;
}

bool conform_check(const struct lend_in *in, uint32_t *id, uint32_t *seq)
{
	const uint8_t *data = in->data;

	if (in->len < HEAD || lend_load_u32(data) != CONFORM_MAGIC ||
	    lend_load_u32(data + 12) != in->len)
		return false;
	*id = lend_load_u32(data + 4);
	*seq = lend_load_u32(data + 8);
	for (uint32_t i = 0; i < in->len - HEAD; i++) {
		if (data[HEAD + i] != byte_of(*id, *seq, i))
			return false;
	}
	return true;
}

uint32_t conform_take(struct lend_io *io, conform_seen *seen, void *arg)
{
	struct lend_in in[32];
	uint32_t n = io->ops->rx(io, in, 32), id = 0, seq = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (in[i].gone)
			cr_assert_eq(in[i].len, 0, "a gone notice carries no data");
		else
			cr_assert(conform_check(&in[i], &id, &seq), "unchanged, %u bytes",
				  in[i].len);
		if (seen != NULL)
			seen(arg, &in[i], id, seq);
	}
	io->ops->rx_done(io);
	return n;
}
