/* args_start - the public functions that start calls and replies with arguments.
 * Layer: cn. Threads: the endpoint's. */
#include <errno.h>
#include <stdlib.h>

#include "cn/args/args.h"
#include "cn/args/inline_threshold.h"
#include "cn/deferred_release.h"
#include "cn/lent/lender.h"
#include "sys/last_error.h"

/* Bytes always sent inline; arguments at most; bytes that are lent rather than sent. */
enum { CLEAR_MAX = 1024, ARGS_MAX = 1024, LENT_MIN = 16384 };

static int check_args(const struct lend_mem *mem, const struct iovec *arg, int n)
{
	if (n < 0 || n > ARGS_MAX || (n && !arg))
		return lend_fail(EINVAL, "%d arguments; give 0 to %d", n, ARGS_MAX);
	for (int i = 0; i < n; i++)
		if (arg[i].iov_len > LEND_MEMREF_ROOT_MAX)
			return lend_fail(EINVAL, "argument %d: longer than a snapshot can be", i);
	if (mem->closing)
		return lend_fail(EINVAL, "this client of memory nodes is being closed");
	return 0;
}

/* Returns the inline threshold. It measures only if an argument is long enough to need that. */
static uint64_t inline_max(struct lend_mem *mem, lend_session session, const struct iovec *arg,
			   int n, const char *home)
{
	uint64_t longest = 0;

	if (!mem->nodes && !home)
		return LEND_NEVER;
	if (mem->inline_max != LEND_NEVER)
		return mem->inline_max;
	if (home)
		return LENT_MIN;
	for (int i = 0; i < n; i++)
		longest = arg[i].iov_len > longest ? arg[i].iov_len : longest;
	return longest <= CLEAR_MAX ? CLEAR_MAX : lend_args_threshold(mem, session, 0);
}

/* Makes a block if there is something to lend, put or wrap. call: not a reply. Returns 0 with *out,
 * which is NULL if there is no block; or -errno. */
static int make_args(struct lend_mem *mem, lend_session session, bool call, const struct iovec *arg,
		     int n, struct cn_args **out)
{
	const char *home = call && mem->lender ? cn_lender_home(mem->lender, session) : NULL;
	uint64_t max = inline_max(mem, session, arg, n, home);
	struct cn_args *a = NULL;
	uint32_t refs = 0, wraps = 0;

	for (int i = 0; i < n; i++) {
		refs += arg[i].iov_len > max;
		wraps += arg[i].iov_len > CN_ARGS_COPY_MAX;
	}
	*out = NULL;
	if (refs && !home && !cn_node_may_choose(mem) &&
	    cn_args_fit(mem->ep, session, arg, (uint32_t)n)) {
		mem->args_stat.fallbacks++;
		wraps += refs;
		refs = 0;
		max = LEND_NEVER;
	}
	if (!refs && !wraps)
		return 0;
	if (cn_deferred_reserve(mem, refs) < 0)
		return -ENOMEM;
	a = calloc(1, sizeof(*a) + refs * sizeof(a->put[0]));
	if (!a) {
		cn_deferred_unreserve(mem, refs);
		return lend_fail(ENOMEM, "no memory for a message of %d arguments", n);
	}
	a->mem = mem;
	a->n = (uint32_t)n;
	a->refs = refs;
	a->inline_max = max;
	a->home = home;
	a->one = arg[0];
	a->arg = n == 1 ? &a->one : arg;
	*out = a;
	return 0;
}

static struct cn_args *find_args(struct lend_mem *mem, const struct lend_call *call)
{
	struct cn_args *a;

	TAILQ_FOREACH(a, &mem->args, link)
	if (a->user == call)
		return a;
	return NULL;
}

static int begin_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
		      const struct iovec *arg, int n, struct cn_args **a)
{
	struct lend_peer peer;
	int rc = check_args(mem, arg, n);
	bool fine;

	call->status = LEND_UNKNOWN; /* a call that never started must not read as LEND_OK */
	call->ran = LEND_RAN_NO;
	if (rc == 0 && find_args(mem, call))
		rc = lend_fail(EALREADY, "this call is in flight: wait for its end");
	if (rc == 0 && call->request)
		rc = lend_fail(EINVAL, "the arguments are the request: set call.request to NULL");
	if (rc == 0)
		rc = lend_session_peer(mem->ep, session, &peer);
	if (rc == 0)
		rc = make_args(mem, session, true, arg, n, a);
	if (rc < 0 || *a)
		return rc;
	call->request = cn_args_message(mem->ep, arg, (uint32_t)n, LEND_NEVER, NULL, &fine);
	return fine ? 0 : lend_fail(ENOMEM, "no message buffer for %d arguments", n);
}

static int take_back(struct lend_mem *mem, struct lend_call *call, int rc)
{
	if (rc < 0 && call->request) {
		lend_buf_give(mem->ep, call->request);
		call->request = NULL;
	}
	return rc;
}

int lend_call_start_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
			 const struct iovec *arg, int n)
{
	struct cn_args *a;
	int rc = begin_args(mem, session, call, arg, n, &a);

	if (rc == 0 && !a)
		return take_back(mem, call, lend_call_start(mem->ep, session, call));
	if (rc == 0)
		cn_args_start_call(a, session, call);
	return rc;
}

int lend_call_sync_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
			const struct iovec *arg, int n)
{
	int rc = lend_poll(mem->ep); /* -EDEADLK inside a turn, before anything is taken */
	struct cn_args *a = NULL;

	if (rc < 0)
		call->status = LEND_UNKNOWN;
	else
		rc = begin_args(mem, session, call, arg, n, &a);
	if (rc == 0 && !a)
		return take_back(mem, call, lend_call_sync(mem->ep, session, call));
	if (rc < 0)
		return rc;
	cn_args_start_call(a, session, call);
	while (rc >= 0 && (a = find_args(mem, call))) {
		bool waits =
		    a->refs && a->busy; /* whether puts of arguments may wait in the queue */

		rc = lend_wait(mem->ep, waits ? cn_op_inner(&a->put[0].op)->deadline : LEND_NEVER);
		cn_pump(mem);
	}
	return rc < 0 ? rc : 0;
}

void lend_call_cancel_args(struct lend_mem *mem, struct lend_call *call)
{
	struct cn_args *a = find_args(mem, call);

	if (a)
		cn_args_cancel(a);
	else
		lend_call_cancel(mem->ep, call);
}

int lend_reply_args(struct lend_mem *mem, lend_request request, enum lend_status status,
		    const struct iovec *arg, int n, void (*gone)(const struct iovec *arg))
{
	lend_session session = lend_request_session(mem->ep, request);
	struct lend_buf *buf;
	struct cn_args *a;
	int rc = check_args(mem, arg, n);
	bool fine;

	if (rc == 0 && !session.id)
		rc = lend_fail(ESTALE, "the caller ended or already has its reply: nothing to do");
	if (rc == 0)
		rc = make_args(mem, session, false, arg, n, &a);
	if (rc < 0)
		return rc;
	if (a) {
		a->request = request;
		a->answer = status;
		a->gone = gone;
		a->given = arg;
		cn_args_start_reply(a);
		return 0;
	}
	buf = cn_args_message(mem->ep, arg, (uint32_t)n, LEND_NEVER, NULL, &fine);
	if (!fine)
		return lend_fail(ENOMEM, "no message buffer for %d arguments", n);
	rc = lend_reply(mem->ep, request, status, buf);
	if (rc == 0 && gone)
		gone(arg);
	return rc;
}

uint64_t lend_args_threshold(struct lend_mem *mem, lend_session session, uint16_t node)
{
	if (mem->inline_max != LEND_NEVER)
		return mem->inline_max;
	if (!mem->n_named || node > mem->n_named)
		return LEND_NEVER;
	return cn_threshold(mem, session,
			    (uint16_t)(node ? node - 1u : mem->next_node % mem->n_named));
}

int lend_args_place(struct lend_mem *mem, enum lend_args_at at)
{
	if (at != LEND_ARGS_AT_NODE && at != LEND_ARGS_AT_CALLER)
		return lend_fail(EINVAL, "arguments are at one of enum lend_args_at");
	if (!TAILQ_EMPTY(&mem->args))
		return lend_fail(EINVAL, "calls with arguments are in flight: wait for their end");
	if (at == LEND_ARGS_AT_CALLER && !mem->lender)
		mem->lender = cn_lender_join(mem->ep);
	if (at == LEND_ARGS_AT_CALLER)
		return mem->lender ? 0 : lend_fail(ENOMEM, "no memory for the table of loans");
	if (mem->lender)
		cn_lender_leave(mem->lender);
	mem->lender = NULL;
	return 0;
}

void lend_args_threshold_set(struct lend_mem *mem, uint64_t bytes)
{
	mem->inline_max = bytes;
}

void lend_args_stat_get(struct lend_mem *mem, struct lend_args_stat *stat)
{
	*stat = mem->args_stat;
}
