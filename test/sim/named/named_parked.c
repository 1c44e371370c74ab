/* named_parked - calls whose handlers last, after everything else of a run has ended: they cost few
 * datagrams, a lost reply is found, and a dead peer ends them. Layer: test/sim. */
#include <string.h>

#include "sim/named/named_call.h"
#include "sys/last_error.h"

enum { PARKED = 10, ANSWERED = PARKED / 2, STEP_MS = 1, SETTLED_MS = 2500, IDLE_MS = 4000 };
enum { ASK_MS = 400, FOUND_MS = ASK_MS + 200, DEAD_MS = 2000 + ASK_MS };
enum { SPREAD = 40 }; /* datagrams of other sessions that one of two times has more */

static struct parked {
	struct lend_call call; /* first */
	lend_request request;
	bool runs, done;
} parked[PARKED];

static void park_request(lend_request request, const struct lend_buf *in, void *arg)
{
	uint32_t i;

	(void)arg;
	LENT_CHECK(in->len == sizeof(i), "a parked call of %u bytes", in->len);
	memcpy(&i, in->data, sizeof(i));
	LENT_CHECK(i < PARKED && !parked[i].runs, "parked call %u runs twice", i);
	parked[i].request = request;
	parked[i].runs = true;
}

static void parked_done(struct lend_call *call)
{
	struct parked *p = (struct parked *)call;

	LENT_CHECK(!p->done, "a parked call is done twice");
	p->done = true;
	lend_buf_give(lent->node[0].ep, call->request);
	lend_buf_give(lent->node[0].ep, call->reply);
}

static void start_calls(lend_session session)
{
	struct lent_node *n = &lent->node[0];

	memset(parked, 0, sizeof(parked));
	for (uint32_t i = 0; i < PARKED; i++) {
		struct lend_call *c = &parked[i].call;

		c->method = NAMED_PARKED;
		c->timeout = LEND_NEVER;
		c->done = parked_done;
		c->request = lend_buf_take(n->ep, sizeof(i));
		memcpy(c->request->data, &i, c->request->len = sizeof(i));
		LENT_CHECK(lend_call_start(n->ep, session, c) == 0, "call %u does not start: %s", i,
			   lend_why());
	}
	named_sums.parked += PARKED;
}

static void pass_ms(uint32_t ms)
{
	lend_ns until = lent->now + ms * LENT_MS;

	while (lent->now < until)
		lent_step(STEP_MS * LENT_MS);
}

static uint32_t count_done(uint32_t first, uint32_t last)
{
	uint32_t n = 0;

	for (uint32_t i = first; i < last; i++)
		n += parked[i].done;
	return n;
}

/* Returns how many datagrams idle sessions cost. */
static uint64_t count_idle(void)
{
	uint64_t before = lent_sums.datagrams;

	pass_ms(IDLE_MS);
	return lent_sums.datagrams - before;
}

/* Parked calls cost a PING and its answer in each interval, however many they are. */
static void check_idle(uint64_t before)
{
	uint64_t most = before + 2 * (IDLE_MS / ASK_MS + 1) + SPREAD, now = count_idle();

	LENT_CHECK(now <= most, "%lu datagrams while %u calls are parked, and %lu before",
		   (unsigned long)now, PARKED, (unsigned long)before);
}

/* Half of the handlers answer, and their replies are lost. */
static void lose_replies(void)
{
	struct lent_node *n = &lent->node[1];

	lent->loses_replies = true;
	for (uint32_t i = 0; i < ANSWERED; i++)
		LENT_CHECK(lend_reply(n->ep, parked[i].request, LEND_OK, NULL) == 0,
			   "parked call %u is not answered: %s", i, lend_why());
	pass_ms(3 * ASK_MS);
	named_sums.found += ANSWERED - count_done(0, ANSWERED);
	lent->loses_replies = false;
	pass_ms(FOUND_MS);
	LENT_CHECK(count_done(0, ANSWERED) == ANSWERED, "%u of %u lost replies were found",
		   count_done(0, ANSWERED), ANSWERED);
	LENT_CHECK(!count_done(ANSWERED, PARKED), "a parked call ends that was not answered");
	for (uint32_t i = 0; i < ANSWERED; i++)
		LENT_CHECK(parked[i].call.status == LEND_OK, "parked call %u ends with %d", i,
			   parked[i].call.status);
}

static void kill_peer(void)
{
	lent_node_crash(1);
	pass_ms(DEAD_MS + 100);
	LENT_CHECK(count_done(ANSWERED, PARKED) == PARKED - ANSWERED,
		   "%u parked calls have not ended with their peer",
		   PARKED - ANSWERED - count_done(ANSWERED, PARKED));
	for (uint32_t i = ANSWERED; i < PARKED; i++)
		LENT_CHECK(parked[i].call.status == LEND_UNAVAILABLE, "parked call %u ends with %d",
			   i, parked[i].call.status);
	named_sums.dead += PARKED - ANSWERED;
	lent_node_birth(1);
}

void named_parked_run(void)
{
	enum lent_kind kind = lent_below(LENT_NAMED, 2) ? LENT_UDP : LENT_SHM;
	lend_session session = lent_node_session(0, 1, kind);
	uint64_t before;

	LENT_CHECK(session.id &&
		       lend_serve(lent->node[1].ep, NAMED_PARKED, park_request, NULL, 0) == 0,
		   "no session to park calls on: %s", lend_why());
	pass_ms(SETTLED_MS);
	before = count_idle();
	start_calls(session);
	pass_ms(SETTLED_MS);
	for (uint32_t i = 0; i < PARKED; i++)
		LENT_CHECK(parked[i].runs && !parked[i].done, "call %u is not parked: status %d", i,
			   parked[i].call.status);
	check_idle(before);
	lose_replies();
	kill_peer();
}
