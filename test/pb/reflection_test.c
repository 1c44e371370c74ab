/* Goal: the descriptors that reflection makes of protoc-c's are those of the .proto files, and the
 * health of a service is reported and watched. Method: protobuf C++ builds the files, and compares
 * them to its own; a client of both services, in one thread with their server. Covers:
 * src/pb/schema.c, src/pb/file_descriptor.c, src/pb/proto_writer.c, src/grpc/reflection.c,
 * src/grpc/endpoint_services.c */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/rpc_pair.h"
#include "every.pb-c.h"
#include "every2.pb-c.h"
#include "health.pb-c.h"
#include "lend/grpc.h"
#include "pb/cxx_oracle.h"
#include "pb/file_descriptor.h"
#include "reflection.pb-c.h"

#define ASKS(what)    GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##what
#define ANSWERS(what) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##what
#define STATUS(name)  GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name
typedef Grpc__Reflection__V1__ServerReflectionResponse response;
typedef Grpc__Reflection__V1__ServerReflectionRequest request;

/* Blocks of a test: more than it needs, in one piece. */
static uint64_t memory[1 << 15];

static bool no_more(struct lend_pb_blocks *blocks, size_t len)
{
	(void)blocks, (void)len;
	return false;
}

static struct lend_pb_blocks blocks_of(size_t len)
{
	return (struct lend_pb_blocks){
	    .at = (uint8_t *)memory, .end = (uint8_t *)memory + len, .more = no_more};
}

/* A service that uses two packages, of proto3 and proto2, and an enumeration without its message.
 */
static const ProtobufCMethodDescriptor methods[] = {
    {"Cross", &lend_test__every__descriptor, &lend_test2__every2__descriptor},
    {"Map", &lend_test__mapped__descriptor, &lend_test2__many__descriptor}};
static const ProtobufCServiceDescriptor mixed = {PROTOBUF_C__SERVICE_DESCRIPTOR_MAGIC,
						 "lend_test.Mixed",
						 "Mixed",
						 "Mixed",
						 "lend_test",
						 2,
						 methods,
						 NULL};
static const uint8_t unary[8];

static void add_all(struct lend_pb_schema *schema)
{
	cr_assert(lend_pb_schema_add(schema, &lend_test__echo__descriptor, unary));
	cr_assert(lend_pb_schema_add(schema, &mixed, unary));
}

Test(pb_reflection, files__built_by_protobuf__are_the_same)
{
	static const char *const packages[] = {"lend_test2", "lend_test"};
	static const char *const names[] = {"lend_test.Every",   "lend_test.Leaf",
					    "lend_test.Mapped",  "lend_test.Mapped.CountEntry",
					    "lend_test.Color",   "lend_test.Echo",
					    "lend_test.Empty",   "lend_test.Mapped.LeafEntry",
					    "lend_test2.Every2", "lend_test2.Need",
					    "lend_test2.Many"};
	struct lend_pb_blocks blocks = blocks_of(sizeof(memory));
	struct lend_pb_schema schema = {.blocks = &blocks};

	add_all(&schema);
	for (unsigned i = 0; i < 2; i++) {
		struct lend_pb_segment file;

		cr_assert(lend_pb_schema_write(&schema, packages[i], &file));
		cr_assert(oracle_add_file(file.data, file.len), "%s", packages[i]);
	}
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *difference = oracle_compare(names[i]);

		cr_assert_null(difference, "%s: %s", names[i], difference);
	}
}

Test(pb_reflection, names__found_and_not)
{
	static const struct {
		const char *symbol, *package;
	} cases[] = {{"lend_test.Echo", "lend_test"},
		     {"lend_test.Echo.Lent", "lend_test"},
		     {"lend_test.Echo.Len", NULL},
		     {"lend_test.Mapped", "lend_test"},
		     {"lend_test2.Need", "lend_test2"},
		     {"lend_test.Mapped.CountEntry", "lend_test"},
		     {"lend_test.Mapped.Count", NULL},
		     {"lend_test.Color", "lend_test"},
		     {"lend_test", NULL},
		     {"Echo", NULL},
		     {"", NULL},
		     {"lend_test.", NULL}};
	struct lend_pb_blocks blocks = blocks_of(sizeof(memory));
	struct lend_pb_schema schema = {.blocks = &blocks};

	add_all(&schema);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *package = lend_pb_schema_find(&schema, cases[i].symbol);

		cr_assert(package ? cases[i].package && !strcmp(package, cases[i].package)
				  : !cases[i].package,
			  "%s", cases[i].symbol);
	}
	cr_assert_str_eq(lend_pb_schema_find_file(&schema, "lend_test2.proto"), "lend_test2");
	cr_assert_null(lend_pb_schema_find_file(&schema, "lend_test2"));
}

Test(pb_reflection, memory__ends_anywhere__is_reported)
{
	for (size_t len = 0; len < 16000; len += 64) {
		struct lend_pb_blocks blocks = blocks_of(len);
		struct lend_pb_schema schema = {.blocks = &blocks};
		struct lend_pb_segment file;

		if (lend_pb_schema_add(&schema, &mixed, unary) &&
		    lend_pb_schema_write(&schema, "lend_test", &file))
			cr_assert_geq(len, 1000);
	}
}

/* Both ends of the services. */
static struct {
	struct pair pair;
	ProtobufCService *client;
	bool done;
	unsigned files, services, errors, got;
	int health[4];
} test;

static void open_pair(const ProtobufCServiceDescriptor *descriptor, const enum lend_pb_kind *kinds)
{
	static ProtobufCService echo = {.descriptor = &lend_test__echo__descriptor,
					.invoke = protobuf_c_service_invoke_internal};

	memset(&test, 0, sizeof(test));
	pair_open(&test.pair, "shm");
	cr_assert_eq(lend_pb_health(test.pair.server, "", true), 0);
	cr_assert_eq(lend_pb_serve(test.pair.server, &echo), 0);
	cr_assert_eq(lend_pb_client(test.pair.client, test.pair.session, descriptor, &test.client),
		     0);
	lend_pb_client_kinds(test.client, kinds);
}

static void close_pair(void)
{
	struct lend_ep *server = test.pair.server;

	pair_close(&test.pair);
	lend_pb_end(server);
	protobuf_c_service_destroy(test.client);
}

static void note_response(const response *r, void *arg)
{
	(void)arg;
	test.done = !r;
	if (!r)
		return;
	test.got++;
	test.files += r->message_response_case == ANSWERS(FILE_DESCRIPTOR_RESPONSE);
	if (r->message_response_case == ANSWERS(FILE_DESCRIPTOR_RESPONSE))
		cr_assert(
		    oracle_add_file(r->file_descriptor_response->file_descriptor_proto[0].data,
				    r->file_descriptor_response->file_descriptor_proto[0].len));
	if (r->message_response_case == ANSWERS(LIST_SERVICES_RESPONSE))
		test.services = (unsigned)r->list_services_response->n_service;
	if (r->message_response_case == ANSWERS(ERROR_RESPONSE)) {
		test.errors++;
		cr_assert_eq(r->error_response->error_code, LEND_NOT_FOUND);
	}
}

Test(pb_reflection, requests__of_each_kind__are_answered)
{
	static const enum lend_pb_kind kinds[] = {LEND_PB_BOTH_STREAM};
	static char name[] = "lend_test.Echo", file[] = "lend_test.proto", none[] = "no.Such";
	request in = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
	static const int order[] = {ASKS(LIST_SERVICES), ASKS(FILE_CONTAINING_SYMBOL),
				    ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE),
				    ASKS(FILE_CONTAINING_SYMBOL)};
	char *const texts[] = {none, name, name, none};
	void *stream;

	open_pair(&grpc__reflection__v1__server_reflection__descriptor, kinds);
	in.message_request_case = ASKS(FILE_BY_FILENAME);
	in.file_by_filename = none;
	grpc__reflection__v1__server_reflection__server_reflection_info(test.client, &in,
									note_response, NULL);
	stream = lend_pb_opened(test.client);
	for (unsigned i = 0; i < 4; i++) {
		in.message_request_case = order[i];
		in.file_containing_symbol = texts[i];
		cr_assert_eq(lend_pb_send(stream, &in.base, NULL, NULL), 0);
	}
	cr_assert_eq(lend_pb_finish(stream), 0);
	cr_assert(pair_until(&test.pair, &test.done));
	cr_assert_eq(lend_pb_status(test.client), LEND_OK);
	cr_assert_eq(test.got, 5);
	cr_assert_eq(test.files, 1);
	cr_assert_eq(test.services, 4);
	cr_assert_eq(test.errors, 2);
	cr_assert_null(oracle_compare("lend_test.Echo"), "%s", oracle_compare("lend_test.Echo"));
	(void)file;
	close_pair();
}

/* A client that does not read bounds what the server keeps, and gets all answers later. */
Test(pb_reflection, client__reads_late__gets_every_answer)
{
	static const enum lend_pb_kind kinds[] = {LEND_PB_BOTH_STREAM};
	static char none[] = "";
	request in = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
	unsigned sent = 1;
	void *stream;

	open_pair(&grpc__reflection__v1__server_reflection__descriptor, kinds);
	in.message_request_case = ASKS(LIST_SERVICES);
	in.list_services = none;
	grpc__reflection__v1__server_reflection__server_reflection_info(test.client, &in,
									note_response, NULL);
	stream = lend_pb_opened(test.client);
	lend_pb_pause(stream, true);
	for (unsigned i = 0; i < 100; i++) {
		sent += lend_pb_send(stream, &in.base, NULL, NULL) == 0;
		pair_turns(&test.pair, 5);
	}
	cr_assert_lt(sent, 101);
	cr_assert_eq(lend_pb_finish(stream), 0);
	lend_pb_pause(stream, false);
	cr_assert(pair_until(&test.pair, &test.done));
	cr_assert_eq(lend_pb_status(test.client), LEND_OK);
	cr_assert_eq(test.got, sent);
	close_pair();
}

static void note_health(const Grpc__Health__V1__HealthCheckResponse *r, void *arg)
{
	(void)arg;
	test.done = true;
	test.health[test.got++ % 4] = r ? (int)r->status : -1;
}

static void note_list(const Grpc__Health__V1__HealthListResponse *r, void *arg)
{
	(void)arg;
	test.done = true;
	for (size_t i = 0; r && i < r->n_statuses; i++)
		test.services += r->statuses[i]->value->status == STATUS(SERVING);
}

static int check_health(const char *name)
{
	Grpc__Health__V1__HealthCheckRequest in = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;

	in.service = (char *)(uintptr_t)name;
	test.done = false;
	test.got = 0;
	grpc__health__v1__health__check(test.client, &in, note_health, NULL);
	cr_assert(pair_until(&test.pair, &test.done));
	return test.health[0];
}

static const enum lend_pb_kind health_kinds[] = {LEND_PB_UNARY, LEND_PB_UNARY,
						 LEND_PB_SERVER_STREAM};

Test(pb_reflection, health__of_each_service)
{
	Grpc__Health__V1__HealthListRequest in = GRPC__HEALTH__V1__HEALTH_LIST_REQUEST__INIT;

	open_pair(&grpc__health__v1__health__descriptor, health_kinds);
	cr_assert_eq(check_health(""), STATUS(SERVING));
	cr_assert_eq(check_health("lend_test.Echo"), STATUS(SERVING));
	cr_assert_eq(check_health("lend_test.Ech"), -1);
	cr_assert_eq(lend_pb_status(test.client), LEND_NOT_FOUND);
	cr_assert_eq(lend_pb_health(test.pair.server, "lend_test.Echo", false), 0);
	cr_assert_eq(lend_pb_health(test.pair.server, "other", true), 0);
	cr_assert_eq(check_health("lend_test.Echo"), STATUS(NOT_SERVING));
	cr_assert_eq(check_health("other"), STATUS(SERVING));
	test.done = false;
	grpc__health__v1__health__list(test.client, &in, note_list, NULL);
	cr_assert(pair_until(&test.pair, &test.done));
	cr_assert_eq(test.services, 5, "%u serve", test.services);
	close_pair();
}

Test(pb_reflection, watch__of_an_unknown_service__sees_each_change)
{
	static const int seen[] = {STATUS(SERVICE_UNKNOWN), STATUS(NOT_SERVING), STATUS(SERVING)};
	Grpc__Health__V1__HealthCheckRequest in = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
	static char name[] = "later";

	open_pair(&grpc__health__v1__health__descriptor, health_kinds);
	in.service = name;
	grpc__health__v1__health__watch(test.client, &in, note_health, NULL);
	for (unsigned i = 0; i < 3; i++) {
		if (i)
			cr_assert_eq(lend_pb_health(test.pair.server, name, i == 2), 0);
		if (i)
			cr_assert_eq(lend_pb_health(test.pair.server, name, i == 2), 0);
		pair_turns(&test.pair, 20);
		cr_assert_eq(test.got, i + 1);
		cr_assert_eq(test.health[i], seen[i]);
	}
	lend_pb_cancel(lend_pb_opened(test.client));
	pair_turns(&test.pair, 20);
	cr_assert_eq(lend_pb_health(test.pair.server, name, false), 0);
	close_pair();
}
