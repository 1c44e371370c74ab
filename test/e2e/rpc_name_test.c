/* Goal: a call of a name runs the handler of this name or none; names, texts and metadata arrive as
 * they were sent, with messages of all lengths; heads that are forged or too long end in a status.
 * Method: tables over shm and udp; two names with one number. Covers: src/rpc/call_head.c,
 * src/rpc/request_head.c, src/rpc/reply_head.c, src/rpc/served_methods.c, src/rpc/metadata.c,
 * src/rpc/reason.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "e2e/core_features.h"
#include "e2e/rpc_pair.h"
#include "rpc/heads.h"

/* Names with one number. */
#define NAME "/shop.Cart/jbfjwf"
#define TWIN "/shop.Cart/wzhewl"

/* The last request, as its handler saw it. */
static struct {
	int runs;
	bool head; /* the request had one */
	char text[5][64];
	char pairs[4096];
} seen;

static size_t note_pair(char *to, const struct lend_pair *pair)
{
	memcpy(to, pair->value, pair->len);
	return pair->len + (size_t)sprintf(to + pair->len, "<%s|", pair->key);
}

static void note_request(struct lend_ep *ep, lend_request request)
{
	struct lend_pair pair;
	size_t len = 0;

	seen.runs++;
	seen.head = ep->req[(uint32_t)request.id].head != NULL;
	for (int text = LEND_TEXT_METHOD; text <= LEND_TEXT_ENCODING; text++) {
		const char *found = lend_request_text(ep, request, (enum lend_text)text);

		strcpy(seen.text[text], found ? found : "-");
	}
	for (uint32_t at = 0; lend_request_metadata(ep, request, &at, &pair);)
		len += note_pair(seen.pairs + len, &pair);
	seen.pairs[len] = '\0';
}

static struct lend_reply_head answer; /* the handlers give it */
static enum lend_status answer_status;
static int answer_error; /* lend_reply_with() returns it */

/* Answers with the request's bytes, and with the head `answer` if it has anything. */
static void serve_noted(lend_request request, const struct lend_buf *in, void *ep)
{
	struct lend_buf *out = lend_buf_take(ep, in->len);

	note_request(ep, request);
	for (const struct lend_buf *b = in; b; b = b->next) {
		cr_assert(out->len + b->len <= out->cap);
		if (b->len)
			memcpy((char *)out->data + out->len, b->data, b->len);
		out->len += b->len;
	}
	if (answer.initial || answer.trailing || answer.message || answer.encoding)
		cr_assert_eq(lend_reply_with(ep, request, answer_status, out, &answer),
			     answer_error);
	else
		cr_assert_eq(lend_reply(ep, request, answer_status, out), 0);
}

static void open_named(struct pair *pair, int scheme, unsigned flags)
{
	memset(&seen, 0, sizeof(seen));
	answer = (struct lend_reply_head){.message = NULL};
	answer_status = LEND_OK;
	pair_open(pair, pair_schemes[scheme]);
	cr_assert_eq(lend_serve_name(pair->server, NAME, serve_noted, pair->server, flags), 0);
}

static struct lend_ep *at;
static char why[256]; /* text of the call that ended last */
static bool ends;
static uint32_t want_len; /* bytes that an OK call has to bring back; UINT32_MAX: any */

static void note_end(struct lend_call *call)
{
	strcpy(why, lend_call_why(at, call));
	ends = true;
	if (call->status != LEND_OK || want_len == UINT32_MAX)
		return;
	cr_assert_eq(call->reply_len, want_len);
	cr_assert(ask_same(call->reply, want_len, 7), "%u bytes", want_len);
}

/* Calls with len bytes. */
static void call_head(struct pair *pair, struct lend_call *call, const struct lend_call_head *head,
		      uint32_t len)
{
	call->head = head;
	call->done = note_end;
	call->request = len ? ask_bytes(pair->client, len, 7) : NULL;
	at = pair->client;
	ends = false;
	want_len = len;
	cr_assert_eq(lend_call_start(pair->client, pair->session, call), 0);
	cr_assert(pair_until(pair, &ends));
	lend_buf_give(pair->client, call->request);
}

static enum lend_status call_name(struct pair *pair, const char *name)
{
	struct lend_call_head head = {.name = name};
	struct lend_call call = {.method = 0};

	call_head(pair, &call, &head, 10);
	lend_buf_give(pair->client, call.reply);
	return call.status;
}

Test(rpc_name, sent_until_it_was_answered)
{
	for (int s = 0; s < SCHEMES; s++)
		for (unsigned flags = 0; flags <= LEND_SLOW; flags++) {
			struct pair pair;

			open_named(&pair, s, flags);
			for (int i = 1; i <= 5; i++) {
				cr_assert_eq(call_name(&pair, NAME), LEND_OK);
				cr_assert_eq(seen.runs, i);
				cr_assert_eq(seen.head, i == 1, "call %d", i);
				cr_assert_str_eq(seen.text[LEND_TEXT_METHOD], NAME);
			}
			lend_disconnect(pair.client, pair.session);
			cr_assert_eq(lend_connect(pair.client, pair.address, &pair.session), 0);
			cr_assert_eq(call_name(&pair, NAME), LEND_OK);
			cr_assert(seen.head, "another session");
			pair_close(&pair);
		}
}

Test(rpc_name, many_names__each_sent_once)
{
	struct pair pair;
	char name[16];

	open_named(&pair, 0, 0);
	for (int i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "/many/%d", i % 150);
		if (i < 150)
			cr_assert_eq(
			    lend_serve_name(pair.server, name, serve_noted, pair.server, 0), 0);
		cr_assert_eq(call_name(&pair, name), LEND_OK);
		cr_assert_eq(seen.head, i < 150, "call %d", i);
	}
	pair_close(&pair);
}

/* Not an answer of a handler: the number may be another name's. */
Test(rpc_name, sent_again_after_a_refusal)
{
	struct pair pair;

	open_named(&pair, 0, 0);
	cr_assert_eq(lend_serve_name(pair.server, NAME, NULL, NULL, 0), 0);
	cr_assert_eq(call_name(&pair, NAME), LEND_UNIMPLEMENTED);
	cr_assert_str_eq(why, "no handler for method " NAME);
	cr_assert_eq(lend_serve_name(pair.server, NAME, serve_noted, pair.server, 0), 0);
	cr_assert_eq(call_name(&pair, NAME), LEND_OK);
	cr_assert(seen.head);
	pair_close(&pair);
}

/* The session's calls carry the number alone, which is still the name's. */
Test(rpc_name, removed_handler__known_name__goes_to_any)
{
	for (unsigned flags = 0; flags <= LEND_SLOW; flags++) {
		struct pair pair;

		open_named(&pair, 0, 0);
		cr_assert_eq(call_name(&pair, NAME), LEND_OK);
		cr_assert_eq(lend_serve_name(pair.server, NAME, NULL, NULL, 0), 0);
		cr_assert_eq(call_name(&pair, NAME), LEND_UNIMPLEMENTED);
		cr_assert_str_eq(why, "no handler for method " NAME);
		cr_assert_eq(lend_serve_any(pair.server, serve_noted, pair.server, flags), 0);
		cr_assert_eq(call_name(&pair, NAME), LEND_OK);
		cr_assert_str_eq(seen.text[LEND_TEXT_METHOD], NAME);
		cr_assert_eq(call_name(&pair, TWIN), LEND_OK);
		cr_assert_str_eq(seen.text[LEND_TEXT_METHOD], TWIN);
		cr_assert_eq(lend_serve_name(pair.server, NAME, serve_noted, pair.server, 0), 0);
		cr_assert_eq(call_name(&pair, NAME), LEND_OK);
		cr_assert_eq(seen.runs, 4);
		pair_close(&pair);
	}
}

/* A reason is cut between two characters, wherever its end falls. */
Test(rpc_name, long_names_have_a_reason)
{
	struct pair pair;

	open_named(&pair, 0, 0);
	for (int ascii = 0; ascii < 4; ascii++) {
		char name[LEND_NAME_MAX + 1];
		size_t len = 0;

		while (len < (size_t)ascii)
			name[len++] = 'x';
		for (; len < 600; len += 3)
			memcpy(name + len, "\xe2\x82\xac", 3);
		name[len] = '\0';
		cr_assert_eq(call_name(&pair, name), LEND_UNIMPLEMENTED);
		cr_assert_eq(strncmp(why, "no handler for method ", 22), 0, "%d: %s", ascii, why);
		cr_assert(strlen(why) > LEND_HEAD_REASON - 3 && strlen(why) <= LEND_HEAD_REASON);
	}
	pair_close(&pair);
}

Test(rpc_name, twins_never_run_for_each_other)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;

		cr_assert_eq(lend_method_number(NAME), lend_method_number(TWIN));
		open_named(&pair, s, 0);
		cr_assert_eq(call_name(&pair, TWIN), LEND_UNIMPLEMENTED);
		cr_assert_eq(call_name(&pair, NAME), LEND_OK);
		for (int i = 0; i < 3; i++)
			cr_assert_eq(call_name(&pair, TWIN), LEND_UNIMPLEMENTED);
		cr_assert_eq(seen.runs, 1);
		/* The same names in the other order at the server, also after a restart. */
		cr_assert_eq(lend_serve_name(pair.server, TWIN, serve_noted, NULL, 0), -EEXIST);
		cr_assert_eq(lend_serve_name(pair.server, NAME, NULL, NULL, 0), 0);
		cr_assert_eq(lend_serve_name(pair.server, TWIN, serve_noted, NULL, 0), -EEXIST);
		cr_assert_eq(
		    lend_serve(pair.server, lend_method_number(NAME), serve_noted, NULL, 0),
		    -EEXIST);
		pair_close(&pair);
		pair_open(&pair, pair_schemes[s]);
		cr_assert_eq(lend_serve_name(pair.server, TWIN, serve_noted, pair.server, 0), 0);
		cr_assert_eq(call_name(&pair, NAME), LEND_UNIMPLEMENTED);
		cr_assert_eq(call_name(&pair, TWIN), LEND_OK);
		cr_assert_eq(call_name(&pair, NAME), LEND_UNIMPLEMENTED);
		pair_close(&pair);
	}
}

Test(rpc_name, names_that_are_refused)
{
	char text[LEND_NAME_MAX + 2] = "";
	struct pair pair;

	open_named(&pair, 0, 0);
	memset(text, 'x', LEND_NAME_MAX + 1);
	cr_expect_eq(lend_serve_name(pair.server, text, serve_noted, NULL, 0), -EINVAL);
	text[LEND_NAME_MAX] = '\0';
	cr_expect_eq(lend_serve_name(pair.server, text, serve_noted, pair.server, 0), 0);
	cr_expect_eq(lend_serve_name(pair.server, "", serve_noted, NULL, 0), -EINVAL);
	cr_expect_eq(lend_serve_name(pair.server, "\xff", serve_noted, NULL, 0), -EINVAL);
	cr_expect_eq(lend_serve_name(pair.server, "/a/b", serve_noted, NULL, 64), -EINVAL);
	cr_expect_eq(lend_serve(pair.server, lend_method_number("/a/c"), serve_noted, NULL, 0), 0);
	cr_expect_eq(lend_serve_name(pair.server, "/a/c", serve_noted, NULL, 0), -EEXIST);
	cr_expect_eq(call_name(&pair, "/a/c"), LEND_UNIMPLEMENTED, "a number is not a name");
	pair_close(&pair);
}

Test(rpc_name, any_name_is_named_each_time)
{
	for (int s = 0; s < SCHEMES; s++)
		for (unsigned flags = 0; flags <= LEND_SLOW; flags++) {
			static const char *const name[] = {TWIN, "/a/b", "x", TWIN};
			struct lend_call number = {.method = lend_method_number("/a/b")};
			struct pair pair;

			open_named(&pair, s, 0);
			cr_assert_eq(lend_serve_any(pair.server, serve_noted, pair.server, flags),
				     0);
			for (int i = 0; i < 12; i++) {
				answer.message = i % 2 ? "with a head" : NULL;
				answer_status = i % 3 ? LEND_OK : LEND_ABORTED;
				cr_assert_eq(call_name(&pair, name[i % 4]), answer_status);
				cr_assert(seen.head);
				cr_assert_str_eq(seen.text[LEND_TEXT_METHOD], name[i % 4]);
				cr_assert_eq(call_name(&pair, NAME), answer_status);
				cr_assert_str_eq(seen.text[LEND_TEXT_METHOD], NAME);
			}
			call_head(&pair, &number, NULL, 10);
			cr_assert_eq(number.status, LEND_UNIMPLEMENTED, "a number without a name");
			cr_assert_eq(lend_serve_any(pair.server, NULL, NULL, 0), 0);
			cr_assert_eq(call_name(&pair, "/a/b"), LEND_UNIMPLEMENTED);
			pair_close(&pair);
		}
}

static struct lend_metadata *make_metadata(const char *mark)
{
	struct lend_metadata *m = lend_metadata_new();

	cr_assert_eq(lend_metadata_add(m, "user", "ada", 3), 0);
	cr_assert_eq(lend_metadata_add(m, "mark", mark, strlen(mark)), 0);
	cr_assert_eq(lend_metadata_add(m, "id-bin", "\1\377\2", 3), 0);
	cr_assert_eq(lend_metadata_add(m, "user", "", 0), 0);
	return m;
}
#define PAIRS(mark) "ada<user|" mark "<mark|\1\377\2<id-bin|<user|"

static void expect_pairs(const struct lend_call *call, bool trailing, const char *want)
{
	char got[4096];
	struct lend_pair pair;
	size_t len = 0;

	for (uint32_t next = 0; lend_call_metadata(at, call, trailing, &next, &pair);)
		len += note_pair(got + len, &pair);
	got[len] = '\0';
	cr_assert_str_eq(got, want);
}

/* Messages of all lengths, in one segment or several, to handlers of all kinds. */
Test(rpc_name, metadata_both_ways)
{
	static const uint32_t lens[] = {0, 1, 60, 1300, 1472, 5000, 65500, 65536, 300000};
	static const unsigned kinds[] = {0, LEND_SLOW, LEND_CHAIN};
	struct lend_metadata *sent = make_metadata("in"), *initial = make_metadata("first"),
			     *trailing = make_metadata("last");
	struct lend_call_head head = {.name = NAME, .authority = "shop", .metadata = sent};

	for (int s = 0; s < SCHEMES; s++)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			struct pair pair;

			open_named(&pair, s, kinds[k]);
			answer = (struct lend_reply_head){initial, trailing, "fine", NULL, false};
			for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
				struct lend_call call = {.in_place = i % 2};

				call_head(&pair, &call, &head, lens[i]);
				cr_assert_eq(call.status, LEND_OK, "%u bytes: %s", lens[i], why);
				cr_assert_str_eq(seen.text[LEND_TEXT_METHOD], NAME);
				cr_assert_str_eq(seen.text[LEND_TEXT_AUTHORITY], "shop");
				cr_assert_str_eq(seen.pairs, PAIRS("in"));
				cr_assert_str_eq(lend_call_text(at, &call, LEND_TEXT_MESSAGE),
						 "fine");
				expect_pairs(&call, false, PAIRS("first"));
				expect_pairs(&call, true, PAIRS("last"));
				if (!call.in_place)
					lend_buf_give(pair.client, call.reply);
			}
			pair_close(&pair);
		}
	lend_metadata_free(sent);
	lend_metadata_free(initial);
	lend_metadata_free(trailing);
}

Test(rpc_name, metadata_that_are_refused)
{
	struct lend_metadata *m = lend_metadata_new();
	static char big[LEND_HEAD_MAX];
	struct lend_pair pair;
	uint32_t next = 0;

	cr_expect_not(lend_metadata_next(m, &next, &pair));
	cr_expect_eq(lend_metadata_add(m, "", "x", 1), -EINVAL);
	cr_expect_eq(lend_metadata_add(m, "A", "x", 1), -EINVAL);
	cr_expect_eq(lend_metadata_add(m, "a", "\n", 1), -EINVAL);
	cr_expect_eq(lend_metadata_add(m, "a-bin", big, sizeof(big)), -E2BIG);
	cr_expect_eq(lend_metadata_add(m, "a-bin", big, SIZE_MAX), -E2BIG);
	for (int i = 0; i < 8; i++)
		cr_expect_eq(lend_metadata_add(m, "a-bin", big, 1000), 0);
	cr_expect_eq(lend_metadata_add(m, "a-bin", big, 1000), -E2BIG);
	cr_expect_eq(lend_metadata_add(m, "a-bin", "z", 1), 0);
	for (next = 0; lend_metadata_next(m, &next, &pair);)
		cr_expect_str_eq(pair.key, "a-bin");
	cr_expect_eq(pair.len, 1);
	lend_metadata_free(m);
	lend_metadata_free(NULL);
}

/* The first call begins before the session is up. */
Test(rpc_name, credentials__not_over_shm__refused)
{
	struct lend_metadata *m = lend_metadata_new();
	const struct lend_call_head head = {.name = NAME, .metadata = m};

	cr_assert_eq(lend_metadata_add(m, "authorization", "x", 1), 0);
	for (int i = 0; i < 2 * SCHEMES; i++) {
		bool shm = strcmp(pair_schemes[i / 2], "shm") == 0;
		struct lend_stream stream = {.head = &head};
		struct lend_call call = {.head = &head};
		struct pair pair;

		open_named(&pair, i / 2, 0);
		if (i % 2)
			cr_assert_eq(call_name(&pair, NAME), LEND_OK);
		if (shm) {
			call_head(&pair, &call, &head, 10);
			cr_assert_eq(call.status, LEND_OK);
			lend_buf_give(pair.client, call.reply);
		} else {
			cr_assert_eq(lend_call_start(pair.client, pair.session, &call), -EACCES);
			cr_assert(strstr(lend_why(), "authorization"));
			cr_assert_eq(lend_stream_open(pair.client, pair.session, &stream), -EACCES);
			cr_assert_eq(call_name(&pair, NAME), LEND_OK);
		}
		cr_assert_eq(seen.runs, i % 2 + 1);
		pair_close(&pair);
	}
	lend_metadata_free(m);
}

Test(rpc_name, heads_that_are_too_long)
{
	static char big[3000];
	struct lend_config small = LEND_CONFIG_INIT, normal = LEND_CONFIG_INIT;
	struct lend_metadata *m = lend_metadata_new();
	struct lend_call_head head = {.name = NAME, .metadata = m};

	cr_assert_eq(lend_metadata_add(m, "a-bin", big, sizeof(big)), 0);
	small.head_max = 1000;
	for (int s = 0; s < SCHEMES; s++) {
		struct lend_call call = {.method = 0};
		struct pair pair;

		memset(&seen, 0, sizeof(seen));
		pair_open_with(&pair, pair_schemes[s], &small, &normal);
		cr_assert_eq(lend_serve_name(pair.server, NAME, serve_noted, pair.server, 0), 0);
		call_head(&pair, &call, &head, 100);
		cr_assert_eq(call.status, LEND_RESOURCE_EXHAUSTED);
		cr_assert_eq(call.ran, LEND_RAN_NO);
		cr_assert_eq(seen.runs, 0);
		cr_assert_not_null(strstr(why, "at most 1000"), "%s", why);
		pair_close(&pair);

		pair_open_with(&pair, pair_schemes[s], &normal, &small);
		cr_assert_eq(lend_serve_name(pair.server, NAME, serve_noted, pair.server, 0), 0);
		call = (struct lend_call){.head = &head};
		cr_assert_eq(lend_call_start(pair.client, pair.session, &call), -E2BIG);
		answer = (struct lend_reply_head){.initial = m};
		cr_assert_eq(call_name(&pair, NAME), LEND_RESOURCE_EXHAUSTED);
		cr_assert_eq(seen.runs, 1);
		pair_close(&pair);

		pair_open_with(&pair, pair_schemes[s], &small, &normal);
		cr_assert_eq(lend_serve_name(pair.server, NAME, serve_noted, pair.server, 0), 0);
		answer_error = -E2BIG;
		cr_assert_eq(call_name(&pair, NAME), LEND_INTERNAL);
		answer = (struct lend_reply_head){.message = "\xff"};
		answer_error = -EINVAL;
		cr_assert_eq(call_name(&pair, NAME), LEND_INTERNAL);
		answer.message = NULL;
		answer_error = 0;
		pair_close(&pair);
	}
	lend_metadata_free(m);
	small.head_max = LEND_HEAD_MAX + 1;
	cr_assert_eq(lend_open(&small, &at), -EINVAL);
}

/* Answers with one byte more than its request has, and with the head `answer`. */
static void serve_longer(lend_request request, const struct lend_buf *in, void *ep)
{
	struct lend_buf *out = ask_bytes(ep, in->len + 1, 7);

	cr_assert_eq(lend_reply_with(ep, request, LEND_OK, out, &answer), 0);
}

/* A head does not count: a message of message_max bytes arrives with one, a longer one does not. */
Test(rpc_name, longest_messages)
{
	static const uint32_t longest[] = {1000, 100000};
	static const char big[3000];
	struct lend_metadata *m = lend_metadata_new();
	struct lend_call_head head = {.name = NAME, .metadata = m},
			      longer = {.name = "/shop.Cart/Longer"};

	cr_assert_eq(lend_metadata_add(m, "a-bin", big, sizeof(big)), 0);
	for (int i = 0; i < 2 * SCHEMES; i++) {
		struct lend_config config = LEND_CONFIG_INIT;
		uint32_t most = longest[i / 2];
		struct lend_call call = {.method = 0};
		struct pair pair;

		config.message_max = most;
		pair_open_with(&pair, pair_schemes[i % 2], &config, &config);
		answer = (struct lend_reply_head){.initial = m};
		(void)lend_serve_name(pair.server, NAME, serve_noted, pair.server, 0);
		(void)lend_serve_name(pair.server, longer.name, serve_longer, pair.server, 0);
		call_head(&pair, &call, &head, most);
		cr_assert_eq(call.status, LEND_OK, "%s", why);
		lend_buf_give(pair.client, call.reply);
		call = (struct lend_call){.head = &head};
		call.request = ask_bytes(pair.client, most + 1, 7);
		cr_assert_eq(lend_call_start(pair.client, pair.session, &call), -EMSGSIZE);
		lend_buf_give(pair.client, call.request);

		call = (struct lend_call){.method = 0};
		call_head(&pair, &call, &longer, most);
		cr_assert_eq(call.status, LEND_RESOURCE_EXHAUSTED);
		cr_assert_eq(call.ran, LEND_RAN_YES);
		cr_assert_null(call.reply);
		/* Before a session is up, the limit of its peer is not known. */
		cr_assert_eq(lend_connect(pair.client, pair.address, &pair.session), 0);
		call = (struct lend_call){.method = 0};
		call_head(&pair, &call, &head, most + 1);
		cr_assert_eq(call.status, LEND_RESOURCE_EXHAUSTED);
		cr_assert_eq(call.ran, LEND_RAN_NO);
		pair_close(&pair);
	}
	lend_metadata_free(m);
}

Test(rpc_name, encodings)
{
	struct lend_call_head gzip = {.name = NAME, .encoding = "gzip"},
			      any = {.name = NAME, .any_encoding = true};
	struct lend_call call = {.method = 0};
	struct pair pair;

	open_named(&pair, 0, 0);
	call_head(&pair, &call, &gzip, 10);
	cr_assert_eq(call.status, LEND_UNIMPLEMENTED);
	cr_assert_str_eq(why, "this server does not decode gzip");
	gzip.encoding = "identity";
	call_head(&pair, &call, &gzip, 10);
	cr_assert_eq(call.status, LEND_OK);
	lend_buf_give(pair.client, call.reply);
	gzip.encoding = "gzip";
	cr_assert_eq(
	    lend_serve_name(pair.server, NAME, serve_noted, pair.server, LEND_ANY_ENCODING), 0);
	call = (struct lend_call){.method = 0};
	call_head(&pair, &call, &gzip, 10);
	cr_assert_eq(call.status, LEND_OK);
	cr_assert_str_eq(seen.text[LEND_TEXT_ENCODING], "gzip");
	lend_buf_give(pair.client, call.reply);
	answer.encoding = "gzip";
	cr_assert_eq(call_name(&pair, NAME), LEND_INTERNAL);
	call = (struct lend_call){.method = 0};
	call_head(&pair, &call, &any, 10);
	cr_assert_eq(call.status, LEND_OK);
	cr_assert_str_eq(lend_call_text(at, &call, LEND_TEXT_ENCODING), "gzip");
	lend_buf_give(pair.client, call.reply);
	pair_close(&pair);
}

/* Before the session is up, and after. */
Test(rpc_name, not_to_a_peer_without_heads)
{
	static const uint32_t lens[] = {0, 10, 5000, 300000};
	struct lend_call_head head = {.name = NAME};

	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;

		features = LEND_FEATURE_REPLY_HEADS;
		open_named(&pair, s, 0);
		for (int i = 0; i < 3; i++)
			cr_assert_eq(call_name(&pair, NAME), LEND_UNIMPLEMENTED);
		cr_assert_eq(seen.runs, 0);
		pair_close(&pair);
		features = LEND_FEATURE_REQUEST_HEADS; /* but none of replies */
		open_named(&pair, s, 0);
		answer.message = "not seen";
		answer_status = LEND_NOT_FOUND;
		cr_assert_eq(call_name(&pair, NAME), LEND_NOT_FOUND);
		cr_assert_str_eq(why, "");
		answer_status = LEND_OK; /* the message arrives without its head */
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			struct lend_call call = {.method = 0};

			call_head(&pair, &call, &head, lens[i]);
			cr_assert_eq(call.status, LEND_OK);
			lend_buf_give(pair.client, call.reply);
		}
		pair_close(&pair);
		features = 0;
	}
}

/* Sends a request whose bytes pretend to begin with a head. */
static enum lend_status call_forged(struct pair *pair, const void *bytes, uint32_t len)
{
	struct lend_call call = {.method = lend_method_number(NAME), .done = note_end};
	struct lend_call_priv *p = lend_call_priv(&call);
	struct lend_core_call out = {.method = call.method,
				     .class = LEND_CALL_HEAD | 3,
				     .deadline = LEND_NEVER,
				     .tag = (uintptr_t)&call};
	int err;

	call.request = lend_buf_take(pair->client, len + 1);
	memcpy(call.request->data, bytes, call.request->len = len);
	*p = (struct lend_call_priv){.flags = LEND_CALL_BUSY, .request = call.request};
	out.request = lend_msg_lend(pair->client->bufs, call.request, false, &err);
	ends = false;
	want_len = UINT32_MAX;
	at = pair->client;
	cr_assert_eq(lend_core_call(pair->client->core, lend_now(at),
				    pair->client->session[(uint32_t)pair->session.id - 1].core,
				    &pair->client->bufs->table, &out, &p->core),
		     0);
	pair->client->dirty = true;
	cr_assert(pair_until(pair, &ends));
	lend_buf_give(pair->client, call.request);
	lend_buf_give(pair->client, call.reply);
	return call.status;
}

Test(rpc_name, forged_heads)
{
	static uint8_t head[20000];

	for (int s = 0; s < SCHEMES; s++) {
		struct lend_head_writer w = lend_head_begin(head, sizeof(head));
		uint32_t len, bad = 0;
		struct pair pair;

		open_named(&pair, s, 0);
		cr_assert_eq(call_name(&pair, "/a/b"), LEND_UNIMPLEMENTED); /* session is up */
		lend_head_add(&w, LEND_HEAD_METHOD, NULL, NAME, strlen(NAME));
		lend_head_add(&w, LEND_HEAD_INITIAL, "user", "ada", 3);
		len = lend_head_end(&w);
		cr_assert_eq(call_forged(&pair, head, len), LEND_OK);
		for (uint32_t cut = 0; cut < len; cut++)
			cr_assert_eq(call_forged(&pair, head, cut), LEND_INVALID_ARGUMENT, "%u",
				     cut);
		for (uint32_t i = 0; i < len; i++) {
			enum lend_status status;

			head[i] ^= 0x81;
			status = call_forged(&pair, head, len + 200);
			head[i] ^= 0x81;
			bad += status == LEND_INVALID_ARGUMENT;
			cr_assert(status == LEND_OK || status == LEND_INVALID_ARGUMENT ||
				      status == LEND_UNIMPLEMENTED,
				  "byte %u: %d", i, status);
		}
		cr_assert(bad > len / 2, "%u of %u", bad, len);
		head[0] = 0xff; /* longer than any head */
		head[1] = 0xff;
		cr_assert_eq(call_forged(&pair, head, sizeof(head)), LEND_INVALID_ARGUMENT);
		pair_close(&pair);
	}
}
