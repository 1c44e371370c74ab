/* args_plan - how each argument of a call or reply travels.
 *
 * The way that the user gives goes before the client's, and both before the measured costs. A way
 * that is not possible is replaced: the caller's memory by a node, a node by the message. Layer:
 * cn. Threads: the endpoint's. */
#include <errno.h>
#include <string.h>

#include "cn/args/args.h"
#include "cn/args/inline_threshold.h"
#include "cn/lent/lender.h"
#include "cn/lent/loan.h"
#include "lend/alloc.h"
#include "sys/last_error.h"
#include "sys/ref_counts.h"

/* Arguments up to CLEAR_MAX bytes with the way AUTO, and up to PLACED_MIN bytes with the client's
 * way, are always sent in the message. */
enum { CLEAR_MAX = 1024, PLACED_MIN = 16384 };

static int check_bytes(const struct lend_argument *in, uint64_t *len)
{
	*len = 0;
	if (in->n < 0 || (in->n && !in->data))
		return lend_fail(EINVAL, "an argument of %d pieces without an array", in->n);
	for (int i = 0; i < in->n; i++) {
		if (in->data[i].iov_len > LEND_MEMREF_ROOT_MAX - *len)
			return lend_fail(EINVAL, "an argument is longer than a snapshot can be");
		*len += in->data[i].iov_len;
	}
	return 0;
}

/* Checks a reference that is passed on. Only its holder may do that, or a call for the request that
 * it came with. A reference to a caller's memory ends with that request's call. */
static int check_ref(const struct cn_planning *p, const struct lend_argument *in)
{
	struct lend_memref ref;

	if (in->n || !lend_memref_decode((const uint8_t *)in->ref, &ref))
		return lend_fail(EINVAL, "an argument is a reference or bytes: this is neither");
	if (ref.home == LEND_HOME_CALLER)
		return (!p->is_call || p->parent.id || cn_loan_is_own(p->mem, &ref)) && in->home &&
			       in->home[0] && strlen(in->home) < CN_ADDRESS_MAX
			   ? 0
			   : lend_fail(EINVAL, "a reference to a process's memory is passed on for "
					       "the request that it came with: set call.parent "
					       "and the argument's home");
	if (p->is_call && !p->parent.id && !cn_hold_find(p->mem, &ref))
		return lend_fail(EINVAL, "this client does not hold the reference: adopt it, or "
					 "set call.parent to the request that it came with");
	return 0;
}

/* Finds the address for lent memory, once per message. */
static const char *find_home(struct cn_planning *p)
{
	struct lend_mem *mem = p->mem;

	if (p->home)
		return p->home;
	if (!mem->lender)
		mem->lender = cn_lender_join(mem->ep);
	p->home = mem->lender ? cn_lender_home(mem->lender, p->session) : NULL;
	return p->home;
}

/* Returns whether an argument of way LEND_ARG_AUTO is sent by reference. */
static bool prefers_ref(struct cn_planning *p, uint64_t len)
{
	struct lend_mem *mem = p->mem;

	if (mem->inline_max != LEND_NEVER)
		return len > mem->inline_max;
	if (mem->way != LEND_ARG_AUTO)
		return len > PLACED_MIN;
	if (len <= CLEAR_MAX)
		return false;
	if (p->is_call && find_home(p))
		return cn_threshold_lends(mem, p->session, p->method, len, &p->tag);
	return len > cn_threshold(mem, p->session, p->method, len, false);
}

static enum cn_arg_plan choose_plan(struct cn_planning *p, const struct lend_argument *in,
				    uint64_t len)
{
	enum lend_arg_way way = in->way;

	if (!len || way == LEND_ARG_VALUE)
		return CN_ARG_INLINE;
	if (way == LEND_ARG_AUTO) {
		if (p->mem->way == LEND_ARG_VALUE || !prefers_ref(p, len))
			return CN_ARG_INLINE;
		way = p->mem->way == LEND_ARG_CALLER && !p->is_call ? LEND_ARG_NODE : p->mem->way;
	}
	if ((p->is_call ? way != LEND_ARG_NODE : way == LEND_ARG_CALLER) && find_home(p))
		return CN_ARG_LEND;
	if (p->mem->n_named)
		return CN_ARG_PUT;
	if (p->is_call || in->way == LEND_ARG_CALLER) /* the others of a reply are never lent */
		lend_ref_count(&lend_ref_counts.by_value);
	return CN_ARG_INLINE;
}

static int plan_one(struct cn_planning *p, const struct lend_argument *in, struct cn_arg *out)
{
	int rc;

	*out = (struct cn_arg){.plan = CN_ARG_REF};
	if (in->ref) {
		rc = check_ref(p, in);
		out->ref = *in->ref;
		out->len = lend_ref_len(in->ref);
		out->home = in->home && in->home[0] ? in->home : NULL;
		p->passes += p->is_call && p->parent.id && out->home;
		return rc;
	}
	rc = check_bytes(in, &out->len);
	if (rc < 0)
		return rc;
	out->piece = in->data;
	out->n = (uint32_t)in->n;
	if (in->n == 1)
		out->one = in->data[0];
	out->plan = choose_plan(p, in, out->len);
	p->puts += out->plan != CN_ARG_INLINE;
	p->wraps += out->len > CN_ARGS_COPY_MAX;
	return 0;
}

int cn_args_plan(struct cn_planning *p, const struct lend_argument *in, uint32_t n,
		 struct cn_arg *out)
{
	for (uint32_t i = 0; i < n; i++) {
		int rc = (unsigned)in[i].way > LEND_ARG_NODE
			     ? lend_fail(EINVAL, "argument %u: not a way of enum lend_arg_way", i)
			     : plan_one(p, &in[i], &out[i]);

		if (rc < 0)
			return rc;
	}
	p->tag = n == 1 ? p->tag : 0; /* a trial compares the times of one argument */
	return 0;
}

bool cn_args_lend(struct cn_args *a, struct cn_put *put)
{
	struct cn_arg *arg = put->arg;
	struct iovec memory = arg->one;
	char *at;

	if (arg->n != 1) {
		at = arg->gathered = lend_malloc_shared(arg->len);
		if (!at)
			at = arg->gathered = lend_malloc(arg->len);
		if (!at)
			return false;
		memory = (struct iovec){at, arg->len};
		for (uint32_t i = 0; i < arg->n; at += arg->piece[i++].iov_len)
			memcpy(at, arg->piece[i].iov_base, arg->piece[i].iov_len);
	}
	put->kept = put->lent = cn_lent_begin(a->mem->lender, &memory, a, &put->op.ref);
	a->mem->args_stat.lent += put->kept;
	return put->kept;
}
