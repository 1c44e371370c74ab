/* lent_node - nodes of a run: their endpoints and clients, turns, crashes; and time. Layer:
 * test/sim. */
#include <stdio.h>
#include <string.h>

#include "sim/lent/lent.h"
#include "sys/last_error.h"

enum { SESSIONS = 32, CALLS = 16 };

void lent_node_birth(uint32_t node)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lent_node *n = &lent->node[node];
	char shm[32], udp[32], both[66];

	lent_carrier_address(LENT_SHM, node, shm, sizeof(shm));
	lent_carrier_address(LENT_UDP, node, udp, sizeof(udp));
	snprintf(both, sizeof(both), "%s,%s", shm, udp);
	config.listen = both;
	config.sessions = SESSIONS;
	config.calls = CALLS;
	config.timeout = 30 * LENT_MS;
	config.probe = lent->plan.probe;
	config.dead = lent->plan.dead;
	config.head_max = n->head_max;
	config.secret = "";
	config.level = "none";
	config.capture = "";
	n->life++;
	lent->born = node;
	memset(n->session, 0, sizeof(n->session));
	n->paused = 0;
	LENT_CHECK(lend_open(&config, &n->ep) == 0 && lend_mem_open(n->ep, NULL, &n->mem) == 0 &&
		       lent_serve_open(node) == 0,
		   "node %u does not open: %s", node, lend_why());
	lend_loan_ttl_set(n->mem, LENT_TTL);
	if (lent->work)
		lent->work->birth(node);
	lent_trace("node %u is born", node);
}

static void close_node(struct lent_node *n)
{
	uint32_t node = (uint32_t)(n - lent->node);

	n->dying = true;
	n->busy++;
	lent_serve_drop(node, true);
	lend_mem_close(n->mem);
	lend_close(n->ep);
	lent_serve_drop(node, false);
	n->busy--;
	n->dying = false;
	n->ep = NULL;
	n->mem = NULL;
}

/* The process ends within no time, and its memory is used for something else at once. */
void lent_node_crash(uint32_t node)
{
	if (!lent->node[node].ep || lent->node[node].busy)
		return;
	lent_trace("node %u is killed", node);
	lent_sums.kills++;
	lent_net_kill(node);
	lent->skew = 1;
	close_node(&lent->node[node]);
	lent->skew = 0;
}

/* Closes the client and endpoint as a program does, while others go on. */
void lent_node_close(uint32_t node)
{
	lent->waits = true;
	lent->closes = lent->now;
	close_node(&lent->node[node]);
	lent->waits = false;
}

void lent_node_turn(uint32_t node)
{
	struct lent_node *n = &lent->node[node];

	if (!n->ep || n->busy || n->paused > lent->now)
		return;
	n->busy++;
	LENT_CHECK(lend_poll(n->ep) >= 0, "node %u: %s", node, lend_why());
	n->busy--;
}

void lent_node_others(void)
{
	uint32_t first = (uint32_t)lent_below(LENT_FAULT, lent->plan.nodes);

	for (uint32_t i = 0; i < lent->plan.nodes; i++)
		lent_node_turn((first + i) % lent->plan.nodes);
}

static lend_ns mean_time(lend_ns mean)
{
	return lent->now + 1 + lent_below(LENT_FAULT, 2 * mean);
}

static void draw_crash(uint32_t node, bool birth)
{
	if (birth) {
		if (!lent->node[node].ep)
			lent_node_birth(node);
		return;
	}
	if (lent->healing)
		return;
	if (!lent->node[node].busy && lent->node[node].ep) {
		lent_node_crash(node);
		lent_at(lent->now +
			    lent_below(LENT_FAULT, 2) * lent_below(LENT_FAULT, 40 * LENT_MS),
			LENT_CRASH, node, 1);
	}
	lent_at(mean_time(lent->plan.crash), LENT_CRASH,
		(uint32_t)lent_below(LENT_FAULT, lent->plan.nodes), 0);
}

static void draw_pause(uint32_t node)
{
	if (lent->healing)
		return;
	lent->node[node].paused =
	    lent->now + lent_below(LENT_FAULT, lent_below(LENT_FAULT, 4) ? LENT_MS : 40 * LENT_MS);
	lent_at(mean_time(lent->plan.pause), LENT_PAUSE,
		(uint32_t)lent_below(LENT_FAULT, lent->plan.nodes), 0);
}

static void run_event(const struct sim_event *e)
{
	switch ((enum lent_what)(uint8_t)e->order) {
	case LENT_READ:
	case LENT_ARRIVE:
		lent_net_event((enum lent_what)(uint8_t)e->order, e->a);
		break;
	case LENT_CALL:
		lent_call_start();
		break;
	case LENT_CANCEL:
		lent_call_cancel(e->a);
		break;
	case LENT_ACT:
		lent_serve_act(e->a);
		break;
	case LENT_USE:
		lent_serve_use(e->a);
		break;
	case LENT_WORK:
		lent->work->event(e->a, e->b);
		break;
	case LENT_CRASH:
		draw_crash(e->a, e->b);
		break;
	case LENT_PAUSE:
		draw_pause(e->a);
		break;
	}
}

void lent_step(lend_ns most)
{
	lend_ns next = lent->now + most;

	if (lent->heap.n && lent->heap.e[0].at < next)
		next = lent->heap.e[0].at;
	lent->now = next > lent->now ? next : lent->now;
	while (lent->heap.n && lent->heap.e[0].at <= lent->now) {
		struct sim_event e = sim_heap_pop(&lent->heap);

		run_event(&e);
	}
	lent_node_others();
	lent_serve_check();
	lent_call_check();
	if (lent->work)
		lent->work->step();
}

lend_session lent_node_session(uint32_t node, uint32_t to, enum lent_kind kind)
{
	struct lent_node *n = &lent->node[node];
	lend_session *session = &n->session[to][kind];
	char address[32];

	if (session->id && lend_session_message_max(n->ep, *session))
		return *session;
	lent_carrier_address(kind, to, address, sizeof(address));
	if (lend_connect(n->ep, address, session) < 0)
		session->id = 0;
	return *session;
}
