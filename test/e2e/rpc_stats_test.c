/* Goal: session statistics are correct, and visible to their own program and to authorised peers
 * only; more sessions than fit into one answer come in several. Method: two endpoints of one thread
 * with known calls in flight; queries with and without a secret. Covers: src/rpc/stats_service.c,
 * src/rpc/open_services.c, src/rpc/stats.c, src/core/sess_stats.c */
#include <criterion/criterion.h>
#include <string.h>

#include "e2e/rpc_pair.h"
#include "sys/ref_counts.h"

enum { HELD = 8, BULK = 4 << 20, MANY = 150 };

static void one_of_each(struct pair *pair, struct ask *ask)
{
	for (int i = 0; i < HELD; i++) {
		ask[i] = (struct ask){.call = {.method = HOLD, .done = ask_done}};
		ask[i].call.priority = (uint8_t)(i + 1);
		cr_assert_eq(lend_call_start(pair->client, pair->session, &ask[i].call), 0);
	}
	pair_until_held(pair, HELD);
}

Test(rpc_stats, calls_are_counted_by_priority)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct lend_session_stats here, there;
		struct ask ask[HELD], bulk;
		struct pair pair;

		pair_open(&pair, pair_schemes[s]);
		one_of_each(&pair, ask);
		bulk = (struct ask){.call = {.method = SINK, .priority = LEND_BULK}};
		bulk.call.done = ask_done;
		bulk.call.request = ask_bytes(pair.client, BULK, 1);
		cr_assert_eq(lend_call_start(pair.client, pair.session, &bulk.call), 0);
		cr_assert_neq(lend_stats_session(pair.client, 0, &here), 0);
		cr_assert_neq(lend_stats_session(pair.server, 0, &there), 0);
		cr_expect(here.up && there.up && here.session.id == pair.session.id);
		for (int i = 0; i < 8; i++) {
			cr_expect_eq(here.calls[i], 1u + (i == LEND_BULK - 1), "%d", i);
			cr_expect_eq(there.served[i], 1, "%d", i);
			cr_expect_eq(here.served[i] + there.calls[i], 0, "%d", i);
			cr_expect_eq(here.queued[i], i == LEND_BULK - 1 ? BULK : 0, "%d", i);
		}
		cr_expect(here.tx >= HELD && there.rx >= HELD);
		cr_expect_gt(here.window, 0);
		cr_assert(pair_until(&pair, &bulk.done));
		cr_assert_neq(lend_stats_session(pair.client, 0, &here), 0);
		cr_expect_eq(here.queued[LEND_BULK - 1], 0);
		cr_expect_eq(here.calls[LEND_BULK - 1], 1);
		ask_give(pair.client, &bulk);
		for (int i = 0; i < HELD; i++)
			lend_reply(pair.server, pair.held[i], LEND_OK, NULL);
		for (int i = 0; i < HELD; i++) {
			cr_assert(pair_until(&pair, &ask[i].done));
			ask_give(pair.client, &ask[i]);
		}
		pair_close(&pair);
	}
}

/* Queries from an index on; returns the call's status. */
static enum lend_status ask_from(struct pair *pair, uint32_t from, struct ask *ask)
{
	*ask = (struct ask){.call = {.method = LEND_METHOD_STATS, .done = ask_done}};
	ask->call.request = lend_buf_take(pair->client, 4);
	memcpy(ask->call.request->data, &from, 4);
	ask->call.request->len = 4;
	cr_assert_eq(lend_call_start(pair->client, pair->session, &ask->call), 0);
	cr_assert(pair_until(pair, &ask->done));
	return ask->call.status;
}

Test(rpc_stats, query__without_the_secret__refused)
{
	static const struct {
		const char *scheme, *server, *client;
		enum lend_status want;
	} row[] = {
	    {"shm", "", "", LEND_OK},
	    {"udp", "", "", LEND_PERMISSION_DENIED},
	    {"udp", "tulip", "", LEND_PERMISSION_DENIED},
	    {"udp", "", "tulip", LEND_PERMISSION_DENIED},
	    {"udp", "tulip", "rose", LEND_PERMISSION_DENIED},
	    {"udp", "tulip", "tulip", LEND_OK},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_config server = LEND_CONFIG_INIT, client = LEND_CONFIG_INIT;
		struct pair pair;
		struct ask ask;

		server.secret = row[i].server;
		client.secret = row[i].client;
		server.level = client.level = "none";
		pair_open_with(&pair, row[i].scheme, &server, &client);
		cr_expect_eq(ask_from(&pair, 0, &ask), row[i].want, "row %zu: %d", i,
			     ask.call.status);
		ask_give(pair.client, &ask);
		pair_close(&pair);
	}
}

Test(rpc_stats, more_than_fit_into_one_answer)
{
	struct lend_stats_head head = {.next = 0};
	lend_session session[MANY];
	uint32_t told = 0, up;
	struct pair pair;
	struct ask ask;

	lend_ref_counts.in_place = 5;
	lend_ref_counts.copied = 6;
	lend_ref_counts.by_value = 7;
	pair_open(&pair, "shm");
	for (int i = 0; i < MANY; i++)
		cr_assert_eq(lend_connect(pair.client, pair.address, &session[i]), 0);
	do {
		struct lend_stats stats;

		pair_turns(&pair, 1);
		lend_stats_get(pair.server, &stats);
		up = (uint32_t)stats.sessions;
	} while (up < MANY + 1);
	do {
		cr_assert_eq(ask_from(&pair, head.next, &ask), LEND_OK);
		memcpy(&head, ask.call.reply->data, sizeof(head));
		cr_assert_eq(head.size, sizeof(head));
		cr_assert_eq(head.refs.in_place, 5);
		cr_assert_eq(head.refs.copied, 6);
		cr_assert_eq(head.refs.by_value, 7);
		cr_assert_eq(head.session_size, sizeof(struct lend_session_stats));
		cr_assert_eq(ask.call.reply->len, head.size + head.n * head.session_size);
		told += head.n;
		ask_give(pair.client, &ask);
	} while (head.next);
	cr_expect_eq(told, MANY + 1);
	cr_assert_eq(ask_from(&pair, UINT32_MAX, &ask), LEND_OK); /* past the last one */
	ask_give(pair.client, &ask);
	pair_close(&pair);
}
