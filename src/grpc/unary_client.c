/* unary_client - clients of services of .proto files. */
#include <errno.h>
#include <stdlib.h>

#include <lend/stream.h>

#include "grpc/called_service.h"
#include "pb/field_option.h"

enum { REF_MIN_UNKNOWN = 32 << 10 };

struct unary_call {
	struct lend_call call;
	struct lend_call_head head; /* borrowed by the call */
	struct client *client;
	const struct called_method *method;
	ProtobufCClosure closure;
	void *closure_data;
	struct lend_buf *args; /* the request of a call with arguments */
	unsigned wraps;        /* values of the request that a carrier may still read */
	bool ended;
	bool has_reply;          /* the reply is this call's; else the endpoint's, in place */
	struct unary_call *next; /* next idle one */
};

static void free_client(struct client *c)
{
	struct called_service *service = c->service;

	lend_pb_heap_free(&c->tables);
	free(c);
	if (!lend_pb_called_close(service))
		return;
	while (service->idle) {
		struct unary_call *u = service->idle;

		service->idle = u->next;
		free(u);
	}
	lend_pb_called_free(service);
}

void lend_pb_client_drop(struct client *c)
{
	if (!--c->calls && c->destroyed)
		free_client(c);
}

/* Makes the record idle. */
static void drop_call(struct unary_call *u)
{
	struct client *c = u->client;

	u->next = c->service->idle;
	c->service->idle = u;
	lend_pb_client_drop(c);
}

static void finish_call(struct unary_call *u)
{
	struct client *c = u->client;
	struct lend_pb_heap own, *heap = lend_pb_heap_begin(&c->service->memory, &own);
	struct unary_call *outer = c->service->ending;
	ProtobufCMessage *reply = NULL;

	c->status = u->call.status;
	if (c->status == LEND_OK)
		c->status = lend_pb_from_buffers(u->method->output, u->call.reply, heap, &reply);
	if (u->call.status == LEND_OK && c->status == LEND_INVALID_ARGUMENT)
		c->status = LEND_INTERNAL; /* the server's mistake */
	c->service->ending = u;
	u->closure(reply, u->closure_data);
	c->service->ending = outer;
	if (u->has_reply)
		lend_buf_give(c->service->ep, u->call.reply);
	u->call.reply = NULL;
	lend_pb_heap_end(heap, &own);
	drop_call(u);
}

static void release_value(void *arg)
{
	struct unary_call *u = arg;

	if (!--u->wraps && u->ended)
		finish_call(u);
}

static void set_name(struct unary_call *u, const char *name, uint32_t number)
{
	u->head = u->client->head;
	u->head.name = name;
	u->call.method = number;
	u->call.head = &u->head;
}

/* Starts a call with one message as its request. */
static int start_named(struct unary_call *u)
{
	set_name(u, u->method->name, u->method->number);
	return lend_call_start(u->client->service->ep, u->client->session, &u->call);
}

/* Starts a call again with its arguments in one message: the server knows no method with requests
 * of arguments. Returns false: that cannot be started. */
static bool restart_call(struct unary_call *u)
{
	struct client *c = u->client;

	c->mem = NULL;
	lend_buf_give(c->service->ep, u->call.reply);
	u->call.reply = NULL;
	u->call.request = u->args;
	if (start_named(u) < 0)
		return false;
	u->args = NULL;
	return true;
}

/* Keeps a reply that is read in place for a later turn. */
static void keep_reply(struct unary_call *u)
{
	u->has_reply = true;
	if (!u->call.reply || lend_call_keep(u->client->service->ep, &u->call) == 0)
		return;
	u->call.reply = NULL;
	u->call.status = LEND_RESOURCE_EXHAUSTED;
}

/* The request's bytes are the caller's again when no carrier reads them. */
static void end_call(struct lend_call *call)
{
	struct unary_call *u = (struct unary_call *)call;

	if (u->args && call->status == LEND_UNIMPLEMENTED && call->ran == LEND_RAN_NO &&
	    restart_call(u))
		return;
	u->has_reply = u->args;
	lend_buf_give(u->client->service->ep, u->args ? u->args : call->request);
	call->request = u->args = NULL;
	u->ended = true;
	if (!u->wraps)
		finish_call(u);
	else if (!u->has_reply)
		keep_reply(u);
}

static struct unary_call *take_call(struct client *c)
{
	struct unary_call *u = c->service->idle;

	if (u) {
		c->service->idle = u->next;
	} else if ((u = calloc(1, sizeof(*u)))) {
		u->call.done = end_call;
		u->call.queue = 1;
		u->call.in_place = LEND_CHAIN;
	}
	if (u) {
		u->client = c;
		c->calls++;
	}
	return u;
}

enum lend_status lend_pb_status_of(int err)
{
	return err == -ESTALE || err == -ESHUTDOWN ? LEND_UNAVAILABLE
	       : err == -EINVAL                    ? LEND_INVALID_ARGUMENT
	       : err == -EACCES                    ? LEND_UNAUTHENTICATED
						   : LEND_RESOURCE_EXHAUSTED;
}

/* Returns the bytes from which a value becomes an argument. Before the first one it is unknown
 * whether lending costs less. */
static uint64_t min_ref(const struct client *c, const struct called_method *method)
{
	uint64_t most = lend_args_threshold(c->mem, c->session, method->args_number);

	return 1 + (most == LEND_NEVER ? REF_MIN_UNKNOWN : most);
}

/* Encodes and starts a call; another status than OK: it will not run. */
static enum lend_status start_call(struct unary_call *u, const struct lend_pb_table *table,
				   const ProtobufCMessage *input, uint32_t *packed)
{
	struct client *c = u->client;
	struct lend_pb_sending how = {.ep = c->service->ep,
				      .session = c->session,
				      .packed = packed,
				      .release = release_value,
				      .arg = u};
	enum lend_status status;
	struct lend_buf *request;
	int err;

	if (c->mem)
		how.ref_min = min_ref(c, u->method);
	request = lend_pb_to_buffers(&how, table, input, &status);
	u->wraps += how.wraps;
	if (!request)
		return status;
	if (how.refs) {
		u->args = request;
		set_name(u, u->method->args_name, u->method->args_number);
		err = lend_pb_start_args(c->mem, &how, &u->call, request);
	} else {
		u->call.request = request;
		err = start_named(u);
	}
	if (!err)
		return LEND_OK;
	lend_buf_give(c->service->ep, request);
	return lend_pb_status_of(err);
}

static void invoke_method(ProtobufCService *service, unsigned index, const ProtobufCMessage *input,
			  ProtobufCClosure closure, void *closure_data)
{
	struct client *c = (struct client *)service;
	enum lend_status status = LEND_RESOURCE_EXHAUSTED;
	struct unary_call *u;

	if (c->kinds && c->kinds[index] != LEND_PB_UNARY) {
		lend_pb_open_stream(c, index, input, closure, closure_data);
		return;
	}
	u = take_call(c);
	if (u) {
		u->method = &c->service->method[index];
		u->closure = closure;
		u->closure_data = closure_data;
		u->ended = false;
		u->call.hops = 0;
		u->call.timeout = c->timeout;
		u->call.priority = c->priority;
		u->call.zero_rtt = c->zero_rtt;
		u->call.parent = c->parent;
		status = start_call(u, c->input ? c->input[index] : u->method->input, input,
				    &c->service->method[index].packed);
	}
	if (status == LEND_OK)
		return;
	c->status = status;
	if (u) {
		u->args = u->call.request = NULL;
		drop_call(u);
	}
	closure(NULL, closure_data);
}

static void destroy_client(ProtobufCService *client)
{
	struct client *c = (struct client *)client;

	c->destroyed = true;
	if (!c->calls)
		free_client(c);
}

int lend_pb_client(struct lend_ep *ep, lend_session session,
		   const ProtobufCServiceDescriptor *descriptor, ProtobufCService **client)
{
	struct client *c = calloc(1, sizeof(*c));
	int err = c ? lend_pb_called_open(ep, descriptor, &c->service) : -ENOMEM;

	if (err) {
		free(c);
		return err;
	}
	c->base = (ProtobufCService){descriptor, invoke_method, destroy_client};
	c->session = session;
	lend_pb_heap_init(&c->tables);
	*client = &c->base;
	return 0;
}

/* Makes the client's own tables of requests, because marks of fields are one client's. */
static bool make_tables(struct client *c)
{
	const ProtobufCServiceDescriptor *d = c->base.descriptor;
	const struct lend_pb_table **input =
	    lend_pb_take(&c->tables.blocks, d->n_methods * sizeof(*input));

	for (unsigned i = 0; i < d->n_methods; i++)
		if (!input || lend_pb_table_make(d->methods[i].input, &c->tables.blocks,
						 &input[i]) != LEND_PB_OK)
			return false;
	c->input = input;
	return true;
}

int lend_pb_client_refs(ProtobufCService *client, struct lend_mem *mem, const void *set, size_t len)
{
	struct client *c = (struct client *)client;

	if (len && !c->input && !make_tables(c))
		return -ENOMEM;
	c->mem = mem;
	for (unsigned i = 0; c->input && i < client->descriptor->n_methods; i++)
		for (const struct lend_pb_table *t = c->input[i]; t; t = t->next)
			for (uint32_t f = 0; f < t->n; f++)
				t->field[f].by_ref =
				    t->field[f].kind == LEND_PB_BYTES &&
				    lend_pb_option_set(set, len, t->descriptor->name,
						       t->field[f].number, LEND_PB_BY_REF);
	return 0;
}

enum lend_status lend_pb_status(const ProtobufCService *client)
{
	return ((const struct client *)client)->status;
}

const struct lend_call *lend_pb_call(const ProtobufCService *client)
{
	const struct unary_call *u = ((const struct client *)client)->service->ending;

	return u && &u->client->base == client ? &u->call : NULL;
}

const char *lend_pb_why(const ProtobufCService *client)
{
	const struct lend_call *call = lend_pb_call(client);
	const struct client *c = (const struct client *)client;

	return call ? lend_call_why(c->service->ep, call) : c->ended ? c->ended->why : "";
}

bool lend_pb_metadata(const ProtobufCService *client, bool trailing, uint32_t *at,
		      struct lend_pair *pair)
{
	const struct lend_call *call = lend_pb_call(client);
	const struct client *c = (const struct client *)client;

	if (call)
		return lend_call_metadata(c->service->ep, call, trailing, at, pair);
	return c->ended && lend_stream_metadata(c->ended, trailing, at, pair);
}

void lend_pb_client_kinds(ProtobufCService *client, const enum lend_pb_kind *kinds)
{
	((struct client *)client)->kinds = kinds;
}

void lend_pb_client_set(ProtobufCService *client, const struct lend_call *call)
{
	struct client *c = (struct client *)client;

	c->timeout = call->timeout;
	c->parent = call->parent;
	c->priority = call->priority;
	c->zero_rtt = call->zero_rtt;
}

void lend_pb_client_head(ProtobufCService *client, const struct lend_call_head *head)
{
	((struct client *)client)->head = *head;
}
