/* Goal: with any loss, duplication or reordering of the first sixteen datagrams, a call ends once,
 * well and in time, and nothing is left behind. Method: all 2^16 sets of such datagrams, from
 * CONNECT on or once the session is up, for short and long calls in either direction; afterwards no
 * event may be left. Covers: src/core/loss.c, src/core/sent_ring.c, src/core/sess.c,
 * src/core/sess_timer.c, src/core/client_call.c, src/core/client_reply.c, src/core/server_call.c,
 * src/core/handshake.c, src/core/control.c */
#include <criterion/criterion.h>

#include "scen/exhaustive_faults.h"

enum { ONE = 8, EIGHT = 8 * 1376 };

struct plan {
	const char *name;
	uint32_t request, reply; /* bytes */
	uint32_t from;           /* the side that calls; side 0 connects */
	uint32_t calls;          /* one after the other, or */
	bool at_once;
	bool up;          /* faults begin once both sides know the session */
	bool named;       /* the caller provides memory for the reply */
	bool zero_rtt;    /* the client has a ticket: its call is 0-RTT, on the CONNECT */
	lend_ns think;    /* the handler's time */
	lend_ns patience; /* the caller's timeout; 0: none */
};

/* State of the current run. */
static struct {
	const struct plan *plan;
	uint64_t session[2], asked[4];
	uint32_t which[4]; /* asked[i]: index of the call */
	uint32_t ups, calls, ends, requests, replies;
	uint32_t ran[4]; /* by call: number of times its handler began */
	uint8_t ended[4], end_ran[4];
	uint32_t left[4]; /* datagrams of requests, when the call was made */
	lend_ns called;
	bool dead; /* a session ended */
} at;

static unsigned salt_of(uint32_t call, bool reply)
{
	return call * 31 + (reply ? 100 : 3);
}

static void call(struct faults *f)
{
	const struct plan *p = at.plan;
	struct faults_node *n = &f->node[p->from];
	struct lend_core_call call = {
	    .method = at.calls,
	    .zero_rtt = p->zero_rtt,
	    .deadline = p->patience ? f->now + p->patience : LEND_NEVER,
	    .request = faults_buf(f, p->from, p->request, salt_of(at.calls, false)),
	    .reply = p->named ? faults_buf(f, p->from, 0, 0) : 0,
	    .tag = at.calls};
	uint64_t handle;
	int rc;

	rc = lend_core_call(n->core, f->now, at.session[p->from], &n->bufs, &call, &handle);
	if (rc)
		faults_wrong(f, "no call");
	at.left[at.calls++] = f->left;
}

static void answer(struct faults *f)
{
	uint32_t server = !at.plan->from, i = at.replies++;
	struct faults_node *n = &f->node[server];
	uint32_t buf = faults_buf(f, server, at.plan->reply, salt_of(at.which[i], true));

	if (lend_core_reply(n->core, f->now, at.asked[i], &n->bufs, 0, buf))
		faults_wrong(f, "no reply");
}

static void on_request(struct faults *f, uint32_t node, const struct lend_event *e)
{
	if (node == at.plan->from || e->method >= at.plan->calls || at.ran[e->method]++) {
		faults_wrong(f, "a handler ran twice");
		return;
	}
	if (e->len != at.plan->request ||
	    !faults_same(f, node, e, e->buf, salt_of(e->method, false)))
		faults_wrong(f, "a request's bytes are wrong");
	faults_give(f, node, e->buf);
	at.which[at.requests] = e->method;
	at.asked[at.requests++] = e->call;
	if (at.plan->think)
		f->alarm = f->now + at.plan->think;
	else
		answer(f);
}

static void on_end(struct faults *f, uint32_t node, const struct lend_event *e)
{
	const struct plan *p = at.plan;

	if (node != p->from || e->tag >= at.calls || at.ended[e->tag]++) {
		faults_wrong(f, "a call ended twice");
		return;
	}
	at.ends++;
	if (e->status == OK &&
	    (e->len != p->reply ||
	     !faults_same(f, node, e, e->reply, salt_of((uint32_t)e->tag, true))))
		faults_wrong(f, "a reply's bytes are wrong");
	if (e->status == OK ? e->ran != RAN_YES : !p->patience || e->status != DEADLINE_EXCEEDED)
		faults_wrong(f, "a call's status is wrong");
	if (e->ran == RAN_MAYBE && f->left == at.left[e->tag])
		faults_wrong(f, "ran maybe, but nothing of it was sent");
	at.end_ran[e->tag] = e->ran;
	faults_give(f, node, e->buf);
	faults_give(f, node, e->reply);
	if (at.calls < p->calls)
		call(f);
}

static void on_event(struct faults *f, uint32_t node, const struct lend_event *e)
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
		/* Only a session from which nothing arrived may be declared dead. */
		at.dead = true;
		if (at.ends < at.plan->calls && f->now - f->heard[node] < 5000 * LEND_MS)
			faults_wrong(f, "the session went down");
		return;
	case LEND_EV_NEED:
		faults_wrong(f, "a NEED was raised");
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

/* `ran` must be correct: no means never, yes means once. */
static void judge(struct faults *f)
{
	for (uint32_t i = 0; i < at.plan->calls; i++)
		if (at.end_ran[i] != RAN_MAYBE && at.ran[i] != (at.end_ran[i] == RAN_YES))
			faults_wrong(f, "ran is wrong");
}

/* A session with a first call that asks for a ticket; then the session ends. */
static void meet(struct faults *f)
{
	struct plan one = *at.plan;

	at.plan = &one;
	one.calls = 1;
	at.session[0] = faults_connect(f, 0, 1);
	call(f);
	while (at.ends == 0 && faults_step(f, LEND_NEVER))
		continue;
	lend_core_disconnect(f->node[0].core, at.session[0]);
	while (faults_step(f, LEND_NEVER))
		continue;
}

static void run(struct faults *f, const void *arg)
{
	const struct plan *p = arg;
	lend_ns bound;

	memset(&at, 0, sizeof(at));
	at.plan = p;
	faults_reset(f, 2);
	f->on_event = on_event;
	f->on_alarm = answer;
	if (p->zero_rtt) {
		meet(f);
		memset(&at, 0, sizeof(at));
		at.plan = p;
	}
	if (!p->up)
		faults_begin(f);
	at.session[0] = faults_connect(f, 0, 1);
	while (p->up && at.ups < 2 && faults_step(f, LEND_NEVER))
		continue;
	if (p->up)
		faults_begin(f);
	at.called = f->now;
	for (uint32_t i = 0; (p->up || p->from == 0) && i < (p->at_once ? p->calls : 1); i++)
		call(f);
	bound = f->now + faults_bound() + p->calls * (p->think + LEND_MS);
	/* The accepting side waits for a PING before it calls; the other side has nothing more
	 * urgent to send. */
	if (p->from == 1 && !p->up)
		bound += 5000 * LEND_MS;
	while (at.ends < p->calls && !at.dead && faults_step(f, bound))
		continue;
	if (at.ends < p->calls && !at.dead)
		faults_wrong(f, "the calls do not end in time");
	f->longest = lend_max_u64(f->longest, f->now - at.called);
	faults_rest(f, at.called + p->think);
	if (!at.dead)
		judge(f);
	lend_core_disconnect(f->node[0].core, at.session[0]);
	while (faults_step(f, LEND_NEVER))
		continue;
	faults_over(f);
}

static void all_faults(const struct plan *plans, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (enum fault fault = FAULT_LOST; fault <= FAULT_FULL; fault++)
			/* Copies cause no timeout; late ones arrive during the next call. */
			if ((fault != FAULT_TWICE || !plans[i].patience) &&
			    (fault != FAULT_STALE || plans[i].calls > 1))
				faults_all(plans[i].name, fault, run, &plans[i]);
}
#define ALL(...)                                                                                   \
	do {                                                                                       \
		static const struct plan plans[] = {__VA_ARGS__};                                  \
		all_faults(plans, sizeof(plans) / sizeof(plans[0]));                               \
	} while (0)

Test(exhaustive_faults_call, one_fragment)
{
	ALL({.name = "connect, a call of one fragment", .request = ONE, .reply = ONE, .calls = 1},
	    {.name = "connect, two calls of one fragment",
	     .request = ONE,
	     .reply = ONE,
	     .calls = 2});
}

Test(exhaustive_faults_call, zero_rtt_call)
{
	ALL({.name = "connect with a call of one fragment",
	     .request = ONE,
	     .reply = ONE,
	     .calls = 1,
	     .zero_rtt = true},
	    {.name = "connect with an impatient call to a slow handler",
	     .request = ONE,
	     .reply = ONE,
	     .calls = 1,
	     .zero_rtt = true,
	     .think = 2 * LEND_MS,
	     .patience = 6 * LEND_MS});
}

Test(exhaustive_faults_call, eight_fragments)
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

Test(exhaustive_faults_call, from_the_side_that_was_connected_to)
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

Test(exhaustive_faults_call, slow_handlers_and_short_patience)
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

Test(exhaustive_faults_call, calls__several_with_timeouts)
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
