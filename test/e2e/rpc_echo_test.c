/* Goal: bytes arrive complete in both directions, at every length where the code path changes, one
 * or many at a time, and every buffer is freed. Method: two endpoints of one thread, in alternate
 * turns, over shm and udp. Covers: src/rpc/loop.c, src/rpc/call.c, src/rpc/server.c,
 * src/rpc/msg.c, src/rpc/method.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/rpc_pair.h"

static uint64_t out_of_pool(struct lend_ep *ep)
{
	struct lend_stats stats;

	lend_stats_get(ep, &stats);
	return stats.buf_bytes;
}

static void echo_len(struct pair *pair, uint32_t len)
{
	struct ask ask = {.done = false};

	ask_run(pair, &ask, ECHO, ask_bytes(pair->client, len, len));
	cr_assert_eq(ask.call.status, LEND_OK, "%u bytes: status %d", len, ask.call.status);
	cr_assert_eq(ask.call.ran, LEND_RAN_YES);
	cr_assert_eq(ask.times, 1);
	cr_assert_eq(ask.call.reply_len, len);
	cr_assert(ask_same(ask.call.reply, len, len), "%u bytes came back changed", len);
	cr_assert(ask.call.request == NULL || ask_same(ask.call.request, len, len));
	ask_give(pair->client, &ask);
}

Test(rpc_echo, lengths)
{
	static const uint32_t lens[] = {
	    0,     1,     64,    1000,  1400,   1471,    1472,          1473,    4096,    8000,
	    8100,  8191,  8192,  8193,  16384,  32700,   32767,         32768,   32769,   65435,
	    65507, 65535, 65536, 65537, 100000, 1 << 20, (1 << 20) + 1, 5 << 20, 16 << 20};

	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;
		uint64_t before[2];

		pair_open(&pair, pair_schemes[s]);
		echo_len(&pair, 0);
		before[0] = out_of_pool(pair.client);
		before[1] = out_of_pool(pair.server);
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
			echo_len(&pair, lens[i]);
		for (uint32_t around = 7900; around < 8300; around++)
			echo_len(&pair, around);
		pair_turns(&pair, 100);
		cr_assert_eq(out_of_pool(pair.client), before[0], "the client lost buffers over %s",
			     pair_schemes[s]);
		echo_len(&pair, 1); /* acknowledges the last reply */
		pair_turns(&pair, 100);
		cr_assert_leq(out_of_pool(pair.server), before[1] + 65536,
			      "the server lost buffers over %s", pair_schemes[s]);
		pair_close(&pair);
	}
}

Test(rpc_echo, many_in_flight)
{
	enum { N = 100, ROUNDS = 20 };
	static struct ask ask[N];

	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;

		pair_open(&pair, pair_schemes[s]);
		for (uint32_t round = 0; round < ROUNDS; round++) {
			for (uint32_t i = 0; i < N; i++) {
				uint32_t len = (i * 7919 + round * 104729) % 20000;

				ask[i] =
				    (struct ask){.call = {.method = ECHO,
							  .request = ask_bytes(pair.client, len, i),
							  .done = ask_done}};
				cr_assert_eq(
				    lend_call_start(pair.client, pair.session, &ask[i].call), 0,
				    "%s", lend_why());
			}
			for (uint32_t i = 0; i < N; i++) {
				uint32_t len = (i * 7919 + round * 104729) % 20000;

				cr_assert(pair_until(&pair, &ask[i].done));
				cr_assert_eq(ask[i].call.status, LEND_OK, "status %d",
					     ask[i].call.status);
				cr_assert(ask_same(ask[i].call.reply, len, i));
				ask_give(pair.client, &ask[i]);
			}
		}
		pair_close(&pair);
	}
}

Test(rpc_echo, no_free_slot_takes_nothing)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct ask ask[5];
	struct pair pair;
	struct lend_buf *buf;

	config.calls = 4;
	pair_open_with(&pair, "shm", &config, &config);
	memset(ask, 0, sizeof(ask));
	for (int i = 0; i < 4; i++) {
		ask[i].call = (struct lend_call){.method = SINK, .done = ask_done};
		cr_assert_eq(lend_call_start(pair.client, pair.session, &ask[i].call), 0);
	}
	buf = ask_bytes(pair.client, 10, 1);
	ask[4].call = (struct lend_call){.method = SINK, .request = buf, .done = ask_done};
	cr_assert_eq(lend_call_start(pair.client, pair.session, &ask[4].call), -EAGAIN);
	cr_assert(strlen(lend_why()) > 0);
	lend_buf_give(pair.client, buf);
	for (int i = 0; i < 4; i++) {
		cr_assert(pair_until(&pair, &ask[i].done));
		ask_give(pair.client, &ask[i]);
	}
	cr_assert_eq(ask[4].times, 0);
	pair_close(&pair);
}

struct gone {
	char bytes[100000];
	int times;
};

static void on_gone(void *arg)
{
	((struct gone *)arg)->times++;
}

Test(rpc_echo, chains_and_wraps)
{
	for (int s = 0; s < SCHEMES; s++) {
		static struct gone gone[50];
		struct lend_buf *head = NULL, **link = &head;
		struct ask ask = {.done = false};
		struct pair pair;
		uint64_t len = 0;
		char *flat;

		memset(gone, 0, sizeof(gone));
		pair_open(&pair, pair_schemes[s]);
		flat = malloc(50 * 100000);
		for (int i = 0; i < 50;
		     i++) { /* some segments of a few bytes, some long, some empty */
			uint32_t n = i % 7 == 0 ? 0 : i % 3 ? (uint32_t)i * 13 : (uint32_t)i * 1999;

			memset(gone[i].bytes, 'a' + i, n);
			memset(flat + len, 'a' + i, n);
			*link = lend_buf_wrap(pair.client, gone[i].bytes, n, on_gone, &gone[i]);
			cr_assert_not_null(*link);
			link = &(*link)->next;
			len += n;
		}
		ask_run(&pair, &ask, ECHO, head);
		cr_assert_eq(ask.call.status, LEND_OK);
		cr_assert_eq(ask.call.request, head, "the same chain comes back");
		cr_assert_eq(ask.call.reply_len, len);
		len = 0;
		for (struct lend_buf *at = ask.call.reply; at; at = at->next) {
			cr_assert_eq(memcmp(flat + len, at->data, at->len), 0);
			len += at->len;
		}
		ask_give(pair.client, &ask);
		pair_turns(&pair, 10);
		for (int i = 0; i < 50; i++)
			cr_assert_eq(gone[i].times, 1, "segment %d: gone ran %d times", i,
				     gone[i].times);
		free(flat);
		pair_close(&pair);
	}
}

Test(rpc_echo, reply__landing_memory__is_used)
{
	static const uint32_t lens[] = {0, 10, 5000, 20000, 70000, 300000};
	static char memory[300000];

	for (int s = 0; s < SCHEMES; s++)
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			struct ask ask = {.done = false};
			struct pair pair;
			struct lend_buf *landing;

			pair_open(&pair, pair_schemes[s]);
			landing = lend_buf_wrap(pair.client, memory, lens[i], NULL, NULL);
			ask.call.reply = landing;
			ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, lens[i], 3));
			cr_assert_eq(ask.call.status, LEND_OK);
			cr_assert_eq(ask.call.reply, landing);
			cr_assert(ask_same(landing, lens[i], 3));
			lend_buf_give(pair.client, ask.call.request);

			ask.call.reply = landing; /* one byte more than fits */
			ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, lens[i] + 1, 3));
			cr_assert_eq(ask.call.status, LEND_RESOURCE_EXHAUSTED, "%u + 1: %d",
				     lens[i], ask.call.status);
			cr_assert_eq(ask.call.ran, LEND_RAN_YES);
			cr_assert_eq(ask.call.reply_len, lens[i] + 1);
			cr_assert_eq(ask.call.reply, landing);
			ask_give(pair.client, &ask);
			pair_close(&pair);
		}
}

static struct lend_buf *placed;
static int places;

static struct lend_buf *choose_landing(lend_session session, uint32_t method, uint64_t len,
				       const void *first, uint32_t n, void *arg)
{
	struct pair *pair = arg;

	cr_assert_eq(method, ECHO);
	cr_assert_neq(session.id, 0);
	cr_assert_gt(n, 0);
	cr_assert_not_null(first);
	places++;
	placed = len > 200000 ? NULL : lend_buf_take(pair->server, (uint32_t)len);
	return placed;
}

static char canary[200064];
static int gone;

static void place_gone(void *arg)
{
	(void)arg;
	gone++;
}

Test(rpc_echo, landing_memory__by_a_function)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct ask ask = {.done = false};
		struct pair pair;

		places = 0;
		pair_open(&pair, pair_schemes[s]);
		cr_assert_eq(lend_serve_long(pair.server, ECHO, choose_landing, &pair), 0);
		echo_len(&pair, 1000);
		cr_assert_eq(places, 0, "a short request asks for no place");
		echo_len(&pair, 200000);
		cr_assert_eq(places, 1);
		ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, 200001, 1));
		cr_assert_eq(places, 2);
		cr_assert_eq(ask.call.status, LEND_RESOURCE_EXHAUSTED);
		cr_assert_eq(ask.call.ran, LEND_RAN_NO, "ran %d", ask.call.ran);
		ask_give(pair.client, &ask);
		pair_close(&pair);
	}
}

/* Offers memory for all of a request but its last byte, in one piece and in several. */
static struct lend_buf *place_short(lend_session session, uint32_t method, uint64_t len,
				    const void *first, uint32_t n, void *arg)
{
	struct pair *pair = arg;
	uint32_t part = places % 2 ? (uint32_t)len / 3 : 0;

	(void)session, (void)method, (void)first, (void)n;
	places++;
	placed = lend_buf_wrap(pair->server, canary, (uint32_t)len - 1 - part, place_gone, NULL);
	if (part)
		placed->next =
		    lend_buf_wrap(pair->server, canary + len - 1 - part, part, place_gone, NULL);
	return placed;
}

/* The landing memory is refused and given back, and nothing is written into it or past it. */
Test(rpc_echo, landing_memory__too_short__refused)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;

		places = gone = 0;
		memset(canary, 'c', sizeof(canary));
		pair_open(&pair, pair_schemes[s]);
		cr_assert_eq(lend_serve_long(pair.server, ECHO, place_short, &pair), 0);
		for (int i = 1; i <= 4; i++) {
			struct ask ask = {.done = false};

			ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, 200000, 1));
			cr_assert_eq(places, i);
			cr_assert_eq(ask.call.status, LEND_RESOURCE_EXHAUSTED, "%d",
				     ask.call.status);
			cr_assert_eq(ask.call.ran, LEND_RAN_NO);
			ask_give(pair.client, &ask);
		}
		cr_assert_eq(gone, 6, "%d pieces came back", gone);
		for (size_t i = 0; i < sizeof(canary); i++)
			cr_assert_eq(canary[i], 'c', "byte %zu was written", i);
		pair_close(&pair);
	}
}

Test(rpc_echo, too_large)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.message_max = 100000;
	for (int s = 0; s < SCHEMES; s++) {
		struct ask ask = {.call = {.method = SINK, .done = ask_done}};
		struct pair pair;
		int rc;

		pair_open_with(&pair, pair_schemes[s], &config, &config);
		echo_len(&pair, 100000);
		ask.call.request = ask_bytes(pair.client, 100001, 1);
		rc = lend_call_start(pair.client, pair.session, &ask.call);
		cr_assert_eq(rc, -EMSGSIZE);
		cr_assert_not_null(strstr(lend_why(), "message_max"));
		ask_give(pair.client, &ask);
		pair_close(&pair);
	}
}
