#include "cn/op_one_sided.h"

#include <stdlib.h>

#include "lend/one_sided.h"
#include "util/bits.h"

enum { BYTES_MIN = 64 << 10 }; /* bytes of a call from which a read is cheaper than messages */

void cn_one_sided_choose(struct cn_op *op, struct lend_memop *say)
{
	bool gets = say->kind == LEND_MEMOP_GET;

	op->one_sided = false;
	if (op->by_datagrams || op->relayed || op->part < BYTES_MIN || say->flags ||
	    op->step == CN_STEP_FETCH || op->step == CN_STEP_FILL ||
	    (!gets && say->kind != LEND_MEMOP_PUT && say->kind != LEND_MEMOP_WRITE))
		return;
	op->one_sided = lend_one_sided(op->mem->ep, op->mem->node[op->node]->session, gets);
	if (op->one_sided)
		say->flags = LEND_MEMOP_ONE_SIDED;
}

/* Lists the caller's memory of the call's bytes. 0: there are too many pieces. */
static unsigned list_memory(const struct cn_op *op, struct iovec run[LEND_SHOW_RUNS])
{
	const struct iovec *iov = op->n > 1 ? op->data : &op->one;
	uint64_t at = op->at, left = op->part;
	unsigned n = 0;

	for (uint32_t i = 0; i < op->n && left; i++) {
		uint64_t len = iov[i].iov_len > at ? lend_min_u64(iov[i].iov_len - at, left) : 0;

		if (len && n == LEND_SHOW_RUNS)
			return 0;
		if (len)
			run[n++] = (struct iovec){(char *)iov[i].iov_base + at, len};
		at = len ? 0 : at - iov[i].iov_len;
		left -= len;
	}
	return n;
}

struct lend_buf *cn_one_sided_show(struct cn_op *op, void (*hidden)(void *op))
{
	struct lend_ep *ep = op->mem->ep;
	struct lend_buf *buf = lend_buf_take(ep, LEND_SHOWN_MAX);
	struct iovec run[LEND_SHOW_RUNS];
	int len;

	if (!buf)
		return NULL;
	len = lend_show(ep, op->mem->node[op->node]->session, run, list_memory(op, run), hidden, op,
			buf->data);
	if (len < 0) {
		lend_buf_give(ep, buf);
		return NULL;
	}
	op->wraps++;
	op->shown = lend_load_u64(buf->data);
	buf->len = (uint32_t)len;
	buf->next = NULL;
	return buf;
}

void cn_one_sided_hide(struct cn_op *op)
{
	uint8_t shown[8];

	if (!op->shown)
		return;
	lend_store_u64(shown, op->shown);
	op->shown = 0;
	lend_hide(op->mem->ep, shown);
}

struct reading {
	struct lend_read read; /* first */
	struct cn_op *op;
	void (*ended)(struct cn_op *op);
};

static void reading_done(struct lend_read *read)
{
	struct reading *reading = (struct reading *)(void *)read;
	struct cn_op *op = reading->op;

	if (read->err == 0)
		op->at += op->part;
	else
		op->by_datagrams = true;
	op->again = op->at < op->len;
	reading->ended(op);
	free(reading);
}

bool cn_one_sided_read(struct cn_op *op, const uint8_t *body, size_t len,
		       void (*ended)(struct cn_op *op))
{
	struct reading *reading = calloc(1, sizeof(*reading));
	struct iovec run[LEND_SHOW_RUNS];

	if (!reading)
		return false;
	reading->read.done = reading_done;
	reading->op = op;
	reading->ended = ended;
	if (len <= LEND_SHOWN_MAX &&
	    lend_read_start(op->mem->ep, (lend_session){op->session}, body, len, run,
			    list_memory(op, run), &reading->read) == 0)
		return true;
	free(reading);
	return false;
}
