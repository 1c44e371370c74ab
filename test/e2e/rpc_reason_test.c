/* Goal: the text with which a server explains a status arrives, whole or cut at a character, with
 * the right call, and no other call shows it. Method: handlers of both kinds, over shm and udp; the
 * texts of the runtime itself. Covers: src/rpc/reason.c, src/rpc/server.c */
#include <criterion/criterion.h>
#include <string.h>

#include "e2e/core_features.h"
#include "e2e/rpc_server.h"
#include "lend/metadata.h"
#include "rpc/endpoint.h"

enum { WHY = 20, WHY_SLOW, WHY_OK, NOTHING, WITH_BYTES };

/* Answers with the request's text as the reason. */
static void serve_why(lend_request request, const struct lend_buf *in, void *ep)
{
	char text[512] = "";

	memcpy(text, in->data, in->len);
	cr_assert_eq(lend_reply_why(ep, request, LEND_NOT_FOUND, text), 0);
}

static void serve_why_ok(lend_request request, const struct lend_buf *in, void *ep)
{
	cr_assert_eq(lend_reply_why(ep, request, LEND_OK, in->len ? "fine" : ""), 0);
}

static void open_with_reasons(struct pair *pair, int scheme)
{
	pair_open(pair, pair_schemes[scheme]);
	cr_assert_eq(lend_serve(pair->server, WHY, serve_why, pair->server, 0), 0);
	cr_assert_eq(lend_serve(pair->server, WHY_SLOW, serve_why, pair->server, LEND_SLOW), 0);
	cr_assert_eq(lend_serve(pair->server, WHY_OK, serve_why_ok, pair->server, 0), 0);
}

static char seen[256]; /* reason of the call that ran its done last */
static struct lend_ep *at;
static bool in_place; /* calls see their replies in place */

static void note_reason(struct lend_call *call)
{
	strcpy(seen, lend_call_why(at, call));
	ask_done(call);
}

static void ask_why(struct pair *pair, struct ask *ask, uint32_t method, const char *text)
{
	uint32_t len = (uint32_t)strlen(text);

	*ask = (struct ask){.call = {.method = method, .done = note_reason, .in_place = in_place}};
	if (len) {
		ask->call.request = lend_buf_take(pair->client, len);
		memcpy(ask->call.request->data, text, len);
		ask->call.request->len = len;
	}
	at = pair->client;
	seen[0] = '\0';
	cr_assert_eq(lend_call_start(pair->client, pair->session, &ask->call), 0);
	cr_assert(pair_until(pair, &ask->done));
}

#define TEN     "0123456789"
#define FIFTY   TEN TEN TEN TEN TEN
#define HUNDRED FIFTY FIFTY

Test(rpc_reason, texts)
{
	static const struct {
		const char *text, *want; /* want NULL: the text */
	} row[] = {
	    {"", NULL},
	    {"x", NULL},
	    {"no user of this name: register first", NULL},
	    {FIFTY TEN "longer than a slot keeps", NULL},
	    {HUNDRED HUNDRED, NULL},
	    {HUNDRED HUNDRED "1", HUNDRED HUNDRED},
	    {HUNDRED FIFTY TEN TEN TEN TEN "12345678\xe2\x82\xac", /* 198 bytes and a character */
	     HUNDRED FIFTY TEN TEN TEN TEN "12345678"},
	    {"caf\xc3\xa9", NULL},
	    {"not UTF-8: \xff", ""},
	};

	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;
		struct ask ask;

		open_with_reasons(&pair, s);
		for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
			for (uint32_t method = WHY; method <= WHY_SLOW; method++) {
				const char *want = row[i].want ? row[i].want : row[i].text;

				ask_why(&pair, &ask, method, row[i].text);
				cr_assert_eq(ask.call.status, LEND_NOT_FOUND);
				cr_assert_eq(ask.call.ran, LEND_RAN_YES);
				cr_assert_str_eq(seen, want, "row %zu: %s", i, seen);
				cr_assert_eq(ask.call.reply_len, 0);
				cr_assert_null(ask.call.reply);
				ask_give(pair.client, &ask);
			}
		pair_close(&pair);
	}
}

/* A later call, also in the same struct, has no reason but its own. */
Test(rpc_reason, of_one_call_only)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;
		struct ask ask, other;

		open_with_reasons(&pair, s);
		ask_why(&pair, &ask, WHY, "first");
		cr_assert_str_eq(lend_call_why(pair.client, &ask.call), "first");
		cr_assert_str_eq(lend_call_why(pair.client, &other.call), "");
		ask_give(pair.client, &ask);
		ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, 100, 1));
		cr_assert_str_eq(lend_call_why(pair.client, &ask.call), "");
		ask_give(pair.client, &ask);
		ask_why(&pair, &ask, WHY_OK, "12345");
		cr_assert_eq(ask.call.status, LEND_OK);
		cr_assert_str_eq(seen, "", "success needs no reason");
		cr_assert_not_null(ask.call.reply);
		cr_assert_eq(ask.call.reply->len, 0);
		ask_give(pair.client, &ask);
		pair_close(&pair);
	}
}

Test(rpc_reason, the_runtime_explains_too)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;
		struct ask ask;

		open_with_reasons(&pair, s);
		ask_why(&pair, &ask, NOTHING, "");
		cr_assert_eq(ask.call.status, LEND_UNIMPLEMENTED);
		cr_assert_eq(ask.call.ran, LEND_RAN_NO);
		cr_assert_str_eq(seen, "no handler for method 23");
		ask_give(pair.client, &ask);
		in_place = true;
		ask_why(&pair, &ask, NOTHING, "");
		cr_assert_str_eq(seen, "no handler for method 23");
		cr_assert_null(ask.call.reply);
		ask_why(&pair, &ask, WHY_OK, "");
		cr_assert_str_eq(seen, "");
		in_place = false;
		pair_close(&pair);
	}
}

/* Replies with the bytes of the request behind a head. */
static void serve_with_bytes(lend_request request, const struct lend_buf *in, void *ep)
{
	struct lend_buf *out = lend_buf_take(ep, in->len);

	memcpy(out->data, in->data, out->len = in->len);
	cr_assert_eq(lend_reply_with(ep, request, LEND_ABORTED, out,
				     &(struct lend_reply_head){.message = "with bytes"}),
		     0);
}

/* Memory of len bytes in three segments: the head ends in the first or the second one. */
static struct lend_buf *take_landing(struct lend_ep *ep, uint32_t len)
{
	static char memory[400000];
	struct lend_buf *one = lend_buf_wrap(ep, memory, 10, NULL, NULL);

	one->next = lend_buf_wrap(ep, memory + 10, 100, NULL, NULL);
	one->next->next = lend_buf_wrap(ep, memory + 110, len - 110, NULL, NULL);
	return one;
}

static void call_with_bytes(struct pair *pair, uint32_t len, uint32_t landing)
{
	struct ask ask = {.call = {.method = WITH_BYTES, .done = note_reason}};

	ask.call.request = ask_bytes(pair->client, len, len);
	ask.call.reply = landing ? take_landing(pair->client, landing) : NULL;
	at = pair->client;
	cr_assert_eq(lend_call_start(pair->client, pair->session, &ask.call), 0);
	cr_assert(pair_until(pair, &ask.done));
	cr_assert_eq(ask.call.status, LEND_ABORTED, "%u bytes: %d", len, ask.call.status);
	cr_assert_str_eq(seen, "with bytes", "%u bytes", len);
	cr_assert_eq(ask.call.reply_len, len);
	cr_assert(ask_same(ask.call.reply, len, len), "%u bytes", len);
	ask_give(pair->client, &ask);
}

Test(rpc_reason, a_reply_with_bytes_behind_its_head)
{
	static const uint32_t lens[] = {1, 60, 1300, 1472, 5000, 65500, 65536, 300000};

	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;

		open_with_reasons(&pair, s);
		cr_assert_eq(lend_serve(pair.server, WITH_BYTES, serve_with_bytes, pair.server, 0),
			     0);
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			call_with_bytes(&pair, lens[i], 0);
			/* Replies of several datagrams are received with their head. */
			call_with_bytes(&pair, lens[i], lens[i] + LEND_HEAD_REASON);
		}
		pair_close(&pair);
	}
}

/* A caller that reads no heads of replies gets the status alone. */
Test(rpc_reason, not_to_a_peer_without_heads)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;
		struct ask ask;

		features = LEND_FEATURE_REQUEST_HEADS;
		open_with_reasons(&pair, s);
		ask_why(&pair, &ask, WHY, "a text");
		cr_assert_eq(ask.call.status, LEND_NOT_FOUND);
		cr_assert_eq(ask.call.ran, LEND_RAN_YES);
		cr_assert_str_eq(seen, "");
		cr_assert_null(ask.call.reply);
		ask_give(pair.client, &ask);
		pair_close(&pair);
	}
}

/* The caller's memory for a reply has nothing of the head, and may be shorter than it. */
Test(rpc_reason, landing_memory_stays_empty)
{
	static const uint32_t caps[] = {0, 1, 4, 4096};

	for (int s = 0; s < SCHEMES; s++)
		for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
			static char into[4096];
			struct ask ask = {.call = {.method = WHY, .done = note_reason}};
			struct pair pair;

			open_with_reasons(&pair, s);
			ask.call.request = lend_buf_take(pair.client, 4);
			memcpy(ask.call.request->data, "why?", ask.call.request->len = 4);
			memset(into, 7, sizeof(into));
			ask.call.reply = lend_buf_wrap(pair.client, into, caps[i], NULL, NULL);
			at = pair.client;
			cr_assert_eq(lend_call_start(pair.client, pair.session, &ask.call), 0);
			cr_assert(pair_until(&pair, &ask.done));
			cr_assert_eq(ask.call.status, LEND_NOT_FOUND);
			cr_assert_str_eq(seen, "why?");
			cr_assert_eq(ask.call.reply_len, 0);
			cr_assert_eq(ask.call.reply->len, 0);
			for (size_t k = 0; k < sizeof(into); k++)
				cr_assert_eq(into[k], 7);
			ask_give(pair.client, &ask);
			pair_close(&pair);
		}
}
