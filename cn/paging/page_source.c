/* page_source - see page_source.h. */
#include "cn/paging/page_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cn/life.h"
#include "sys/last_error.h"

struct cn_source {
	LIST_ENTRY(cn_source) link;
	char home[CN_HOME_MAX];
	bool connected, joining;
	lend_session session;
	uint64_t life, joined; /* life: joined before; joined: by the HELLO under way */
	lend_ns timeout;
	uint32_t name; /* number of the name under which it was dialled */
	struct lend_call call;
	TAILQ_HEAD(, cn_page_read) waiting;
};

static LIST_HEAD(, cn_source) sources = LIST_HEAD_INITIALIZER(sources);
static struct lend_ep *ep;
static uint32_t flights;

static struct cn_source *source_of(const char *home)
{
	struct cn_source *s;

	LIST_FOREACH(s, &sources, link)
	if (!strcmp(s->home, home))
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	strcpy(s->home, home);
	TAILQ_INIT(&s->waiting);
	LIST_INSERT_HEAD(&sources, s, link);
	return s;
}

static void lose_session(struct cn_source *s)
{
	if (s->connected)
		lend_disconnect(ep, s->session);
	s->connected = false;
	s->life = 0;
}

static void end_lent(void *arg)
{
	((struct cn_page_read *)arg)->lent = false;
}

static void give_bufs(struct lend_call *call)
{
	if (call->request)
		lend_buf_give(ep, call->request);
	if (call->reply)
		lend_buf_give(ep, call->reply);
	call->request = call->reply = NULL;
}

static void read_done(struct lend_call *call)
{
	struct cn_page_read *ask =
	    (struct cn_page_read *)((char *)call - offsetof(struct cn_page_read, call));
	uint64_t len = 0;

	for (const struct lend_buf *buf = call->reply; buf; buf = buf->next)
		len += buf->len;
	give_bufs(call);
	flights--;
	if (call->status == LEND_UNAVAILABLE && ask->session == ask->source->session.id)
		lose_session(ask->source);
	ask->done(ask, call->status, len);
}

static bool start_read(struct cn_page_read *ask)
{
	struct lend_call *c = &ask->call;

	memset(c, 0, sizeof(*c));
	c->method = LEND_MEM_METHOD;
	c->priority = ask->priority;
	c->timeout = ask->timeout;
	c->done = read_done;
	c->request = lend_buf_take(ep, LEND_MEMOP_FIXED_MAX);
	c->reply = lend_buf_wrap(ep, ask->bytes, (uint32_t)ask->say.len, end_lent, ask);
	ask->lent = c->reply != NULL;
	if (c->request && c->reply) {
		c->request->len = lend_memop_encode(&ask->say, c->request->data);
		if (lend_call_start(ep, ask->source->session, c) == 0)
			return true;
	}
	give_bufs(c);
	return false;
}

/* Sends the READs that waited for the session, or ends them as failed. */
static void release_waiting(struct cn_source *s, bool fine)
{
	struct cn_page_read *ask;

	while ((ask = TAILQ_FIRST(&s->waiting))) {
		TAILQ_REMOVE(&s->waiting, ask, link);
		if (fine && start_read(ask))
			continue;
		flights--;
		ask->done(ask, LEND_UNAVAILABLE, 0);
	}
}

static bool send_hello(struct cn_source *s);

static void hello_done(struct lend_call *call)
{
	struct cn_source *s = (struct cn_source *)((char *)call - offsetof(struct cn_source, call));
	bool fine = call->ran == LEND_RAN_YES;

	give_bufs(call);
	s->joining = false;
	if (fine && !s->joined && send_hello(s)) /* RENEW brought the session up */
		return;
	s->life = fine ? s->joined : 0;
	if (!fine)
		lose_session(s);
	release_waiting(s, fine);
}

/* Sends HELLO. If the life has ended meanwhile, the READs that follow are ABORTED. */
static bool send_hello(struct cn_source *s)
{
	struct lend_call *c = &s->call;
	struct lend_memop say;

	if (!cn_life_encode(ep, s->session, s->home, 0, &say))
		return false;
	s->joined = say.life;
	memset(c, 0, sizeof(*c));
	c->method = LEND_MEM_METHOD;
	c->timeout = s->timeout;
	c->done = hello_done;
	c->request = lend_buf_take(ep, LEND_MEMOP_FIXED_MAX);
	if (!c->request)
		return false;
	c->request->len = lend_memop_encode(&say, c->request->data);
	s->joining = lend_call_start(ep, s->session, c) == 0;
	if (!s->joining)
		give_bufs(c);
	return s->joining;
}

static int connect_source(struct cn_source *s)
{
	int rc = s->connected ? 0 : cn_life_connect(ep, s->home, &s->session, &s->name);

	s->connected = rc == 0;
	return rc;
}

int cn_page_read_connect(const char *home)
{
	struct cn_source *s = source_of(home);

	return s ? connect_source(s) : lend_fail(ENOMEM, "no memory for a session to %s", home);
}

bool cn_page_read_start(struct cn_page_read *ask, const char *home, const struct lend_memop *say,
			lend_ns timeout)
{
	struct cn_source *s = source_of(home);
	bool went;

	ask->source = s;
	if (!s)
		return false;
	ask->say = *say;
	ask->timeout = s->timeout = timeout;
	if (s->connected && !s->joining && s->life != say->life &&
	    cn_life_renamed(s->home, s->name))
		lose_session(s);
	(void)connect_source(s);
	ask->session = s->session.id;
	if (s->connected && s->life == say->life) {
		went = start_read(ask);
	} else {
		went = s->connected && (s->joining || send_hello(s));
		if (went)
			TAILQ_INSERT_TAIL(&s->waiting, ask, link);
	}
	if (went)
		flights++;
	else if (!s->joining)
		lose_session(s);
	return went;
}

uint32_t cn_page_reads_in_flight(void)
{
	return flights;
}

void cn_page_read_open(struct lend_ep *own)
{
	flights = 0;
	ep = own;
}

void cn_page_read_close(void)
{
	struct cn_source *s;

	while ((s = LIST_FIRST(&sources))) {
		LIST_REMOVE(s, link);
		free(s);
	}
}
