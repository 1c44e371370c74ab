/* unary_server - services of .proto files on an endpoint. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "grpc/message_buffers.h"

/* A request that is being served: the closure_data of its function. */
struct pending {
	struct served_method *method;
	lend_request request;
	struct pending *next; /* next idle one */
};

struct served_method {
	struct lend_ep *ep;
	ProtobufCService *service;
	unsigned index;
	uint32_t number;
	const struct lend_pb_table *input, *output;
	uint32_t packed;            /* see lend_pb_sending */
	struct lend_pb_heap memory; /* decoded requests */
	struct lend_pb_heap tables;
	struct pending *idle;
	struct served_method *next; /* next method of any endpoint */
	char path[LEND_PB_PATH_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct served_method *served; /* under lock */

/* Counts the values of a reply that are in use. */
struct lent_reply {
	void (*release)(void *arg);
	void *arg;
	unsigned left;
};

static void release_value(void *arg)
{
	struct lent_reply *lent = arg;

	if (--lent->left)
		return;
	lent->release(lent->arg);
	free(lent);
}

static void free_pending(struct pending *p)
{
	p->next = p->method->idle;
	p->method->idle = p;
}

void lend_pb_fail(void *closure_data, enum lend_status status, const char *why)
{
	struct pending *p = closure_data;

	(void)lend_reply_why(p->method->ep, p->request, status, why);
	free_pending(p);
}

lend_request lend_pb_request(const void *closure_data)
{
	return ((const struct pending *)closure_data)->request;
}

static void send_reply(struct pending *p, const ProtobufCMessage *reply,
		       struct lend_pb_sending *how)
{
	enum lend_status status = LEND_INTERNAL;
	struct lend_buf *chain = NULL;

	how->ep = p->method->ep;
	how->session = lend_request_session(how->ep, p->request);
	how->packed = &p->method->packed;
	if (reply)
		chain = lend_pb_to_buffers(how, p->method->output, reply, &status);
	(void)lend_reply(p->method->ep, p->request, status, chain);
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
	struct lent_reply *lent = malloc(sizeof(*lent));
	struct lend_pb_sending how = {.copies = !lent, .release = release_value, .arg = lent};

	if (!lent) {
		send_reply(closure_data, reply, &how);
		release(arg);
		return;
	}
	*lent = (struct lent_reply){release, arg, 1 << 30}; /* until the number is known */
	send_reply(closure_data, reply, &how);
	lent->left -= (1 << 30) - how.wraps - 1;
	release_value(lent);
}

static struct pending *take_pending(struct served_method *m, lend_request request)
{
	struct pending *p = m->idle;

	if (p)
		m->idle = p->next;
	else
		p = malloc(sizeof(*p));
	if (p)
		*p = (struct pending){.method = m, .request = request};
	return p;
}

static void serve_request(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct served_method *m = arg;
	ProtobufCMessage *message;
	enum lend_status status = lend_pb_from_buffers(m->input, bytes, &m->memory, &message);
	struct pending *p = status == LEND_OK ? take_pending(m, request) : NULL;

	if (p)
		m->service->invoke(m->service, m->index, message, answer_request, p);
	else
		(void)lend_refuse(m->ep, request,
				  status == LEND_OK ? LEND_RESOURCE_EXHAUSTED : status);
	lend_pb_heap_reset(&m->memory);
}

static void free_method(struct served_method *m)
{
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
		       struct served_method **method)
{
	const ProtobufCMethodDescriptor *d = &service->descriptor->methods[index];
	struct served_method *m = calloc(1, sizeof(*m));
	enum lend_pb_status status;

	if (!m)
		return -ENOMEM;
	m->ep = ep;
	m->service = service;
	m->index = index;
	m->number = lend_pb_path(service->descriptor, index, m->path);
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

int lend_pb_serve(struct lend_ep *ep, ProtobufCService *service)
{
	for (unsigned i = 0; i < service->descriptor->n_methods; i++) {
		struct served_method *m;
		int err = make_method(ep, service, i, &m);

		if (!err && (err = add_method(m)))
			free_method(m);
		if (!err)
			err = lend_serve(ep, m->number, serve_request, m, LEND_CHAIN);
		if (err)
			return err;
	}
	return 0;
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
}
