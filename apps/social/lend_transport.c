/* lend_transport - calls of the services over Lend: a session for each role that is called.
 * Layer: apps. Threads: the endpoint's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/social/role_address.h"
#include "apps/social/social.h"
#include "lend/alloc.h"
#include "lend/grpc.h"

enum { RETRY_NS = 10000000 };

/* A role as this process calls it. */
struct peer {
	lend_session session; /* id 0: none */
	ProtobufCService *client;
	lend_ns retry; /* no attempt to connect before */
};
static struct peer peers[SOCIAL_ROLES];

const ProtobufCServiceDescriptor *social_descriptor(enum social_role role)
{
	static const ProtobufCServiceDescriptor *const all[SOCIAL_ROLES] = {
	    &social__unique_id_service__descriptor,     &social__text_service__descriptor,
	    &social__url_shorten_service__descriptor,   &social__user_mention_service__descriptor,
	    &social__user_service__descriptor,          &social__media_service__descriptor,
	    &social__compose_post_service__descriptor,  &social__post_storage_service__descriptor,
	    &social__user_timeline_service__descriptor, &social__home_timeline_service__descriptor,
	    &social__social_graph_service__descriptor};

	return all[role];
}

/* A process that ended, or was restarted elsewhere: the next call connects again. */
static void end_session(lend_session session, const uint8_t incarnation[16], bool up, void *arg)
{
	(void)incarnation, (void)arg;
	for (unsigned i = 0; !up && i < SOCIAL_ROLES; i++) {
		if (peers[i].session.id != session.id)
			continue;
		if (peers[i].client)
			protobuf_c_service_destroy(peers[i].client);
		peers[i] = (struct peer){.retry = peers[i].retry};
	}
}

lend_session social_session(enum social_role role)
{
	struct peer *p = &peers[role];
	char address[SOCIAL_ADDRESS_MAX];

	if (p->session.id || lend_now(social.ep) < p->retry)
		return p->session;
	p->retry = lend_now(social.ep) + RETRY_NS;
	lend_watch_sessions(social.ep, end_session, NULL);
	if (!social_address_read(social.dir, social_role_names[role], address) ||
	    lend_connect(social.ep, address, &p->session) < 0)
		p->session.id = 0;
	return p->session;
}

static int serve_service(ProtobufCService *service)
{
	return lend_pb_serve(social.ep, service);
}

static lend_request request_of(const void *closure_data)
{
	return closure_data ? lend_pb_request(closure_data) : (lend_request){0};
}

static ProtobufCService *client_of(enum social_role role, void *closure_data)
{
	lend_session session = social_session(role);
	struct peer *p = &peers[role];

	if (session.id && !p->client)
		(void)lend_pb_client(social.ep, session, social_descriptor(role), &p->client);
	if (p->client)
		lend_pb_client_set(p->client,
				   &(struct lend_call){.parent = request_of(closure_data)});
	return p->client;
}

static const char *status_of(enum social_role role, enum lend_status *status)
{
	const ProtobufCService *client = peers[role].client;

	*status = client ? lend_pb_status(client) : LEND_UNAVAILABLE;
	return client ? lend_pb_why(client) : "";
}

static void answer_bytes(void *closure_data, void *bytes, size_t len)
{
	struct lend_pb_bytes message;

	lend_pb_reply(closure_data, lend_pb_encoded(&message, bytes, len), lend_free, bytes);
}

/* A call; its reply answers a request as it is. */
struct forward {
	struct lend_call call; /* first */
	void *closure_data;
	lend_ns began;
	uint64_t *call_ns;
};

static void end_forward(struct lend_call *call)
{
	struct forward *f = (struct forward *)call;

	*f->call_ns += lend_now(social.ep) - f->began;
	lend_buf_give(social.ep, call->request);
	if (call->status == LEND_OK)
		lend_pb_reply_buf(f->closure_data, call->reply);
	else
		lend_pb_fail(f->closure_data, call->status, lend_call_why(social.ep, call));
	if (call->status != LEND_OK && call->reply)
		lend_buf_give(social.ep, call->reply);
	free(f);
}

static struct lend_buf *encode_request(const ProtobufCMessage *input)
{
	size_t len = protobuf_c_message_get_packed_size(input);
	struct lend_buf *buf = lend_buf_take(social.ep, (uint32_t)len);

	if (buf)
		buf->len = (uint32_t)protobuf_c_message_pack(input, buf->data);
	return buf;
}

static void forward_call(enum social_role role, unsigned method, const ProtobufCMessage *input,
			 void *closure_data, uint64_t *call_ns)
{
	const ProtobufCServiceDescriptor *d = social_descriptor(role);
	lend_session session = social_session(role);
	struct forward *f = session.id ? calloc(1, sizeof(*f)) : NULL;
	struct lend_call_head head = {.name = NULL};
	char name[128];
	int err = -1;

	(void)snprintf(name, sizeof(name), "/%s/%s", d->name, d->methods[method].name);
	head.name = name;
	if (f) {
		f->call = (struct lend_call){.head = &head,
					     .queue = 1,
					     .parent = request_of(closure_data),
					     .request = encode_request(input),
					     .done = end_forward};
		f->closure_data = closure_data;
		f->began = lend_now(social.ep);
		f->call_ns = call_ns;
		err = f->call.request ? lend_call_start(social.ep, session, &f->call) : -1;
	}
	if (!err)
		return;
	lend_buf_give(social.ep, f ? f->call.request : NULL);
	free(f);
	lend_pb_fail(closure_data, LEND_UNAVAILABLE, social_role_names[role]);
}

const struct social_transport social_over_lend = {.serve = serve_service,
						  .client = client_of,
						  .status = status_of,
						  .fail = lend_pb_fail,
						  .answer = answer_bytes,
						  .forward = forward_call};
