/* op_call - one call of an operation: its bytes, its memory, its end.
 *
 * A request is a head, followed by the caller's own memory, wrapped. The bytes of a get or read are
 * stored into the caller's memory in the same way. So an operation may end only when its call has
 * ended and no carrier uses a wrapped segment any more: wraps counts these. Layer: cn. Threads: the
 * endpoint's. */
#include "cn/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cn/lent/caller.h"
#include "cn/lent/lender.h"
#include "cn/op_one_sided.h"
#include "lend/one_sided.h"
#include "util/check.h"

static struct cn_op *of_call(struct lend_call *call)
{
	return cn_op_inner((struct lend_op *)((char *)call - offsetof(struct lend_op, call)));
}

static void go_on(struct cn_op *op)
{
	struct lend_mem *mem = op->mem;
	struct lend_op *outer = cn_op_outer(op);

	op->ended = false;
	if (op->again && (op->cancelled || mem->closing)) {
		op->again = false;
		op->part = 0;
		outer->status = LEND_CANCELLED;
		outer->ran = LEND_RAN_MAYBE;
	}
	if (!op->again) {
		cn_op_finish(op, outer->status, outer->ran);
	} else {
		cn_op_resume(op);
		if (op->step == CN_STEP_FILL)
			op->reserved(outer); /* may end the operation */
	}
	cn_pump(mem);
}

static void release_wrap(struct cn_op *op)
{
	LEND_CHECK(op->wraps > 0);
	op->wraps--;
	if (!op->wraps && op->ended)
		go_on(op);
}

static void wrap_released(void *arg)
{
	release_wrap(arg);
}

/* Wraps some of the caller's memory. NULL: no buffer is left. */
static struct lend_buf *wrap_piece(struct cn_op *op, void *bytes, uint64_t len)
{
	struct lend_buf *buf = lend_buf_wrap(op->mem->ep, bytes, (uint32_t)len, wrap_released, op);

	op->wraps += buf != NULL;
	return buf;
}

/* Wraps the caller's memory [at, at + len) of the iovecs as a chain. Returns false: no buffers
 * left; *chain has the buffers made so far. */
static bool wrap_data(struct cn_op *op, uint64_t at, uint64_t len, struct lend_buf **chain)
{
	const struct iovec *iov = op->n > 1 ? op->data : &op->one;

	for (uint32_t i = 0; i < op->n && len; i++) {
		uint64_t n = iov[i].iov_len;
		struct lend_buf *buf;

		if (at >= n) {
			at -= n;
			continue;
		}
		n = n - at < len ? n - at : len;
		buf = wrap_piece(op, (char *)iov[i].iov_base + at, n);
		if (!buf)
			return false;
		*chain = buf;
		chain = &buf->next;
		len -= n;
		at = 0;
	}
	return true;
}

/* Makes landing memory for the reply of a GET_MANY: its statuses, then the memory of the parts. */
static bool wrap_parts(struct cn_op *op, struct lend_buf **chain)
{
	uint32_t len = 4 * op->n;
	void *statuses = malloc(len);
	struct lend_buf *buf =
	    statuses ? lend_buf_wrap(op->mem->ep, statuses, len, free, statuses) : NULL;

	if (!buf) {
		free(statuses);
		return false;
	}
	*chain = buf;
	for (uint32_t i = 0; i < op->n; i++) {
		const struct lend_get_part *part = &cn_op_many(op)[i];

		if (!part->len)
			continue;
		buf->next = wrap_piece(op, part->into, part->len);
		buf = buf->next;
		if (!buf)
			return false;
	}
	return true;
}

static uint64_t chain_len(const struct lend_buf *buf)
{
	uint64_t len = 0;

	for (; buf; buf = buf->next)
		len += buf->len;
	return len;
}

/* Frees the operation's id, or has it forgotten if the result is unknown. */
static void end_id(struct cn_op *op, enum lend_ran ran)
{
	struct cn_node *node = op->mem->node[op->node];

	if (op->id && op->life == node->life) {
		if (ran == LEND_RAN_MAYBE)
			cn_forget_mark(node, op->id);
		else
			cn_id_free(node, op->id);
	}
	op->id = 0;
}

/* Evaluates the reply to a call with one-sided bytes. True: another call follows,
 * maybe after a read. False: the reply is that of any other call. */
static bool judge_one_sided(struct cn_op *op, enum lend_status status, const uint8_t *body,
			    size_t len)
{
	op->one_sided = false;
	if (status == LEND_OK && op->kind != LEND_MEMOP_GET)
		return false;
	if (status == LEND_OK && cn_one_sided_read(op, body, len, release_wrap)) {
		op->wraps++;
		return true;
	}
	if (status == LEND_FAILED_PRECONDITION)
		lend_one_sided_lost(op->mem->ep, (lend_session){op->session},
				    op->kind == LEND_MEMOP_GET);
	op->by_datagrams =
	    status == LEND_OK || status == LEND_UNIMPLEMENTED || status == LEND_FAILED_PRECONDITION;
	return op->by_datagrams;
}

/* Evaluates how the call ended: the node's reply, or that there was none. */
static void judge_call(struct cn_op *op, struct lend_call *call)
{
	struct cn_node *node = op->mem->node[op->node];
	struct lend_op *outer = cn_op_outer(op);
	enum lend_status status = call->status;
	uint8_t body[LEND_MEMOP_REPLY_MAX];
	size_t len;

	op->again = false;
	outer->ran = call->ran;
	cn_one_sided_hide(op);
	if (call->ran == LEND_RAN_YES) {
		node->doubt_until = 0;
		if ((op->kind == LEND_MEMOP_GET && !op->pool && !op->placing && !op->one_sided) ||
		    op->kind == LEND_MEMOP_READ)
			len = chain_len(call->reply);
		else
			len = cn_buf_read(call->reply, body, sizeof(body));
		if (status == LEND_ABORTED && op->life == node->life && !op->lent)
			cn_node_fenced(node);
		op->again = (op->one_sided && judge_one_sided(op, status, body, len)) ||
			    cn_step_after(op, &status, body, len);
	}
	if (op->step != CN_STEP_FILL || (status == LEND_OK && !op->again))
		end_id(op, call->ran);
	if (op->lent && status == LEND_UNAVAILABLE && call->ran == LEND_RAN_NO &&
	    cn_caller_ask_relay(op))
		op->again = true;
	if (op->lent &&
	    status == LEND_UNIMPLEMENTED) /* a process that lends or relays nothing yet */
		status = op->relayed ? LEND_UNAVAILABLE : LEND_NOT_FOUND;
	if (status == LEND_UNAVAILABLE && node->connected && node->session.id == op->session)
		cn_node_lost(node);
	outer->status = status;
	if (!op->again && cn_node_try_next(op, status))
		op->again = true;
}

static void call_done(struct lend_call *call)
{
	struct cn_op *op = of_call(call);
	struct lend_ep *ep = op->mem->ep;

	judge_call(op, call);
	op->wraps++; /* keeps op in use: the buffers given back below may be its last use */
	if (call->request)
		lend_buf_give(ep, call->request);
	if (call->reply)
		lend_buf_give(ep, call->reply);
	call->request = call->reply = NULL;
	op->ended = true;
	wrap_released(op);
}

static bool sends_data(const struct lend_memop *say)
{
	return lend_memop_payload(say) && say->kind != LEND_MEMOP_RELEASE &&
	       say->kind != LEND_MEMOP_GET_MANY;
}

static bool gets_data(const struct lend_memop *say)
{
	return say->kind == LEND_MEMOP_READ ||
	       (say->kind == LEND_MEMOP_GET &&
		!(say->flags & (LEND_MEMOP_IN_PLACE | LEND_MEMOP_ONE_SIDED)));
}

/* Stores in the slot the data to repeat the operation if its call ends without a result. */
static bool note_undo(struct cn_op *op, const struct lend_memop *say, struct lend_buf *head)
{
	struct cn_slot *slot = cn_id_slot(op->mem->node[op->node], op->id);

	slot->what = op->kind;
	slot->hash = op->hash;
	slot->offset = op->offset;
	slot->len = op->len;
	if (say->kind == LEND_MEMOP_GRANT && say->terms.kind == LEND_TERMS_TRANSFER) {
		memcpy(slot->one, say->ref_bytes, LEND_MEMREF_LEN);
		slot->refs = slot->one;
	}
	if (say->kind == LEND_MEMOP_FREE) {
		slot->kind = LEND_MEMOP_FREE;
		slot->space = say->space;
	}
	if (say->kind != LEND_MEMOP_RELEASE)
		return true;
	return cn_release_note(op, slot, head);
}

static bool build_call(struct cn_op *op, struct lend_memop *say, struct lend_call *call)
{
	struct lend_buf *shown = NULL;

	if (op->one_sided && sends_data(say)) {
		shown = cn_one_sided_show(op, wrap_released);
		op->one_sided = shown;
		if (!shown)
			say->flags &= (uint16_t)~LEND_MEMOP_ONE_SIDED;
	}
	call->request = cn_op_encode(op->mem, say);
	if (!call->request && shown)
		lend_buf_give(op->mem->ep, shown);
	if (!call->request)
		return false;
	call->request->next = shown;
	if (op->id && !note_undo(op, say, call->request))
		return false;
	if (shown)
		return true;
	if (say->kind == LEND_MEMOP_GET_MANY) {
		cn_many_encode(op, call->request);
		return wrap_parts(op, &call->reply);
	}
	if (sends_data(say))
		return wrap_data(op, op->at, op->part, &call->request->next);
	return !gets_data(say) || wrap_data(op, op->at, op->part, &call->reply);
}

static void unbuild_call(struct cn_op *op, struct lend_call *call)
{
	if (call->request)
		lend_buf_give(op->mem->ep, call->request);
	if (call->reply)
		lend_buf_give(op->mem->ep, call->reply);
	call->request = call->reply = NULL;
	cn_one_sided_hide(op);
	if (op->id && op->step != CN_STEP_FILL)
		cn_id_free(op->mem->node[op->node], op->id);
}

static void prepare_call(struct cn_op *op, struct lend_call *call)
{
	struct lend_op *outer = cn_op_outer(op);

	memset(call, 0, sizeof(*call));
	call->method = op->lent ? CN_LENT_METHOD : LEND_MEM_METHOD;
	call->priority = outer->priority;
	if (op->step == CN_STEP_FETCH && !outer->priority && !outer->parent.id)
		call->priority = CN_GUESS;
	call->queue = 1;
	call->parent = outer->parent;
	call->timeout = op->deadline == LEND_NEVER ? LEND_NEVER : op->deadline - op->mem->now;
	call->done = call_done;
}

bool cn_call_lacks(const struct cn_op *op)
{
	const struct cn_node *node;

	if (op->lacks == CN_LACKS_NOTHING)
		return false;
	node = op->mem->node[op->node];
	if (!cn_node_ready(node))
		return false;
	return op->lacks == CN_LACKS_ID ? !cn_id_left(node) : op->mem->calls_full;
}

enum cn_call_outcome cn_call_start(struct cn_op *op)
{
	struct lend_mem *mem = op->mem;
	struct cn_node *node = mem->node[op->node];
	struct lend_call *call = &cn_op_outer(op)->call;
	bool idle = TAILQ_EMPTY(&mem->flight);
	struct lend_memop say;
	int rc = -EAGAIN;

	cn_step_encode(op, &say);
	if (op->step != CN_STEP_FILL)
		op->id = 0;
	if (lend_memop_recorded(say.kind) && !op->id) {
		op->id = cn_id_take(node);
		if (!op->id) {
			cn_op_set_lack(op, CN_LACKS_ID);
			return CN_LATER;
		}
	}
	cn_op_set_lack(op, CN_LACKS_NOTHING);
	say.client = mem->client;
	say.id = op->id;
	say.low = node->low;
	say.life = op->life = node->life;
	op->session = node->session.id;
	prepare_call(op, call);
	if (build_call(op, &say, call))
		rc = lend_call_start(mem->ep, node->session, call);
	if (rc == 0) {
		cn_op_started(op);
		return CN_WENT;
	}
	unbuild_call(op, call);
	if (rc == -ESTALE) { /* the session ended unnoticed: no end of a call will run the pump */
		cn_node_lost(node);
		mem->again = true;
	}
	if (rc == -EAGAIN && !idle) {
		cn_op_set_lack(op, CN_LACKS_CALL);
		mem->calls_full = true;
		return CN_LATER;
	}
	return rc == -ESTALE ? CN_LATER : CN_NEVER;
}
