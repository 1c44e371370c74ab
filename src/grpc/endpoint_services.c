#include "grpc/endpoint_services.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "grpc/served_method.h"

#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name
typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus health_status;
enum { ADDRESS_MAX = 1024 };

/* A client that watches the health of a service. */
struct health_watch {
	struct endpoint_services *of;
	void *stream;
	health_status sent; /* the status that it has; UNKNOWN: none */
	struct health_watch *next, **link;
	char service[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct endpoint_services *endpoints; /* under lock */

static struct endpoint_services *find_endpoint(const struct lend_ep *ep)
{
	struct endpoint_services *s;

	pthread_mutex_lock(&lock);
	for (s = endpoints; s && s->ep != ep;)
		s = s->next;
	pthread_mutex_unlock(&lock);
	return s;
}

static struct offered_service *find_service(const struct endpoint_services *s, const char *name)
{
	struct offered_service *o = s->first;

	while (o && strcmp(o->name, name) != 0)
		o = o->next;
	return o;
}

static health_status status_of(const struct endpoint_services *s, const char *name)
{
	const struct offered_service *o = find_service(s, name);

	return o ? o->serving ? STATUS(SERVING) : STATUS(NOT_SERVING) : STATUS(SERVICE_UNKNOWN);
}

/* Sends the status to a watch that has another one; without credit, when there is some. */
static void send_status(void *stream, void *arg)
{
	Grpc__Health__V1__HealthCheckResponse reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	struct health_watch *w = arg;

	reply.status = status_of(w->of, w->service);
	if (reply.status != w->sent && lend_pb_send(stream, &reply.base, NULL, NULL) == 0)
		w->sent = reply.status;
}

static void notify_watches(const struct endpoint_services *s)
{
	for (struct health_watch *w = s->watches; w; w = w->next)
		send_status(w->stream, w);
}

static void free_watch(struct health_watch *w)
{
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	free(w);
}

static void end_watch(void *stream, void *arg)
{
	(void)stream;
	free_watch(arg);
}

static void health_watch(Grpc__Health__V1__Health_Service *service,
			 const Grpc__Health__V1__HealthCheckRequest *in,
			 Grpc__Health__V1__HealthCheckResponse_Closure closure, void *stream)
{
	struct endpoint_services *s =
	    (void *)((char *)service - offsetof(struct endpoint_services, health));
	size_t len = strlen(in->service) + 1;
	struct health_watch *w = malloc(sizeof(*w) + len);

	(void)closure;
	if (!w) {
		lend_pb_fail(stream, LEND_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	*w = (struct health_watch){
	    .of = s, .stream = stream, .next = s->watches, .link = &s->watches};
	memcpy(w->service, in->service, len);
	if (w->next)
		w->next->link = &w->next;
	s->watches = w;
	lend_pb_on(stream,
		   &(struct lend_pb_events){.writable = send_status, .ended = end_watch, .arg = w});
	send_status(stream, w);
}

static void health_check(Grpc__Health__V1__Health_Service *service,
			 const Grpc__Health__V1__HealthCheckRequest *in,
			 Grpc__Health__V1__HealthCheckResponse_Closure closure, void *closure_data)
{
	const struct endpoint_services *s =
	    (void *)((char *)service - offsetof(struct endpoint_services, health));
	Grpc__Health__V1__HealthCheckResponse reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

	reply.status = status_of(s, in->service);
	if (reply.status == STATUS(SERVICE_UNKNOWN))
		lend_pb_fail(closure_data, LEND_NOT_FOUND, "unknown service");
	else
		closure(&reply, closure_data);
}

/* An entry of the map of a list. */
struct listed_health {
	Grpc__Health__V1__HealthListResponse__StatusesEntry entry;
	Grpc__Health__V1__HealthCheckResponse status;
};

static void health_list(Grpc__Health__V1__Health_Service *service,
			const Grpc__Health__V1__HealthListRequest *in,
			Grpc__Health__V1__HealthListResponse_Closure closure, void *closure_data)
{
	struct endpoint_services *s =
	    (void *)((char *)service - offsetof(struct endpoint_services, health));
	Grpc__Health__V1__HealthListResponse reply = GRPC__HEALTH__V1__HEALTH_LIST_RESPONSE__INIT;
	Grpc__Health__V1__HealthListResponse__StatusesEntry **entries;
	struct listed_health *listed;
	size_t n = 0;

	(void)in;
	for (const struct offered_service *o = s->first; o; o = o->next)
		n++;
	listed = malloc(n * sizeof(*listed));
	entries = malloc(n * sizeof(struct listed_health *));
	for (struct offered_service *o = s->first; o && listed && entries; o = o->next) {
		struct listed_health *l = &listed[reply.n_statuses];

		grpc__health__v1__health_list_response__statuses_entry__init(&l->entry);
		grpc__health__v1__health_check_response__init(&l->status);
		l->entry.key = o->name;
		l->entry.value = &l->status;
		l->status.status = status_of(s, o->name);
		entries[reply.n_statuses++] = &l->entry;
	}
	reply.statuses = entries;
	if (listed && entries)
		closure(&reply, closure_data);
	else
		lend_pb_fail(closure_data, LEND_RESOURCE_EXHAUSTED, "no memory");
	free(entries);
	free(listed);
}

/* Adds a service, which serves. Returns NULL: no memory. */
static struct offered_service *add_service(struct endpoint_services *s, const char *name)
{
	struct offered_service **end = &s->first, *o = calloc(1, sizeof(*o) + strlen(name) + 1);

	if (!o)
		return NULL;
	o->serving = true;
	strcpy(o->name, name);
	while (*end)
		end = &(*end)->next;
	*end = o;
	return o;
}

static int describe_service(struct endpoint_services *s,
			    const ProtobufCServiceDescriptor *descriptor,
			    const enum lend_pb_kind *kinds)
{
	struct offered_service *o = find_service(s, descriptor->name);
	uint8_t *copy = calloc(descriptor->n_methods + 1, 1);

	if (!o && copy)
		o = add_service(s, descriptor->name);
	if (!o || !copy) {
		free(copy);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < descriptor->n_methods && kinds; i++)
		copy[i] = (uint8_t)kinds[i];
	free(o->kinds);
	o->kinds = copy;
	o->descriptor = descriptor;
	return 0;
}

static void free_endpoint(struct endpoint_services *s)
{
	while (s->watches)
		free_watch(s->watches);
	while (s->first) {
		struct offered_service *o = s->first;

		s->first = o->next;
		free(o->kinds);
		free(o);
	}
	free(s);
}

static int serve_own(struct endpoint_services *s, ProtobufCService *service,
		     const enum lend_pb_kind *kinds)
{
	int err = describe_service(s, service->descriptor, kinds);

	return err ? err : lend_pb_serve_methods(s->ep, service, NULL, kinds);
}

static int serve_own_services(struct endpoint_services *s)
{
	static const enum lend_pb_kind health[] = {LEND_PB_UNARY, LEND_PB_UNARY,
						   LEND_PB_SERVER_STREAM};
	static const enum lend_pb_kind reflection[] = {LEND_PB_BOTH_STREAM};
	int err = serve_own(s, &s->health.base, health);

	if (!err)
		err = serve_own(s, &s->reflection.base, reflection);
	return err ? err : serve_own(s, &s->reflection_alpha.base, reflection);
}

static int make_endpoint(struct lend_ep *ep, struct endpoint_services **out)
{
	struct endpoint_services *s = calloc(1, sizeof(*s));

	if (!s || !add_service(s, "")) {
		free(s);
		return -ENOMEM;
	}
	s->ep = ep;
	s->health = (Grpc__Health__V1__Health_Service)GRPC__HEALTH__V1__HEALTH__INIT(health_);
	lend_pb_reflection_init(s);
	pthread_mutex_lock(&lock);
	s->next = endpoints;
	endpoints = s;
	pthread_mutex_unlock(&lock);
	*out = s;
	return serve_own_services(s);
}

static bool listens_on_http2(struct lend_ep *ep)
{
	char address[ADDRESS_MAX];

	return lend_address(ep, address, sizeof(address)) == 0 && strstr(address, "http2:");
}

int lend_pb_offer(struct lend_ep *ep, const ProtobufCServiceDescriptor *descriptor,
		  const enum lend_pb_kind *kinds)
{
	struct endpoint_services *s = find_endpoint(ep);
	int err = s || !listens_on_http2(ep) ? 0 : make_endpoint(ep, &s);

	if (err || !s)
		return err;
	err = describe_service(s, descriptor, kinds);
	notify_watches(s);
	return err;
}

int lend_pb_health(struct lend_ep *ep, const char *service, bool serving)
{
	struct endpoint_services *s = find_endpoint(ep);
	int err = s ? 0 : make_endpoint(ep, &s);
	struct offered_service *o;

	if (err)
		return err;
	o = find_service(s, service);
	if (!o)
		o = add_service(s, service);
	if (!o)
		return -ENOMEM;
	o->serving = serving;
	notify_watches(s);
	return 0;
}

void lend_pb_offer_end(struct lend_ep *ep)
{
	struct endpoint_services **at = &endpoints, *s;

	pthread_mutex_lock(&lock);
	while ((s = *at) && s->ep != ep)
		at = &s->next;
	if (s)
		*at = s->next;
	pthread_mutex_unlock(&lock);
	if (s)
		free_endpoint(s);
}
