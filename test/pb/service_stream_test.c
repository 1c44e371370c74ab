/* Goal: streaming methods of a .proto service hand over each message once, in order, with its
 * values, and end with one status; memory is bounded when an end does not read or answer. Method: a
 * server and a client in one thread over shm and udp; items whose bytes follow from their number;
 * malformed, missing and too many messages from ends without stubs; streams that end early.
 * Covers: src/grpc/message_stream.c, src/grpc/stream_server.c, src/grpc/stream_client.c,
 * src/grpc/unary_server.c, src/pb/field_option.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/rpc_pair.h"
#include "lend/grpc.h"
#include "lend/stream.h"
#include "pb/field_option.h"
#include "talk.pb-c.h"

enum { ONE, UP, DOWN, BOTH, METHODS, LONGEST = 100000, CREDIT = 16 };
#define MS UINT64_C(1000000)

static const enum lend_pb_kind kinds[METHODS] = {LEND_PB_UNARY, LEND_PB_CLIENT_STREAM,
						 LEND_PB_SERVER_STREAM, LEND_PB_BOTH_STREAM};
static uint8_t pattern[LONGEST + 256];

/* State of both ends of the stream. */
static struct {
	struct pair pair;
	ProtobufCService *client;
	/* Server. */
	void *stream; /* number of the last function that ran */
	uint32_t items, sent, to_send, ended, lent, released;
	bool stops; /* pauses after each item */
	bool mute;  /* never answers */
	/* Client. */
	uint32_t got, sent_up, up_max;
	bool done;
	uint32_t ends; /* times that the closure ran with NULL */
	bool same;     /* all items are number 0 */
} test;

static uint32_t length_of(uint32_t number)
{
	static const uint32_t len[] = {8, 0, 500, 30000, 1, LONGEST};

	return len[number % 6];
}

static LendTalk__Item item_of(uint32_t number)
{
	LendTalk__Item item = LEND_TALK__ITEM__INIT;

	item.number = number;
	item.data.len = length_of(number);
	item.data.data = pattern + number % 256;
	return item;
}

static void check_item(const LendTalk__Item *item, uint32_t number)
{
	cr_assert_eq(item->number, number, "%u, not %u", item->number, number);
	cr_assert_eq(item->data.len, length_of(number));
	cr_assert(!item->data.len ||
		  memcmp(item->data.data, pattern + number % 256, item->data.len) == 0);
}

static void count_release(void *arg)
{
	(void)arg;
	test.released++;
}

/* Sends what there is credit for, without copies. */
static void send_down(void *stream, void *arg)
{
	(void)arg;
	while (test.sent < test.to_send) {
		LendTalk__Item item = item_of(test.sent);
		int rc = lend_pb_send(stream, &item.base, count_release, NULL);

		if (rc == -EAGAIN)
			return;
		cr_assert_eq(rc, 0);
		test.lent++;
		test.sent++;
	}
}

static void finish_down(void *stream, void *arg)
{
	send_down(stream, arg);
	if (test.sent == test.to_send)
		lend_pb_reply(stream, NULL, NULL, NULL);
}

static void note_ended(void *stream, void *arg)
{
	(void)stream, (void)arg;
	test.ended++;
}

static void serve_one(LendTalk__Talk_Service *of, const LendTalk__Item *in,
		      LendTalk__Item_Closure closure, void *closure_data)
{
	(void)of;
	closure(in, closure_data);
}

static void go_on(void *stream, void *arg)
{
	(void)arg;
	lend_pb_pause(stream, false);
}

static void take_item(void *stream, const LendTalk__Item *in)
{
	if (test.items == 0 && in && !test.mute)
		lend_pb_on(stream,
			   &(struct lend_pb_events){.writable = go_on, .ended = note_ended});
	test.stream = stream;
	if (!in)
		return;
	check_item(in, test.items++);
	if (test.stops)
		lend_pb_pause(stream, true);
}

static void serve_up(LendTalk__Talk_Service *of, const LendTalk__Item *in,
		     LendTalk__Item_Closure closure, void *closure_data)
{
	LendTalk__Item out = LEND_TALK__ITEM__INIT;

	(void)of;
	take_item(closure_data, in);
	out.number = test.items;
	if (!in && !test.mute)
		closure(&out, closure_data);
}

static void serve_down(LendTalk__Talk_Service *of, const LendTalk__Item *in,
		       LendTalk__Item_Closure closure, void *closure_data)
{
	(void)of, (void)closure;
	test.stream = closure_data;
	test.to_send = in->number;
	if (test.mute)
		return;
	lend_pb_on(closure_data,
		   &(struct lend_pb_events){.writable = finish_down, .ended = note_ended});
	finish_down(closure_data, NULL);
}

static void serve_both(LendTalk__Talk_Service *of, const LendTalk__Item *in,
		       LendTalk__Item_Closure closure, void *closure_data)
{
	(void)of;
	take_item(closure_data, in);
	if (test.mute)
		return;
	closure(in, closure_data);
	if (in && lend_pb_check(closure_data) == -EAGAIN)
		lend_pb_pause(closure_data, true);
}

static LendTalk__Talk_Service service = LEND_TALK__TALK__INIT(serve_);

static void open_talk(const char *scheme)
{
	memset(&test, 0, sizeof(test));
	for (uint32_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7 + i / 251);
	pair_open(&test.pair, scheme);
	cr_assert_eq(lend_pb_serve_kinds(test.pair.server, &service.base, kinds), 0);
	cr_assert_eq(lend_pb_client(test.pair.client, test.pair.session,
				    &lend_talk__talk__descriptor, &test.client),
		     0);
	lend_pb_client_kinds(test.client, kinds);
}

static void close_talk(void)
{
	struct lend_ep *server = test.pair.server;

	pair_close(&test.pair);
	lend_pb_end(server);
	protobuf_c_service_destroy(test.client);
	cr_assert_eq(test.lent, test.released, "%u of %u", test.released, test.lent);
}

static void note_reply(const LendTalk__Item *reply, void *arg)
{
	cr_assert_eq(arg, &test);
	cr_assert_not(test.done);
	if (reply)
		check_item(reply, test.same ? 0 : test.got), test.got++;
	else
		test.ends++;
	test.done = !reply;
}

static void note_count(const LendTalk__Item *reply, void *arg)
{
	(void)arg;
	cr_assert_not(test.done);
	test.got = reply ? reply->number : UINT32_MAX;
	test.done = true;
}

static void send_up(void *stream, void *arg)
{
	(void)arg;
	while (test.sent_up < test.up_max) {
		LendTalk__Item item = item_of(test.sent_up);
		int rc = lend_pb_send(stream, &item.base, NULL, NULL);

		if (rc == -EAGAIN)
			return;
		cr_assert_eq(rc, 0);
		test.sent_up++;
	}
	cr_assert_eq(lend_pb_finish(stream), 0);
}

/* Opens a stream with its first item, or none, and sends the others. */
static void start_up(uint32_t n, bool first, bool both)
{
	LendTalk__Item item = item_of(0);

	test.up_max = n;
	test.sent_up = first;
	if (both)
		lend_talk__talk__both(test.client, first ? &item : NULL, note_reply, &test);
	else
		lend_talk__talk__up(test.client, first ? &item : NULL, note_count, &test);
	cr_assert_not_null(lend_pb_opened(test.client));
	lend_pb_on(lend_pb_opened(test.client), &(struct lend_pb_events){.writable = send_up});
	send_up(lend_pb_opened(test.client), NULL);
}

static void start_down(uint32_t n)
{
	LendTalk__Item item = LEND_TALK__ITEM__INIT;

	item.number = n;
	lend_talk__talk__down(test.client, &item, note_reply, &test);
	cr_assert_not_null(lend_pb_opened(test.client));
}

static void check_end(enum lend_status status)
{
	cr_assert(pair_until(&test.pair, &test.done), "got %u, items %u", test.got, test.items);
	cr_assert_eq(lend_pb_status(test.client), status, "%d: %s", lend_pb_status(test.client),
		     lend_pb_why(test.client));
	pair_turns(&test.pair, 20);
}

/* Reads the descriptor set of talk.proto. */
static size_t read_set(char *set, size_t cap)
{
	FILE *file = fopen(LEND_TALK_SET, "rb");
	size_t len;

	cr_assert_not_null(file, "%s", LEND_TALK_SET);
	len = fread(set, 1, cap, file);
	fclose(file);
	return len;
}

/* Each cut is in memory of its own length. */
Test(pb_stream, kinds__of_whole_and_cut_sets)
{
	static char set[4096];
	size_t len = read_set(set, sizeof(set));
	enum lend_pb_kind read[METHODS];

	for (size_t n = 0; n <= len; n++) {
		char *cut = memcpy((char *)malloc(n + 1) + 1, set, n);
		int rc = lend_pb_kinds(&lend_talk__talk__descriptor, cut, n, read);

		cr_assert(rc == 0 || (rc == -ENOENT && n < len), "%zu bytes", n);
		cr_assert(rc < 0 || memcmp(read, kinds, sizeof(read)) == 0);
		free(cut - 1);
	}
	cr_assert_eq(lend_pb_method_kind(set, len, "lend_talk.Talk", "Both"), 3);
	cr_assert_eq(lend_pb_method_kind(set, len, "lend_talk.Talk", "Bot"), -1);
	cr_assert_eq(lend_pb_method_kind(set, len, "lend_talk.Tal", "Both"), -1);
	cr_assert_eq(lend_pb_method_kind(set, len, "Talk", "Both"), -1);
}

Test(pb_stream, each_kind__items_of_all_lengths__arrive_once)
{
	static const uint32_t counts[] = {0, 1, 5, 100};

	for (int i = 0; i < 2 * 4 * 2; i++) {
		uint32_t n = counts[i / 2 % 4];
		bool first = i / 8 && n > 0;

		open_talk(pair_schemes[i % 2]);
		start_up(n, first, false);
		check_end(LEND_OK);
		cr_assert_eq(test.got, n);
		cr_assert_eq(test.items, n);
		close_talk();

		open_talk(pair_schemes[i % 2]);
		start_up(n, first, true);
		check_end(LEND_OK);
		cr_assert_eq(test.got, n);
		cr_assert_eq(test.ends, 1);
		close_talk();

		open_talk(pair_schemes[i % 2]);
		start_down(n);
		check_end(LEND_OK);
		cr_assert_eq(test.got, n);
		cr_assert_eq(test.ended, 1);
		cr_assert_eq(test.ends, 1);
		close_talk();
	}
}

/* An end that pauses is sent 16 items, or 256 KiB, and the rest when it goes on. */
Test(pb_stream, pause__at_each_end__bounds_what_is_sent)
{
	for (int i = 0; i < 2; i++) {
		open_talk(pair_schemes[i]);
		start_down(90);
		lend_pb_pause(lend_pb_opened(test.client), true);
		pair_turns(&test.pair, 500);
		cr_assert_eq(test.got, 0);
		cr_assert(test.sent > 0 && test.sent <= CREDIT, "%u", test.sent);
		lend_pb_pause(lend_pb_opened(test.client), false);
		check_end(LEND_OK);
		cr_assert_eq(test.got, 90);
		close_talk();

		open_talk(pair_schemes[i]);
		test.stops = true;
		start_up(60, true, false);
		pair_turns(&test.pair, 500);
		cr_assert_eq(test.items, 1);
		cr_assert(test.sent_up <= CREDIT + 1, "%u", test.sent_up);
		for (int turns = 0; turns < 100000 && !test.done; turns++) {
			test.stops = test.items < 60;
			if (!test.ended)
				lend_pb_pause(test.stream, false);
			pair_turns(&test.pair, 1);
		}
		check_end(LEND_OK);
		cr_assert_eq(test.items, 60);
		close_talk();
	}
}

/* A function that answers regardless of credit ends its stream. */
Test(pb_stream, reader__never_reads__server_ends_it)
{
	LendTalk__Item item = item_of(0);

	open_talk("shm");
	test.mute = true;
	start_up(1, true, true);
	lend_pb_pause(lend_pb_opened(test.client), true);
	while (!test.stream)
		pair_turns(&test.pair, 1);
	for (uint32_t i = 0; i < CREDIT; i++)
		lend_pb_reply(test.stream, &item.base, NULL, NULL);
	cr_assert_eq(lend_pb_send(test.stream, &item.base, NULL, NULL), -EAGAIN);
	lend_pb_reply(test.stream, &item.base, NULL, NULL);
	lend_pb_reply(test.stream, &item.base, NULL, NULL); /* without effect */
	pair_turns(&test.pair, 200);
	cr_assert_not(test.done);
	test.same = true;
	lend_pb_pause(lend_pb_opened(test.client), false);
	check_end(LEND_RESOURCE_EXHAUSTED);
	cr_assert_eq(test.got, CREDIT);
	close_talk();
}

enum way { CANCEL, DEADLINE, HANG_UP, FAIL, WAYS };

/* Streams end early, whether or not the function answers later. */
Test(pb_stream, early_end__of_each_kind__frees_all)
{
	static const enum lend_status want[WAYS] = {LEND_CANCELLED, LEND_DEADLINE_EXCEEDED,
						    LEND_CANCELLED, LEND_ABORTED};

	for (int i = 0; i < WAYS * 2 * 2 * 3; i++) {
		enum way way = i % WAYS;
		int kind = UP + i / WAYS / 4;
		void *stream;

		open_talk(pair_schemes[i / WAYS % 2]);
		test.mute = true;
		if (way == DEADLINE)
			lend_pb_client_set(test.client, &(struct lend_call){.timeout = 20 * MS});
		if (kind == DOWN)
			start_down(5);
		else
			start_up(4, true, kind == BOTH);
		stream = lend_pb_opened(test.client);
		while (!test.stream && !test.done)
			pair_turns(&test.pair, 1);
		if (!test.stream) { /* on a busy machine the deadline may come first: again */
			cr_assert_eq(way, DEADLINE);
			close_talk();
			i--;
			continue;
		}
		if (way == CANCEL)
			lend_pb_cancel(stream);
		else if (way == HANG_UP)
			lend_disconnect(test.pair.client, test.pair.session);
		else if (way == FAIL)
			lend_pb_fail(test.stream, LEND_ABORTED, "no more");
		check_end(want[way]);
		pair_turns(&test.pair, 200);
		if (way != FAIL && i / WAYS / 2 % 2) { /* without effect */
			LendTalk__Item item = item_of(0);

			cr_assert_eq(lend_pb_send(test.stream, &item.base, NULL, NULL), -EPIPE);
			lend_pb_fail(test.stream, LEND_OK, "");
		}
		close_talk();
	}
}

static char pairs[64];

static void note_metadata(const LendTalk__Item *reply, void *arg)
{
	struct lend_pair pair;
	uint32_t at = 0;

	cr_assert_null(reply);
	cr_assert_str_eq(lend_pb_why(test.client), "full");
	cr_assert(lend_pb_metadata(test.client, true, &at, &pair));
	snprintf(pairs, sizeof(pairs), "%s=%s", pair.key, (const char *)pair.value);
	test.done = true;
	(void)arg;
}

Test(pb_stream, metadata__both_ways)
{
	struct lend_metadata *sent = lend_metadata_new(), *trailing = lend_metadata_new();
	const struct lend_reply_head head = {.trailing = trailing};
	LendTalk__Item item = item_of(0);
	struct lend_pair pair;
	uint32_t at = 0;

	lend_metadata_add(sent, "user", "ada", 3);
	lend_metadata_add(trailing, "left", "7", 1);
	for (int i = 0; i < 2; i++, at = 0) {
		open_talk(pair_schemes[i]);
		test.mute = true;
		lend_pb_client_head(test.client, &(struct lend_call_head){.metadata = sent});
		lend_talk__talk__both(test.client, &item, note_metadata, NULL);
		while (!test.stream)
			pair_turns(&test.pair, 1);
		cr_assert(lend_request_metadata(test.pair.server, lend_pb_request(test.stream), &at,
						&pair));
		cr_assert_str_eq(pair.value, "ada");
		lend_pb_reply_head(test.stream, &head);
		lend_pb_fail(test.stream, LEND_OUT_OF_RANGE, "full");
		check_end(LEND_OUT_OF_RANGE);
		cr_assert_str_eq(pairs, "left=7");
		close_talk();
	}
	lend_metadata_free(sent);
	lend_metadata_free(trailing);
}

static void note_status(const LendTalk__Item *reply, void *arg)
{
	(void)arg;
	cr_assert_null(reply);
	test.done = true;
}

Test(pb_stream, other_kind__unimplemented)
{
	static const enum lend_pb_kind wrong[METHODS] = {LEND_PB_BOTH_STREAM};
	LendTalk__Item item = item_of(1);

	for (int i = 0; i < 2; i++) {
		open_talk(pair_schemes[i]);
		lend_pb_client_kinds(test.client, wrong);
		lend_talk__talk__one(test.client, &item, note_status, NULL);
		check_end(LEND_UNIMPLEMENTED);
		for (int method = UP; method < METHODS; method++) {
			test.done = false;
			test.client->invoke(test.client, (unsigned)method, &item.base,
					    (ProtobufCClosure)note_status, NULL);
			check_end(LEND_UNIMPLEMENTED);
		}
		cr_assert_eq(lend_pb_slow(test.pair.server, &service.base, "Both"), -EINVAL);
		close_talk();
	}
}

/* An end without stubs: sends these messages, then its end or a status. */
static struct {
	struct lend_stream stream;
	const char *message[3];
	bool over;
	char why[256];
} raw;

static void raw_ended(struct lend_stream *stream)
{
	snprintf(raw.why, sizeof(raw.why), "%s", stream->why);
	raw.over = true;
}

static void send_raw(struct lend_ep *ep)
{
	for (int i = 0; i < 3 && raw.message[i]; i++) {
		struct lend_buf *m = lend_buf_take(ep, 16);

		m->len = (uint32_t)strlen(raw.message[i]);
		if (m->len)
			memcpy(m->data, raw.message[i], m->len);
		cr_assert_eq(lend_stream_write(ep, &raw.stream, m), 0);
	}
}

static void accept_raw(lend_request request, void *ep)
{
	raw.over = false;
	raw.stream = (struct lend_stream){.ended = raw_ended};
	cr_assert_eq(lend_stream_accept(ep, request, &raw.stream), 0);
	send_raw(ep);
	cr_assert_eq(lend_stream_end(ep, &raw.stream, LEND_OK, NULL), 0);
}

#define BAD                                                                                        \
	"\x12\x05"                                                                                 \
	"ab" /* data of 5 bytes, of which 2 are there */
#define GOOD "\x08\x01"

Test(pb_stream, client__malformed_missing_or_too_many__refused)
{
	static const struct {
		const char *name, *message[3];
	} row[] = {{"/lend_talk.Talk/Up", {BAD}},
		   {"/lend_talk.Talk/Both", {BAD}},
		   {"/lend_talk.Talk/Down", {BAD}},
		   {"/lend_talk.Talk/Down", {NULL}},
		   {"/lend_talk.Talk/Down", {GOOD, GOOD}}};

	for (size_t i = 0; i < 2 * sizeof(row) / sizeof(row[0]); i++) {
		struct lend_call_head head = {.name = row[i / 2].name};

		open_talk(pair_schemes[i % 2]);
		memset(&raw, 0, sizeof(raw));
		memcpy(raw.message, row[i / 2].message, sizeof(raw.message));
		test.mute = true;
		raw.stream = (struct lend_stream){.head = &head, .ended = raw_ended};
		cr_assert_eq(lend_stream_open(test.pair.client, test.pair.session, &raw.stream), 0);
		send_raw(test.pair.client);
		cr_assert_eq(lend_stream_finish(test.pair.client, &raw.stream), 0);
		cr_assert(pair_until(&test.pair, &raw.over));
		cr_assert_eq(raw.stream.status, LEND_INVALID_ARGUMENT, "row %zu: %d", i,
			     raw.stream.status);
		cr_assert(strstr(raw.why, "malformed"));
		close_talk();
	}
}

Test(pb_stream, server__malformed_missing_or_too_many__internal)
{
	static const struct {
		const char *name, *message[3];
		int method;
	} row[] = {{"/lend_talk.Talk/Up", {BAD}, UP},
		   {"/lend_talk.Talk/Up", {NULL}, UP},
		   {"/lend_talk.Talk/Up", {GOOD, GOOD}, UP},
		   {"/lend_talk.Talk/Down", {BAD}, DOWN},
		   {"/lend_talk.Talk/Both", {BAD}, BOTH}};
	LendTalk__Item item = item_of(1);

	for (size_t i = 0; i < 2 * sizeof(row) / sizeof(row[0]); i++) {
		open_talk(pair_schemes[i % 2]);
		memset(&raw, 0, sizeof(raw));
		memcpy(raw.message, row[i / 2].message, sizeof(raw.message));
		cr_assert_eq(lend_serve_stream_name(test.pair.server, row[i / 2].name, accept_raw,
						    test.pair.server, 0),
			     0);
		test.client->invoke(test.client, (unsigned)row[i / 2].method, &item.base,
				    (ProtobufCClosure)note_status, NULL);
		check_end(LEND_INTERNAL);
		close_talk();
	}
}

static void *paused; /* a stream that the closure below resumes */

/* The item stays as it is while another one is decoded. */
static void note_nested(const LendTalk__Item *reply, void *arg)
{
	(void)arg;
	if (!reply)
		return;
	lend_pb_pause(paused, false);
	check_item(reply, 0);
}

Test(pb_stream, nested__another_stream_read_in_a_closure__values_stay)
{
	LendTalk__Item item = LEND_TALK__ITEM__INIT, first = item_of(0);

	open_talk("shm");
	item.number = 5;
	lend_talk__talk__down(test.client, &item, note_reply, &test);
	paused = lend_pb_opened(test.client);
	lend_pb_pause(paused, true);
	pair_turns(&test.pair, 100);
	cr_assert_eq(test.got, 0);
	lend_talk__talk__one(test.client, &first, note_nested, &test);
	check_end(LEND_OK);
	cr_assert_eq(test.got, 5);
	close_talk();
}
