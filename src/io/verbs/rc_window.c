/* rc_window - shows runs of memory to one peer by memory windows, and hides them again.
 * Layer: io. Threads: one per carrier.
 */
#include "io/verbs/rc_link.h"

#include <errno.h>
#include <string.h>

#include "sys/clock.h"

static struct verbs *verbs_of(struct lend_io *io)
{
	return (struct verbs *)(void *)io;
}

static struct rc_window *take_window(struct verbs *v, uint32_t *number)
{
	struct verbs_rc *rc = v->rc;
	struct rc_window *w;

	if (rc->free_window) {
		*number = rc->free_window;
		rc->free_window = rc->window[*number - 1].next;
	} else if (rc->n_windows < RC_WINDOWS) {
		*number = ++rc->n_windows;
	} else {
		return NULL;
	}
	w = &rc->window[*number - 1];
	w->next = 0;
	if (!w->mw)
		w->mw = ibv_alloc_mw(v->ring->pd, IBV_MW_TYPE_2);
	return w;
}

/* Frees the windows of a show. None is bound any more. */
static void give_windows(struct verbs *v, uint32_t first)
{
	while (first) {
		struct rc_window *w = &v->rc->window[first - 1];
		uint32_t next = w->next;

		if (w->temp)
			(void)ibv_dereg_mr(w->temp);
		w->temp = NULL;
		w->next = v->rc->free_window;
		v->rc->free_window = first;
		first = next;
	}
}

/* Takes a window with the registration of a run. NULL: there is none, or it cannot be registered.
 */
static struct rc_window *prepare_window(struct verbs *v, const struct iovec *run, uint32_t *number,
					struct ibv_mr **mr)
{
	const struct verbs_region *region =
	    verbs_region_of(v, run->iov_base, (uint32_t)run->iov_len);
	struct rc_window *w = take_window(v, number);

	if (!w)
		return NULL;
	if (!region || !region->windows)
		w->temp = ibv_reg_mr(v->ring->pd, run->iov_base, run->iov_len,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	*mr = w->temp ? w->temp : region && region->windows ? region->mr : NULL;
	return w;
}

/* Waits for the end of a link's last request. False: the link broke, or breaks now. */
static bool await_link(struct verbs *v, struct rc_link *link)
{
	lend_ns end = lend_clock_now() + RC_BIND_NS;

	while (link->state == RC_UP && link->waits != 0) {
		rc_poll(v);
		if (link->waits != 0 && lend_clock_now() > end)
			rc_link_break(v, link);
	}
	return link->state == RC_UP;
}

/* Posts n linked requests, the last one signalled, and waits for their end. */
static bool run_requests(struct verbs *v, struct rc_link *link, struct ibv_send_wr *wr, uint32_t n)
{
	struct ibv_send_wr *bad;

	for (uint32_t i = 0; i < n; i++)
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	wr[n - 1].send_flags = IBV_SEND_SIGNALED;
	v->rc->last_id += RC_LINKS;
	link->waits = wr[n - 1].wr_id = v->rc->last_id + (uint64_t)(link - v->rc->link);
	if (ibv_post_send(link->qp, wr, &bad) != 0) {
		rc_link_break(v, link);
		return false;
	}
	return await_link(v, link);
}

int rc_show(struct lend_io *io, uint32_t peer, const struct iovec *run, uint32_t n,
	    struct lend_io_key *key, uint32_t *shown)
{
	struct verbs *v = verbs_of(io);
	struct rc_link *link = rc_link_up(v, peer, LEND_IO_OWNER);
	struct ibv_send_wr wr[LEND_IO_RUNS];
	uint32_t first = 0, *at = &first;

	if (!link)
		return -ENOTCONN;
	if (n == 0 || n > LEND_IO_RUNS)
		return -E2BIG;
	for (uint32_t i = 0; i < n; i++) {
		struct ibv_mr *mr = NULL;
		struct rc_window *w = prepare_window(v, &run[i], at, &mr);

		if (!w || !w->mw || !mr) {
			give_windows(v, first);
			return -ENOMEM;
		}
		at = &w->next;
		wr[i] = (struct ibv_send_wr){.opcode = IBV_WR_BIND_MW};
		wr[i].bind_mw.mw = w->mw;
		wr[i].bind_mw.rkey = ibv_inc_rkey(w->mw->rkey);
		wr[i].bind_mw.bind_info =
		    (struct ibv_mw_bind_info){.mr = mr,
					      .addr = (uintptr_t)run[i].iov_base,
					      .length = run[i].iov_len,
					      .mw_access_flags = IBV_ACCESS_REMOTE_READ};
		key[i] = (struct lend_io_key){(uintptr_t)run[i].iov_base, run[i].iov_len,
					      wr[i].bind_mw.rkey};
	}
	for (uint32_t i = first; i; i = v->rc->window[i - 1].next) {
		v->rc->window[i - 1].bound = true;
		v->rc->window[i - 1].link = (uint8_t)(link - v->rc->link);
	}
	link->busy += n;
	link->used = lend_clock_now();
	if (!run_requests(v, link, wr, n)) { /* broken: none of its windows is left */
		give_windows(v, first);
		return -EIO;
	}
	for (uint32_t i = 0, w = first; i < n; i++, w = v->rc->window[w - 1].next)
		v->rc->window[w - 1].mw->rkey = key[i].key;
	*shown = first;
	v->io.stats.one_sided_shows += n;
	return 0;
}

void rc_hide(struct lend_io *io, uint32_t shown)
{
	struct verbs *v = verbs_of(io);
	struct ibv_send_wr wr[LEND_IO_RUNS];
	struct rc_link *link = NULL;
	uint32_t n = 0;

	for (uint32_t i = shown; i; i = v->rc->window[i - 1].next) {
		struct rc_window *w = &v->rc->window[i - 1];

		if (!w->bound) /* its link broke */
			continue;
		link = &v->rc->link[w->link];
		wr[n++] = (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV,
					       .invalidate_rkey = w->mw->rkey};
	}
	if (n > 0 && run_requests(v, link, wr, n)) {
		for (uint32_t i = shown; i; i = v->rc->window[i - 1].next)
			v->rc->window[i - 1].bound = false;
		link->busy -= n;
		link->used = lend_clock_now();
	}
	give_windows(v, shown);
}

void rc_windows_drop(struct verbs *v, uint8_t link)
{
	for (uint32_t i = 0; i < v->rc->n_windows; i++) {
		struct rc_window *w = &v->rc->window[i];

		if (!w->bound || w->link != link)
			continue;
		(void)ibv_dealloc_mw(w->mw);
		w->mw = NULL;
		w->bound = false;
	}
}

void rc_windows_free(struct verbs *v)
{
	for (uint32_t i = 0; i < v->rc->n_windows; i++) {
		struct rc_window *w = &v->rc->window[i];

		if (w->mw)
			(void)ibv_dealloc_mw(w->mw);
		if (w->temp)
			(void)ibv_dereg_mr(w->temp);
	}
}
