#include "rpc/msg.h"

#include <errno.h>
#include <string.h>

#include "rpc/endpoint.h"
#include "sys/last_error.h"
#include "util/check.h"

uint64_t lend_msg_len(const struct lend_buf *chain)
{
	uint64_t len = 0;

	for (; chain; chain = chain->next)
		len += chain->len;
	return len;
}

uint64_t lend_msg_cap(const struct lend_buf *chain)
{
	uint64_t cap = 0;

	for (; chain; chain = chain->next)
		cap += chain->cap;
	return cap;
}

/* A fragment that spans five segments covers three adjacent ones completely, and at least a byte on
 * either side. So it is enough that any three adjacent segments inside the chain, plus two bytes,
 * are longer than a fragment. */
bool lend_msg_fits_chain(const struct lend_buf *chain, uint32_t payload)
{
	const struct lend_buf *a, *b, *c;

	if (!chain->next->next || !chain->next->next->next)
		return true;
	for (a = chain->next, b = a->next, c = b->next; c && c->next; a = b, b = c, c = c->next)
		if ((uint64_t)a->len + b->len + c->len + 2 <= payload)
			return false;
	return true;
}

struct lend_buf *lend_msg_flat(struct lend_pool_of_bufs *pool, const struct lend_buf *chain)
{
	uint64_t len = lend_msg_len(chain);
	struct lend_buf *flat = len <= 1u << 30 ? lend_bufs_take(pool, (uint32_t)len) : NULL;

	for (; flat && chain; chain = chain->next) {
		if (chain->len)
			memcpy((char *)flat->data + flat->len, chain->data, chain->len);
		flat->len += chain->len;
	}
	return flat;
}

void lend_msg_landed(struct lend_buf *chain, uint64_t len)
{
	for (; chain; chain = chain->next) {
		chain->len = len < chain->cap ? (uint32_t)len : chain->cap;
		len -= chain->len;
	}
}

void lend_msg_fill_chain(struct lend_buf *chain, const void *data, uint64_t len)
{
	const char *from = data;

	lend_msg_landed(chain, len);
	for (; chain && chain->len; chain = chain->next) {
		memcpy(chain->data, from, chain->len);
		from += chain->len;
	}
}

void lend_msg_fill_parts(struct lend_buf *chain, const struct lend_part *part, uint32_t n)
{
	uint64_t len = 0;
	uint32_t at = 0;

	for (uint32_t i = 0; i < n; i++)
		len += part[i].len;
	lend_msg_landed(chain, len);
	for (uint32_t i = 0, done = 0; i < n;) {
		uint32_t here = lend_min_u32(part[i].len - done, chain->len - at);

		memcpy((char *)chain->data + at, (const char *)part[i].data + done, here);
		at += here;
		done += here;
		if (done == part[i].len) {
			i++;
			done = 0;
		} else {
			LEND_CHECK(chain->next);
			chain = chain->next;
			at = 0;
		}
	}
}

/* Returns the handle of a segment in this pool's table; 0: no handle left. */
static uint32_t handle_of(struct lend_pool_of_bufs *pool, struct lend_mbuf *buf)
{
	uint32_t handle;

	if (buf->pool == pool)
		return buf->handle;
	handle = lend_bufs_handle(pool);
	if (!handle)
		return 0;
	pool->of[handle] = buf;
	buf->abroad = 1;
	atomic_fetch_add_explicit(&buf->pool->refs, 1, memory_order_relaxed);
	return handle;
}

uint32_t lend_msg_lend_chain(struct lend_pool_of_bufs *pool, struct lend_buf *chain, bool landing,
			     int *err)
{
	uint32_t first = 0, *link = &first;
	struct lend_buf *last = NULL;

	for (; chain; last = chain, chain = chain->next) {
		struct lend_mbuf *buf = lend_mbuf(chain);
		bool mine = buf->state == LEND_MBUF_USER;
		uint32_t handle = mine ? handle_of(pool, buf) : 0;

		if (!handle) {
			*err =
			    mine
				? lend_fail(ENOMEM,
					    "too many buffers in flight: wait for some to end")
				: lend_fail(
				      EINVAL,
				      "a buffer is in use already: take another, or wait for done");
			if (first) {
				lend_msg_back(pool, first);
				last->next = chain;
			}
			return 0;
		}
		buf->state = LEND_MBUF_CORE;
		lend_msg_seg(&pool->table.seg[handle], chain, landing);
		*link = handle;
		link = &pool->table.seg[handle].next;
	}
	return first;
}

struct lend_buf *lend_msg_back_chain(struct lend_pool_of_bufs *pool, uint32_t handle)
{
	struct lend_buf *first = NULL, **link = &first;

	while (handle) {
		struct lend_mbuf *buf = pool->of[handle];
		uint32_t next = pool->table.seg[handle].next;

		LEND_CHECK(buf && buf->state == LEND_MBUF_CORE);
		buf->state = LEND_MBUF_USER;
		if (buf->pool != pool) {
			lend_bufs_handle_free(pool, handle);
			buf->abroad = 0;
			lend_bufs_close(buf->pool);
		}
		*link = &buf->pub;
		link = &buf->pub.next;
		handle = next;
	}
	*link = NULL;
	return first;
}

/* Slow path of lend_buf_take(): a worker thread uses its own pool; otherwise the free list is
 * empty. */
static __attribute__((noinline)) struct lend_buf *take_with_care(struct lend_ep *ep, uint32_t cap)
{
	struct lend_buf *buf;

	if (lend_worker_self)
		ep = lend_worker_ep(ep);
	buf = ep ? lend_bufs_take(ep->bufs, cap) : NULL;
	if (!buf)
		(void)lend_fail(
		    ENOMEM,
		    "no buffer of %u bytes left: give some back, or raise config.memory_max", cap);
	return buf;
}

struct lend_buf *lend_buf_take(struct lend_ep *ep, uint32_t cap)
{
	if (lend_worker_self || !lend_bufs_has(ep->bufs, cap))
		return take_with_care(ep, cap);
	return lend_bufs_take(ep->bufs, cap);
}

struct lend_buf *lend_buf_wrap(struct lend_ep *ep, void *data, uint32_t len, void (*gone)(void *),
			       void *arg)
{
	struct lend_buf *buf;

	if (lend_worker_self)
		ep = lend_worker_ep(ep);
	buf = ep ? lend_bufs_wrap(ep->bufs, data, len, gone, arg) : NULL;
	if (!buf)
		(void)lend_fail(ENOMEM, "too many buffers: give some back");
	return buf;
}

static __attribute__((noinline)) void give_in_worker(struct lend_ep *ep, struct lend_buf *buf)
{
	lend_bufs_give(lend_worker_of(ep) ? NULL : ep->bufs, buf);
}

static _Noreturn __attribute__((noinline)) void given_wrongly(const struct lend_mbuf *buf)
{
	if (buf->state == LEND_MBUF_FREE)
		lend_misuse("lend_buf_give(): the buffer was given back already; give each buffer "
			    "once, and none that lend_reply() took");
	lend_misuse("lend_buf_give(): a call or a reply in progress has the buffer; give back a "
		    "request in done, and nothing that lend_reply() took");
}

/* Ends the program if the caller does not own a segment: it is free, or the core has it. */
static void check_owned(struct lend_buf *buf)
{
	for (; buf; buf = buf->next)
		if (lend_mbuf(buf)->state != LEND_MBUF_USER)
			given_wrongly(lend_mbuf(buf));
}

static __attribute__((noinline)) void give_with_care(struct lend_ep *ep, struct lend_buf *buf)
{
	check_owned(buf);
	if (lend_worker_self)
		give_in_worker(ep, buf);
	else
		lend_bufs_give(ep->bufs, buf);
}

void lend_buf_give(struct lend_ep *ep, struct lend_buf *buf)
{
	if (buf && !lend_worker_self && lend_msg_is_own(ep->bufs, buf))
		lend_bufs_free(ep->bufs, lend_mbuf(buf));
	else
		give_with_care(ep, buf);
}

int lend_register(struct lend_ep *ep, void *memory, size_t len)
{
	int rc;

	if (!memory || !len)
		return lend_fail(EINVAL, "register: no memory; give an address and a length");
	rc = lend_bufs_add_memory(ep->bufs, memory, len);
	if (rc < 0)
		return rc;
	for (uint32_t c = 0; c < ep->n_carriers; c++) {
		int failed = lend_io_reg(ep->carrier[c].io, memory, len);

		rc = rc < 0 ? rc : failed;
	}
	return rc;
}

/* Takes pool memory for a NEED; without any, *buf is unchanged. The second half of the pool is not
 * for much longer requests than their senders have sent, the last eighth only for peers that use no
 * more than their share of it. False: this NEED is raised again. */
static bool pool_memory(struct lend_ep *ep, const struct lend_event *ev, struct lend_buf **buf)
{
	uint64_t all = ep->bufs->limit;
	bool much = ev->len > (uint64_t)8 * ep->core_config.unscheduled;

	if (much && ep->bufs->out + ev->len > all / 2 && lend_core_defer(ep->core, ev->call))
		return false;
	if (ep->bufs->out + ev->len > all - all / 8 &&
	    lend_core_over_share(ep->core, ev->call, all))
		return true;
	*buf = lend_bufs_take(ep->bufs, (uint32_t)ev->len);
	return *buf || !lend_core_reclaim(ep->core, ev->call, &ep->bufs->table);
}

/* Provides memory for a long message: from the method's landing function, or from the pool. The
 * core refuses those beyond message_max. A request with a head lands in the pool: its method is not
 * known yet. */
void lend_serve_need(struct lend_ep *ep, const struct lend_event *ev)
{
	const struct lend_method *method =
	    ev->tag || ev->head ? NULL : lend_methods_find(&ep->methods, ev->method);
	struct lend_buf *buf = NULL;
	uint32_t handle = 0;
	int err;

	if (method && method->landing)
		buf = method->landing(lend_sessions_of(ep, ev->session), ev->method, ev->len,
				      ev->data, ev->data_len, method->landing_arg);
	else if (!pool_memory(ep, ev, &buf))
		return;
	if (buf && lend_msg_cap(buf) >= ev->len)
		handle = lend_msg_lend(ep->bufs, buf, true, &err);
	if (!handle)
		lend_bufs_give(ep->bufs, buf);
	if (lend_core_attach(ep->core, ev->call, &ep->bufs->table, handle) < 0 && handle)
		lend_msg_drop(ep->bufs, handle);
}
