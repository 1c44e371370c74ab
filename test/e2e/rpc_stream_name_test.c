/* Goal: a stream of a name runs the handler of this name or none, with the metadata that were sent,
 * and ends with the text and the metadata of its server; calls never reach the handler of streams,
 * nor streams that of calls. Method: two endpoints in one thread, over shm and udp. Covers:
 * src/rpc/stream.c, src/rpc/stream_serve.c, src/rpc/stream_calls.c, src/rpc/request_head.c,
 * src/rpc/reply_head.c, src/rpc/served_methods.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "e2e/core_features.h"
#include "e2e/rpc_pair.h"
#include "lend/stream.h"
#include "rpc/heads.h"

/* Names with one number. */
#define NAME "/shop.Cart/jbfjwf"
#define TWIN "/shop.Cart/wzhewl"
enum { STREAM = 40 };

/* The server's end of the last stream, and what its handler saw. */
static struct {
	struct lend_stream stream;
	int opened, ended;
	bool named; /* the request had the name */
	char name[64], authority[64], pairs[256];
} served;

static char *add_pair(char *to, const struct lend_pair *pair)
{
	return to + sprintf(to, "%s=%.*s,", pair->key, (int)pair->len, (const char *)pair->value);
}

static void serve_ended(struct lend_stream *stream)
{
	(void)stream;
	served.ended++;
}

static void accept_named(lend_request request, void *ep)
{
	const char *authority = lend_request_text(ep, request, LEND_TEXT_AUTHORITY);
	struct lend_pair pair;
	char *to = served.pairs;

	served.opened++;
	served.named = lend_head_text(((struct lend_ep *)ep)->req[(uint32_t)request.id].head->bytes,
				      LEND_HEAD_METHOD) != NULL;
	strcpy(served.name, lend_request_text(ep, request, LEND_TEXT_METHOD));
	strcpy(served.authority, authority ? authority : "-");
	*to = 0;
	for (uint32_t at = 0; lend_request_metadata(ep, request, &at, &pair);)
		to = add_pair(to, &pair);
	served.stream = (struct lend_stream){.ended = serve_ended};
	cr_assert_eq(lend_stream_accept(ep, request, &served.stream), 0, "%s", lend_why());
}

static void accept_other(lend_request request, void *ep)
{
	accept_named(request, ep);
	strcat(served.name, "?");
}

static void never_run(lend_request request, const struct lend_buf *bytes, void *ep)
{
	(void)request, (void)bytes, (void)ep;
	cr_assert_fail("a stream reached the handler of calls");
}

/* The client's end. */
struct opened {
	struct lend_stream stream; /* first */
	bool over;
	char why[256], pairs[256];
};

static void client_ended(struct lend_stream *stream)
{
	struct opened *o = (struct opened *)stream;
	struct lend_pair pair;
	char *to = o->pairs;

	o->over = true;
	strcpy(o->why, stream->why);
	*to = 0;
	for (int trailing = 0; trailing < 2; trailing++, to += sprintf(to, ";"))
		for (uint32_t at = 0; lend_stream_metadata(stream, trailing, &at, &pair);)
			to = add_pair(to, &pair);
}

static void open_stream(struct pair *pair, struct opened *o, uint32_t method,
			const struct lend_call_head *head)
{
	*o = (struct opened){.stream = {.method = method, .head = head, .ended = client_ended}};
	cr_assert_eq(lend_stream_open(pair->client, pair->session, &o->stream), 0, "%s",
		     lend_why());
}

static void open_name(struct pair *pair, struct opened *o, const char *name)
{
	struct lend_call_head head = {.name = name};
	int before = served.opened;

	open_stream(pair, o, 0, &head);
	for (int i = 0; i < 1000 && served.opened == before && !o->over; i++)
		pair_turns(pair, 1);
}

static void end_ok(struct pair *pair, struct opened *o)
{
	cr_assert_eq(lend_stream_end(pair->server, &served.stream, LEND_OK, NULL), 0);
	cr_assert(pair_until(pair, &o->over));
	cr_assert_eq(o->stream.status, LEND_OK, "%d", o->stream.status);
}

static void open_pair(struct pair *pair, int scheme)
{
	memset(&served, 0, sizeof(served));
	pair_open(pair, pair_schemes[scheme]);
}

static uint32_t count_open(struct pair *pair)
{
	return lend_sessions_find(pair->client, pair->session)->streams;
}

static uint64_t bytes_out(struct lend_ep *ep)
{
	struct lend_stats stats;

	lend_stats_get(ep, &stats);
	return stats.buf_bytes;
}

static struct lend_metadata *make_metadata(const char *key, const char *value)
{
	struct lend_metadata *m = lend_metadata_new();

	cr_assert_eq(lend_metadata_add(m, key, value, strlen(value)), 0);
	cr_assert_eq(lend_metadata_add(m, "k-bin", "\1\2", 2), 0);
	return m;
}

/* The status, its text and metadata wait until the last message is read. */
Test(rpc_stream_name, metadata__both_ways__arrive)
{
	struct lend_metadata *sent = make_metadata("user", "ada"),
			     *first = make_metadata("cost", "3"), *last = make_metadata("n", "1");
	struct lend_call_head head = {.name = NAME, .authority = "shop:1", .metadata = sent};
	const struct lend_reply_head answer = {
	    .message = "enough", .initial = first, .trailing = last};

	for (int s = 0; s < SCHEMES; s++) {
		struct opened o;
		struct pair pair;
		struct lend_buf *m;

		open_pair(&pair, s);
		cr_assert_eq(
		    lend_serve_stream_name(pair.server, NAME, accept_named, pair.server, 0), 0);
		open_stream(&pair, &o, 0, &head);
		cr_assert_eq(count_open(&pair), 1);
		while (!served.opened)
			pair_turns(&pair, 1);
		cr_assert_str_eq(served.name, NAME);
		cr_assert_str_eq(served.authority, "shop:1");
		cr_assert_str_eq(served.pairs, "user=ada,k-bin=\1\2,");
		m = ask_bytes(pair.server, 50, 1);
		served.stream.compress = true; /* a head of the message, without metadata */
		cr_assert_eq(lend_stream_write(pair.server, &served.stream, m), 0);
		cr_assert_eq(
		    lend_stream_end_with(pair.server, &served.stream, LEND_ABORTED, &answer), 0);
		cr_assert_eq(
		    lend_stream_end_with(pair.server, &served.stream, LEND_ABORTED, &answer),
		    -EPIPE);
		pair_turns(&pair, 300);
		cr_assert_eq(o.over, false);
		cr_assert_eq(o.stream.status, LEND_ABORTED);
		cr_assert_eq(lend_stream_read(pair.client, &o.stream, &m), 0);
		cr_assert(ask_same(m, 50, 1));
		cr_assert(o.stream.compressed);
		lend_buf_give(pair.client, m);
		cr_assert(pair_until(&pair, &o.over));
		cr_assert_str_eq(o.why, "enough");
		cr_assert_str_eq(o.pairs, "cost=3,k-bin=\1\2,;n=1,k-bin=\1\2,;");
		cr_assert_eq(count_open(&pair), 0);
		pair_close(&pair);
	}
	lend_metadata_free(sent);
	lend_metadata_free(first);
	lend_metadata_free(last);
}

/* Initial metadata arrive with the first message, also behind a later one, or with the end. */
Test(rpc_stream_name, begin__metadata__with_the_first_message)
{
	struct lend_metadata *first = make_metadata("cost", "3");
	struct lend_call_head head = {.name = NAME};

	for (int i = 0; i < 2 * SCHEMES; i++) {
		char seen[64] = "";
		struct opened o;
		struct pair pair;
		struct lend_pair p;
		struct lend_buf *m;
		uint32_t at = 0;

		open_pair(&pair, i / 2);
		cr_assert_eq(
		    lend_serve_stream_name(pair.server, NAME, accept_named, pair.server, 0), 0);
		served.opened = 0;
		open_stream(&pair, &o, 0, &head);
		while (!served.opened)
			pair_turns(&pair, 1);
		cr_assert_eq(lend_stream_begin(pair.client, &o.stream, first), -EINVAL);
		cr_assert_eq(lend_stream_begin(pair.server, &served.stream, first), 0);
		cr_assert_eq(lend_stream_begin(pair.server, &served.stream, first), -EALREADY);
		cr_assert_not(lend_stream_metadata(&o.stream, false, &at, &p));
		for (uint32_t k = 0; i % 2 && k < 2; k++) {
			served.stream.compress = k;
			cr_assert_eq(lend_stream_write(pair.server, &served.stream,
						       ask_bytes(pair.server, 50, k)),
				     0);
		}
		if (i % 2) {
			pair_turns(&pair, 300);
			cr_assert_eq(lend_stream_read(pair.client, &o.stream, &m), 0);
			cr_assert(ask_same(m, 50, 0));
			cr_assert_not(o.stream.compressed);
			lend_buf_give(pair.client, m);
			while (lend_stream_metadata(&o.stream, false, &at, &p))
				(void)add_pair(seen + strlen(seen), &p);
			cr_assert_str_eq(seen, "cost=3,k-bin=\1\2,");
			cr_assert_eq(lend_stream_read(pair.client, &o.stream, &m), 0);
			cr_assert(o.stream.compressed);
			lend_buf_give(pair.client, m);
		}
		cr_assert_eq(lend_stream_end(pair.server, &served.stream, LEND_OK, NULL), 0);
		cr_assert(pair_until(&pair, &o.over));
		cr_assert_str_eq(o.pairs, "cost=3,k-bin=\1\2,;;");
		pair_close(&pair);
	}
	lend_metadata_free(first);
}

/* Streams send their name until one has ended; with the handler of all names they always do. */
Test(rpc_stream_name, name__sent_until_answered__never_another_handler)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct opened o;
		struct pair pair;
		uint64_t before = 0;

		open_pair(&pair, s);
		cr_assert_eq(
		    lend_serve_stream_name(pair.server, NAME, accept_named, pair.server, 0), 0);
		cr_assert_eq(
		    lend_serve_stream_name(pair.server, TWIN, accept_other, pair.server, 0),
		    -EEXIST);
		for (int i = 0; i < 3; i++) {
			open_name(&pair, &o, NAME);
			cr_assert_str_eq(served.name, NAME);
			cr_assert_eq(served.named, i == 0);
			end_ok(&pair, &o);
			pair_turns(&pair, 50);
			before = i ? before : bytes_out(pair.client);
		}
		open_name(&pair, &o, TWIN);
		cr_assert(pair_until(&pair, &o.over));
		cr_assert_eq(o.stream.status, LEND_UNIMPLEMENTED);
		cr_assert_eq(o.stream.ran, LEND_RAN_NO);
		cr_assert_str_eq(o.why, "no handler for method " TWIN);
		cr_assert_eq(lend_serve_stream_any(pair.server, accept_other, pair.server, 0), 0);
		for (int i = 0; i < 3; i++) {
			open_name(&pair, &o, i == 1 ? "/any/thing" : TWIN);
			cr_assert_str_eq(served.name, i == 1 ? "/any/thing?" : TWIN "?");
			cr_assert(served.named);
			end_ok(&pair, &o);
		}
		/* Without its handler, a known name is one of the others. */
		cr_assert_eq(lend_serve_stream_name(pair.server, NAME, NULL, NULL, 0), 0);
		open_name(&pair, &o, NAME);
		cr_assert_str_eq(served.name, NAME "?");
		cr_assert_not(served.named);
		end_ok(&pair, &o);
		cr_assert_eq(count_open(&pair), 0);
		pair_turns(&pair, 50);
		cr_assert_eq(bytes_out(pair.client), before);
		pair_close(&pair);
	}
}

static void check_call(struct pair *pair, uint32_t method, const char *name)
{
	const struct lend_call_head head = {.name = name};
	struct ask ask = {.call = {.head = name ? &head : NULL}};

	ask_run(pair, &ask, method, ask_bytes(pair->client, 24, 1));
	cr_assert_eq(ask.call.status, LEND_UNIMPLEMENTED);
	cr_assert_eq(ask.call.ran, LEND_RAN_NO);
	cr_assert(strstr(lend_call_why(pair->client, &ask.call), name ? "" : "open one"));
	ask_give(pair->client, &ask);
}

static void check_stream(struct pair *pair, uint32_t method, const char *name)
{
	const struct lend_call_head head = {.name = name};
	struct opened o;

	open_stream(pair, &o, method, &head);
	cr_assert(pair_until(pair, &o.over));
	cr_assert_eq(o.stream.status, LEND_UNIMPLEMENTED);
	cr_assert_eq(o.stream.ran, LEND_RAN_NO);
}

Test(rpc_stream_name, other_kind__ends_unimplemented__not_run)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;

		open_pair(&pair, s);
		cr_assert_eq(
		    lend_serve_stream_name(pair.server, "/s", accept_named, pair.server, 0), 0);
		cr_assert_eq(lend_serve_stream(pair.server, STREAM, accept_named, pair.server), 0);
		cr_assert_eq(lend_serve_name(pair.server, "/u", never_run, NULL, 0), 0);
		cr_assert_eq(lend_serve(pair.server, STREAM + 1, never_run, NULL, 0), 0);
		for (int any = 0; any < 2; any++) {
			check_call(&pair, 0, "/s");
			check_call(&pair, lend_method_number("/s"), NULL);
			check_call(&pair, STREAM, NULL);
			check_stream(&pair, 0, "/u");
			check_stream(&pair, STREAM + 1, NULL);
			check_stream(&pair, lend_method_number("/u"), NULL);
			check_stream(&pair, 0, "/none");
			cr_assert_eq(lend_serve_any(pair.server, never_run, NULL, 0), 0);
		}
		cr_assert_eq(lend_serve_any(pair.server, NULL, NULL, 0), 0);
		cr_assert_eq(lend_serve_stream_any(pair.server, accept_named, pair.server, 0), 0);
		check_call(&pair, 0, "/none");
		cr_assert_eq(served.opened, 0);
		pair_close(&pair);
	}
}

/* Heads that cannot be sent change nothing. */
Test(rpc_stream_name, bad_arguments__refused)
{
	static char big[4000];
	struct lend_metadata *long_ones = lend_metadata_new();
	struct lend_call_head head = {.name = NAME, .metadata = long_ones};
	const struct lend_reply_head answer = {.trailing = long_ones}, bad = {.message = "\xff"};
	struct lend_config config = LEND_CONFIG_INIT;
	struct opened o = {.over = false};
	struct pair pair;

	memset(big, 'x', sizeof(big));
	for (int i = 0; i < 2; i++)
		cr_assert_eq(lend_metadata_add(long_ones, "k", big, sizeof(big)), 0);
	config.head_max = 6000;
	pair_open_with(&pair, "shm", &config, &config);
	cr_assert_eq(lend_serve_stream_name(pair.server, NAME, accept_named, pair.server, 0), 0);
	cr_assert_eq(
	    lend_serve_stream_name(pair.server, NAME, accept_other, pair.server, LEND_SLOW),
	    -EINVAL);
	cr_assert_eq(lend_serve_stream_any(pair.server, accept_other, pair.server, LEND_CHAIN),
		     -EINVAL);
	cr_assert_eq(lend_serve_stream_name(pair.server, "", accept_other, pair.server, 0),
		     -EINVAL);
	o.stream.head = &head;
	cr_assert_eq(lend_stream_open(pair.client, pair.session, &o.stream), -E2BIG);
	cr_assert_eq(count_open(&pair), 0);
	cr_assert_null(o.stream.state);
	open_name(&pair, &o, NAME);
	cr_assert_str_eq(served.name, NAME);
	cr_assert_eq(lend_stream_end_with(pair.server, &served.stream, LEND_OK, &answer), -E2BIG);
	cr_assert_eq(lend_stream_end_with(pair.server, &served.stream, LEND_OK, &bad), -EINVAL);
	cr_assert_eq(lend_stream_end_with(pair.client, &o.stream, LEND_OK, &answer), -EINVAL);
	cr_assert_eq(served.ended, 0);
	end_ok(&pair, &o);
	cr_assert_str_eq(o.pairs, ";;");
	pair_close(&pair);
	lend_metadata_free(long_ones);
}

Test(rpc_stream_name, peer__without_heads__unimplemented)
{
	struct opened o;
	struct pair pair;

	features = LEND_FEATURE_REPLY_HEADS;
	open_pair(&pair, 0);
	features = 0;
	cr_assert_eq(lend_serve_stream(pair.server, STREAM, accept_named, pair.server), 0);
	check_stream(&pair, STREAM, NULL);
	open_name(&pair, &o, NAME);
	cr_assert(pair_until(&pair, &o.over));
	cr_assert_eq(o.stream.status, LEND_UNIMPLEMENTED);
	cr_assert_eq(count_open(&pair), 0);
	pair_close(&pair);
}
