/* args/args - a call or a reply with large arguments, from its puts to its end.
 *
 * If the put of an argument fails, the argument is sent by value. If the message would then be too
 * long for the peer, the whole call or reply fails. References are released in the background
 * (cn/deferred_release.c), so that the caller's done does not wait for a release. Small arguments
 * are copied into the message. Those between the two limits are wrapped; the end then waits until
 * no carrier reads them any more. Layer: cn. Threads: the endpoint's. */
#include "cn/args/args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cn/args/inline_threshold.h"
#include "cn/deferred_release.h"
#include "cn/lent/lender.h"
#include "cn/lent/loan.h"
#include "cn/lent/relay.h"
#include "cn/ref_ops.h"
#include "lend/alloc.h"
#include "lend/metadata.h"
#include "sys/ref_counts.h"
#include "util/bits.h"
#include "util/check.h"

#define TTL     UINT64_C(30000000000)
#define LOOK_NS UINT64_C(250000000) /* between looks at the sessions of results */
/* Shorter puts end sooner than the additional round trip pays. */
enum { EARLY_MIN = 256 << 10 };

static void send_message(struct cn_args *a);
static bool starts_by_value(struct cn_args *a);
static void retire_args(struct cn_args *a);

void cn_args_wrap_gone(void *arg)
{
	struct cn_args *a = arg;

	LEND_CHECK(a->wraps > 0);
	if (!--a->wraps && a->ended)
		retire_args(a);
}

static void note_failure(struct cn_args *a, enum lend_status status)
{
	if (a->status == LEND_OK)
		a->status = status;
}

/* Releases the references that were put, unless they were handed over. */
static void release_kept(struct cn_args *a)
{
	for (uint32_t k = 0; k < a->puts; k++)
		if (a->put[k].kept && !a->put[k].lent && !a->replied)
			cn_deferred_add(a->mem, &a->put[k].op.ref, a->user != NULL);
		else
			cn_deferred_unreserve(a->mem, 1);
	a->puts = 0;
}

static void free_args(struct cn_args *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		lend_free(a->arg[i].gathered);
	free(a);
}

static void end_call(struct cn_args *a)
{
	struct lend_call *user = a->user;

	user->status = a->call.status;
	user->ran = a->call.ran;
	user->reply = a->call.reply;
	user->reply_len = a->call.reply_len;
	user->hops = a->call.hops;
	user->request = NULL;
	free_args(a);
	if (user->done)
		user->done(user);
}

/* Ends the call or reply after the last use of `a`. The user's done or gone runs last, because it
 * may free anything. */
static void retire_args(struct cn_args *a)
{
	struct lend_mem *mem = a->mem;

	if (mem) {
		if (a->alarm.ring)
			lend_alarm_set(mem->ep, &a->alarm, LEND_NEVER);
		TAILQ_REMOVE(&mem->args, a, link);
		release_kept(a);
		cn_pump(mem);
	}
	if (a->user) {
		end_call(a);
		return;
	}
	if (a->gone)
		a->gone(a->of);
	if (a->gone_iovec)
		a->gone_iovec(a->given);
	free_args(a);
}

static void end_loan(struct cn_args *a, struct cn_put *put)
{
	if (!put->lent)
		return;
	put->lent = put->kept = false;
	cn_lent_end(a->mem->lender, &put->op.ref);
}

/* Ends the loans: from now on no reader gets bytes of the arguments. */
static void end_loans(struct cn_args *a)
{
	for (uint32_t k = 0; k < a->puts; k++)
		end_loan(a, &a->put[k]);
}

static bool has_loans(const struct cn_args *a)
{
	uint32_t k = 0;

	while (k < a->puts && !a->put[k].lent)
		k++;
	return k < a->puts;
}

/* Lets the callee have no more reads relayed. */
static void end_pass(struct cn_args *a)
{
	if (a->passes)
		LIST_REMOVE(a, pass);
	a->passes = false;
}

static bool has_late_puts(const struct cn_args *a)
{
	uint32_t k = 0;

	while (k < a->puts && !a->put[k].late)
		k++;
	return k < a->puts;
}

/* Ends the puts that still send their bytes. */
static void end_late_puts(struct cn_args *a)
{
	for (uint32_t k = 0; k < a->puts; k++)
		if (a->put[k].late)
			lend_op_cancel(a->mem, &a->put[k].op);
}

static void end_late(struct lend_alarm *alarm)
{
	end_late_puts((struct cn_args *)((char *)alarm - offsetof(struct cn_args, alarm)));
}

/* Ends what a call lent. The node may reply to a put after the call has ended, although the callee
 * read its bytes: waiting for that reply costs less than having the put forgotten. */
static void end_call_puts(struct cn_args *a)
{
	end_pass(a);
	end_loans(a);
	if (a->call.status != LEND_OK || a->mem->closing)
		end_late_puts(a); /* some may end later, when no carrier reads their bytes */
	if (!has_late_puts(a))
		return;
	a->alarm.ring = end_late;
	lend_alarm_set(a->mem->ep, &a->alarm, lend_now(a->mem->ep) + CN_ARGS_WAIT);
}

static void end_args(struct cn_args *a)
{
	end_pass(a);
	end_loans(a);
	end_late_puts(a);
	a->ended = true;
	if (!a->wraps)
		retire_args(a);
}

static void end_unsent(struct cn_args *a)
{
	a->call.status = a->status;
	a->call.ran = LEND_RAN_NO;
	a->call.reply_len = 0;
	end_args(a);
}

static void call_done(struct lend_call *call)
{
	struct cn_args *a = (struct cn_args *)((char *)call - offsetof(struct cn_args, call));
	struct lend_mem *mem = a->mem;

	lend_call_pass_head(mem->ep, call, a->user);
	if (call->hops)
		cn_threshold_learn(mem, a->session, call->method, call->hops);
	if (a->tag && call->status == LEND_OK)
		cn_threshold_tried(mem, a->session, call->method, a->arg->len, a->tag,
				   lend_now(mem->ep) - a->began);
	a->wraps++; /* keeps `a` allocated: what is given back below may be its last use */
	if (call->request)
		lend_buf_give(mem->ep, call->request);
	call->request = NULL;
	if (!starts_by_value(a)) {
		end_call_puts(a);
		a->ended = true;
	}
	cn_args_wrap_gone(a);
}

static void fill_call(struct cn_args *a)
{
	a->call = (struct lend_call){.method = a->user->method,
				     .priority = a->user->priority,
				     .timeout = a->user->timeout,
				     .parent = a->user->parent,
				     .hops = a->user->hops,
				     .head = a->user->head,
				     .queue = 1,
				     .reply = a->user->reply,
				     .done = call_done};
}

static enum lend_status why_not(int rc)
{
	return rc == -ESTALE ? LEND_UNAVAILABLE : LEND_RESOURCE_EXHAUSTED;
}

static void start_call(struct cn_args *a)
{
	struct lend_mem *mem = a->mem;
	lend_ns now = lend_now(mem->ep);
	int rc = -ENOMEM;
	bool fine;

	if (now >= a->deadline) {
		note_failure(a, LEND_DEADLINE_EXCEEDED);
		end_unsent(a);
		return;
	}
	if (a->call.timeout && a->deadline != LEND_NEVER)
		a->call.timeout = a->deadline - now;
	a->call.request = cn_args_message(mem->ep, a->arg, a->n, a, &fine);
	if (fine)
		rc = lend_call_start(mem->ep, a->session, &a->call);
	a->in_flight = rc == 0;
	if (a->in_flight)
		return;
	if (a->call.request)
		lend_buf_give(mem->ep, a->call.request);
	a->call.request = NULL;
	note_failure(a, why_not(rc));
	end_unsent(a);
}

static void send_answer(struct cn_args *a)
{
	bool fine = a->status == LEND_OK;
	struct lend_buf *buf = NULL;

	if (fine)
		buf = cn_args_message(a->mem->ep, a->arg, a->n, a, &fine);
	if (!fine)
		note_failure(a, LEND_RESOURCE_EXHAUSTED);
	a->replied =
	    lend_reply(a->mem->ep, a->request, fine ? a->answer : a->status, buf) == 0 && fine;
	if (!a->replied || !has_loans(a) || a->mem->closing) {
		end_args(a);
		return;
	}
	a->until = lend_now(a->mem->ep) + (a->mem->loan_ttl ? a->mem->loan_ttl : TTL);
	cn_loans_watch(a->mem, lend_min_u64(a->until, lend_now(a->mem->ep) + LOOK_NS));
}

bool cn_args_release(struct cn_args *a, const struct lend_ref *ref)
{
	uint32_t k = 0;

	while (k < a->puts && memcmp(&a->put[k].op.ref, ref, sizeof(*ref)) != 0)
		k++;
	if (!a->until || a->ended || k == a->puts)
		return false;
	end_loan(a, &a->put[k]);
	if (!has_loans(a))
		end_args(a);
	return true;
}

/* Returns whether a result has to end. After the end of its session, no caller can release it. */
static bool has_expired(const struct cn_args *a, lend_ns now)
{
	bool late = now >= a->until;

	if (late)
		lend_ref_count(&lend_ref_counts.expired);
	return late || !lend_session_message_max(a->mem->ep, a->session);
}

lend_ns cn_args_expire(struct lend_mem *mem, bool all)
{
	lend_ns now = lend_now(mem->ep), next;
	struct cn_args *a;

	do {
		next = LEND_NEVER;
		TAILQ_FOREACH(a, &mem->args, link)
		{
			if (!a->until || a->ended)
				continue;
			if (all || has_expired(a, now))
				break;
			next = lend_min_u64(next, lend_min_u64(a->until, now + LOOK_NS));
		}
		if (a)
			end_args(a);
	} while (a);
	return next;
}

/* Returns whether all arguments can be sent in the message. */
static bool fits_peer(const struct cn_args *a)
{
	lend_session session = a->user ? a->session : lend_request_session(a->mem->ep, a->request);

	return cn_args_fit(a->mem->ep, session, a->arg, a->n);
}

/* Sends the arguments that were not put in the message, unless the call was cancelled. */
static void fall_back(struct cn_args *a)
{
	if (a->cancelled || a->mem->closing || !fits_peer(a))
		return;
	a->status = LEND_OK;
	a->mem->args_stat.fallbacks++;
	lend_ref_count(&lend_ref_counts.by_value);
}

/* Returns whether the call may have failed because a put did not end, and no handler ran. */
static bool may_start_again(const struct cn_args *a)
{
	return (a->lost || has_late_puts(a)) && a->call.ran == LEND_RAN_NO &&
	       a->call.reply == a->user->reply &&
	       (a->call.status == LEND_UNAVAILABLE || a->call.status == LEND_NOT_FOUND);
}

/* Starts a call again after one of its puts did not end, with these bytes in the message. Returns
 * false: the call has ended. */
static bool starts_by_value(struct cn_args *a)
{
	if (!may_start_again(a))
		return false;
	a->status = a->call.status;
	fall_back(a);
	if (a->status != LEND_OK)
		return false;
	end_late_puts(a);
	for (uint32_t k = 0; k < a->puts; k++)
		a->put[k].kept &= !a->put[k].late;
	a->lost = false;
	fill_call(a);
	start_call(a);
	return true;
}

/* Sends the message, after all puts have ended. */
static void send_message(struct cn_args *a)
{
	if (a->status != LEND_OK)
		fall_back(a);
	if (!a->user)
		send_answer(a);
	else if (a->status != LEND_OK)
		end_unsent(a);
	else
		start_call(a);
}

static void drop_busy(struct cn_args *a)
{
	if (!--a->busy)
		send_message(a);
}

static void put_done(struct lend_op *op)
{
	struct cn_put *put = (struct cn_put *)op;
	bool late = put->late;

	put->late = false;
	put->kept = op->status == LEND_OK;
	put->args->mem->args_stat.by_ref += put->kept;
	if (!put->kept && !put->args->in_flight)
		note_failure(put->args, op->status);
	put->args->lost |= !put->kept;
	if (late) {
		cn_args_wrap_gone(put->args);
		return;
	}
	if (op->status == LEND_DEADLINE_EXCEEDED && put->args->wait)
		cn_node_pause(put->args->mem->node[cn_op_inner(op)->node], put->args->wait);
	drop_busy(put->args);
}

/* Lets the message go: the pages of this put are reserved. The rest of the put has the call's time,
 * because the bytes cannot go in the message any more. */
static void put_reserved(struct lend_op *op)
{
	struct cn_put *put = (struct cn_put *)op;
	struct cn_args *a = put->args;

	put->kept = put->late = true;
	cn_op_inner(op)->deadline = a->deadline;
	a->wraps++;
	drop_busy(a);
}

/* Returns the time limit of the puts while the bytes can be sent in the message instead. 0: use the
 * limit of like. */
static lend_ns wait_for_puts(const struct cn_args *a, const struct lend_op *like)
{
	lend_ns wait = CN_ARGS_WAIT + cn_args_size(a->arg, a->n) * CN_ARGS_BYTE_NS, left;

	if (!fits_peer(a))
		return 0;
	left = like->timeout ? like->timeout : LEND_NEVER;
	if (!like->timeout && like->parent.id)
		left = lend_request_left(a->mem->ep, like->parent);
	return lend_max_u64(lend_min_u64(wait, left / 2), 1);
}

static void put_one(struct cn_args *a, struct cn_put *put, const struct lend_op *like,
		    const struct lend_terms *terms)
{
	put->op = *like;
	put->op.done = put_done;
	if (a->wait)
		put->op.timeout = a->wait;
	a->busy++;
	if (cn_put(a->mem, cn_arg_pieces(put->arg), (int)put->arg->n, terms,
		   a->early && put->arg->len >= EARLY_MIN ? put_reserved : NULL, &put->op) == 0)
		return;
	a->busy--;
	note_failure(a, LEND_RESOURCE_EXHAUSTED);
}

static void start_puts(struct cn_args *a, const struct lend_op *like,
		       const struct lend_terms *terms)
{
	struct cn_put *put = a->put;

	TAILQ_INSERT_TAIL(&a->mem->args, a, link);
	a->busy = 1;
	a->wait = wait_for_puts(a, like);
	for (uint32_t i = 0; i < a->n; i++) {
		if (a->arg[i].plan < CN_ARG_LEND)
			continue;
		put->args = a;
		put->arg = &a->arg[i];
		a->arg[i].put = put;
		if (a->arg[i].plan == CN_ARG_PUT || !cn_args_lend(a, put))
			put_one(a, put, like, terms);
		put++;
	}
	drop_busy(a);
}

void cn_args_start_call(struct cn_args *a, lend_session session, struct lend_call *call)
{
	struct lend_op like = {
	    .parent = call->parent, .timeout = call->timeout, .priority = call->priority};
	lend_ns now = lend_now(a->mem->ep);

	a->user = call;
	a->session = session;
	a->began = now;
	a->deadline =
	    call->timeout && call->timeout < LEND_NEVER - now ? now + call->timeout : LEND_NEVER;
	a->early = a->puts && cn_threshold_passed_on(a->mem, session, call->method);
	if (a->passes)
		LIST_INSERT_HEAD(&cn_lender_relays(a->mem)->passes, a, pass);
	fill_call(a);
	start_puts(a, &like, NULL);
}

void cn_args_start_reply(struct cn_args *a)
{
	static const struct lend_terms terms = {sizeof(terms), LEND_TRANSFER, 0, TTL, 0};
	struct lend_op like = {.parent = a->request};

	a->session = lend_request_session(a->mem->ep, a->request);
	start_puts(a, &like, &terms);
}

void cn_args_cancel(struct cn_args *a)
{
	a->cancelled = true;
	if (a->busy) {
		a->status = LEND_CANCELLED; /* a put that failed before does not end the call */
		a->busy++;
		for (uint32_t k = 0; k < a->puts; k++)
			lend_op_cancel(a->mem, &a->put[k].op);
		drop_busy(a);
	} else if (a->in_flight && !a->ended) {
		lend_call_cancel(a->mem->ep, &a->call);
	}
}

void cn_args_cancel_all(struct lend_mem *mem)
{
	struct cn_args *a;

	do {
		TAILQ_FOREACH(a, &mem->args, link)
		if (!a->cancelled)
			break;
		if (a)
			cn_args_cancel(a);
	} while (a);
}

void cn_args_detach(struct lend_mem *mem)
{
	struct cn_args *a;

	while ((a = TAILQ_FIRST(&mem->args))) {
		TAILQ_REMOVE(&mem->args, a, link);
		a->mem = NULL;
	}
}

bool cn_args_busy(const struct lend_mem *mem, bool late)
{
	const struct cn_args *a;

	TAILQ_FOREACH(a, &mem->args, link)
	if (a->user || !late)
		return true;
	return false;
}
