/* args_start - the public functions that start calls and replies with arguments.
 * Layer: cn. Threads: the endpoint's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cn/args/args.h"
#include "cn/args/args_bytes.h"
#include "cn/args/inline_threshold.h"
#include "cn/deferred_release.h"
#include "cn/lent/lender.h"
#include "lend/metadata.h"
#include "sys/last_error.h"
#include "sys/ref_counts.h"

enum { ARGS_MAX = 1024, FEW = 8 };

/* Arguments of a call or reply that begins: as given, and as planned. */
struct begun {
	struct cn_planning p;
	uint32_t n;
	struct cn_arg few[FEW];
	struct cn_arg *arg; /* few, or allocated */
};

static int check_count(const struct lend_mem *mem, const void *arg, int n)
{
	if (n < 0 || n > ARGS_MAX || (n && !arg))
		return lend_fail(EINVAL, "%d arguments; give 0 to %d", n, ARGS_MAX);
	if (mem->closing)
		return lend_fail(EINVAL, "this client of memory nodes is being closed");
	return 0;
}

static void free_begun(struct begun *b)
{
	if (b->arg != b->few)
		free(b->arg);
}

/* Copies the arguments, and the addresses of their references, into the block. */
static void copy_args(struct cn_args *a, const struct begun *b, char *homes)
{
	for (uint32_t i = 0; i < b->n; i++) {
		a->arg[i] = b->arg[i];
		if (!b->arg[i].home)
			continue;
		a->arg[i].home = strcpy(homes, b->arg[i].home);
		homes += strlen(homes) + 1;
	}
}

static size_t homes_len(const struct begun *b)
{
	size_t len = 0;

	for (uint32_t i = 0; i < b->n; i++)
		len += b->arg[i].home ? strlen(b->arg[i].home) + 1 : 0;
	return len;
}

/* Makes a block if there is something to lend, put or wrap. Returns 0 with *out, which is NULL if
 * there is no block; or -ENOMEM. */
static int make_args(struct begun *b, struct cn_args **out)
{
	struct lend_mem *mem = b->p.mem;
	size_t puts = b->p.puts * sizeof(struct cn_put);
	struct cn_args *a;

	*out = NULL;
	if (!b->p.puts && !b->p.wraps && !b->p.passes)
		return 0;
	if (cn_deferred_reserve(mem, b->p.puts) < 0)
		return -ENOMEM;
	a = calloc(1, sizeof(*a) + puts + b->n * sizeof(*a->arg) + homes_len(b));
	if (!a) {
		cn_deferred_unreserve(mem, b->p.puts);
		return lend_fail(ENOMEM, "no memory for a message of %u arguments", b->n);
	}
	a->mem = mem;
	a->n = b->n;
	a->puts = b->p.puts;
	a->home = b->p.home;
	a->tag = b->p.tag;
	a->passes = b->p.passes && cn_lender_relays(mem);
	a->arg = (struct cn_arg *)(void *)((char *)a->put + puts);
	copy_args(a, b, (char *)(a->arg + b->n));
	*out = a;
	return 0;
}

/* Sends all in the message at once if no node is likely to take an argument. */
static void skip_puts(struct begun *b)
{
	struct lend_mem *mem = b->p.mem;

	if (!b->p.puts || b->p.home || cn_node_may_choose(mem) ||
	    !cn_args_fit(mem->ep, b->p.session, b->arg, b->n))
		return;
	mem->args_stat.fallbacks++;
	lend_ref_count(&lend_ref_counts.by_value);
	b->p.puts = 0;
	for (uint32_t i = 0; i < b->n; i++)
		if (b->arg[i].plan == CN_ARG_PUT)
			b->arg[i].plan = CN_ARG_INLINE;
}

static int plan_args(struct begun *b, const struct lend_argument *arg, int n)
{
	int rc;

	b->n = (uint32_t)n;
	b->arg = n <= FEW ? b->few : calloc((size_t)n, sizeof(*b->arg));
	if (!b->arg)
		return lend_fail(ENOMEM, "no memory for %d arguments", n);
	rc = cn_args_plan(&b->p, arg, b->n, b->arg);
	if (rc == 0)
		skip_puts(b);
	else
		free_begun(b);
	return rc;
}

static struct cn_args *find_args(struct lend_mem *mem, const struct lend_call *call)
{
	struct cn_args *a;

	TAILQ_FOREACH(a, &mem->args, link)
	if (a->user == call)
		return a;
	return NULL;
}

/* Marks a call that passes references of its parent's message on. */
static void mark_passing(struct lend_call *call, const struct begun *b)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (call->parent.id && b->arg[i].plan == CN_ARG_REF)
			call->hops = 1;
}

static int check_call(struct lend_mem *mem, lend_session session, struct lend_call *call)
{
	call->status = LEND_UNKNOWN; /* a call that never started must not read as LEND_OK */
	call->ran = LEND_RAN_NO;
	if (find_args(mem, call))
		return lend_fail(EALREADY, "this call is in flight: wait for its end");
	if (call->request)
		return lend_fail(EINVAL, "the arguments are the request: set call.request to NULL");
	if (!lend_session_message_max(mem->ep, session))
		return lend_fail(ESTALE, "the session has ended; connect again");
	return 0;
}

static int begin_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
		      const struct lend_argument *arg, int n, struct cn_args **a)
{
	struct begun b = {
	    .p = {.mem = mem, .session = session, .parent = call->parent, .is_call = true}};
	int rc = check_call(mem, session, call);
	bool fine = true;

	if (call->head && call->head->name)
		call->method = lend_method_number(call->head->name);
	b.p.method = call->method;
	if (rc == 0)
		rc = plan_args(&b, arg, n);
	if (rc < 0)
		return rc;
	mark_passing(call, &b);
	rc = make_args(&b, a);
	if (rc == 0 && !*a)
		call->request = cn_args_message(mem->ep, b.arg, b.n, NULL, &fine);
	free_begun(&b);
	return fine ? rc : lend_fail(ENOMEM, "no message buffer for %d arguments", n);
}

static int take_back(struct lend_mem *mem, struct lend_call *call, int rc)
{
	if (rc < 0 && call->request) {
		lend_buf_give(mem->ep, call->request);
		call->request = NULL;
	}
	return rc;
}

int lend_call_start_argv(struct lend_mem *mem, lend_session session, struct lend_call *call,
			 const struct lend_argument *arg, int n)
{
	struct cn_args *a;
	int rc = check_count(mem, arg, n);

	if (rc == 0)
		rc = begin_args(mem, session, call, arg, n, &a);
	if (rc == 0 && !a)
		return take_back(mem, call, lend_call_start(mem->ep, session, call));
	if (rc == 0)
		cn_args_start_call(a, session, call);
	return rc;
}

/* Runs turns until a call with arguments has ended. */
static int wait_call(struct lend_mem *mem, struct lend_call *call)
{
	struct cn_args *a;
	int rc = 0;

	while (rc >= 0 && (a = find_args(mem, call))) {
		bool waits = a->puts && a->busy; /* a put may wait in the queue */

		rc = lend_wait(mem->ep, waits ? cn_op_inner(&a->put[0].op)->deadline : LEND_NEVER);
		cn_pump(mem);
	}
	return rc < 0 ? rc : 0;
}

int lend_call_sync_argv(struct lend_mem *mem, lend_session session, struct lend_call *call,
			const struct lend_argument *arg, int n)
{
	int rc = lend_poll(mem->ep); /* -EDEADLK inside a turn, before anything is taken */
	struct cn_args *a = NULL;

	if (rc < 0) {
		call->status = LEND_UNKNOWN;
		return rc;
	}
	rc = check_count(mem, arg, n);
	if (rc == 0)
		rc = begin_args(mem, session, call, arg, n, &a);
	if (rc == 0 && !a)
		return take_back(mem, call, lend_call_sync(mem->ep, session, call));
	if (rc < 0)
		return rc;
	cn_args_start_call(a, session, call);
	return wait_call(mem, call);
}

/* Arguments that are one iovec each. */
struct given {
	struct lend_argument few[FEW];
	struct lend_argument *of; /* few, or allocated */
};

/* Makes arguments of iovecs. Returns an error of check_count(), or -ENOMEM. */
static int take_iovecs(struct given *g, const struct lend_mem *mem, const struct iovec *arg, int n)
{
	int rc = check_count(mem, arg, n);

	if (rc < 0)
		return rc;
	g->of = n <= FEW ? g->few : calloc((size_t)n, sizeof(*g->of));
	if (!g->of)
		return lend_fail(ENOMEM, "no memory for %d arguments", n);
	for (int i = 0; i < n; i++)
		g->of[i] = (struct lend_argument){.data = &arg[i], .n = 1};
	return 0;
}

static int free_given(struct given *g, int rc)
{
	if (g->of != g->few)
		free(g->of);
	return rc;
}

int lend_call_start_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
			 const struct iovec *arg, int n)
{
	struct given g;
	int rc = take_iovecs(&g, mem, arg, n);

	return rc < 0 ? rc : free_given(&g, lend_call_start_argv(mem, session, call, g.of, n));
}

int lend_call_sync_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
			const struct iovec *arg, int n)
{
	struct given g;
	int rc = take_iovecs(&g, mem, arg, n);

	return rc < 0 ? rc : free_given(&g, lend_call_sync_argv(mem, session, call, g.of, n));
}

void lend_call_cancel_args(struct lend_mem *mem, struct lend_call *call)
{
	struct cn_args *a = find_args(mem, call);

	if (a)
		cn_args_cancel(a);
	else
		lend_call_cancel(mem->ep, call);
}

/* Functions to run when the bytes of a reply's arguments are no longer used. */
struct end_of_use {
	void (*gone_iovec)(const struct iovec *arg);
	const struct iovec *given;
	void (*gone)(void *of);
	void *of;
};

static int end_use(const struct end_of_use *end)
{
	if (end->gone_iovec)
		end->gone_iovec(end->given);
	if (end->gone)
		end->gone(end->of);
	return 0;
}

static int reply_begun(struct begun *b, lend_request request, enum lend_status status,
		       const struct end_of_use *end)
{
	struct lend_mem *mem = b->p.mem;
	struct lend_buf *buf;
	struct cn_args *a;
	int rc = make_args(b, &a);
	bool fine;

	if (rc < 0)
		return rc;
	if (a) {
		a->request = request;
		a->answer = status;
		a->gone_iovec = end->gone_iovec;
		a->given = end->given;
		a->gone = end->gone;
		a->of = end->of;
		cn_args_start_reply(a);
		return 0;
	}
	buf = cn_args_message(mem->ep, b->arg, b->n, NULL, &fine);
	if (!fine)
		return lend_fail(ENOMEM, "no message buffer for %u arguments", b->n);
	rc = lend_reply(mem->ep, request, status, buf);
	return rc < 0 ? rc : end_use(end);
}

static int reply_args(struct lend_mem *mem, lend_request request, enum lend_status status,
		      const struct lend_argument *arg, int n, const struct end_of_use *end)
{
	struct begun b = {.p = {.mem = mem, .session = lend_request_session(mem->ep, request)}};
	int rc;

	if (!b.p.session.id)
		return lend_fail(ESTALE,
				 "the caller ended or already has its reply: nothing to do");
	if (lend_session_gateway(mem->ep, b.p.session)) {
		rc = cn_args_reply_bytes(mem, request, status, arg, n);
		return rc < 0 ? rc : end_use(end);
	}
	rc = plan_args(&b, arg, n);
	if (rc < 0)
		return rc;
	rc = reply_begun(&b, request, status, end);
	free_begun(&b);
	return rc;
}

int lend_reply_argv(struct lend_mem *mem, lend_request request, enum lend_status status,
		    const struct lend_argument *arg, int n, void (*release)(void *of), void *of)
{
	const struct end_of_use end = {.gone = release, .of = of};
	int rc = check_count(mem, arg, n);

	return rc < 0 ? rc : reply_args(mem, request, status, arg, n, &end);
}

int lend_reply_args(struct lend_mem *mem, lend_request request, enum lend_status status,
		    const struct iovec *arg, int n, void (*gone)(const struct iovec *arg))
{
	const struct end_of_use end = {.gone_iovec = gone, .given = arg};
	struct given g;
	int rc = take_iovecs(&g, mem, arg, n);

	return rc < 0 ? rc : free_given(&g, reply_args(mem, request, status, g.of, n, &end));
}

int lend_args_place(struct lend_mem *mem, enum lend_arg_way way)
{
	if ((unsigned)way > LEND_ARG_NODE)
		return lend_fail(EINVAL, "arguments go one of the ways of enum lend_arg_way");
	if (way == LEND_ARG_CALLER && !mem->lender) {
		mem->lender = cn_lender_join(mem->ep);
		if (!mem->lender)
			return lend_fail(ENOMEM, "no memory for the table of loans");
	}
	if (way != LEND_ARG_CALLER && mem->lender && TAILQ_EMPTY(&mem->args)) {
		cn_lender_leave(mem->lender);
		mem->lender = NULL;
	}
	mem->way = way;
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
