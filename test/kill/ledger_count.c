/* ledger_count - the exact count after a kill: the node's content, this client's own tables, and
 * the consistency of every ledger of the node. Part of survivor.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cn/pool/pool_client.h"
#include "kill/survivor.h"
#include "wire/worker_address.h"

#define AUDIT_WAIT (10 * SECOND)

static int ask(struct survivor *s, uint32_t worker, bool whole, struct node_counts *counts)
{
	struct lend_call call = {.method = NODE_METHOD, .timeout = SECOND};
	int rc;

	call.request = whole ? lend_buf_take(s->ep, 1) : NULL;
	if (call.request)
		call.request->len = 1;
	rc = lend_call_sync(s->ep, s->look[worker], &call);
	if (rc == 0 && call.status == LEND_OK && call.reply->len == sizeof(*counts))
		memcpy(counts, call.reply->data, sizeof(*counts));
	else if (rc == 0)
		rc = -EIO;
	lend_buf_give(s->ep, call.request);
	lend_buf_give(s->ep, call.reply);
	return rc;
}

static int connect_all(struct survivor *s)
{
	char address[104], base[104];

	if (s->page->pool) /* pool:X is shm:X */
		(void)snprintf(base, sizeof(base), "shm:%s", s->page->node + 5);
	else
		memcpy(base, s->page->node, sizeof(base));

	for (; s->looking < s->page->workers; s->looking++)
		if (!lend_worker_address(base, 0, s->looking, address, sizeof(address)) ||
		    lend_connect(s->ep, address, &s->look[s->looking]) < 0)
			return -EHOSTUNREACH;
	return 0;
}

static void add(struct node_counts *sum, const struct node_counts *one)
{
#define ADD(name) sum->name += one->name
	ADD(pages), ADD(pinned), ADD(refs), ADD(spaces), ADD(holds), ADD(grants), ADD(clients),
	    ADD(pinned_maps);
	ADD(processes), ADD(placements), ADD(sessions), ADD(fds), ADD(rings), ADD(leases_expired);
#undef ADD
	if (one->bad[0])
		memcpy(sum->bad, one->bad, sizeof(sum->bad));
}

bool survivor_look(struct survivor *s, bool whole)
{
	struct node_counts sum = {.bad = ""}, one;
	int rc = connect_all(s);

	for (uint32_t i = 0; i < s->looking && rc == 0; i++) {
		rc = ask(s, i, whole, &one);
		if (rc == 0)
			add(&sum, &one);
	}
	if (rc == 0)
		s->counts = sum;
	while (rc < 0 && s->looking)
		lend_disconnect(s->ep, s->look[--s->looking]);
	return rc == 0;
}

/* Where a death is a hang-up, no operation may run into its timeout. */
static void in_time(struct survivor *s, const struct lend_op *op)
{
	if (!s->page->udp && op->status == LEND_DEADLINE_EXCEEDED)
		kill_bad(s->page, "an operation ran into its deadline, ran %d", op->ran);
}

void survivor_new_node(struct survivor *s)
{
	uint64_t until = kill_now() + AUDIT_WAIT;
	struct lend_mem_stat stat;
	struct lend_op op;

	do { /* its first event may be the end of the old session */
		op = (struct lend_op){.timeout = 2 * SECOND};
		if (lend_mem_stat_get(s->mem, 0, &stat, &op) < 0 || lend_op_wait(s->mem, &op) < 0)
			op.status = LEND_UNAVAILABLE;
		in_time(s, &op);
	} while (op.status != LEND_OK && kill_now() < until && !atomic_load(&s->page->bad));
	if (op.status != LEND_OK)
		kill_bad(s->page, "the new node was not reached: %d", op.status);
	for (int i = 0; i < THINGS; i++) {
		struct thing *t = &s->model.thing[i];
		struct iovec iov = {s->model.thing[0].bytes, 1};

		op = (struct lend_op){.timeout = 2 * SECOND};
		if (t->kind == THING_SPACE)
			(void)lend_space_free_sync(s->mem, t->space, &op);
		if (t->kind == THING_SNAPSHOT &&
		    lend_get_sync(s->mem, &t->ref, 0, &iov, 1, &op) == 0)
			kill_bad(s->page, "a reference of the earlier node was accepted");
	}
	memset(&s->model, 0, sizeof(s->model));
	memset(s->open, 0, sizeof(s->open));
	for (uint32_t i = 0; i < s->mem->nodes; i++)
		s->life[s->mem->node[i]->worker] = s->mem->node[i]->life;
}

/* Checks the client's own ledger. */
static const char *own(struct survivor *s)
{
	static char text[128];
	uint32_t holds = 0, spaces = 0, held = 0, cleans = 0, ids = 0;

	for (uint32_t i = 0; i < s->mem->nodes; i++) {
		cleans += s->mem->node[i]->cleans;
		ids += (uint32_t)(s->mem->node[i]->next - s->mem->node[i]->low);
	}

	for (int i = 0; i < THINGS; i++)
		held += s->model.thing[i].kind == THING_SNAPSHOT ? s->model.thing[i].held : 0;
	for (uint32_t i = 0; i < s->mem->hold_cap; i++)
		if (s->mem->hold[i].count != UINT32_MAX)
			holds += s->mem->hold[i].count;
	for (uint32_t i = 0; i < s->mem->spaces; i++)
		spaces += s->mem->space[i].gen & 1;
	(void)snprintf(text, sizeof(text),
		       " client: %u holds, not %u; %u spaces, not %u; %u live, %u to clean, %u "
		       "orphans, %u ids",
		       holds, held, spaces, model_spaces(&s->model), s->mem->live, cleans,
		       s->mem->orphans, ids);
	return holds == held && spaces == model_spaces(&s->model) && !s->mem->live && !cleans &&
		       !s->mem->orphans && !ids
		   ? NULL
		   : text;
}

bool survivor_revive(struct survivor *s, const char **bad)
{
	static char text[128];
	struct lend_op op = {.timeout = 2 * SECOND};
	struct lend_mem_stat stat;

	if (lend_mem_stat_get(s->mem, 0, &stat, &op) < 0 || lend_op_wait(s->mem, &op) < 0 ||
	    op.status != LEND_OK) {
		(void)snprintf(text, sizeof(text), " no answer, status %d, ran %d: %s", op.status,
			       op.ran, lend_why());
		*bad = text;
		in_time(s, &op);
		return false;
	}
	*bad = " the node was not queried";
	(void)cn_pool_key(s->mem->node[0]); /* its socket counts */
	(void)survivor_follow(s);
	survivor_publish(s);
	return survivor_follow(s);
}

bool survivor_audit(struct survivor *s, const char *after)
{
	uint64_t until = kill_now() + AUDIT_WAIT;
	const char *bad = NULL;

	while (!atomic_load(&s->page->bad) && kill_now() < until) {
		if (!survivor_revive(s, &bad) || !survivor_look(s, false))
			continue;
		bad = model_compare(&s->model, &s->counts);
		if (!bad && s->counts.pinned_maps != model_pinned_maps(&s->model))
			bad = " the node keeps other pins";
		if (!bad)
			bad = own(s);
		if (bad)
			continue;
		if (!survivor_look(s, true))
			continue;
		if (s->counts.bad[0])
			kill_bad(s->page, "after %s the node's audit: %s", after, s->counts.bad);
		s->page->audits++;
		return !atomic_load(&s->page->bad);
	}
	kill_bad(s->page, "after %s:%s", after, bad);
	return false;
}
