/* arg_read - the public functions that read arguments: into memory, or as memory.
 * Layer: cn. Threads: the endpoint's. */
#include <errno.h>
#include <string.h>

#include "cn/lent/arg_view.h"
#include "cn/lent/caller.h"
#include "cn/ref_ops.h"
#include "sys/last_error.h"

/* Ends the operation at once. */
static int end_here(struct lend_op *op, enum lend_status status)
{
	cn_op_inner(op)->state = CN_DONE;
	cn_op_inner(op)->err = 0;
	op->status = status;
	op->ran = LEND_RAN_NO;
	if (op->done)
		op->done(op);
	return 0;
}

/* Begins a read from the sender's memory. The sender of a message may name any host as the home of
 * an argument. So this process connects to that address only on the carrier that the message came
 * by. On another carrier, the caller of the request is asked to read for this process. */
static int begin_read(struct lend_mem *mem, const struct lend_arg *arg, struct lend_op *op)
{
	lend_session via =
	    arg->session.id ? arg->session : lend_request_session(mem->ep, op->parent);
	struct cn_op *o = cn_op_inner(op);
	struct lend_memref ref;
	struct lend_peer peer;
	bool near;
	int rc;

	if (lend_session_peer(mem->ep, via, &peer) < 0)
		return lend_fail(arg->session.id ? ESTALE : EINVAL,
				 "a lent argument is read for the message that it came "
				 "with: set op.parent to a request that is not answered, "
				 "or the argument's session to that of the reply");
	near = cn_caller_near(&peer, arg->home);
	if ((!near && arg->session.id) || !arg->home[0] || strlen(arg->home) >= CN_ADDRESS_MAX)
		return lend_fail(EINVAL,
				 "%.103s: the lender's address is not on the message's "
				 "carrier",
				 arg->home);
	rc = cn_op_begin(mem, op, LEND_MEMOP_GET);
	if (rc < 0)
		return rc;
	lend_memref_root((const uint8_t *)&arg->ref, &ref);
	rc = near ? cn_caller_find(mem, arg->home, ref.key_id) : cn_caller_relay(mem, via);
	if (rc < 0)
		return rc;
	o->lent = true;
	o->relayed = o->by_message = !near;
	o->node = (uint16_t)rc;
	op->ref = arg->ref;
	o->hash = cn_order_ref(&arg->ref);
	return 0;
}

/* Begins a GET of an argument that is a reference. The caller of this function sets the range. */
static int begin_get(struct lend_mem *mem, const struct lend_arg *arg, struct lend_op *op)
{
	struct lend_memref ref;

	if (arg->bytes || !lend_memref_decode((const uint8_t *)&arg->ref, &ref))
		return lend_fail(EINVAL, "the argument's bytes are in the message, or it is none");
	if (ref.home != LEND_HOME_CALLER)
		return cn_begin_ref(mem, op, LEND_MEMOP_GET, &arg->ref);
	return begin_read(mem, arg, op);
}

/* Starts an operation that rc began. That of a result of a session that has ended fails at once. */
static int start_begun(const struct lend_arg *arg, struct lend_op *op, int rc)
{
	if (rc == -ESTALE && arg->session.id)
		return end_here(op, LEND_UNAVAILABLE);
	return rc < 0 ? rc : cn_op_go(cn_op_inner(op));
}

int lend_arg_get(struct lend_mem *mem, const struct lend_arg *arg, uint64_t offset,
		 const struct iovec *into, int n, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = begin_get(mem, arg, op);

	if (rc == 0)
		rc = cn_take_iov(o, into, n);
	o->offset = offset;
	return start_begun(arg, op, rc);
}

int lend_arg_map(struct lend_mem *mem, const struct lend_arg *arg, struct lend_arg_view *view,
		 struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc;

	*view = (struct lend_arg_view){.bytes = arg->bytes, .len = arg->len};
	if (arg->bytes) {
		rc = cn_op_begin(mem, op, LEND_MEMOP_GET);
		return rc < 0 ? rc : end_here(op, LEND_OK);
	}
	rc = begin_get(mem, arg, op);
	if (rc == 0) {
		view->len = o->len = lend_ref_len(&arg->ref);
		o->n = 1;
		o->out = view;
		o->view = true;
	}
	return start_begun(arg, op, rc);
}

int lend_arg_release(struct lend_mem *mem, const struct lend_arg *arg, struct lend_op *op)
{
	struct lend_memref ref;
	int rc;

	if (arg->bytes) {
		rc = cn_op_begin(mem, op, LEND_MEMOP_GET);
		return rc < 0 ? rc : end_here(op, LEND_OK);
	}
	if (!lend_memref_decode((const uint8_t *)&arg->ref, &ref) || ref.home != LEND_HOME_CALLER)
		return lend_release(mem, &arg->ref, 1, op);
	rc = begin_read(mem, arg, op);
	if (rc == 0)
		cn_op_inner(op)->ends = cn_op_inner(op)->by_message = true;
	return start_begun(arg, op, rc);
}

void lend_arg_unmap(struct lend_mem *mem, struct lend_arg_view *view)
{
	uint32_t index;

	if (!cn_space_get(mem, cn_arg_view_drop(mem, view), &index))
		return;
	cn_space_orphan(mem, index);
	cn_pump(mem);
}
