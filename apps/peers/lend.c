/* lend - Lend itself, measured like the other libraries.
 * Layer: apps/peers. Threads: one per process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/peers/lend_end.h"
#include "lend/alloc.h"
#include "lend/rpc.h"

enum { ASK = 1, PARTS_MAX = 1024, SMALL = 4096 };

struct server {
	const struct peer_job *job;
	struct lend_ep *ep;
};

struct slot {
	struct lend_call call;
	struct client *client;
	struct lend_buf *small; /* reused for each request that is copied */
	void *place;            /* memory that long requests are rewritten in */
};

struct client {
	const struct peer_job *job;
	struct lend_ep *ep;
	lend_session session;
	struct slot slot[PEER_WINDOW_MAX];
};

static unsigned parts_of(const struct lend_buf *bytes, struct iovec *part)
{
	unsigned n = 0;

	for (; bytes && n < PARTS_MAX; bytes = bytes->next)
		part[n++] = (struct iovec){.iov_base = bytes->data, .iov_len = bytes->len};
	return n;
}

static void answer_request(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct server *s = arg;
	struct iovec part[PARTS_MAX];
	unsigned parts = parts_of(bytes, part);
	uint8_t sum[PEER_SUM_LEN];

	if (peer_is_echo(s->job)) {
		peer_serve(s->job, part, parts, NULL);
		lend_reply(s->ep, request, LEND_OK, lend_request_take(s->ep, request));
		return;
	}
	peer_serve(s->job, part, parts, sum);
	lend_reply_copy(s->ep, request, LEND_OK, sum, sizeof(sum));
}

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s)
		app_die("no memory");
	s->job = job;
	s->ep = peer_end_open(job, peer_end_listen(job->lane));
	if (lend_serve(s->ep, ASK, answer_request, s, 0) < 0)
		app_die("%s", lend_why());
	peer_end_announce(s->ep, channel);
	return s;
}

void peer_server_turn(void *server)
{
	struct server *s = server;

	peer_end_turn(s->job, s->ep);
}

void peer_server_close(void *server)
{
	struct server *s = server;

	lend_close(s->ep);
	free(s);
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	struct client *c = calloc(1, sizeof(*c));
	char address[PEER_ADDRESS_MAX];

	if (!c)
		app_die("no memory");
	c->job = job;
	c->ep = peer_end_open(job, NULL);
	peer_receive_text(channel, address, sizeof(address));
	app_pattern_register(c->ep);
	peer_end_connect(c->ep, address, &c->session);
	return c;
}

/* Long requests are sent from memory that peers over shm read in place. */
void *peer_client_place(void *client, unsigned i)
{
	struct client *c = client;
	struct slot *slot = &c->slot[i];

	if (!slot->place && c->job->request > SMALL)
		slot->place = lend_malloc_shared(c->job->request);
	return slot->place;
}

static void call_done(struct lend_call *call)
{
	struct slot *slot = (struct slot *)(void *)call; /* its first member */
	struct client *c = slot->client;
	struct lend_buf *reply = call->reply;
	struct iovec part[PARTS_MAX];

	if (call->status != LEND_OK)
		app_die("a call ended %s: is the server still running?",
			app_status_name(call->status));
	if (!call->request)
		slot->small = NULL;
	else if (call->request != slot->small)
		lend_buf_give(c->ep, call->request);
	call->request = call->reply = NULL;
	peer_end((unsigned)(slot - c->slot), part, parts_of(reply, part));
}

/* Makes a request: copies a small one into a buffer, wraps a long one without a copy. */
static struct lend_buf *make_request(struct slot *slot, const void *bytes)
{
	struct client *c = slot->client;
	uint32_t len = (uint32_t)c->job->request;

	if (len > SMALL)
		return app_pattern_wrap(c->ep, bytes, len);
	if (!slot->small)
		slot->small = lend_buf_take(c->ep, len);
	if (!slot->small)
		return NULL;
	memcpy(slot->small->data, bytes, len);
	slot->small->len = len;
	return slot->small;
}

int peer_client_start(void *client, unsigned i, const void *request)
{
	struct client *c = client;
	struct slot *slot = &c->slot[i];
	struct lend_call *call = &slot->call;
	int rc;

	slot->client = c;
	call->method = ASK;
	call->timeout = LEND_NEVER;
	call->in_place = 1;
	call->done = call_done;
	call->request = make_request(slot, request);
	if (!call->request)
		return -EAGAIN;
	rc = lend_call_start(c->ep, c->session, call);
	if (rc < 0 && call->request != slot->small)
		lend_buf_give(c->ep, call->request);
	return rc;
}

void peer_client_turn(void *client)
{
	struct client *c = client;

	peer_end_turn(c->job, c->ep);
}

void peer_client_close(void *client)
{
	struct client *c = client;

	for (unsigned i = 0; i < PEER_WINDOW_MAX; i++)
		if (c->slot[i].small)
			lend_buf_give(c->ep, c->slot[i].small);
	lend_close(c->ep);
	for (unsigned i = 0; i < PEER_WINDOW_MAX; i++)
		lend_free(c->slot[i].place);
	free(c);
}

const struct peer peer_this = {
    "lend",
    {{.name = "shm"}, {.name = "udp"}, {.name = "memif"}, {.name = "ring", .one_thread = true}},
    false};
