#include "grpc/called_service.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct called_service *services; /* under lock */

static enum lend_pb_status make_method(struct called_service *s, unsigned index)
{
	const ProtobufCMethodDescriptor *d = &s->descriptor->methods[index];
	struct called_method *m = &s->method[index];
	char path[LEND_PB_PATH_MAX];
	enum lend_pb_status status;

	m->args_number = lend_pb_path(s->descriptor, index, LEND_PB_ARGS, path);
	m->args_name = strdup(path);
	m->number = lend_pb_path(s->descriptor, index, "", path);
	m->name = strdup(path);
	if (!m->name || !m->args_name)
		return LEND_PB_NO_MEMORY;
	status = lend_pb_table_make(d->input, &s->tables.blocks, &m->input);
	return status == LEND_PB_OK ? lend_pb_table_make(d->output, &s->tables.blocks, &m->output)
				    : status;
}

static int make_service(struct lend_ep *ep, const ProtobufCServiceDescriptor *descriptor,
			struct called_service **service)
{
	size_t len = sizeof(**service) + descriptor->n_methods * sizeof((*service)->method[0]);
	struct called_service *s = calloc(1, len);
	enum lend_pb_status status = LEND_PB_OK;

	if (!s)
		return -ENOMEM;
	s->ep = ep;
	s->descriptor = descriptor;
	lend_pb_heap_init(&s->memory);
	lend_pb_heap_init(&s->tables);
	for (unsigned i = 0; i < descriptor->n_methods && status == LEND_PB_OK; i++)
		status = make_method(s, i);
	if (status != LEND_PB_OK) {
		lend_pb_called_free(s);
		return status == LEND_PB_NO_MEMORY ? -ENOMEM : -EINVAL;
	}
	*service = s;
	return 0;
}

int lend_pb_called_open(struct lend_ep *ep, const ProtobufCServiceDescriptor *descriptor,
			struct called_service **service)
{
	struct called_service *s;
	int err = 0;

	pthread_mutex_lock(&lock);
	for (s = services; s && (s->ep != ep || s->descriptor != descriptor);)
		s = s->next;
	if (!s && !(err = make_service(ep, descriptor, &s))) {
		s->next = services;
		services = s;
	}
	if (!err)
		s->clients++;
	pthread_mutex_unlock(&lock);
	*service = s;
	return err;
}

bool lend_pb_called_close(struct called_service *service)
{
	struct called_service **at = &services;
	bool last;

	pthread_mutex_lock(&lock);
	last = !--service->clients;
	while (last && *at != service)
		at = &(*at)->next;
	if (last)
		*at = service->next;
	pthread_mutex_unlock(&lock);
	return last;
}

void lend_pb_called_free(struct called_service *service)
{
	for (unsigned i = 0; i < service->descriptor->n_methods; i++) {
		free(service->method[i].name);
		free(service->method[i].args_name);
	}
	lend_pb_heap_free(&service->memory);
	lend_pb_heap_free(&service->tables);
	free(service);
}
