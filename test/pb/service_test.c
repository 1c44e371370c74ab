/* Goal: a method of a .proto service answers each call once, with the values that were sent, and
 * borrowed bytes are given back once. Method: a server and a client in one thread over shm and udp;
 * random messages against protobuf-c's bytes, answers at once, later, without a copy and with a
 * status; malformed requests; two names of one number; values by reference, also to servers that
 * do not take them; functions that block. Covers: src/grpc/message_buffers.c,
 * src/grpc/unary_server.c, src/grpc/unary_client.c, src/grpc/called_service.c,
 * src/pb/field_option.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/rpc_pair.h"
#include "every.pb-c.h"
#include "lend/alloc.h"
#include "lend/grpc.h"
#include "pb/field_option.h"
#include "pb/kit.h"

enum { SEED = 20, SEEDS = 60, BIG = 300000 };

static struct {
	struct pair pair;
	ProtobufCService *client;
	/* Server. */
	void *later; /* closure data of Later */
	unsigned taken, released;
	/* Client. */
	bool done;
	unsigned times;
	struct kit_bytes reply; /* bytes of the last reply; data NULL: there was none */
} test;

static void lent_back(void *arg)
{
	LendTest__Every *copy = arg;

	test.released++;
	lend_test__every__free_unpacked(copy, NULL);
}

/* Returns a copy of a message, as a function that answers later needs. */
static LendTest__Every *copy_message(const LendTest__Every *m)
{
	size_t len = lend_test__every__get_packed_size(m);
	uint8_t *bytes = malloc(len + 1);
	LendTest__Every *copy;

	lend_test__every__pack(m, bytes);
	copy = lend_test__every__unpack(NULL, len, bytes);
	free(bytes);
	return copy;
}

static void serve_same(LendTest__Echo_Service *service, const LendTest__Every *in,
		       LendTest__Every_Closure closure, void *closure_data)
{
	(void)service;
	closure(in, closure_data);
}

static void serve_lent(LendTest__Echo_Service *service, const LendTest__Every *in,
		       LendTest__Every_Closure closure, void *closure_data)
{
	LendTest__Every *copy = copy_message(in);

	(void)service, (void)closure;
	test.taken++;
	lend_pb_reply(closure_data, &copy->base, lent_back, copy);
}

static void serve_later(LendTest__Echo_Service *service, const LendTest__Every *in,
			LendTest__Every_Closure closure, void *closure_data)
{
	(void)service, (void)in, (void)closure;
	cr_assert_neq(lend_pb_request(closure_data).id, 0);
	test.later = closure_data;
}

static void serve_fail(LendTest__Echo_Service *service, const LendTest__Empty *in,
		       LendTest__Empty_Closure closure, void *closure_data)
{
	(void)service, (void)in, (void)closure;
	lend_pb_fail(closure_data, LEND_NOT_FOUND, "no such thing");
}

static LendTest__Echo_Service service = LEND_TEST__ECHO__INIT(serve_);

static void open_service(const char *scheme)
{
	memset(&test, 0, sizeof(test));
	pair_open(&test.pair, scheme);
	cr_assert_eq(lend_pb_serve(test.pair.server, &service.base), 0);
	cr_assert_eq(lend_pb_client(test.pair.client, test.pair.session,
				    &lend_test__echo__descriptor, &test.client),
		     0);
}

static void close_service(void)
{
	struct lend_ep *server = test.pair.server;

	pair_close(&test.pair);
	lend_pb_end(server);
	protobuf_c_service_destroy(test.client);
	cr_assert_eq(test.taken, test.released, "values of replies are still lent");
	free(test.reply.data);
}

static void keep_reply(const LendTest__Every *reply, void *arg)
{
	cr_assert_eq(arg, &test);
	test.done = true;
	test.times++;
	free(test.reply.data);
	test.reply = (struct kit_bytes){0};
	if (!reply)
		return;
	test.reply.len = lend_test__every__get_packed_size(reply);
	test.reply.data = malloc(test.reply.len + 1);
	lend_test__every__pack(reply, test.reply.data);
}

typedef void stub(ProtobufCService *, const LendTest__Every *, LendTest__Every_Closure, void *);

static enum lend_status call_method(stub *method, const LendTest__Every *in)
{
	test.done = false;
	test.times = 0;
	method(test.client, in, keep_reply, &test);
	cr_assert(pair_until(&test.pair, &test.done), "no answer");
	pair_turns(&test.pair, 5);
	cr_assert_eq(test.times, 1);
	return lend_pb_status(test.client);
}

static void check_echo(stub *method, const LendTest__Every *in, const char *what)
{
	size_t len = lend_test__every__get_packed_size(in);
	uint8_t *want = malloc(len + 1);

	lend_test__every__pack(in, want);
	cr_assert_eq(call_method(method, in), LEND_OK, "%s: status %d", what,
		     lend_pb_status(test.client));
	cr_assert_eq(test.reply.len, len, "%s: %zu bytes of %zu", what, test.reply.len, len);
	cr_assert_eq(memcmp(test.reply.data, want, len), 0, "%s: other values", what);
	free(want);
}

Test(pb_service, unary__random_messages__come_back)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct kit_blocks blocks;
		struct lend_rng rng;

		open_service(pair_schemes[s]);
		for (uint64_t seed = SEED; seed < SEED + SEEDS; seed++) {
			ProtobufCMessage *m;
			char what[32];

			(void)snprintf(what, sizeof(what), "seed %lu", (unsigned long)seed);
			lend_rng_seed(&rng, seed);
			kit_blocks_open(&blocks, SIZE_MAX, 1 << 16);
			m = kit_message(&lend_test__every__descriptor, &rng, &blocks.base, 2);
			check_echo(seed % 2 ? lend_test__echo__lent : lend_test__echo__same,
				   (LendTest__Every *)m, what);
			kit_blocks_close(&blocks);
		}
		close_service();
	}
}

/* The second time in memory that is read in place over shm. */
Test(pb_service, unary__long_bytes_of_many_fields__come_back)
{
	for (int s = 0; s < 2 * SCHEMES; s++) {
		uint8_t *bytes = s < SCHEMES ? lend_malloc(BIG) : lend_malloc_shared(BIG);
		LendTest__Every m = LEND_TEST__EVERY__INIT;
		ProtobufCBinaryData many[60];

		for (int i = 0; i < BIG; i++)
			bytes[i] = (uint8_t)(i * 7 + i / 256);
		for (int i = 0; i < 60; i++) /* more than a carrier reads in place */
			many[i] = (ProtobufCBinaryData){BIG / 2 - (size_t)i, bytes + 100 * i};
		cr_assert(bytes);
		cr_assert_eq(lend_is_shared(bytes), s >= SCHEMES);
		open_service(pair_schemes[s % SCHEMES]);
		m.data = (ProtobufCBinaryData){BIG, bytes};
		m.i32 = -5;
		check_echo(lend_test__echo__same, &m, "one");
		check_echo(lend_test__echo__lent, &m, "one");
		m.many_data = many;
		m.n_many_data = 60;
		check_echo(lend_test__echo__same, &m, "many");
		check_echo(lend_test__echo__lent, &m, "many");
		close_service();
		lend_free(bytes);
	}
}

Test(pb_service, unary__encoded_member_and_request__as_the_message)
{
	static const char leaf[] = "\x08\x4d\x12\x03"
				   "abc";
	LendTest__Every m = LEND_TEST__EVERY__INIT;
	struct lend_pb_bytes encoded, all;

	open_service("shm");
	m.leaf = (LendTest__Leaf *)lend_pb_encoded(&encoded, leaf, sizeof(leaf) - 1);
	cr_assert_eq(call_method(lend_test__echo__same, &m), LEND_OK);
	cr_assert_eq(test.reply.len, sizeof(leaf) - 1 + 3);
	cr_assert_eq(memcmp(test.reply.data + 3, leaf, sizeof(leaf) - 1), 0);
	cr_assert_eq(call_method(lend_test__echo__same,
				 (LendTest__Every *)lend_pb_encoded(&all, "\x08\x05", 2)),
		     LEND_OK);
	cr_assert_eq(test.reply.len, 2);
	close_service();
}

Test(pb_service, client__another_one_destroyed__still_calls)
{
	LendTest__Every m = LEND_TEST__EVERY__INIT;
	ProtobufCService *first;

	open_service("shm");
	m.u64 = 99;
	check_echo(lend_test__echo__same, &m, "the first");
	first = test.client;
	cr_assert_eq(lend_pb_client(test.pair.client, test.pair.session,
				    &lend_test__echo__descriptor, &test.client),
		     0);
	check_echo(lend_test__echo__same, &m, "the second");
	protobuf_c_service_destroy(first);
	check_echo(lend_test__echo__lent, &m, "the second alone");
	close_service();
}

/* The first closure destroys the client, whose second call still runs its own. */
static void destroy_first(const LendTest__Every *reply, void *arg)
{
	cr_assert_eq(reply->u64, 99);
	if (!test.times++)
		protobuf_c_service_destroy(arg);
	cr_assert_eq(lend_pb_status(arg), LEND_OK);
	test.done = test.times == 2;
}

Test(pb_service, client__destroyed_in_a_closure__ends_its_calls)
{
	LendTest__Every m = LEND_TEST__EVERY__INIT;
	ProtobufCService *client;

	for (int s = 0; s < SCHEMES; s++) {
		open_service(pair_schemes[s]);
		m.u64 = 99;
		client = test.client;
		for (int i = 0; i < 2; i++)
			lend_test__echo__same(client, &m, destroy_first, client);
		cr_assert(pair_until(&test.pair, &test.done));
		cr_assert_eq(lend_pb_client(test.pair.client, test.pair.session,
					    &lend_test__echo__descriptor, &test.client),
			     0);
		check_echo(lend_test__echo__same, &m, "another client");
		close_service();
	}
}

Test(pb_service, unary__answer_later__arrives)
{
	LendTest__Every m = LEND_TEST__EVERY__INIT, answer = LEND_TEST__EVERY__INIT, *copy;

	open_service("shm");
	lend_test__echo__later(test.client, &m, keep_reply, &test);
	while (!test.later)
		pair_turns(&test.pair, 1);
	cr_assert(!test.done);
	answer.u32 = 9;
	lend_pb_reply(test.later, NULL, lent_back, copy_message(&m));
	test.taken++;
	cr_assert(pair_until(&test.pair, &test.done));
	cr_assert_eq(lend_pb_status(test.client), LEND_INTERNAL);
	test.later = NULL;
	test.done = false;
	lend_test__echo__later(test.client, &m, keep_reply, &test);
	while (!test.later)
		pair_turns(&test.pair, 1);
	copy = copy_message(&answer);
	lend_pb_reply(test.later, &copy->base, lent_back, copy);
	test.taken++;
	cr_assert(pair_until(&test.pair, &test.done));
	cr_assert_eq(test.reply.len, 2);
	close_service();
}

static void note_end(const LendTest__Every *reply, void *arg)
{
	bool *done = arg;

	cr_assert_str_eq(reply->text, "slowly");
	*done = true;
}

static void count_failure(const LendTest__Empty *reply, void *arg)
{
	bool *done = arg;

	cr_assert_eq(reply, NULL);
	cr_assert_str_eq(lend_pb_why(test.client), "no such thing");
	*done = true;
}

Test(pb_service, unary__status__arrives)
{
	struct lend_call brief = {.timeout = 20000000};
	LendTest__Every m = LEND_TEST__EVERY__INIT;
	LendTest__Empty empty = LEND_TEST__EMPTY__INIT;
	bool done = false;

	open_service("shm");
	lend_test__echo__fail(test.client, &empty, count_failure, &done);
	cr_assert(pair_until(&test.pair, &done));
	cr_assert_eq(lend_pb_status(test.client), LEND_NOT_FOUND);
	cr_assert_str_eq(lend_pb_why(test.client), "", "outside of the closure");
	m.self = &m; /* without an end */
	cr_assert_eq(call_method(lend_test__echo__same, &m), LEND_INVALID_ARGUMENT);
	m.self = NULL;
	lend_pb_client_set(test.client, &brief);
	cr_assert_eq(call_method(lend_test__echo__later, &m), LEND_DEADLINE_EXCEEDED);
	lend_pb_fail(test.later, LEND_OK, ""); /* its call has ended */
	close_service();
}

/* A set of every.proto's Leaf, of which (lend.by_ref) is set for body: package 2, type 4, in that
 * its name 1 and field 2, in that its number 3 and options 8, in those 71020. */
static const char by_ref_set[] = "\x0a\x25"
				 "\x12\x09lend_test"
				 "\x22\x18"
				 "\x0a\x04Leaf"
				 "\x12\x04\x0a\x02id"
				 "\x12\x0a\x0a\x00\x18\x0f\x42\x04\xe0\xd6\x22\x01";

/* Each cut is in memory of its own length. */
Test(pb_service, refs__option_of_cut_and_other_sets__is_unset)
{
	/* Package p; type A, in it B, in that field 1. */
	static const char nested[] = "\x0a\x1c\x12\x01p\x22\x17\x0a\x01"
				     "A\x1a\x12\x0a\x01"
				     "B\x12\x0d\x0a\x01x\x18\x01\x42\x06\x0a\x00\xe0\xd6\x22\x01";

	for (size_t len = 0; len < sizeof(by_ref_set); len++) {
		char *cut = memcpy((char *)malloc(len + 1) + 1, by_ref_set, len);
		bool is_all = len == sizeof(by_ref_set) - 1;

		cr_assert_eq(lend_pb_option_set(cut, len, "lend_test.Leaf", 15, LEND_PB_BY_REF),
			     is_all, "%zu bytes", len);
		cr_assert(!lend_pb_option_set(cut, len, "lend_test.Leaf", 1, LEND_PB_BY_REF));
		cr_assert(!lend_pb_option_set(cut, len, "lend_test.Lea", 15, LEND_PB_BY_REF));
		cr_assert(!lend_pb_option_set(cut, len, "Leaf", 15, LEND_PB_BY_REF));
		cr_assert(!lend_pb_option_set(cut, len, "lend_test.Leaf", 15, 1));
		free(cut - 1);
	}
	cr_assert(lend_pb_option_set(nested, sizeof(nested) - 1, "p.A.B", 1, LEND_PB_BY_REF));
	cr_assert(!lend_pb_option_set(nested, sizeof(nested) - 1, "p.A", 1, LEND_PB_BY_REF));
	cr_assert(!lend_pb_option_set(nested, sizeof(nested) - 1, "p.B", 1, LEND_PB_BY_REF));
	cr_assert(!lend_pb_option_set(nested, sizeof(nested) - 1, "p.A.B.C", 1, LEND_PB_BY_REF));
}

/* Opens the service and a client that listens, as one does whose memory is read. */
static void open_refs(const char *scheme, bool serves, struct lend_mem **caller,
		      struct lend_mem **callee)
{
	struct lend_config config = LEND_CONFIG_INIT, listening = LEND_CONFIG_INIT;
	char address[128];

	memset(&test, 0, sizeof(test));
	pair_address(address, sizeof(address), scheme);
	listening.listen = address;
	pair_open_with(&test.pair, scheme, &config, &listening);
	cr_assert_eq(lend_mem_open(test.pair.client, NULL, caller), 0);
	cr_assert_eq(lend_mem_open(test.pair.server, NULL, callee), 0);
	cr_assert_eq(lend_pb_serve(test.pair.server, &service.base), 0);
	if (serves)
		cr_assert_eq(lend_pb_serve_refs(test.pair.server, &service.base, *callee), 0);
	cr_assert_eq(lend_pb_client(test.pair.client, test.pair.session,
				    &lend_test__echo__descriptor, &test.client),
		     0);
}

static void close_refs(struct lend_mem *caller, struct lend_mem *callee)
{
	lend_mem_close(caller);
	lend_mem_close(callee);
	close_service();
}

/* The server knows requests with references, or gets all in the message. */
Test(pb_service, refs__long_and_marked_values__arrive)
{
	uint8_t *bytes = lend_malloc_shared(BIG);
	LendTest__Every m = LEND_TEST__EVERY__INIT;
	LendTest__Leaf leaf = LEND_TEST__LEAF__INIT;
	struct lend_mem *caller, *callee;
	struct lend_args_stat stat;

	for (int i = 0; i < BIG; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	m.text = (char *)"a text";
	m.leaf = &leaf;
	leaf.id = 7;
	for (int s = 0; s < 2 * SCHEMES; s++) {
		bool serves = s < SCHEMES;

		open_refs(pair_schemes[s % SCHEMES], serves, &caller, &callee);
		lend_args_threshold_set(caller, BIG / 2);
		lend_pb_client_refs(test.client, caller, by_ref_set, sizeof(by_ref_set) - 1);
		m.data = (ProtobufCBinaryData){BIG, bytes};
		leaf.body = (ProtobufCBinaryData){100, bytes + 1};
		check_echo(lend_test__echo__same, &m, "both");
		lend_args_stat_get(caller, &stat);
		cr_assert_eq(stat.lent, 2, "%s: %lu values lent", pair_schemes[s % SCHEMES],
			     (unsigned long)stat.lent);
		m.data.len = BIG / 4;
		leaf.body.len = 0;
		check_echo(lend_test__echo__lent, &m, "none");
		leaf.body.len = 5;
		check_echo(lend_test__echo__lent, &m, "the marked one");
		lend_args_stat_get(caller, &stat);
		cr_assert_eq(stat.lent, serves ? 3 : 2, "%s: %lu values lent",
			     pair_schemes[s % SCHEMES], (unsigned long)stat.lent);
		close_refs(caller, callee);
	}
	lend_free(bytes);
}

Test(pb_service, refs__marked_by_one_client__lent_by_that_one)
{
	uint8_t *bytes = lend_malloc_shared(BIG);
	LendTest__Every m = LEND_TEST__EVERY__INIT;
	LendTest__Leaf leaf = LEND_TEST__LEAF__INIT;
	ProtobufCService *client[2];
	struct lend_mem *caller, *callee;
	struct lend_args_stat stat;

	memset(bytes, 7, BIG);
	m.leaf = &leaf;
	leaf.body = (ProtobufCBinaryData){100, bytes};
	open_refs("shm", true, &caller, &callee);
	lend_args_threshold_set(caller, BIG / 2);
	client[0] = test.client;
	cr_assert_eq(lend_pb_client(test.pair.client, test.pair.session,
				    &lend_test__echo__descriptor, &client[1]),
		     0);
	for (unsigned set = 0; set < 4; set++) { /* each marks or not */
		unsigned want[2] = {set % 2, set / 2}, lent = 0;

		for (int i = 0; i < 2; i++)
			cr_assert_eq(lend_pb_client_refs(client[i], caller, by_ref_set,
							 want[i] ? sizeof(by_ref_set) - 1 : 0),
				     0);
		for (int i = 0; i < 2; i++) {
			test.client = client[i];
			lend_args_stat_get(caller, &stat);
			lent = (unsigned)stat.lent;
			check_echo(lend_test__echo__same, &m, "marked or not");
			lend_args_stat_get(caller, &stat);
			cr_assert_eq(stat.lent - lent, want[i], "set %u, client %d", set, i);
		}
	}
	protobuf_c_service_destroy(client[0]);
	close_refs(caller, callee);
	lend_free(bytes);
}

static char got_pairs[2][64]; /* one each: request, reply */
static struct lend_metadata *pairs[2];

static void note_pair(char *to, const struct lend_pair *pair)
{
	snprintf(to, 64, "%s=%.*s", pair->key, (int)pair->len, (const char *)pair->value);
}

static void serve_with_head(LendTest__Echo_Service *of, const LendTest__Empty *in,
			    LendTest__Empty_Closure closure, void *closure_data)
{
	static struct lend_reply_head head;
	struct lend_pair pair;
	lend_request request = lend_pb_request(closure_data);

	(void)of;
	(void)in;
	(void)closure;
	for (uint32_t at = 0; lend_request_metadata(test.pair.server, request, &at, &pair);)
		note_pair(got_pairs[0], &pair);
	cr_assert_str_eq(lend_request_text(test.pair.server, request, LEND_TEXT_METHOD),
			 "/lend_test.Echo/Fail");
	head.trailing = pairs[1];
	lend_pb_reply_head(closure_data, &head);
	lend_pb_fail(closure_data, LEND_NOT_FOUND, "with metadata");
}

static void note_reply(const LendTest__Empty *reply, void *arg)
{
	const struct lend_call *call = lend_pb_call(test.client);
	struct lend_pair pair;

	(void)reply;
	cr_assert_str_eq(lend_pb_why(test.client), "with metadata");
	for (uint32_t at = 0; lend_call_metadata(test.pair.client, call, true, &at, &pair);)
		note_pair(got_pairs[1], &pair);
	*(bool *)arg = true;
}

static bool got_echo;

static void note_text(LendTest__Echo_Service *of, const LendTest__Every *in,
		      LendTest__Every_Closure closure, void *closure_data)
{
	struct lend_pair pair;
	lend_request request = lend_pb_request(closure_data);

	(void)of;
	for (uint32_t at = 0; lend_request_metadata(test.pair.server, request, &at, &pair);)
		note_pair(got_pairs[0], &pair);
	closure(in, closure_data);
}

static void note_echo(const LendTest__Every *reply, void *arg)
{
	got_echo = reply && lend_pb_status(test.client) == LEND_OK;
	*(bool *)arg = true;
}

Test(pb_service, metadata__also_with_values_by_reference)
{
	uint8_t *bytes = lend_malloc_shared(BIG);
	LendTest__Every m = LEND_TEST__EVERY__INIT;
	LendTest__Echo_Service own = service;
	struct lend_metadata *metadata = lend_metadata_new();
	struct lend_call_head head = {.metadata = metadata};
	struct lend_mem *caller, *callee;

	memset(bytes, 7, BIG);
	m.text = (char *)"a text";
	m.data = (ProtobufCBinaryData){BIG, bytes};
	own.same = note_text;
	lend_metadata_add(metadata, "user", "bob", 3);
	for (int s = 0; s < SCHEMES; s++) {
		struct lend_args_stat stat;
		bool done = false;

		open_refs(pair_schemes[s], false, &caller, &callee);
		cr_assert_eq(lend_pb_serve_refs(test.pair.server, &own.base, callee), 0);
		lend_args_threshold_set(caller, BIG / 2);
		lend_pb_client_refs(test.client, caller, NULL, 0);
		lend_pb_client_head(test.client, &head);
		got_pairs[0][0] = 0;
		lend_test__echo__same(test.client, &m, note_echo, &done);
		cr_assert(pair_until(&test.pair, &done));
		cr_assert(got_echo);
		cr_assert_str_eq(got_pairs[0], "user=bob");
		lend_args_stat_get(caller, &stat);
		cr_assert_eq(stat.lent, 1);
		close_refs(caller, callee);
	}
	lend_metadata_free(metadata);
	lend_free(bytes);
}

Test(pb_service, metadata__both_ways)
{
	LendTest__Empty in = LEND_TEST__EMPTY__INIT;
	LendTest__Echo_Service own = service;

	for (int s = 0; s < SCHEMES; s++) {
		struct lend_call_head head = {.authority = "shop"};
		bool done = false;

		open_service(pair_schemes[s]);
		own.fail = serve_with_head;
		cr_assert_eq(lend_pb_serve(test.pair.server, (ProtobufCService *)&own), 0);
		for (int i = 0; i < 2; i++)
			pairs[i] = lend_metadata_new();
		lend_metadata_add(pairs[0], "user", "ada", 3);
		lend_metadata_add(pairs[1], "took", "3 ms", 4);
		head.metadata = pairs[0];
		lend_pb_client_head(test.client, &head);
		lend_test__echo__fail(test.client, &in, note_reply, &done);
		cr_assert(pair_until(&test.pair, &done));
		cr_assert_str_eq(got_pairs[0], "user=ada");
		cr_assert_str_eq(got_pairs[1], "took=3 ms");
		close_service();
		for (int i = 0; i < 2; i++)
			lend_metadata_free(pairs[i]);
	}
}

static void serve_same_with_head(LendTest__Echo_Service *of, const LendTest__Every *in,
				 LendTest__Every_Closure closure, void *closure_data)
{
	static struct lend_reply_head head;

	head.trailing = pairs[1];
	lend_pb_reply_head(closure_data, &head);
	serve_same(of, in, closure, closure_data);
}

static void note_pair_and_text(const LendTest__Every *reply, void *arg)
{
	const struct lend_call *call = lend_pb_call(test.client);
	struct lend_pair pair;

	got_pairs[1][0] = '\0';
	for (uint32_t at = 0; lend_call_metadata(test.pair.client, call, true, &at, &pair);)
		note_pair(got_pairs[1], &pair);
	cr_assert_eq(strlen(reply->text), *(size_t *)arg);
	test.done = true;
}

Test(pb_service, metadata__replies_of_any_length__arrive)
{
	static const size_t lens[] = {5, 400, 3000, 100000};
	LendTest__Every in = LEND_TEST__EVERY__INIT;
	LendTest__Echo_Service own = service;

	own.same = serve_same_with_head;
	in.text = calloc(1, lens[3] + 1);
	for (int s = 0; s < SCHEMES; s++) {
		open_service(pair_schemes[s]);
		cr_assert_eq(lend_pb_serve(test.pair.server, (ProtobufCService *)&own), 0);
		pairs[1] = lend_metadata_new();
		lend_metadata_add(pairs[1], "took", "3 ms", 4);
		for (size_t i = 0; i < 8; i++) {
			size_t len = lens[i % 4];

			memset(in.text, 'x', len);
			in.text[len] = '\0';
			test.done = false;
			lend_test__echo__same(test.client, &in, note_pair_and_text, &len);
			cr_assert(pair_until(&test.pair, &test.done));
			cr_assert_str_eq(got_pairs[1], "took=3 ms", "%zu bytes", len);
		}
		close_service();
		lend_metadata_free(pairs[1]);
	}
	free(in.text);
}

/* The text is cut as without metadata. */
static void serve_long_why(LendTest__Echo_Service *of, const LendTest__Empty *in,
			   LendTest__Empty_Closure closure, void *closure_data)
{
	static struct lend_reply_head head;
	static char why[9000];

	(void)of, (void)in, (void)closure;
	head.trailing = pairs[1];
	memset(why, 'y', sizeof(why) - 1);
	lend_pb_reply_head(closure_data, &head);
	lend_pb_fail(closure_data, LEND_NOT_FOUND, why);
}

static void note_long_why(const LendTest__Empty *reply, void *arg)
{
	(void)reply;
	cr_assert_eq(lend_pb_status(test.client), LEND_NOT_FOUND);
	cr_assert_eq(strlen(lend_pb_why(test.client)), 200);
	*(bool *)arg = true;
}

Test(pb_service, metadata__long_reason__status_arrives)
{
	LendTest__Empty in = LEND_TEST__EMPTY__INIT;
	LendTest__Echo_Service own = service;
	bool done = false;

	own.fail = serve_long_why;
	open_service("shm");
	cr_assert_eq(lend_pb_serve(test.pair.server, (ProtobufCService *)&own), 0);
	pairs[1] = lend_metadata_new();
	lend_metadata_add(pairs[1], "took", "3 ms", 4);
	lend_test__echo__fail(test.client, &in, note_long_why, &done);
	cr_assert(pair_until(&test.pair, &done));
	close_service();
	lend_metadata_free(pairs[1]);
}

static sem_t entered, may_end;

static void serve_blocking(LendTest__Echo_Service *of, const LendTest__Every *in,
			   LendTest__Every_Closure closure, void *closure_data)
{
	sem_post(&entered);
	sem_wait(&may_end);
	serve_same(of, in, closure, closure_data);
}

Test(pb_service, slow__function_blocks__others_run)
{
	LendTest__Echo_Service blocking = service;
	LendTest__Every m = LEND_TEST__EVERY__INIT;
	bool done[2] = {false, false};

	sem_init(&entered, 0, 0);
	sem_init(&may_end, 0, 0);
	blocking.later = serve_blocking;
	open_service("shm");
	cr_assert_eq(lend_pb_slow(test.pair.server, &blocking.base, "Later"), -ENOENT);
	cr_assert_eq(lend_pb_serve(test.pair.server, &blocking.base), 0);
	cr_assert_eq(lend_pb_slow(test.pair.server, &blocking.base, "later"), -ENOENT);
	cr_assert_eq(lend_pb_slow(test.pair.server, &blocking.base, "Later"), 0);
	m.text = (char *)"slowly";
	for (int i = 0; i < 2; i++) {
		lend_test__echo__later(test.client, &m, note_end, &done[i]);
		while (sem_trywait(&entered) < 0)
			pair_turns(&test.pair, 1);
	}
	check_echo(lend_test__echo__same, &m, "meanwhile");
	cr_assert(!done[0] && !done[1], "both functions still run");
	sem_post(&may_end);
	sem_post(&may_end);
	cr_assert(pair_until(&test.pair, &done[0]) && pair_until(&test.pair, &done[1]));
	close_service();
}

Test(pb_service, serve__malformed_request__refused)
{
	struct ask ask = {.done = false};
	struct lend_buf *bytes;

	open_service("shm");
	bytes = lend_buf_take(test.pair.client, 16);
	memcpy(bytes->data,
	       "\x7a\x05"
	       "ab",
	       4);
	bytes->len = 4;
	ask_run(&test.pair, &ask, lend_pb_number("/lend_test.Echo/Same"), bytes);
	cr_assert_eq(ask.call.status, LEND_INVALID_ARGUMENT);
	cr_assert_eq(ask.call.ran, LEND_RAN_NO);
	ask_give(test.pair.client, &ask);
	close_service();
}

Test(pb_service, serve__request_that_expands__refused_within_its_memory)
{
	enum { LEN = 1 << 20 };
	struct ask ask = {.done = false};
	struct lend_buf *bytes;

	open_service("shm");
	bytes = lend_buf_take(test.pair.client, LEN);
	for (int i = 0; i < LEN / 3; i++) /* an empty message, of hundreds of bytes in memory */
		memcpy((char *)bytes->data + 3 * i, "\x82\x7d\x00", 3);
	bytes->len = LEN / 3 * 3;
	ask_run(&test.pair, &ask, lend_pb_number("/lend_test.Echo/Same"), bytes);
	cr_assert_eq(ask.call.status, LEND_RESOURCE_EXHAUSTED);
	cr_assert_eq(ask.call.ran, LEND_RAN_NO);
	ask_give(test.pair.client, &ask);
	close_service();
}

Test(pb_service, serve__two_names_of_one_number__error)
{
	ProtobufCMethodDescriptor methods[2] = {lend_test__echo__descriptor.methods[0],
						lend_test__echo__descriptor.methods[0]};
	ProtobufCServiceDescriptor twice = lend_test__echo__descriptor;
	ProtobufCService same = {.descriptor = &twice};

	open_service("shm");
	cr_assert_eq(lend_pb_serve(test.pair.server, &service.base), 0, "the same names again");
	methods[0].name = "Mc2b";
	methods[1].name = "Mb1b8";
	cr_assert_eq(lend_pb_number("/lend_test.Echo/Mc2b"),
		     lend_pb_number("/lend_test.Echo/Mb1b8"));
	twice.methods = methods;
	twice.n_methods = 2;
	cr_assert_eq(lend_pb_serve(test.pair.server, &same), -EEXIST);
	close_service();
}
