/* args_serve - methods with requests of arguments, which are fetched before the handler runs.
 *
 *   request -> FETCHING (due > 0) -> handler, here or in a worker -> ran -> freed
 *                                \-> refused, not run
 *
 * A request whose arguments are all in the message needs no record, unless it is for a worker.
 * Layer: cn. Threads: the endpoint's; a worker runs the handler and marks the record as run, and
 * the endpoint's thread frees it. Owned by the client. */
#include "cn/args/args_serve.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lend/alloc.h"
#include "lend/metadata.h"
#include "sys/last_error.h"

enum { FLAGS = LEND_ARGS_COPY | LEND_ARGS_PART, ARGS_MAX = 1024, FEW = 8 };

struct serve {
	LIST_ENTRY(serve) link;
	struct lend_mem *mem;
	uint32_t method;
	unsigned flags;
	lend_args_handler_fn *handler;
	void *arg;
};

/* An argument by reference: its bytes, from the fetch until the handler has run. */
struct fetch {
	struct lend_op op; /* first: fetch_done() finds the fetch by it */
	struct record *record;
	struct lend_arg_view view;
	struct iovec own; /* LEND_ARGS_COPY: memory for the bytes */
};

struct record {
	LIST_ENTRY(record) link;
	struct serve *serve;
	lend_request request;
	struct lend_buf *message;
	enum lend_status status;
	uint32_t due; /* fetches under way, plus 1 while more are being started */
	atomic_bool ran;
	uint32_t n, fetches;
	struct lend_arg *arg; /* in this block */
	struct fetch fetch[];
};

struct cn_serves {
	LIST_HEAD(, serve) methods;
	LIST_HEAD(, record) records;
};

static void free_record(struct record *r)
{
	struct lend_mem *mem = r->serve->mem;

	LIST_REMOVE(r, link);
	for (uint32_t i = 0; i < r->fetches; i++) {
		if (r->fetch[i].own.iov_base)
			lend_free(r->fetch[i].own.iov_base);
		else if (r->fetch[i].op.status == LEND_OK)
			lend_arg_unmap(mem, &r->fetch[i].view);
	}
	if (r->message)
		lend_buf_give(mem->ep, r->message);
	free(r);
}

/* Frees the records of handlers that ran in a worker. */
static void free_run(struct cn_serves *serves)
{
	struct record *r = LIST_FIRST(&serves->records), *next;

	for (; r; r = next) {
		next = LIST_NEXT(r, link);
		if (atomic_load_explicit(&r->ran, memory_order_acquire))
			free_record(r);
	}
}

static void run_slow(lend_request request, const struct lend_buf *message, void *of)
{
	struct record *r = of;
	struct serve *serve = r->serve;

	(void)message;
	if (lend_request_cancelled(serve->mem->ep, request) ||
	    !lend_request_left(serve->mem->ep, request))
		(void)lend_refuse(serve->mem->ep, request, LEND_DEADLINE_EXCEEDED);
	else
		serve->handler(request, r->arg, (int)r->n, serve->arg);
	atomic_store_explicit(&r->ran, true, memory_order_release);
}

/* Puts the fetched bytes into the arguments. */
static void place_bytes(struct record *r)
{
	struct fetch *fetch = r->fetch;

	for (uint32_t i = 0; i < r->n; i++) {
		if (r->arg[i].bytes || r->serve->flags & LEND_ARGS_PART)
			continue;
		r->arg[i].bytes = fetch->own.iov_base ? fetch->own.iov_base : fetch->view.bytes;
		r->arg[i].view = fetch->own.iov_base ? NULL : &fetch->view;
		fetch++;
	}
}

/* Runs the handler when all arguments have arrived. Refuses the request if one could not be
 * fetched. */
static void end_fetches(struct record *r)
{
	struct serve *serve = r->serve;
	struct lend_buf *message = r->message;

	if (r->status == LEND_OK && serve->mem->closing)
		r->status = LEND_UNAVAILABLE;
	if (r->status != LEND_OK) {
		(void)lend_refuse(serve->mem->ep, r->request, r->status);
		free_record(r);
		return;
	}
	place_bytes(r);
	if (!(serve->flags & LEND_SLOW)) {
		serve->handler(r->request, r->arg, (int)r->n, serve->arg);
		free_record(r);
		return;
	}
	r->message = NULL;
	if (lend_request_defer(serve->mem->ep, r->request, message, run_slow, r) == 0)
		return;
	r->message = message;
	(void)lend_refuse(serve->mem->ep, r->request, LEND_RESOURCE_EXHAUSTED);
	free_record(r);
}

static void drop_due(struct record *r)
{
	if (!--r->due)
		end_fetches(r);
}

static void fetch_done(struct lend_op *op)
{
	struct fetch *fetch = (struct fetch *)(void *)op;
	struct record *r = fetch->record;

	if (op->status != LEND_OK && r->status == LEND_OK)
		r->status = op->status;
	drop_due(r);
}

static int start_fetch(struct record *r, const struct lend_arg *arg, struct fetch *fetch)
{
	struct lend_mem *mem = r->serve->mem;

	fetch->record = r;
	fetch->op = (struct lend_op){.done = fetch_done, .parent = r->request};
	fetch->op.status = LEND_UNKNOWN;
	if (!(r->serve->flags & LEND_ARGS_COPY))
		return lend_arg_map(mem, arg, &fetch->view, &fetch->op);
	fetch->own = (struct iovec){lend_malloc(arg->len), arg->len};
	if (!fetch->own.iov_base)
		return -ENOMEM;
	return lend_arg_get(mem, arg, 0, &fetch->own, 1, &fetch->op);
}

static void start_fetches(struct record *r)
{
	struct fetch *fetch = r->fetch;

	r->due = 1;
	for (uint32_t i = 0; i < r->n && r->fetches; i++) {
		if (r->arg[i].bytes)
			continue;
		r->due++;
		if (start_fetch(r, &r->arg[i], fetch) < 0) {
			r->due--;
			r->status = LEND_UNAVAILABLE;
		}
		fetch++;
	}
	drop_due(r);
}

/* Reads up to `most` arguments of a message, and counts all. Returns their number; -EINVAL: not
 * arguments; -EMSGSIZE: one has several segments. */
static int read_args(const struct lend_buf *message, struct lend_arg *arg, int most, int *refs)
{
	struct lend_arg one;
	uint32_t cursor = 0;
	int n = 0, rc;

	*refs = 0;
	while ((rc = lend_arg_next(message, &cursor, &one)) == 1 && n < ARGS_MAX) {
		*refs += !one.bytes;
		if (n < most)
			arg[n] = one;
		n++;
	}
	return rc > 0 ? -EINVAL : rc < 0 ? rc : n;
}

/* Makes a record of a request. message: taken, and owned by the record; NULL if it is empty. NULL:
 * no memory; then the message is given back. */
static struct record *make_record(struct serve *serve, lend_request request,
				  struct lend_buf *message, int n, int fetches)
{
	size_t size = sizeof(struct record) + (size_t)fetches * sizeof(struct fetch);
	struct record *r = calloc(1, size + (size_t)n * sizeof(struct lend_arg));
	int refs;

	if (!r) {
		lend_buf_give(serve->mem->ep, message);
		return NULL;
	}
	r->serve = serve;
	r->request = request;
	r->message = message;
	r->n = (uint32_t)n;
	r->fetches = (uint32_t)fetches;
	r->arg = (struct lend_arg *)(void *)((char *)r + size);
	LIST_INSERT_HEAD(&serve->mem->serves->records, r, link);
	(void)read_args(message, r->arg, n, &refs);
	return r;
}

/* Serves a request with a message that must be kept, or was gathered into one segment: taken. */
static void receive_taken(struct serve *serve, lend_request request, struct lend_buf *taken)
{
	int refs, n = taken ? read_args(taken, NULL, 0, &refs) : -ENOMEM;
	struct record *r = NULL;

	if (n >= 0)
		r = make_record(serve, request, taken, n, serve->flags & LEND_ARGS_PART ? 0 : refs);
	else
		lend_buf_give(serve->mem->ep, taken);
	if (r)
		start_fetches(r);
	else
		(void)lend_refuse(serve->mem->ep, request,
				  n == -EINVAL ? LEND_INVALID_ARGUMENT : LEND_RESOURCE_EXHAUSTED);
}

static struct lend_arg whole_message(const struct lend_buf *message)
{
	return (struct lend_arg){.len = message->len, .bytes = message->len ? message->data : ""};
}

/* Serves a request of a stock gRPC client: its message is the only argument. */
static void receive_bytes(struct serve *serve, lend_request request, const struct lend_buf *message)
{
	struct lend_arg whole = whole_message(message);
	struct lend_buf *taken;
	struct record *r;

	if (!message->next && !(serve->flags & LEND_SLOW)) {
		serve->handler(request, &whole, 1, serve->arg);
		return;
	}
	taken = lend_request_take(serve->mem->ep, request);
	r = taken ? make_record(serve, request, taken, 1, 0) : NULL;
	if (!r) {
		(void)lend_refuse(serve->mem->ep, request, LEND_RESOURCE_EXHAUSTED);
		return;
	}
	r->arg[0] = whole_message(taken);
	start_fetches(r);
}

static void receive_args(lend_request request, const struct lend_buf *message, void *of)
{
	struct serve *serve = of;
	struct lend_arg few[FEW];
	int refs, n;

	free_run(serve->mem->serves);
	if (lend_session_gateway(serve->mem->ep, lend_request_session(serve->mem->ep, request))) {
		receive_bytes(serve, request, message);
		return;
	}
	n = read_args(message, few, FEW, &refs);
	refs = serve->flags & LEND_ARGS_PART ? 0 : refs;
	if (n == -EINVAL)
		(void)lend_refuse(serve->mem->ep, request, LEND_INVALID_ARGUMENT);
	else if (n >= 0 && !refs && n <= FEW && !(serve->flags & LEND_SLOW))
		serve->handler(request, few, n, serve->arg);
	else
		receive_taken(serve, request, lend_request_take(serve->mem->ep, request));
}

static struct serve *find_serve(struct cn_serves *serves, uint32_t method)
{
	struct serve *serve;

	LIST_FOREACH(serve, &serves->methods, link)
	if (serve->method == method)
		return serve;
	return NULL;
}

static int check_serve(struct lend_mem *mem, unsigned flags)
{
	if (flags & ~(unsigned)(LEND_SLOW | LEND_RESERVED | FLAGS))
		return lend_fail(EINVAL, "unknown flags 0x%x of a method with arguments", flags);
	if (mem->closing)
		return lend_fail(EINVAL, "this client of memory nodes is being closed");
	if (!mem->serves)
		mem->serves = calloc(1, sizeof(*mem->serves));
	return mem->serves ? 0 : lend_fail(ENOMEM, "no memory for methods with arguments");
}

/* Serves a number; or its name, if that is not NULL. */
static int serve_args(struct lend_mem *mem, uint32_t method, const char *name,
		      lend_args_handler_fn *handler, void *arg, unsigned flags)
{
	int rc = check_serve(mem, flags);
	struct serve *serve = rc < 0 ? NULL : find_serve(mem->serves, method), *made = NULL;
	lend_handler_fn *receive = handler ? receive_args : NULL;

	if (rc < 0)
		return rc;
	if (!serve)
		serve = made = calloc(1, sizeof(*serve));
	if (!serve)
		return lend_fail(ENOMEM, "no memory for method %u", method);
	rc = name ? lend_serve_name(mem->ep, name, receive, serve, LEND_CHAIN)
		  : lend_serve(mem->ep, method, receive, serve,
			       (flags & LEND_RESERVED) | LEND_CHAIN);
	if (rc < 0) {
		free(made);
		return rc;
	}
	if (made)
		LIST_INSERT_HEAD(&mem->serves->methods, made, link);
	serve->mem = mem;
	serve->method = method;
	serve->flags = flags;
	serve->handler = handler;
	serve->arg = arg;
	return 0;
}

int lend_serve_args(struct lend_mem *mem, uint32_t method, lend_args_handler_fn *handler, void *arg,
		    unsigned flags)
{
	return serve_args(mem, method, NULL, handler, arg, flags);
}

int lend_serve_args_name(struct lend_mem *mem, const char *name, lend_args_handler_fn *handler,
			 void *arg, unsigned flags)
{
	return serve_args(mem, lend_method_number(name), name, handler, arg, flags);
}

void cn_serves_end(struct lend_mem *mem)
{
	struct serve *serve;

	if (!mem->serves)
		return;
	LIST_FOREACH(serve, &mem->serves->methods, link)
	(void)lend_serve(mem->ep, serve->method, NULL, NULL, serve->flags & LEND_RESERVED);
}

bool cn_serves_busy(const struct lend_mem *mem)
{
	if (!mem->serves)
		return false;
	free_run(mem->serves);
	return !LIST_EMPTY(&mem->serves->records);
}

void cn_serves_drop(struct lend_mem *mem)
{
	struct serve *serve;

	if (!mem->serves)
		return;
	while ((serve = LIST_FIRST(&mem->serves->methods))) {
		LIST_REMOVE(serve, link);
		free(serve);
	}
	free(mem->serves);
}
