/* reflection - grpc.reflection.v1 and v1alpha, whose messages are the same on the wire. */
#include <errno.h>

#include "grpc/endpoint_services.h"
#include "pb/file_descriptor.h"

/* The oneofs of a request and a response, by short names. */
#define ASKS(what)    GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##what
#define ANSWERS(what) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##what

/* A response with all that it may refer to. */
struct response {
	Grpc__Reflection__V1__ServerReflectionResponse base;
	Grpc__Reflection__V1__FileDescriptorResponse file;
	Grpc__Reflection__V1__ExtensionNumberResponse numbers;
	Grpc__Reflection__V1__ListServiceResponse list;
	Grpc__Reflection__V1__ErrorResponse error;
	ProtobufCBinaryData bytes;
};

static void answer_error(struct response *r, enum lend_status status, const char *why)
{
	r->error.error_code = (int)status;
	r->error.error_message = (char *)(uintptr_t)why;
	r->base.message_response_case = ANSWERS(ERROR_RESPONSE);
	r->base.error_response = &r->error;
}

static void answer_no_memory(struct response *r)
{
	answer_error(r, LEND_RESOURCE_EXHAUSTED, "no memory for the answer");
}

/* Answers with the file of a package; NULL: there is none. */
static void answer_file(struct response *r, const struct lend_pb_schema *schema,
			const char *package)
{
	struct lend_pb_segment file;

	if (!package) {
		answer_error(r, LEND_NOT_FOUND, "this server has no such symbol or file");
		return;
	}
	if (!lend_pb_schema_write(schema, package, &file)) {
		answer_no_memory(r);
		return;
	}
	r->bytes = (ProtobufCBinaryData){file.len, (uint8_t *)(uintptr_t)file.data};
	r->file.n_file_descriptor_proto = 1;
	r->file.file_descriptor_proto = &r->bytes;
	r->base.message_response_case = ANSWERS(FILE_DESCRIPTOR_RESPONSE);
	r->base.file_descriptor_response = &r->file;
}

/* Extensions are not in protobuf-c's descriptors: no type has any. */
static void answer_numbers(struct response *r, const struct lend_pb_schema *schema, char *type)
{
	if (!lend_pb_schema_find(schema, type)) {
		answer_error(r, LEND_NOT_FOUND, "this server has no such type");
		return;
	}
	r->numbers.base_type_name = type;
	r->base.message_response_case = ANSWERS(ALL_EXTENSION_NUMBERS_RESPONSE);
	r->base.all_extension_numbers_response = &r->numbers;
}

static void answer_list(struct response *r, struct endpoint_services *s,
			struct lend_pb_blocks *blocks)
{
	Grpc__Reflection__V1__ServiceResponse **all, *one;
	size_t n = 0;

	for (const struct offered_service *o = s->first; o; o = o->next)
		n += o->descriptor != NULL;
	all = lend_pb_take(blocks, n * sizeof(*one) + n * sizeof(*all));
	if (!all) {
		answer_no_memory(r);
		return;
	}
	one = (void *)(all + n);
	r->list.service = all;
	for (struct offered_service *o = s->first; o; o = o->next) {
		if (!o->descriptor)
			continue;
		grpc__reflection__v1__service_response__init(one);
		one->name = o->name;
		all[r->list.n_service++] = one++;
	}
	r->base.message_response_case = ANSWERS(LIST_SERVICES_RESPONSE);
	r->base.list_services_response = &r->list;
}

static void answer_request(struct response *r, struct endpoint_services *s,
			   const Grpc__Reflection__V1__ServerReflectionRequest *in,
			   struct lend_pb_blocks *blocks)
{
	struct lend_pb_schema schema = {.blocks = blocks};

	for (const struct offered_service *o = s->first; o; o = o->next)
		if (o->descriptor)
			(void)lend_pb_schema_add(&schema, o->descriptor, o->kinds);
	switch ((int)in->message_request_case) {
	case ASKS(FILE_BY_FILENAME):
		answer_file(r, &schema, lend_pb_schema_find_file(&schema, in->file_by_filename));
		break;
	case ASKS(FILE_CONTAINING_SYMBOL):
		answer_file(r, &schema, lend_pb_schema_find(&schema, in->file_containing_symbol));
		break;
	case ASKS(FILE_CONTAINING_EXTENSION):
		answer_file(r, &schema, NULL);
		break;
	case ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE):
		answer_numbers(r, &schema, in->all_extension_numbers_of_type);
		break;
	case ASKS(LIST_SERVICES):
		answer_list(r, s, blocks);
		break;
	default:
		answer_error(r, LEND_INVALID_ARGUMENT, "the request asks for nothing");
	}
}

static void resume_reading(void *stream, void *arg)
{
	(void)arg;
	lend_pb_pause(stream, false);
}

/* Answers a request. A client that does not read gets no further answers meanwhile. */
static void serve_reflection(struct endpoint_services *s,
			     const Grpc__Reflection__V1__ServerReflectionRequest *in,
			     Grpc__Reflection__V1__ServerReflectionResponse_Closure closure,
			     void *stream)
{
	struct response r = {
	    .base = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT,
	    .file = GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT,
	    .numbers = GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT,
	    .list = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT,
	    .error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT,
	};
	struct lend_pb_heap heap;

	if (!in) {
		closure(NULL, stream);
		return;
	}
	lend_pb_heap_init(&heap);
	r.base.valid_host = in->host;
	r.base.original_request = (Grpc__Reflection__V1__ServerReflectionRequest *)(uintptr_t)in;
	answer_request(&r, s, in, &heap.blocks);
	closure(&r.base, stream);
	lend_pb_heap_free(&heap);
	if (lend_pb_check(stream) != -EAGAIN)
		return;
	lend_pb_on(stream, &(struct lend_pb_events){.writable = resume_reading});
	lend_pb_pause(stream, true);
}

static void
v1_server_reflection_info(Grpc__Reflection__V1__ServerReflection_Service *service,
			  const Grpc__Reflection__V1__ServerReflectionRequest *in,
			  Grpc__Reflection__V1__ServerReflectionResponse_Closure closure,
			  void *stream)
{
	serve_reflection((void *)((char *)service - offsetof(struct endpoint_services, reflection)),
			 in, closure, stream);
}

static void
alpha_server_reflection_info(Grpc__Reflection__V1__ServerReflection_Service *service,
			     const Grpc__Reflection__V1__ServerReflectionRequest *in,
			     Grpc__Reflection__V1__ServerReflectionResponse_Closure closure,
			     void *stream)
{
	serve_reflection(
	    (void *)((char *)service - offsetof(struct endpoint_services, reflection_alpha)), in,
	    closure, stream);
}

void lend_pb_reflection_init(struct endpoint_services *s)
{
	const Grpc__Reflection__V1__ServerReflection_Service v1 =
	    GRPC__REFLECTION__V1__SERVER_REFLECTION__INIT(v1_);
	const Grpc__Reflection__V1__ServerReflection_Service alpha =
	    GRPC__REFLECTION__V1__SERVER_REFLECTION__INIT(alpha_);

	s->reflection = v1;
	s->reflection_alpha = alpha;
	s->alpha = grpc__reflection__v1__server_reflection__descriptor;
	s->alpha.name = "grpc.reflection.v1alpha.ServerReflection";
	s->alpha.package = "grpc.reflection.v1alpha";
	s->reflection_alpha.base.descriptor = &s->alpha;
}
