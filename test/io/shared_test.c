/* Goal: over shm, pieces of shared memory are passed without a copy and stay lent until they were
 * read. Invalid references are bad datagrams. A peer that cannot read shared memory gets copies.
 * Method: two carriers in one thread. Bytes that change after sending distinguish a reference from
 * a copy; slot marks and references are written by the test.
 * Covers: src/io/shm/send.c, src/io/shm/ring_read.c, src/sys/shared_arena.c */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/conform.h"
#include "io/shm/peers.h"
#include "sys/shared_arena.h"
#include "sys/last_error.h"

enum { LEN = 8 << 20, BUF = 3, OTHER = 4 };

struct ends {
	struct lend_io *server, *client;
	uint32_t peer; /* index of the server at the client */
	uint8_t *memory;
	struct lend_seg seg[BUF + LEND_PARTS];
	struct lend_bufs bufs;
};

static struct lend_io *open_end(const char *listen, const char *peer, bool shares)
{
	struct lend_io_config config = {.listen = listen, .peer = peer, .shares = shares};
	struct lend_io *io;

	cr_assert_eq(lend_io_open(&config, &io), 0, "%s", lend_why_text());
	return io;
}

static void open_ends(struct ends *e, bool shares)
{
	static unsigned count;
	char at[64];

	(void)snprintf(at, sizeof(at), "shm:shared-%d-%u", (int)getpid(), count++);
	*e = (struct ends){.bufs = {e->seg, BUF + LEND_PARTS}};
	e->server = open_end(at, NULL, shares);
	e->client = open_end(NULL, at, true);
	e->peer = conform_resolve(e->client, at, e->server);
	e->memory = lend_arena_take(LEN);
	cr_assert_not_null(e->memory);
	/* The client knows that the server reads shared memory only after a datagram from it. */
	cr_assert_eq(conform_send(e->client, e->peer, 1, 1, 64), LEND_SENT);
	cr_assert_eq(conform_take(e->server, NULL, NULL), 1);
	cr_assert_eq(conform_send(e->server, 0, 1, 1, 64), LEND_SENT);
	cr_assert_eq(conform_take(e->client, NULL, NULL), 1);
}

static void close_ends(struct ends *e)
{
	e->client->ops->close(e->client);
	e->server->ops->close(e->server);
	lend_arena_give(e->memory, LEN);
}

/* Sends the first n segments of the table behind BUF as one chain. */
static enum lend_sent send_chain(struct ends *e, uint32_t n)
{
	struct lend_out out = {
	    .head = "head", .head_len = 4, .peer = e->peer, .n = 1, .piece = {{BUF, 0, 0}}};

	for (uint32_t i = 0; i < n; i++) {
		e->seg[BUF + i].next = i + 1 < n ? BUF + i + 1 : 0;
		out.piece[0].len += e->seg[BUF + i].len;
	}
	e->client->ops->tx(e->client, &e->bufs, &out, 1);
	return out.sent;
}

static enum lend_sent send_datagram(struct ends *e, uint32_t buf, uint8_t *data, uint32_t len)
{
	struct lend_out out = {
	    .head = "head", .head_len = 4, .peer = e->peer, .n = 1, .piece = {{buf, 0, len}}};

	e->seg[buf] = (struct lend_seg){.data = data, .len = len, .cap = len, .shared = 1};
	e->client->ops->tx(e->client, &e->bufs, &out, 1);
	return out.sent;
}

static struct lend_in receive_datagram(struct ends *e)
{
	struct lend_in in = {.len = 0};

	cr_assert_eq(e->server->ops->rx(e->server, &in, 1), 1);
	return in;
}

Test(shared, long_pieces__are_read_in_place, .timeout = 60)
{
	static const struct {
		uint32_t len;
		bool apart;
	} row[] = {{1, false},    {4095, false}, {4096, true},
		   {16384, true}, {17000, true}, {LEN, true}};
	struct ends e;

	open_ends(&e, true);
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct lend_in in;

		e.memory[0] = 1;
		cr_assert_eq(send_datagram(&e, BUF, e.memory, row[i].len), LEND_SENT);
		e.memory[0] = 2;
		in = receive_datagram(&e);
		cr_assert(in.reads);
		cr_assert_eq(memcmp(in.data, "head", 4), 0);
		cr_assert_eq(in.len, row[i].apart ? 4 : 4 + row[i].len);
		cr_assert_eq(in.body != NULL, row[i].apart, "%u bytes", row[i].len);
		cr_assert_eq(in.body_len, row[i].apart ? row[i].len : 0);
		cr_assert_eq(row[i].apart ? *(const uint8_t *)in.body
					  : ((const uint8_t *)in.data)[4],
			     row[i].apart ? 2 : 1);
		e.server->ops->rx_done(e.server);
	}
	close_ends(&e);
}

Test(shared, piece__is_lent_until_it_was_read, .timeout = 60)
{
	struct ends e;

	open_ends(&e, true);
	for (int round = 0; round < 3; round++) {
		cr_assert(e.client->ops->flush(e.client, BUF));
		cr_assert_eq(send_datagram(&e, BUF, e.memory, LEN), LEND_SENT);
		cr_assert_not(e.client->ops->flush(e.client, BUF), "not received yet");
		cr_assert(e.client->ops->flush(e.client, OTHER), "it was not sent");
		(void)receive_datagram(&e);
		cr_assert_not(e.client->ops->flush(e.client, BUF), "it is being read");
		e.server->ops->rx_done(e.server);
		cr_assert(e.client->ops->flush(e.client, BUF), "it was given back");
	}
	cr_assert_eq(send_datagram(&e, BUF, e.memory, LEN), LEND_SENT);
	e.server->ops->close(e.server);
	while (conform_take(e.client, NULL, NULL) == 0)
		;
	cr_assert(e.client->ops->flush(e.client, BUF), "a closed peer reads no more");
	e.client->ops->close(e.client);
	lend_arena_give(e.memory, LEN);
}

Test(shared, peer_without_shared_memory__gets_copies, .timeout = 60)
{
	static uint8_t own[16000];
	struct lend_in in;
	struct ends e;

	open_ends(&e, false);
	cr_assert_eq(send_datagram(&e, BUF, e.memory, 16000), LEND_SENT);
	in = receive_datagram(&e);
	cr_assert(!in.reads && !in.body);
	cr_assert_eq(in.len, 16004);
	e.server->ops->rx_done(e.server);
	cr_assert_eq(send_datagram(&e, BUF, e.memory, LEN), LEND_SENT_DEAD, "it would not fit");
	close_ends(&e);

	open_ends(&e, true);
	cr_assert_eq(send_datagram(&e, BUF, own, sizeof(own)), LEND_SENT);
	in = receive_datagram(&e);
	cr_assert(in.reads && !in.body, "memory that is not shared is copied");
	e.server->ops->rx_done(e.server);
	close_ends(&e);
}

/* The slot's mark has 8 bits for the length of a head that locations follow. */
Test(shared, piece_behind_a_long_head__is_copied, .timeout = 60)
{
	static uint8_t head[300];
	struct ends e;

	open_ends(&e, true);
	e.seg[BUF] = (struct lend_seg){e.memory, LEND_PLACE_MIN, LEND_PLACE_MIN, 0, 1};
	memset(e.memory, 'p', LEND_PLACE_MIN);
	memset(head, 'h', sizeof(head));
	for (uint16_t len = UINT8_MAX; len <= UINT8_MAX + 1; len++) {
		struct lend_out out = {.head = head, .head_len = len, .peer = e.peer, .n = 1};
		const uint8_t *data;
		struct lend_in in;

		out.piece[0] = (struct lend_piece){BUF, 0, LEND_PLACE_MIN};
		e.client->ops->tx(e.client, &e.bufs, &out, 1);
		in = receive_datagram(&e);
		data = in.data;
		cr_assert_eq(in.body != NULL, len == UINT8_MAX);
		cr_assert_eq(in.len + in.body_len, len + LEND_PLACE_MIN);
		cr_assert(data[len - 1] == 'h' && (in.body || data[len] == 'p'));
		e.server->ops->rx_done(e.server);
	}
	close_ends(&e);
}

/* The slot's mark, and the reference in the slot, are checked against the actual sizes. */
Test(shared, invalid_references__are_bad, .timeout = 60)
{
	static const struct {
		uint64_t offset;
		uint32_t len, mark;
		bool fine;
	} row[] = {
	    {0, 0, 20, true},
	    {LEND_ARENA_LEN - 1, 1, 20, true},
	    {LEND_ARENA_LEN, 0, 20, true},
	    {LEND_ARENA_LEN - 1, 2, 20, false},
	    {LEND_ARENA_LEN, 1, 20, false},
	    {LEND_ARENA_LEN + 1, 0, 20, false},
	    {UINT64_MAX, UINT32_MAX, 20, false},
	    {UINT64_MAX - 3, 8, 20, false},
	    {0, 1, 19, false},
	    {0, 1, 0, false},
	    {0, 1, LEND_RING_MTU + 1, false},
	    {0, 1, UINT16_MAX, false},
	};
	struct ends e;

	open_ends(&e, true);
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct lend_ring_ref place = {.offset = row[i].offset, .len = row[i].len};
		struct lend_shm *s = (struct lend_shm *)(void *)e.client;
		struct lend_ring_tx *tx = &s->peer[e.peer].tx;
		uint64_t bad = e.server->stats.rx_bad;
		struct lend_in in;

		memcpy((char *)lend_ring_reserve(tx, 0) + 4, &place, sizeof(place));
		lend_ring_commit(tx, lend_ring_mark_refs(row[i].mark, 4, 1));
		cr_assert_eq(e.server->ops->rx(e.server, &in, 1), row[i].fine, "row %zu", i);
		cr_assert_eq(e.server->stats.rx_bad - bad, !row[i].fine, "row %zu", i);
		if (row[i].fine)
			cr_assert_eq(in.body_len, row[i].len);
		e.server->ops->rx_done(e.server);
	}
	close_ends(&e);
}

static void check_chain(const struct ends *e, const struct lend_in *in, uint32_t n, uint32_t places)
{
	uint32_t at = 0, own = 0;

	cr_assert_eq(in->len, 4);
	cr_assert_eq(memcmp(in->data, "head", 4), 0);
	cr_assert(in->parts > 1 || n == 1);
	for (uint32_t i = 0; i < in->parts; i++) {
		const uint8_t *data = in->part[i].data;
		uint64_t offset;

		for (uint32_t k = 0; k < in->part[i].len; k += 97)
			cr_assert_eq(data[k], (uint8_t)((at + k) / 5), "part %u, byte %u", i, k);
		at += in->part[i].len;
		own += in->part[i].len >= LEND_PLACE_MIN && !lend_arena_find(data, 1, &offset);
	}
	cr_assert_eq(at, in->body_len);
	cr_assert_geq(own, places, "%u places of %u in the sender's memory", own, places);
	(void)e;
}

/* Segments of 1 to 8 places between short ones, in and out of shared memory. */
Test(shared, chains__are_one_datagram, .timeout = 60)
{
	static uint8_t small[LEND_PARTS][200];
	struct ends e;

	open_ends(&e, true);
	for (uint32_t places = 1; places <= LEND_PLACES; places++) {
		uint32_t n = 2 * places + 1, at = 0;
		struct lend_in in;

		for (uint32_t i = 0; i < n; i++) {
			uint32_t len = i % 2 ? LEND_PLACE_MIN + 1000 * i : i * 12;
			uint8_t *data = i % 2 ? e.memory + (size_t)i * 65536 : small[i];

			for (uint32_t k = 0; k < len; k++)
				data[k] = (uint8_t)((at + k) / 5);
			e.seg[BUF + i] = (struct lend_seg){
			    .data = data, .len = len, .cap = len, .shared = i % 2};
			at += len;
		}
		cr_assert_eq(send_chain(&e, n), LEND_SENT);
		cr_assert_not(e.client->ops->flush(e.client, BUF), "not received yet");
		in = receive_datagram(&e);
		cr_assert_eq(in.body_len, at);
		check_chain(&e, &in, n, places);
		cr_assert_not(e.client->ops->flush(e.client, BUF), "it is being read");
		e.server->ops->rx_done(e.server);
		cr_assert(e.client->ops->flush(e.client, BUF), "it was given back");
	}
	close_ends(&e);
}

/* More chains than there is room for parts: the others follow in the next burst. */
Test(shared, many_chains__end_a_burst, .timeout = 60)
{
	enum { CHAINS = 100 };
	uint8_t few[8] = {0};
	uint32_t got = 0;
	struct ends e;

	open_ends(&e, true);
	for (int sent = 0; sent < CHAINS; sent++) {
		e.seg[BUF] = (struct lend_seg){.data = few, .len = 8, .cap = 8};
		e.seg[BUF + 1] = (struct lend_seg){
		    .data = e.memory, .len = LEND_PLACE_MIN, .cap = LEND_PLACE_MIN, .shared = 1};
		e.seg[BUF + 2] = e.seg[BUF];
		cr_assert_eq(send_chain(&e, 3), LEND_SENT);
	}
	for (int bursts = 0; got < CHAINS; bursts++) {
		struct lend_in in[128];
		uint32_t n = e.server->ops->rx(e.server, in, 128);

		cr_assert(n > 0 && bursts < CHAINS);
		for (uint32_t i = 0; i < n; i++)
			cr_assert_eq(in[i].parts, 3);
		got += n;
		e.server->ops->rx_done(e.server);
	}
	cr_assert_eq(got, CHAINS);
	close_ends(&e);
}

/* Each check of a chain's locations, one at a time. The message is 10 bytes, a place, 10 bytes, a
 * place, 10 bytes. */
Test(shared, invalid_chains__are_bad, .timeout = 60)
{
	static const struct {
		struct lend_ring_ref place[2];
		uint32_t len, head, n;
		uint32_t parts; /* 0: bad */
	} row[] = {
	    {{{0, 5000, 10}, {8192, 5000, 5020}}, 66, 4, 2, 5},
	    {{{0, 5000, 0}, {8192, 5000, 5000}}, 66, 4, 2, 3},
	    {{{0, 5000, 30}, {8192, 5000, 5030}}, 66, 4, 2, 3},
	    {{{0, 5000, 10}, {8192, 5000, 5009}}, 66, 4, 2, 0}, /* overlaps */
	    {{{0, 5000, 5020}, {8192, 5000, 10}}, 66, 4, 2, 0}, /* out of order */
	    {{{0, 5000, 10}, {8192, 5000, 5031}}, 66, 4, 2, 0}, /* bytes between are missing */
	    {{{0, 5000, UINT32_MAX}, {8192, 5000, 0}}, 66, 4, 2, 0},
	    {{{0, UINT32_MAX, 0}, {8192, 5000, UINT32_MAX}}, 66, 4, 2, 0}, /* beyond 4 GiB */
	    {{{LEND_ARENA_LEN - 4999, 5000, 10}, {8192, 5000, 5020}}, 66, 4, 2, 0},
	    {{{0, 5000, 10}, {LEND_ARENA_LEN + 1, 0, 5020}}, 66, 4, 2, 0},
	    {{{0, 5000, 10}, {UINT64_MAX, 5000, 5020}}, 66, 4, 2, 0},
	    {{{0, 5000, 10}, {8192, 5000, 5020}}, 66, 35, 2, 0}, /* head and places overlap */
	    {{{0, 5000, 10}, {8192, 5000, 5020}}, 66, 4, 0, 0},
	    {{{0, 5000, 10}, {8192, 5000, 5020}}, 66, 4, LEND_PLACES + 1, 0},
	    {{{0, 0, 0}, {0, 0, 0}}, 200, 4, LEND_PLACES + 1, 0}, /* with room for nine */
	};
	struct ends e;

	open_ends(&e, true);
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct lend_shm *s = (struct lend_shm *)(void *)e.client;
		struct lend_ring_tx *tx = &s->peer[e.peer].tx;
		uint64_t bad = e.server->stats.rx_bad;
		bool fine = row[i].parts > 0;
		struct lend_in in;

		memcpy((char *)lend_ring_reserve(tx, 0) + 34, row[i].place, sizeof(row[i].place));
		lend_ring_commit(tx,
				 lend_ring_mark_refs(row[i].len, (uint8_t)row[i].head, row[i].n));
		cr_assert_eq(e.server->ops->rx(e.server, &in, 1), fine, "row %zu", i);
		cr_assert_eq(e.server->stats.rx_bad - bad, !fine, "row %zu", i);
		if (fine) {
			cr_assert_eq(in.parts, row[i].parts, "row %zu", i);
			cr_assert_eq(in.body_len, 10030);
		}
		e.server->ops->rx_done(e.server);
	}
	close_ends(&e);
}

/* Memory that its owner could truncate is not mapped. */
Test(shared, unsealed_memory__is_not_mapped, .timeout = 60)
{
	char at[64];
	struct lend_io *server;

	(void)snprintf(at, sizeof(at), "shm:shared-odd-%d", (int)getpid());
	server = open_end(at, NULL, true);
	for (int sealed = 0; sealed < 2; sealed++) {
		int fds[LEND_RENDEZVOUS_FDS], sock, err;
		struct lend_rendezvous_msg msg;
		void *own, *link;

		cr_assert_eq(lend_rendezvous_memory(LEND_BELL_LEN, &fds[0], &own), 0);
		fds[1] = sealed ? lend_arena_fd() : memfd_create("odd", MFD_CLOEXEC);
		cr_assert(sealed || ftruncate(fds[1], (off_t)LEND_ARENA_LEN) == 0);
		cr_assert_eq(lend_rendezvous_connect(at + 4, &sock), 0);
		lend_rendezvous_fill(&msg, 0, 0, LEND_SHM_LINK_LEN);
		msg.shares = 1;
		cr_assert_eq(lend_rendezvous_send(sock, &msg, fds, 2), 0);
		while ((err = lend_rendezvous_recv(sock, &msg, fds, 2)) == -EAGAIN)
			(void)conform_take(server, NULL, NULL);
		cr_assert_eq(err, 0);
		cr_assert_eq(lend_rendezvous_map(fds[0], LEND_SHM_LINK_LEN, &link), 0);
		cr_assert_eq(atomic_load(&((struct lend_shm_link *)link)->pair.to_server.reads),
			     (unsigned)sealed);
		(void)munmap(link, LEND_SHM_LINK_LEN);
		(void)munmap(own, LEND_BELL_LEN);
		(void)close(sock);
	}
	server->ops->close(server);
}
