/* Goal: no loss, copy or late arrival among the first sixteen datagrams keeps a call from ending
 * once, well and in time, or leaves anything behind. Method: all 2^16 sets of such datagrams, from
 * CONNECT on or once the session is up, for calls either way, short and long; then silence. */
#include <criterion/criterion.h>

#include "scen/fates.h"

enum { ONE = 8, EIGHT = 8 * 1376 };

struct plan {
	const char *name;
	uint32_t request, reply; /* bytes */
	uint32_t from;           /* who calls; 0 connects */
	uint32_t calls;          /* one after the other, or */
	bool at_once;
	bool up;          /* the fates begin when both know the session */
	bool named;       /* the caller gives memory for the reply */
	bool early;       /* it has a pass, and its call rides on its CONNECT */
	lend_ns think;    /* of the handler */
	lend_ns patience; /* of the caller; 0: endless */
};

/* Of the run under way. */
static struct {
	const struct plan *plan;
	uint64_t session[2], asked[4];
	uint32_t which[4]; /* asked[i] is which call */
	uint32_t ups, calls, ends, requests, replies;
	uint32_t ran[4]; /* by call: how often its handler began */
	uint8_t ended[4], end_ran[4];
	uint32_t left[4]; /* of requests, when the call was made */
	lend_ns called;
	bool dead; /* a session ended */
} at;

static unsigned salt_of(uint32_t call, bool reply)
{
	return call * 31 + (reply ? 100 : 3);
}

static void call(struct fates *f)
{
	const struct plan *p = at.plan;
	struct fates_node *n = &f->node[p->from];
	struct lend_core_call call = {
	    .method = at.calls,
	    .early = p->early,
	    .deadline = p->patience ? f->now + p->patience : LEND_NEVER,
	    .request = fates_buf(f, p->from, p->request, salt_of(at.calls, false)),
	    .reply = p->named ? fates_buf(f, p->from, 0, 0) : 0,
	    .tag = at.calls};
	uint64_t handle;
	int rc;

	rc = lend_core_call(n->core, f->now, at.session[p->from], &n->bufs, &call, &handle);
	if (rc)
		fates_wrong(f, "no call");
	at.left[at.calls++] = f->left;
}

static void answer(struct fates *f)
{
	uint32_t server = !at.plan->from, i = at.replies++;
	struct fates_node *n = &f->node[server];
	uint32_t buf = fates_buf(f, server, at.plan->reply, salt_of(at.which[i], true));

	if (lend_core_reply(n->core, f->now, at.asked[i], &n->bufs, 0, buf))
		fates_wrong(f, "no reply");
}

static void on_request(struct fates *f, uint32_t node, const struct lend_event *e)
{
	if (node == at.plan->from || e->method >= at.plan->calls || at.ran[e->method]++) {
		fates_wrong(f, "a handler ran twice");
		return;
	}
	if (e->len != at.plan->request ||
	    !fates_same(f, node, e, e->buf, salt_of(e->method, false)))
		fates_wrong(f, "a request's bytes are wrong");
	fates_give(f, node, e->buf);
	at.which[at.requests] = e->method;
	at.asked[at.requests++] = e->call;
	if (at.plan->think)
		f->alarm = f->now + at.plan->think;
	else
		answer(f);
}

static void on_end(struct fates *f, uint32_t node, const struct lend_event *e)
{
	const struct plan *p = at.plan;

	if (node != p->from || e->tag >= at.calls || at.ended[e->tag]++) {
		fates_wrong(f, "a call ended twice");
		return;
	}
	at.ends++;
	if (e->status == OK && (e->len != p->reply ||
				!fates_same(f, node, e, e->reply, salt_of((uint32_t)e->tag, true))))
		fates_wrong(f, "a reply's bytes are wrong");
	if (e->status == OK ? e->ran != RAN_YES : !p->patience || e->status != DEADLINE_EXCEEDED)
		fates_wrong(f, "a call's status is wrong");
	if (e->ran == RAN_MAYBE && f->left == at.left[e->tag])
		fates_wrong(f, "maybe, though nothing of it left");
	at.end_ran[e->tag] = e->ran;
	fates_give(f, node, e->buf);
	fates_give(f, node, e->reply);
	if (at.calls < p->calls)
		call(f);
}

static void on_event(struct fates *f, uint32_t node, const struct lend_event *e)
{
	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_SESSION_UP:
		at.ups++;
		at.session[node] = e->session;
		if (node == at.plan->from && node == 1 && !at.plan->up)
			call(f);
		return;
	case LEND_EV_REQUEST:
		on_request(f, node, e);
		return;
	case LEND_EV_CALL_END:
		on_end(f, node, e);
		return;
	case LEND_EV_SESSION_DOWN:
		/* Whoever was heard of by nobody may be given up, but nobody else. */
		at.dead = true;
		if (at.ends < at.plan->calls && f->now - f->heard[node] < 5000 * LEND_MS)
			fates_wrong(f, "the session went down");
		return;
	case LEND_EV_NEED:
		fates_wrong(f, "memory was asked for");
		return;
	case LEND_EV_CANCELLED:
	case LEND_EV_REPLY_END:
	case LEND_EV_BUF_BACK:
	case LEND_EV_PEER_KEEP:
	case LEND_EV_PEER_DROP:
	case LEND_EV_PROVE:
		return;
	}
}

/* `ran` was true: no means never, yes means once. */
static void judge(struct fates *f)
{
	for (uint32_t i = 0; i < at.plan->calls; i++)
		if (at.end_ran[i] != RAN_MAYBE && at.ran[i] != (at.end_ran[i] == RAN_YES))
			fates_wrong(f, "ran is wrong");
}

/* A session whose first call asks for a pass, and its end. */
static void meet(struct fates *f)
{
	struct plan one = *at.plan;

	at.plan = &one;
	one.calls = 1;
	at.session[0] = fates_connect(f, 0, 1);
	call(f);
	while (at.ends == 0 && fates_step(f, LEND_NEVER))
		continue;
	lend_core_disconnect(f->node[0].core, at.session[0]);
	while (fates_step(f, LEND_NEVER))
		continue;
}

static void run(struct fates *f, const void *arg)
{
	const struct plan *p = arg;
	lend_ns bound;

	memset(&at, 0, sizeof(at));
	at.plan = p;
	fates_reset(f, 2);
	f->on_event = on_event;
	f->on_alarm = answer;
	if (p->early) {
		meet(f);
		memset(&at, 0, sizeof(at));
		at.plan = p;
	}
	if (!p->up)
		fates_begin(f);
	at.session[0] = fates_connect(f, 0, 1);
	while (p->up && at.ups < 2 && fates_step(f, LEND_NEVER))
		continue;
	if (p->up)
		fates_begin(f);
	at.called = f->now;
	for (uint32_t i = 0; (p->up || p->from == 0) && i < (p->at_once ? p->calls : 1); i++)
		call(f);
	bound = f->now + fates_bound() + p->calls * (p->think + LEND_MS);
	/* The caller that was connected to waits for a PING, and the other has no more urgent wish.
	 */
	if (p->from == 1 && !p->up)
		bound += 5000 * LEND_MS;
	while (at.ends < p->calls && !at.dead && fates_step(f, bound))
		continue;
	if (at.ends < p->calls && !at.dead)
		fates_wrong(f, "the calls do not end in time");
	f->longest = lend_max_u64(f->longest, f->now - at.called);
	fates_rest(f, at.called + p->think);
	if (!at.dead)
		judge(f);
	lend_core_disconnect(f->node[0].core, at.session[0]);
	while (fates_step(f, LEND_NEVER))
		continue;
	fates_over(f);
}

static void all_fates(const struct plan *plans, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (enum fate fate = FATE_LOST; fate <= FATE_FULL; fate++)
			/* Copies try nobody's patience; stale ones meet the next call. */
			if ((fate != FATE_TWICE || !plans[i].patience) &&
			    (fate != FATE_STALE || plans[i].calls > 1))
				fates_all(plans[i].name, fate, run, &plans[i]);
}
#define ALL(...)                                                                                   \
	do {                                                                                       \
		static const struct plan plans[] = {__VA_ARGS__};                                  \
		all_fates(plans, sizeof(plans) / sizeof(plans[0]));                                \
	} while (0)

Test(fates_call, one_fragment)
{
	ALL({.name = "connect, a call of one fragment", .request = ONE, .reply = ONE, .calls = 1},
	    {.name = "connect, two calls of one fragment",
	     .request = ONE,
	     .reply = ONE,
	     .calls = 2});
}

Test(fates_call, one_that_rides)
{
	ALL({.name = "connect with a call of one fragment",
	     .request = ONE,
	     .reply = ONE,
	     .calls = 1,
	     .early = true},
	    {.name = "connect with an impatient call to a slow handler",
	     .request = ONE,
	     .reply = ONE,
	     .calls = 1,
	     .early = true,
	     .think = 2 * LEND_MS,
	     .patience = 6 * LEND_MS});
}

Test(fates_call, eight_fragments)
{
	ALL({.name = "connect, a request of eight fragments",
	     .request = EIGHT,
	     .reply = ONE,
	     .calls = 1},
	    {.name = "a request of eight fragments",
	     .request = EIGHT,
	     .reply = ONE,
	     .calls = 1,
	     .up = true},
	    {.name = "a reply of eight fragments",
	     .request = ONE,
	     .reply = EIGHT,
	     .calls = 1,
	     .up = true},
	    {.name = "a reply of eight fragments into named memory",
	     .request = ONE,
	     .reply = EIGHT,
	     .calls = 1,
	     .up = true,
	     .named = true});
}

Test(fates_call, from_the_side_that_was_connected_to)
{
	ALL({.name = "connect, a call back of one fragment",
	     .request = ONE,
	     .reply = ONE,
	     .from = 1,
	     .calls = 1},
	    {.name = "a call back, eight fragments each way",
	     .request = EIGHT,
	     .reply = EIGHT,
	     .from = 1,
	     .calls = 1,
	     .up = true});
}

Test(fates_call, slow_handlers_and_short_patience)
{
	ALL({.name = "connect, a call to a slow handler",
	     .request = ONE,
	     .reply = ONE,
	     .calls = 1,
	     .think = 7 * LEND_MS},
	    {.name = "connect, two impatient calls",
	     .request = ONE,
	     .reply = ONE,
	     .calls = 2,
	     .patience = 6 * LEND_MS},
	    {.name = "an impatient call to a slow handler",
	     .request = ONE,
	     .reply = ONE,
	     .calls = 1,
	     .up = true,
	     .think = 7 * LEND_MS,
	     .patience = 9 * LEND_MS});
}

Test(fates_call, several_at_once_and_given_up_half_way)
{
	ALL({.name = "two requests of eight fragments at once",
	     .request = EIGHT,
	     .reply = ONE,
	     .calls = 2,
	     .at_once = true,
	     .up = true},
	    {.name = "an impatient request of eight fragments",
	     .request = EIGHT,
	     .reply = ONE,
	     .calls = 2,
	     .up = true,
	     .patience = 3 * LEND_MS},
	    {.name = "an impatient reply of eight fragments",
	     .request = ONE,
	     .reply = EIGHT,
	     .calls = 2,
	     .up = true,
	     .patience = 3 * LEND_MS});
}
