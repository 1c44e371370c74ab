/* ask - one READ of the pager's, in a client's name: its session, its call, its landing memory.
 * Layer: cn. Threads: the pager's. Sessions, one per node's address, live as long as the thread. */
#include "cn/ask.h"

#include <stdlib.h>
#include <string.h>

struct cn_source {
	LIST_ENTRY(cn_source) link;
	char address[CN_ADDRESS_MAX];
	bool connected;
	lend_session session;
};

static LIST_HEAD(, cn_source) sources = LIST_HEAD_INITIALIZER(sources);
static struct lend_ep *ep;
static uint32_t flights;

static struct cn_source *source_of(const char *address)
{
	struct cn_source *s;

	LIST_FOREACH(s, &sources, link)
	if (!strcmp(s->address, address))
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	strcpy(s->address, address);
	LIST_INSERT_HEAD(&sources, s, link);
	return s;
}

static void lose(struct cn_source *s)
{
	if (s->connected)
		lend_disconnect(ep, s->session);
	s->connected = false;
}

static void unlent(void *arg)
{
	((struct cn_ask *)arg)->lent = false;
}

static void give(struct lend_call *call)
{
	if (call->request)
		lend_buf_give(ep, call->request);
	if (call->reply)
		lend_buf_give(ep, call->reply);
	call->request = call->reply = NULL;
}

static void done(struct lend_call *call)
{
	struct cn_ask *ask = (struct cn_ask *)((char *)call - offsetof(struct cn_ask, call));
	uint64_t len = 0;

	for (const struct lend_buf *buf = call->reply; buf; buf = buf->next)
		len += buf->len;
	give(call);
	flights--;
	if (call->status == LEND_UNAVAILABLE && ask->session == ask->source->session.id)
		lose(ask->source);
	ask->done(ask, call->status, len);
}

static bool start(struct cn_ask *ask, const struct lend_memop *say, lend_ns timeout)
{
	struct lend_call *c = &ask->call;

	memset(c, 0, sizeof(*c));
	c->method = LEND_MEM_METHOD;
	c->priority = ask->priority;
	c->timeout = timeout;
	c->done = done;
	c->request = lend_buf_take(ep, LEND_MEMOP_FIXED_MAX);
	c->reply = lend_buf_wrap(ep, ask->bytes, (uint32_t)say->len, unlent, ask);
	ask->lent = c->reply != NULL;
	if (c->request && c->reply) {
		c->request->len = lend_memop_encode(say, c->request->data);
		if (lend_call_start(ep, ask->source->session, c) == 0)
			return true;
	}
	give(c);
	return false;
}

bool cn_ask_go(struct cn_ask *ask, const char *address, const struct lend_memop *say,
	       lend_ns timeout)
{
	struct cn_source *s = source_of(address);

	ask->source = s;
	if (!s)
		return false;
	if (!s->connected)
		s->connected = lend_connect(ep, s->address, &s->session) == 0;
	ask->session = s->session.id;
	if (s->connected && start(ask, say, timeout)) {
		flights++;
		return true;
	}
	lose(s);
	return false;
}

uint32_t cn_ask_flights(void)
{
	return flights;
}

void cn_ask_open(struct lend_ep *own)
{
	flights = 0;
	ep = own;
}

void cn_ask_close(void)
{
	struct cn_source *s;

	while ((s = LIST_FIRST(&sources))) {
		LIST_REMOVE(s, link);
		free(s);
	}
}
