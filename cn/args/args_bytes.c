/* args_bytes - see args_bytes.h.
 *
 *   reply -> FETCHING (due > 0) -> sent, or UNAVAILABLE and the like -> freed
 *
 * Layer: cn. Threads: the endpoint's. A record frees itself when its last fetch has ended, at the
 * latest when the client closes. */
#include "cn/args/args_bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/last_error.h"
#include "util/bits.h"

/* Bytes of a reference that are read into the message. */
struct fetch {
	struct lend_op op; /* first: fetch_ended() finds the fetch by it */
	struct bytes_reply *reply;
	struct iovec into;
};

struct bytes_reply {
	struct lend_mem *mem;
	lend_request request;
	enum lend_status status;
	struct lend_buf *message;
	uint32_t due; /* fetches under way, plus 1 while more are being started */
	struct fetch fetch[];
};

static void drop_due(struct bytes_reply *r, enum lend_status status)
{
	if (status != LEND_OK)
		r->status = status;
	if (--r->due)
		return;
	if (r->status != LEND_OK) {
		lend_buf_give(r->mem->ep, r->message);
		r->message = NULL;
	}
	(void)lend_reply(r->mem->ep, r->request, r->status, r->message);
	free(r);
}

static void fetch_ended(struct lend_op *op)
{
	drop_due(((struct fetch *)(void *)op)->reply, op->status);
}

static void start_fetch(struct bytes_reply *r, struct fetch *fetch, const struct lend_argument *arg,
			void *to)
{
	struct lend_arg source = {.len = lend_ref_len(arg->ref), .ref = *arg->ref};

	if (arg->home)
		(void)strncpy(source.home, arg->home, sizeof(source.home) - 1);
	fetch->reply = r;
	fetch->op = (struct lend_op){.done = fetch_ended, .parent = r->request};
	fetch->into = (struct iovec){to, source.len};
	r->due++;
	if (lend_arg_get(r->mem, &source, 0, &fetch->into, 1, &fetch->op) < 0)
		drop_due(r, LEND_UNAVAILABLE);
}

static uint64_t length_of(const struct lend_argument *arg)
{
	uint64_t len = arg->ref ? lend_ref_len(arg->ref) : 0;

	for (int i = 0; !arg->ref && i < arg->n; i++)
		len += arg->data[i].iov_len;
	return len;
}

/* Makes a record with room for the bytes of all arguments; NULL: no memory. */
static struct bytes_reply *make_reply(struct lend_mem *mem, const struct lend_argument *arg, int n)
{
	uint64_t len = 0;
	struct bytes_reply *r = calloc(1, sizeof(*r) + (size_t)n * sizeof(struct fetch));

	for (int i = 0; i < n; i++)
		len += length_of(&arg[i]);
	if (r && len <= UINT32_MAX)
		r->message = lend_buf_take(mem->ep, (uint32_t)lend_max_u64(len, 1));
	if (!r || !r->message) {
		free(r);
		return NULL;
	}
	r->message->len = (uint32_t)len;
	return r;
}

int cn_args_reply_bytes(struct lend_mem *mem, lend_request request, enum lend_status status,
			const struct lend_argument *arg, int n)
{
	struct bytes_reply *r = make_reply(mem, arg, n);
	char *to;

	if (!r)
		return lend_fail(ENOMEM, "no message buffer for the bytes of %d arguments", n);
	r->mem = mem;
	r->request = request;
	r->status = status;
	r->due = 1;
	to = r->message->data;
	for (int i = 0; i < n; i++) {
		if (arg[i].ref) {
			start_fetch(r, &r->fetch[i], &arg[i], to);
			to += lend_ref_len(arg[i].ref);
			continue;
		}
		for (int j = 0; j < arg[i].n; j++) {
			if (arg[i].data[j].iov_len)
				memcpy(to, arg[i].data[j].iov_base, arg[i].data[j].iov_len);
			to += arg[i].data[j].iov_len;
		}
	}
	drop_due(r, LEND_OK);
	return 0;
}
