/* Goal: a message of several segments over shm, short and long ones, is read in its sender's
 * memory: a LEND_CHAIN handler gets its segments there, other handlers and landing memory get one
 * copy, and the segments are not reused while the receiver may read them. Method: both ends in one
 * thread; bytes that change under the handler; a server that is not polled while its client
 * cancels. Covers: src/core/tx.c, src/core/rx.c, src/rpc/request.c, src/rpc/msg.c,
 * src/rpc/call.c, src/rpc/deferred_free.c, src/io/shm/send.c, src/io/shm/ring_read.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "e2e/rpc_pair.h"
#include "rpc/endpoint.h"

enum { LOOK = 20, LOOK_CHAIN, LOOK_SLOW, LOOK_TAKE, GIVE, SHORT = 300, LONG = 100000, SEED = 7 };

static struct pair pair;
static struct ask ask;

static struct {
	int right, wrong;
	uint32_t segs;
	bool in_place;
	uint32_t len;
} seen;

/* Makes a chain of n segments, alternately short and long ones, beginning with a short one. */
static struct lend_buf *chain_of(struct lend_ep *ep, uint32_t n, uint32_t *len)
{
	struct lend_buf *all, *first = NULL, **last = &first;
	uint32_t at = 0;

	*len = 0;
	for (uint32_t i = 0; i < n; i++)
		*len += i % 2 ? LONG : SHORT;
	all = ask_bytes(ep, *len, SEED);
	for (uint32_t i = 0; i < n; i++) {
		*last = lend_buf_take(ep, i % 2 ? LONG : SHORT);
		cr_assert_not_null(*last);
		(*last)->len = i % 2 ? LONG : SHORT;
		memcpy((*last)->data, (char *)all->data + at, (*last)->len);
		at += (*last)->len;
		last = &(*last)->next;
	}
	lend_buf_give(ep, all);
	return first;
}

/* Makes a chain of a long segment and one that is not in shared memory and longer than a datagram.
 */
static struct lend_buf *wide_chain(struct lend_ep *ep)
{
	static char own[20000];
	struct lend_buf *first;

	seen.len = LONG + sizeof(own);
	first = ask_bytes(ep, seen.len, SEED);
	memcpy(own, (char *)first->data + LONG, sizeof(own));
	first->len = LONG;
	first->next = lend_buf_wrap(ep, own, sizeof(own), NULL, NULL);
	cr_assert_not_null(first->next);
	return first;
}

static void look_at_bytes(lend_request request, const struct lend_buf *in, void *arg)
{
	struct lend_buf *sent = ask.call.request ? ask.call.request->next : NULL;
	struct lend_buf *mine = NULL;

	if (*(const uint32_t *)arg == LOOK_TAKE)
		in = mine = lend_request_take(pair.server, request);
	cr_assert_not_null(in);
	seen.right += ask_same(in, seen.len, SEED);
	seen.wrong += !ask_same(in, seen.len, SEED);
	seen.segs = 0;
	for (const struct lend_buf *b = in; b; b = b->next)
		seen.segs++;
	if (sent && in->next) {
		((char *)sent->data)[5] ^= 1;
		seen.in_place =
		    ((const volatile char *)in->next->data)[5] == ((char *)sent->data)[5];
		((char *)sent->data)[5] ^= 1;
	}
	if (mine)
		lend_buf_give(pair.server, mine);
	lend_reply(pair.server, request, LEND_OK, NULL);
}

static void give_chain(lend_request request, const struct lend_buf *in, void *arg)
{
	uint32_t n = *(const uint32_t *)in->data, len;

	(void)arg;
	lend_reply(pair.server, request, LEND_OK, chain_of(pair.server, n, &len));
}

static void open_pair(void)
{
	static const uint32_t method[] = {LOOK, LOOK_CHAIN, LOOK_SLOW, LOOK_TAKE};
	static const unsigned flags[] = {0, LEND_CHAIN, LEND_SLOW, LEND_CHAIN};
	struct ask hello = {.done = false};

	memset(&seen, 0, sizeof(seen));
	memset(&ask, 0, sizeof(ask));
	pair_open(&pair, "shm");
	for (int i = 0; i < 4; i++)
		cr_assert_eq(
		    lend_serve(pair.server, method[i], look_at_bytes, (void *)&method[i], flags[i]),
		    0);
	cr_assert_eq(lend_serve(pair.server, GIVE, give_chain, NULL, 0), 0);
	ask_run(&pair, &hello, SINK, NULL);
	ask_give(pair.client, &hello);
}

static void run_chain(uint32_t method, uint32_t n)
{
	memset(&ask, 0, sizeof(ask));
	ask_run(&pair, &ask, method, chain_of(pair.client, n, &seen.len));
	cr_assert_eq(ask.call.status, LEND_OK, "method %u, %u segments", method, n);
	ask_give(pair.client, &ask);
	cr_assert_eq(seen.wrong, 0, "method %u, %u segments", method, n);
}

/* Up to eight long segments are one datagram. */
Test(rpc_chain, each_handler__gets_its_bytes, .timeout = 60)
{
	open_pair();
	for (uint32_t n = 2; n <= 17; n++) {
		struct lend_stats was, is;

		lend_stats_get(pair.client, &was);
		run_chain(LOOK_CHAIN, n);
		lend_stats_get(pair.client, &is);
		cr_assert_leq(is.tx_datagrams - was.tx_datagrams, 2, "%u segments", n);
		cr_assert_eq(seen.segs, n);
		cr_assert(seen.in_place, "%u segments: copied", n);
		run_chain(LOOK, n);
		cr_assert_eq(seen.segs, 1, "one copy");
		run_chain(LOOK_SLOW, n);
		cr_assert_eq(seen.segs, 1);
		run_chain(LOOK_TAKE, n);
		cr_assert_eq(seen.segs, 1);
	}
	cr_assert_eq(seen.right, 4 * 16);
	pair_close(&pair);
}

/* Nine long segments are sent as fragments. */
Test(rpc_chain, more_places__are_fragments, .timeout = 60)
{
	open_pair();
	run_chain(LOOK_CHAIN, 19);
	run_chain(LOOK, 19);
	cr_assert_eq(seen.right, 2);
	pair_close(&pair);
}

/* So are more than LEND_INLINE_MAX bytes outside of shared memory. */
Test(rpc_chain, more_other_bytes__are_fragments, .timeout = 60)
{
	open_pair();
	ask_run(&pair, &ask, LOOK, wide_chain(pair.client));
	cr_assert_eq(ask.call.status, LEND_OK);
	cr_assert(seen.right == 1 && seen.wrong == 0);
	ask_give(pair.client, &ask);
	pair_close(&pair);
}

/* The buffers that show a chain to its handler return to the pool. */
Test(rpc_chain, many_chains__use_no_more_buffers, .timeout = 60)
{
	uint32_t handles;

	open_pair();
	run_chain(LOOK_CHAIN, 17);
	handles = pair.server->bufs->table.n;
	for (int i = 0; i < 100; i++)
		run_chain(LOOK_CHAIN, 17);
	cr_assert_eq(pair.server->bufs->table.n, handles);
	pair_close(&pair);
}

static struct lend_buf *place_bytes(lend_session session, uint32_t method, uint64_t len,
				    const void *first, uint32_t n, void *arg)
{
	static char memory[2][LONG];
	struct lend_buf *a = lend_buf_wrap(pair.server, memory[0], SHORT + 10, NULL, NULL);

	(void)session;
	(void)method;
	(void)arg;
	cr_assert(first && n == SHORT && len == seen.len, "the first segment");
	a->next = lend_buf_wrap(pair.server, memory[1], (uint32_t)len - SHORT - 10, NULL, NULL);
	return a;
}

Test(rpc_chain, landing_memory__is_filled_across_segments, .timeout = 60)
{
	open_pair();
	cr_assert_eq(lend_serve_long(pair.server, LOOK_CHAIN, place_bytes, NULL), 0);
	run_chain(LOOK_CHAIN, 2);
	cr_assert(seen.right == 1 && seen.segs == 2 && !seen.in_place);
	pair_close(&pair);
}

/* Without memory of the caller's own, with it, and with too little. */
/* The last one is in the request of another call. */
Test(rpc_chain, a_buffer_in_use__fails_the_start_and_leaves_the_chain, .timeout = 60)
{
	struct lend_buf *first, *used;
	struct lend_call call = {.method = GIVE};
	uint32_t len;

	open_pair();
	memset(&ask, 0, sizeof(ask));
	ask_start(&pair, &ask, LOOK, LEND_NEVER);
	used = ask.call.request;
	first = chain_of(pair.client, 2, &len);
	first->next->next = used;
	call.request = first;
	cr_assert_eq(lend_call_start(pair.client, pair.session, &call), -EINVAL);
	cr_assert_eq(first->next->next, used);
	first->next->next = NULL;
	lend_buf_give(pair.client, first);
	cr_assert(pair_until(&pair, &ask.done));
	ask_give(pair.client, &ask);
	pair_close(&pair);
}

Test(rpc_chain, replies__are_gathered, .timeout = 60)
{
	static char memory[10 * LONG];

	open_pair();
	for (uint32_t n = 2; n <= 19; n++) {
		for (uint32_t own = 0; own < 3; own++) {
			uint32_t len = n / 2 * LONG + (n - n / 2) * SHORT;
			struct lend_buf *in = lend_buf_take(pair.client, 4);

			memcpy(in->data, &n, 4);
			in->len = 4;
			memset(&ask, 0, sizeof(ask));
			if (own)
				ask.call.reply = lend_buf_wrap(pair.client, memory,
							       len - (own == 2), NULL, NULL);
			ask_run(&pair, &ask, GIVE, in);
			cr_assert_eq(ask.call.reply_len, len);
			cr_assert_eq(ask.call.status, own == 2 ? LEND_RESOURCE_EXHAUSTED : LEND_OK,
				     "%u of %u", own, n);
			cr_assert(own == 2 || ask_same(ask.call.reply, len, SEED));
			ask_give(pair.client, &ask);
		}
	}
	pair_close(&pair);
}

static void look_at_reply(struct lend_call *call)
{
	uint32_t len = (uint32_t)call->reply_len;

	seen.right += ask_same(call->reply, len, SEED);
	seen.segs = 0;
	for (const struct lend_buf *b = call->reply; b; b = b->next)
		seen.segs++;
	if (seen.len && lend_call_keep(pair.client, call) == 0) /* the caller's from here on */
		seen.wrong += !ask_same(call->reply, len, SEED);
	ask_done(call);
}

/* The caller keeps every second one. More than eight places are gathered by the carrier. */
Test(rpc_chain, reply__asked_for_as_a_chain__is_in_place, .timeout = 60)
{
	uint32_t handles = 0;

	open_pair();
	for (uint32_t i = 0; i < 3 * 2 * 16; i++) {
		uint32_t n = 2 + i / 2 % 16, in_place = i / 32 == 1 ? 1 : LEND_CHAIN;

		memset(&ask, 0, sizeof(ask));
		seen.len = i % 2;
		ask.call = (struct lend_call){.method = GIVE,
					      .in_place = (uint8_t)in_place,
					      .request = lend_buf_take(pair.client, 4),
					      .done = look_at_reply};
		memcpy(ask.call.request->data, &n, 4);
		ask.call.request->len = 4;
		cr_assert_eq(lend_call_start(pair.client, pair.session, &ask.call), 0);
		cr_assert(pair_until(&pair, &ask.done));
		cr_assert_eq(seen.segs, in_place == LEND_CHAIN ? n : 1, "%u segments", n);
		cr_assert(seen.right == (int)i + 1 && !seen.wrong);
		lend_buf_give(pair.client, ask.call.request);
		if (seen.len)
			lend_buf_give(pair.client, ask.call.reply);
		if (i == 31)
			handles = pair.client->bufs->table.n;
	}
	cr_assert_leq(pair.client->bufs->table.n, handles + 1, "buffers of parts are back");
	pair_close(&pair);
}

/* Its memory returns to the pool after the server has polled, and not before. */
Test(rpc_chain, request__cancelled__stays_unchanged, .timeout = 60)
{
	struct lend_buf *junk[8];

	open_pair();
	ask.call = (struct lend_call){
	    .method = LOOK_CHAIN, .request = chain_of(pair.client, 5, &seen.len), .done = ask_done};
	cr_assert_eq(lend_call_start(pair.client, pair.session, &ask.call), 0, "%s", lend_why());
	for (int i = 0; i < 4; i++)
		lend_poll(pair.client);
	lend_call_cancel(pair.client, &ask.call);
	while (!ask.done)
		lend_poll(pair.client);
	cr_assert_null(ask.call.request, "the server may still read it");
	for (int i = 0; i < 8; i++) {
		junk[i] = ask_bytes(pair.client, LONG, 1000);
		lend_poll(pair.client);
	}
	pair_turns(&pair, 20);
	cr_assert_eq(seen.wrong, 0, "it changed under the server");
	cr_assert_eq(seen.right, 1);
	for (int i = 0; i < 8; i++)
		lend_buf_give(pair.client, junk[i]);
	pair_close(&pair);
}
