/* unary_server - services of .proto files on an endpoint. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <lend/stream.h>

#include "grpc/endpoint_services.h"
#include "grpc/message_stream.h"

/* Bytes of a reply that is encoded on the stack, if the last reply was no longer. */
enum { SHORT_MAX = 512 };
/* A request that is being served: the closure_data of its function. */
struct pending {
	struct lend_pb_answer base; /* first */
	struct served_method *method;
	bool slow;            /* in a thread of its own, also when the method is not any more */
	struct pending *next; /* next idle one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct served_method *served; /* under lock */

static void free_pending(struct pending *p)
{
	if (p->slow) {
		free(p);
		return;
	}
	p->next = p->method->idle;
	p->method->idle = p;
}

void lend_pb_fail(void *closure_data, enum lend_status status, const char *why)
{
	struct pending *p = closure_data;
	struct lend_reply_head head;
	char text[LEND_PB_WHY_MAX + 1];

	if (p->base.streams) {
		lend_pb_stream_end(closure_data, status, why);
		return;
	}
	if (p->base.head) {
		head = lend_pb_head_of(&p->base, why, text);
		(void)lend_reply_with(p->base.ep, p->base.request, status, NULL, &head);
	} else {
		(void)lend_reply_why(p->base.ep, p->base.request, status, why);
	}
	free_pending(p);
}

void lend_pb_reply_head(void *closure_data, const struct lend_reply_head *head)
{
	((struct lend_pb_answer *)closure_data)->head = head;
}

lend_request lend_pb_request(const void *closure_data)
{
	return ((const struct lend_pb_answer *)closure_data)->request;
}

bool lend_pb_compressed(const void *closure_data)
{
	const struct lend_pb_answer *of = closure_data;

	return of->streams ? ((const struct lend_pb_stream *)closure_data)->stream.compressed
			   : !!lend_request_text(of->ep, of->request, LEND_TEXT_COMPRESSED);
}

static void send_reply(struct pending *p, const ProtobufCMessage *reply,
		       struct lend_pb_sending *how)
{
	enum lend_status status = LEND_INTERNAL;
	struct lend_buf *chain = NULL;
	struct lend_pb_segment encoded;
	uint8_t bytes[SHORT_MAX];
	uint32_t packed = 0;

	if (reply && !p->base.head && p->method->packed <= SHORT_MAX &&
	    lend_pb_to_bytes(p->method->output, reply, bytes, sizeof(bytes), &encoded)) {
		(void)lend_reply_copy(p->base.ep, p->base.request, LEND_OK, encoded.data,
				      (uint32_t)encoded.len);
		free_pending(p);
		return;
	}
	how->ep = p->base.ep;
	how->packed = p->slow ? &packed : &p->method->packed;
	how->copies |= p->slow;
	if (!how->copies)
		how->session = lend_request_session(how->ep, p->base.request);
	if (reply)
		chain = lend_pb_to_buffers(how, p->method->output, reply, &status);
	if (p->base.head)
		(void)lend_reply_with(p->base.ep, p->base.request, status, chain, p->base.head);
	else
		(void)lend_reply(p->base.ep, p->base.request, status, chain);
	free_pending(p);
}

/* The closure of every request. */
static void answer_request(const ProtobufCMessage *reply, void *closure_data)
{
	struct lend_pb_sending how = {.copies = true};

	send_reply(closure_data, reply, &how);
}

void lend_pb_reply(void *closure_data, const ProtobufCMessage *reply, void (*release)(void *arg),
		   void *arg)
{
	struct lend_pb_sending how = {.copies = false};
	struct lend_pb_lent *lent;

	if (((struct pending *)closure_data)->base.streams) {
		lend_pb_stream_reply(closure_data, reply, release, arg);
		return;
	}
	lent = lend_pb_lent_begin(&how, release, arg);
	how.copies = !lent;
	send_reply(closure_data, reply, &how);
	if (!lent && release)
		release(arg);
	lend_pb_lent_end(lent, how.wraps);
}

void lend_pb_reply_buf(void *closure_data, struct lend_buf *encoded)
{
	struct pending *p = closure_data;

	if (p->base.head)
		(void)lend_reply_with(p->base.ep, p->base.request, LEND_OK, encoded, p->base.head);
	else
		(void)lend_reply(p->base.ep, p->base.request, LEND_OK, encoded);
	free_pending(p);
}

static struct pending *take_pending(struct served_method *m, lend_request request)
{
	struct pending *p = m->slow ? NULL : m->idle;

	if (p)
		m->idle = p->next;
	else
		p = malloc(sizeof(*p));
	if (p)
		*p = (struct pending){
		    .base = {.ep = m->ep, .request = request}, .method = m, .slow = m->slow};
	return p;
}

/* A request: a message, or arguments, one after the other. */
struct received {
	const struct lend_buf *bytes; /* NULL: arguments */
	const struct lend_arg *arg;
	int n;
};

static void run_method(struct served_method *m, lend_request request, const struct received *in)
{
	struct lend_pb_heap own, *memory = &m->memory;
	ProtobufCMessage *message;
	enum lend_status status;
	struct pending *p = NULL;

	if (m->slow) { /* the method's other requests have threads of their own */
		memory = &own;
		lend_pb_heap_init(memory);
	}
	status = in->bytes ? lend_pb_from_buffers(m->input, in->bytes, memory, &message)
			   : lend_pb_from_args(m->input, in->arg, in->n, memory, &message);
	if (status == LEND_OK && !(p = take_pending(m, request)))
		status = LEND_RESOURCE_EXHAUSTED;
	if (p)
		m->service->invoke(m->service, m->index, message, answer_request, p);
	else
		(void)lend_refuse(m->ep, request, status);
	if (memory == &own)
		lend_pb_heap_free(memory);
	else
		lend_pb_heap_reset(memory);
}

static void serve_request(lend_request request, const struct lend_buf *bytes, void *method)
{
	run_method(method, request, &(struct received){.bytes = bytes});
}

static void serve_args(lend_request request, const struct lend_arg *arg, int n, void *method)
{
	run_method(method, request, &(struct received){.arg = arg, .n = n});
}

static void free_method(struct served_method *m)
{
	lend_pb_streams_free(m);
	while (m->idle) {
		struct pending *p = m->idle;

		m->idle = p->next;
		free(p);
	}
	lend_pb_heap_free(&m->memory);
	lend_pb_heap_free(&m->tables);
	free(m);
}

static int make_method(struct lend_ep *ep, ProtobufCService *service, unsigned index,
		       const char *suffix, struct served_method **method)
{
	const ProtobufCMethodDescriptor *d = &service->descriptor->methods[index];
	struct served_method *m = calloc(1, sizeof(*m));
	enum lend_pb_status status;

	if (!m)
		return -ENOMEM;
	m->ep = ep;
	m->service = service;
	m->index = index;
	m->number = lend_pb_path(service->descriptor, index, suffix, m->path);
	lend_pb_heap_init(&m->memory);
	lend_pb_heap_init(&m->tables);
	status = lend_pb_table_make(d->input, &m->tables.blocks, &m->input);
	if (status == LEND_PB_OK)
		status = lend_pb_table_make(d->output, &m->tables.blocks, &m->output);
	if (status == LEND_PB_OK) {
		*method = m;
		return 0;
	}
	free_method(m);
	return status == LEND_PB_NO_MEMORY ? -ENOMEM : -EINVAL;
}

/* Adds a method to the list; -EEXIST: another name has its number. */
static int add_method(struct served_method *m)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	for (const struct served_method *s = served; s; s = s->next)
		if (s->ep == m->ep && s->number == m->number && strcmp(s->path, m->path) != 0)
			err = -EEXIST;
	if (!err) {
		m->next = served;
		served = m;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

static int start_serving(struct served_method *m, struct lend_mem *mem, bool slow)
{
	unsigned flags = slow ? LEND_SLOW : 0;

	m->mem = mem;
	m->slow = slow;
	if (m->kind != LEND_PB_UNARY)
		return lend_serve_stream_name(m->ep, m->path, lend_pb_accept, m, 0);
	return mem ? lend_serve_args_name(mem, m->path, serve_args, m, flags)
		   : lend_serve_name(m->ep, m->path, serve_request, m, flags | LEND_CHAIN);
}

int lend_pb_serve_methods(struct lend_ep *ep, ProtobufCService *service, struct lend_mem *mem,
			  const enum lend_pb_kind *kinds)
{
	int err = 0;

	for (unsigned i = 0; i < service->descriptor->n_methods && !err; i++) {
		struct served_method *m = NULL;

		err = make_method(ep, service, i, mem ? LEND_PB_ARGS : "", &m);
		if (!err && kinds)
			m->kind = kinds[i];
		if (!err && (err = add_method(m)))
			free_method(m);
		if (!err)
			err = start_serving(m, mem, false);
	}
	return err;
}

int lend_pb_serve(struct lend_ep *ep, ProtobufCService *service)
{
	return lend_pb_serve_kinds(ep, service, NULL);
}

int lend_pb_serve_kinds(struct lend_ep *ep, ProtobufCService *service,
			const enum lend_pb_kind *kinds)
{
	int err = lend_pb_offer(ep, service->descriptor, kinds);

	return err ? err : lend_pb_serve_methods(ep, service, NULL, kinds);
}

int lend_pb_serve_refs(struct lend_ep *ep, ProtobufCService *service, struct lend_mem *mem)
{
	return lend_pb_serve_methods(ep, service, mem, NULL);
}

int lend_pb_slow(struct lend_ep *ep, const ProtobufCService *service, const char *method)
{
	int err = -ENOENT;

	pthread_mutex_lock(&lock);
	for (struct served_method *m = served; m && (!err || err == -ENOENT); m = m->next)
		if (m->ep == ep && m->service == service &&
		    !strcmp(service->descriptor->methods[m->index].name, method))
			err = m->kind == LEND_PB_UNARY ? start_serving(m, m->mem, true) : -EINVAL;
	pthread_mutex_unlock(&lock);
	return err;
}

void lend_pb_end(struct lend_ep *ep)
{
	struct served_method **at = &served, *m;

	pthread_mutex_lock(&lock);
	while ((m = *at)) {
		if (m->ep != ep) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		free_method(m);
	}
	pthread_mutex_unlock(&lock);
	lend_pb_offer_end(ep);
}
