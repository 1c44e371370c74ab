/* Goal: a long request over shm is read in the sender's memory, which is not reused while the
 * receiver may read it, however the call ends; a receiver with landing memory, or a worker, gets a
 * copy; a reply in place lasts until done returns, or is kept, though it is acknowledged before.
 * Method: both ends in one thread; bytes that change under the handler; a server that is not polled
 * while its client cancels or closes, or that reuses its memory within the client's turn. Covers:
 * src/core/server_call.c, src/rpc/deferred_free.c, src/io/shm/send.c, src/io/shm/ring_read.c,
 * src/rpc/server.c, src/rpc/call.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "e2e/rpc_pair.h"

enum { LEN = 3 << 20, LOOK = 20 };

static struct pair pair;
static struct ask ask;

/* State that the handler saw. */
static struct {
	uint32_t seed; /* seed of the expected bytes */
	int right, wrong;
	bool in_place;
	const void *data;
} seen;

static void look(lend_request request, const struct lend_buf *in, void *arg)
{
	uint8_t *sent = ask.call.request ? ask.call.request->data : NULL;

	(void)arg;
	seen.right += ask_same(in, LEN, seen.seed);
	seen.wrong += !ask_same(in, LEN, seen.seed);
	seen.data = in->data;
	if (sent) {
		sent[5] ^= 1;
		seen.in_place = ((const volatile uint8_t *)in->data)[5] == sent[5];
		sent[5] ^= 1;
	}
	lend_reply(pair.server, request, LEND_OK, NULL);
}

static void open_pair(void)
{
	memset(&seen, 0, sizeof(seen));
	memset(&ask, 0, sizeof(ask));
	pair_open(&pair, "shm");
	cr_assert_eq(lend_serve(pair.server, LOOK, look, NULL, 0), 0);
	seen.seed = 7;
}

/* Starts it, and polls the client alone: the request is in flight. */
static void start_alone(void)
{
	struct ask hello = {.done = false};

	ask_run(&pair, &hello, SINK, NULL);
	ask_give(pair.client, &hello);
	ask.call = (struct lend_call){
	    .method = LOOK, .request = ask_bytes(pair.client, LEN, seen.seed), .done = ask_done};
	cr_assert_eq(lend_call_start(pair.client, pair.session, &ask.call), 0, "%s", lend_why());
	for (int i = 0; i < 4; i++)
		lend_poll(pair.client);
}

Test(rpc_zero_copy, a_handler_reads_in_place)
{
	open_pair();
	ask_run(&pair, &ask, LOOK, ask_bytes(pair.client, LEN, 7));
	cr_assert_eq(ask.call.status, LEND_OK);
	cr_assert_eq(seen.right, 1);
	cr_assert(seen.in_place, "it was copied");
	ask_give(pair.client, &ask);
	pair_close(&pair);
}

Test(rpc_zero_copy, a_reply_is_the_callers_own)
{
	open_pair();
	ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, LEN, 9));
	cr_assert_eq(ask.call.status, LEND_OK);
	memset(ask.call.request->data, 0, LEN);
	cr_assert(ask_same(ask.call.reply, LEN, 9));
	((char *)ask.call.reply->data)[0] = 1; /* and may be written */
	ask_give(pair.client, &ask);
	pair_close(&pair);
}

/* A call with in_place. done checks the reply, and keeps it if keep is set. */
struct peek {
	struct ask ask; /* first */
	uint32_t len;
	bool keep, right;
};

static void peek_done(struct lend_call *call)
{
	struct peek *peek = (struct peek *)call;

	peek->right = call->status == LEND_OK && ask_same(call->reply, peek->len, peek->len);
	if (peek->keep)
		cr_assert_eq(lend_call_keep(pair.client, call), 0, "%s", lend_why());
	else
		call->reply = NULL;
	ask_done(call);
}

static void run_peek(struct peek *peek, uint32_t len, bool keep)
{
	*peek = (struct peek){.len = len, .keep = keep};
	peek->ask.call =
	    (struct lend_call){.method = LOOK,
			       .in_place = 1,
			       .request = len ? ask_bytes(pair.client, len, len) : NULL,
			       .done = peek_done};
	cr_assert_eq(lend_call_start(pair.client, pair.session, &peek->ask.call), 0, "%s",
		     lend_why());
	cr_assert(pair_until(&pair, &peek->ask.done));
	cr_assert(peek->right, "%u bytes", len);
	lend_buf_give(pair.client, peek->ask.call.request);
}

static void echo_copy(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)arg;
	cr_assert_eq(lend_reply_copy(pair.server, request, LEND_OK, in->data, in->len), 0);
	cr_assert_eq(lend_reply_copy(pair.server, request, LEND_OK, in->data, in->len), -ESTALE);
}

/* More than a pool has. */
static void copy_too_much(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)arg;
	cr_assert_eq(lend_reply_copy(pair.server, request, LEND_OK, in->data, 1u << 30), 0);
	cr_assert_eq(lend_reply_copy(pair.server, request, LEND_OK, in->data, 1), -ESTALE);
}

static uint64_t taken_bytes(void)
{
	struct lend_stats stats;

	lend_stats_get(pair.client, &stats);
	return stats.buf_bytes;
}

Test(rpc_zero_copy, reply_in_place__lasts_until_done_returns_or_is_kept)
{
	static const uint32_t lens[] = {0, 8, 64, 65, 1000, 100000};

	for (size_t i = 0; i < SCHEMES * sizeof(lens) / sizeof(*lens); i++) {
		uint32_t len = lens[i / SCHEMES];
		struct peek kept, other;
		uint64_t before;

		pair_open(&pair, pair_schemes[i % SCHEMES]);
		cr_assert_eq(lend_serve(pair.server, LOOK, echo_copy, NULL, 0), 0);
		run_peek(&kept, len, true);
		before = taken_bytes();
		for (int n = 0; n < 40; n++)
			run_peek(&other, len, false);
		cr_assert_eq(taken_bytes(), before, "%u bytes: a reply was not given back", len);
		cr_assert(ask_same(kept.ask.call.reply, len, len));
		lend_buf_give(pair.client, kept.ask.call.reply);
		pair_close(&pair);
	}
}

static struct lend_buf *place(lend_session session, uint32_t method, uint64_t len,
			      const void *first, uint32_t n, void *arg)
{
	static char memory[LEN];

	(void)session;
	(void)method;
	cr_assert(n > 0 && first && len == LEN);
	return *(bool *)arg ? lend_buf_wrap(pair.server, memory, LEN, NULL, NULL) : NULL;
}

enum { REPLIES = 24, REPLY_LEN = 64 << 10, PATTERN = 33 };

/* Replies of the session that arrived, and the calls. */
static struct {
	int arrived, right;
	struct lend_call call[REPLIES];
} burst;

static void reply_long(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)in;
	(void)arg;
	lend_reply(pair.server, request, LEND_OK, ask_bytes(pair.server, REPLY_LEN, PATTERN));
}

/* Overwrites the memory that the server has free. */
static void reuse_memory(void)
{
	struct lend_buf *all[REPLIES];

	for (int i = 0; i < 4; i++)
		lend_poll(pair.server);
	for (int i = 0; i < REPLIES; i++) {
		all[i] = lend_buf_take(pair.server, REPLY_LEN);
		cr_assert(all[i]);
		memset(all[i]->data, 0xee, REPLY_LEN);
	}
	for (int i = 0; i < REPLIES; i++)
		lend_buf_give(pair.server, all[i]);
}

static void note_reply(struct lend_call *call);

static void start_long(int i)
{
	burst.call[i] = (struct lend_call){.method = LOOK, .queue = 1, .done = note_reply};
	cr_assert_eq(lend_call_start(pair.client, pair.session, &burst.call[i]), 0, "%s",
		     lend_why());
}

/* The first one starts another call, whose datagram acknowledges. */
static void note_reply(struct lend_call *call)
{
	burst.arrived++;
	burst.right += call->status == LEND_OK && ask_same(call->reply, REPLY_LEN, PATTERN);
	lend_buf_give(pair.client, call->reply);
	if (burst.arrived == 1)
		start_long(REPLIES - 1);
	reuse_memory();
}

/* The client acknowledges datagrams in the middle of a burst. So the server hears of the arrival of
 * replies that the client has not copied yet. */
Test(rpc_zero_copy, reply__acknowledged_before_it_was_read__stays_unchanged)
{
	struct ask hello = {.done = false};

	open_pair();
	memset(&burst, 0, sizeof(burst));
	ask_run(&pair, &hello, SINK, NULL);
	ask_give(pair.client, &hello);
	cr_assert_eq(lend_serve(pair.server, LOOK, reply_long, NULL, 0), 0);
	for (int i = 0; i < REPLIES - 1; i++)
		start_long(i);
	for (int i = 0; i < 4; i++)
		lend_poll(pair.client);
	for (int i = 0; i < 4; i++)
		lend_poll(pair.server);
	for (int i = 0; i < 1000 && burst.arrived < REPLIES; i++) {
		lend_poll(pair.client);
		lend_poll(pair.server);
	}
	cr_assert_eq(burst.arrived, REPLIES);
	cr_assert_eq(burst.right, REPLIES);
	pair_close(&pair);
}

Test(rpc_zero_copy, landing_memory__long_request__is_used)
{
	bool room = true;

	open_pair();
	cr_assert_eq(lend_serve_long(pair.server, LOOK, place, &room), 0);
	ask_run(&pair, &ask, LOOK, ask_bytes(pair.client, LEN, 7));
	cr_assert_eq(ask.call.status, LEND_OK);
	cr_assert(seen.right == 1 && !seen.in_place);
	ask_give(pair.client, &ask);
	room = false;
	ask_run(&pair, &ask, LOOK, ask_bytes(pair.client, LEN, 7));
	cr_assert_eq(ask.call.status, LEND_RESOURCE_EXHAUSTED);
	cr_assert_eq(ask.call.ran, LEND_RAN_NO);
	ask_give(pair.client, &ask);
	pair_close(&pair);
}

Test(rpc_zero_copy, reply_copy__no_buffer__is_answered)
{
	open_pair();
	cr_assert_eq(lend_serve(pair.server, LOOK, copy_too_much, NULL, 0), 0);
	ask_run(&pair, &ask, LOOK, ask_bytes(pair.client, 10, 7));
	cr_assert_eq(ask.call.status, LEND_RESOURCE_EXHAUSTED);
	cr_assert_eq(ask.call.ran, LEND_RAN_YES);
	ask_give(pair.client, &ask);
	pair_close(&pair);
}

/* Its memory returns to the pool after the server has polled, and not before. */
Test(rpc_zero_copy, request__cancelled__stays_unchanged)
{
	struct lend_buf *junk[4];

	open_pair();
	start_alone();
	lend_call_cancel(pair.client, &ask.call);
	while (!ask.done)
		lend_poll(pair.client);
	cr_assert_eq(ask.call.status, LEND_CANCELLED);
	cr_assert_null(ask.call.request, "the server may still read it");
	for (int i = 0; i < 4; i++) {
		junk[i] = ask_bytes(pair.client, LEN, 1000);
		lend_poll(pair.client);
	}
	pair_turns(&pair, 20);
	cr_assert_eq(seen.wrong, 0, "it changed under the server");
	cr_assert_eq(seen.right, 1);
	for (int i = 0; i < 4; i++)
		lend_buf_give(pair.client, junk[i]);
	pair_close(&pair);
}

Test(rpc_zero_copy, request__sender_closed__stays_unchanged)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *other;
	lend_session session;

	open_pair();
	start_alone();
	lend_close(pair.client);
	pair.client = NULL;
	ask.call.request = NULL;
	cr_assert_eq(lend_open(&config, &other), 0);
	cr_assert_eq(lend_connect(other, pair.address, &session), 0);
	for (int i = 0; i < 8; i++)
		(void)ask_bytes(other, LEN, 1000);
	pair_turns(&pair, 20);
	cr_assert_eq(seen.wrong, 0, "it changed under the server");
	cr_assert_eq(seen.right, 1);
	lend_close(other);
	lend_close(pair.server);
}
