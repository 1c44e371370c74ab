#include "mn/node_one_sided.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "lend/one_sided.h"
#include "util/bits.h"

_Static_assert((int)LEND_SHOWN_MAX == (int)LEND_MEMOP_SHOWN_MAX, "one limit");

bool mn_one_sided_head(const struct lend_buf *bytes, uint8_t head[LEND_MEMOP_FIXED_MAX],
		       uint32_t *len)
{
	uint16_t flags;

	*len = lend_min_u32(bytes->len, LEND_MEMOP_FIXED_MAX);
	memcpy(head, bytes->data, *len);
	if (*len < LEND_MEMOP_HEAD)
		return false;
	flags = lend_load_u16(head + 2);
	*len = lend_min_u32(*len, lend_memop_fixed(head[0]));
	lend_store_u16(head + 2, flags & ~LEND_MEMOP_ONE_SIDED);
	return flags & LEND_MEMOP_ONE_SIDED;
}

/* Pages that a client's device may read. */
struct shown {
	struct lend_store *store;
	uint32_t tenant, n;
	struct lend_store_seg seg[LEND_SHOW_RUNS];
};

static void unpin_shown(void *arg)
{
	struct shown *shown = arg;

	lend_store_done(shown->store, shown->tenant, shown->seg, shown->n);
	free(shown);
}

enum lend_status mn_one_sided_show(struct lend_ep *ep, struct lend_store *store,
				   lend_session session, lend_request request,
				   const struct lend_store_out *out)
{
	struct shown *shown = out->n <= LEND_SHOW_RUNS ? malloc(sizeof(*shown)) : NULL;
	struct lend_buf *reply = shown ? lend_buf_take(ep, LEND_SHOWN_MAX) : NULL;
	struct iovec run[LEND_SHOW_RUNS];
	int len = -1;

	for (uint32_t i = 0; reply && i < out->n; i++) {
		shown->seg[i] = out->seg[i];
		run[i] = (struct iovec){out->seg[i].data, out->seg[i].len};
	}
	if (reply) {
		shown->store = store;
		shown->tenant = out->tenant;
		shown->n = out->n;
		len = lend_show(ep, session, run, out->n, unpin_shown, shown, reply->data);
	}
	if (len < 0) {
		if (reply)
			lend_buf_give(ep, reply);
		free(shown);
		return len == -ENOTCONN ? LEND_FAILED_PRECONDITION : LEND_UNIMPLEMENTED;
	}
	reply->len = (uint32_t)len;
	reply->next = NULL;
	(void)lend_reply(ep, request, LEND_OK, reply);
	return LEND_OK;
}

/* A payload that is being read. */
struct fetch {
	struct lend_read read; /* first */
	LIST_ENTRY(fetch) link;
	struct mn_fetches *fetches;
	lend_request request;
	struct lend_buf *message;
};

struct mn_fetches {
	struct lend_ep *ep;
	mn_choose_fn *choose;
	mn_fetched_fn *fetched;
	void *arg;
	LIST_HEAD(, fetch) under_way;
};

struct mn_fetches *mn_fetches_open(struct lend_ep *ep, mn_choose_fn *choose, mn_fetched_fn *fetched,
				   void *arg)
{
	struct mn_fetches *fetches = calloc(1, sizeof(*fetches));

	if (fetches) {
		fetches->ep = ep;
		fetches->choose = choose;
		fetches->fetched = fetched;
		fetches->arg = arg;
	}
	return fetches;
}

static void refuse_fetch(struct lend_ep *ep, lend_request request, int rc)
{
	(void)lend_reply(
	    ep, request,
	    rc == -ENOTCONN || rc == -EIO ? LEND_FAILED_PRECONDITION : LEND_UNIMPLEMENTED, NULL);
}

static void fetch_done(struct lend_read *read)
{
	struct fetch *fetch = (struct fetch *)(void *)read;
	struct mn_fetches *fetches = fetch->fetches;

	LIST_REMOVE(fetch, link);
	if (read->err == 0) {
		fetches->fetched(fetch->request, fetch->message, fetches->arg);
	} else {
		lend_buf_give(fetches->ep, fetch->message);
		refuse_fetch(fetches->ep, fetch->request, read->err);
	}
	free(fetch);
}

/* Writes the head into the message, and lists the memory behind it. Returns the number of runs;
 * more than LEND_SHOW_RUNS: there are too many. */
static unsigned prepare_message(struct lend_buf *message, const uint8_t *head, uint32_t head_len,
				uint64_t payload, struct iovec run[LEND_SHOW_RUNS])
{
	unsigned n = 0;

	memcpy(message->data, head, head_len);
	if (!message->next) {
		message->len = (uint32_t)(head_len + payload);
		run[n++] = (struct iovec){(uint8_t *)message->data + head_len, payload};
		return n;
	}
	message->len = head_len;
	for (struct lend_buf *b = message->next; b; b = b->next) {
		if (n == LEND_SHOW_RUNS)
			return n + 1;
		run[n++] = (struct iovec){b->data, b->len};
	}
	return n;
}

/* Starts to read: 0 or -errno. */
static int start_fetch(struct fetch *fetch, lend_session session, const struct lend_buf *bytes,
		       const uint8_t *head, uint32_t head_len)
{
	struct iovec run[LEND_SHOW_RUNS];
	uint8_t shown[LEND_SHOWN_MAX];
	struct mn_fetches *fetches = fetch->fetches;
	struct lend_memop op;
	unsigned n;

	if (bytes->next || bytes->len < head_len || bytes->len - head_len > sizeof(shown))
		return -EINVAL;
	/* The payload's length is in the head; the decoder compares it with the message's. */
	if (lend_memop_decode(bytes->data, lend_min_u32(bytes->len, LEND_MEMOP_FIXED_MAX),
			      bytes->len, &op) != LEND_MEM_OK)
		return -EINVAL;
	if (op.kind != head[0] || op.fixed != head_len)
		return -EINVAL;
	memcpy(shown, (const uint8_t *)bytes->data + head_len, bytes->len - head_len);
	fetch->message = fetches->choose(session, LEND_MEM_METHOD, head_len + op.len, head,
					 head_len, fetches->arg);
	if (!fetch->message)
		return -ENOMEM;
	n = prepare_message(fetch->message, head, head_len, op.len, run);
	if (n > LEND_SHOW_RUNS)
		return -E2BIG;
	return lend_read_start(fetches->ep, session, shown, bytes->len - head_len, run, n,
			       &fetch->read);
}

void mn_fetches_start(struct mn_fetches *fetches, lend_session session, lend_request request,
		      const struct lend_buf *bytes, const uint8_t *head, uint32_t head_len)
{
	struct fetch *fetch = calloc(1, sizeof(*fetch));
	int rc;

	if (!fetch) {
		refuse_fetch(fetches->ep, request, -ENOMEM);
		return;
	}
	fetch->read.done = fetch_done;
	fetch->fetches = fetches;
	fetch->request = request;
	LIST_INSERT_HEAD(&fetches->under_way, fetch, link);
	rc = start_fetch(fetch, session, bytes, head, head_len);
	if (rc == 0)
		return;
	LIST_REMOVE(fetch, link);
	if (fetch->message)
		lend_buf_give(fetches->ep, fetch->message);
	free(fetch);
	refuse_fetch(fetches->ep, request, rc);
}

void mn_fetches_close(struct mn_fetches *fetches)
{
	struct fetch *fetch;

	while (fetches && (fetch = LIST_FIRST(&fetches->under_way))) {
		LIST_REMOVE(fetch, link);
		free(fetch);
	}
	free(fetches);
}
