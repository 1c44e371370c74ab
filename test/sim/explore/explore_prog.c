#include "sim/explore/explore_prog.h"

#include "core/arena.h"
#include "sim/explore/explore_canon.h"

/* Compares the bytes of a complete message, in place or in buf, which is returned. */
static void check_message(struct ex_node *n, const struct lend_event *e, uint32_t buf,
			  uint32_t message)
{
	uint32_t len = n->seg[message].len;
	const void *data = buf ? n->seg[buf].data : e->data;

	if (e->len != len || (!buf && e->data_len != len))
		ex_bad(n, "a message of another length");
	else if (len && (!data || !ex_same(data, message, 0, len, n)))
		ex_bad(n, "a message with wrong bytes");
}

static void on_request(struct ex_node *n, const struct lend_event *e)
{
	uint32_t id = e->method - EX_METHOD, i = 0;

	if (id >= EX_IDS) {
		ex_bad(n, "a request without a caller");
		return;
	}
	check_message(n, e, e->buf, EX_BUF_REQUEST + id);
	ex_buf_back(n, e->buf);
	while (i < EX_REQS && n->app.req[i].used)
		i++;
	if (i == EX_REQS) {
		ex_bad(n, "more requests than may be in flight");
		return;
	}
	n->app.req[i] = (struct ex_req){.handle = e->call, .id = (uint8_t)id, .used = 1};
	n->fx->saw[n->fx->n_saw++] = (uint8_t)(EX_SAW_RUN | id);
}

static void on_cancelled(struct ex_node *n, const struct lend_event *e)
{
	for (uint32_t i = 0; i < EX_REQS; i++)
		if (n->app.req[i].used && n->app.req[i].handle == e->call) {
			if (n->app.req[i].cancelled)
				ex_bad(n, "a request is cancelled twice");
			n->app.req[i].cancelled = 1;
			return;
		}
	if (!n->store)
		ex_bad(n, "a request is cancelled that no handler has");
}

static void on_need(struct ex_node *n, const struct lend_event *e)
{
	uint32_t buf = EX_BUF_ATTACH + (ex_serves(n) ? e->method - EX_METHOD
						     : EX_IDS + ex_own(n, (uint32_t)e->tag));

	if (n->scope->refuse)
		buf = 0;
	else
		ex_buf_lend(n, buf);
	if (lend_core_attach(n->core, e->call, &n->bufs, buf))
		ex_bad(n, "memory that was requested is not taken");
}

static void on_end(struct ex_node *n, const struct lend_event *e)
{
	uint32_t i = (uint32_t)e->tag, id = ex_own(n, i);

	if (i >= EX_PER || n->app.call[i] == 0 || n->app.call[i] != e->call) {
		ex_bad(n, "a call ends that is not open");
		return;
	}
	n->app.call[i] = 0;
	n->app.limit[i] = 0;
	n->app.stale = e->call;
	if (e->status == CANCELLED && !(n->app.cancelled >> i & 1))
		ex_bad(n, "a call is reported as cancelled, but was not");
	if (n->store || n->scope->mem[0][0]) {
		ex_mem_end(n, e);
		return;
	}
	if (e->buf != EX_BUF_REQUEST + id)
		ex_bad(n, "a call ends with another request");
	if (e->status == OK)
		check_message(n, e, e->reply, EX_BUF_REPLY + id);
	ex_buf_back(n, e->buf);
	ex_buf_back(n, e->reply);
	n->fx->saw[n->fx->n_saw++] = EX_SAW_ENDED(id, e->ran, e->status == OK);
}

static void on_down(struct ex_node *n, const struct lend_event *e)
{
	if (ex_serves(n) || e->session != n->app.session)
		return;
	for (uint32_t i = 0; i < EX_PER; i++)
		if (n->app.call[i])
			ex_bad(n, "a session ends before its calls");
	n->app.session = 0;
	n->app.up = 0;
}

void ex_prog_event(struct ex_node *n, const struct lend_event *e)
{
	if (n->fx->n_saw == EX_SAW_MAX) {
		ex_bad(n, "more events than a step can hold"); /* the explorer's own limit */
		return;
	}
	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_SESSION_UP:
		n->app.up |= e->session == n->app.session;
		return;
	case LEND_EV_SESSION_DOWN:
		on_down(n, e);
		return;
	case LEND_EV_NEED:
		on_need(n, e);
		return;
	case LEND_EV_REQUEST:
		if (n->store)
			ex_mem_serve(n, e);
		else
			on_request(n, e);
		return;
	case LEND_EV_CANCELLED:
		on_cancelled(n, e);
		return;
	case LEND_EV_REPLY_END:
		if (n->app.replies-- == 0)
			ex_bad(n, "a reply ends twice");
		ex_buf_back(n, e->buf);
		return;
	case LEND_EV_CALL_END:
		on_end(n, e);
		return;
	case LEND_EV_BUF_BACK:
		ex_buf_back(n, e->buf);
		return;
	case LEND_EV_PEER_KEEP:
		n->app.peers++;
		return;
	case LEND_EV_PEER_DROP:
		n->app.peers--;
		return;
	case LEND_EV_PROVE: /* its clients have no key */
		ex_bad(n, "a key must be proven");
		return;
	}
}

static void act_connect(struct ex_node *n)
{
	if (lend_core_connect(n->core, n->now, LEND_PEER(0, n->scope->nodes), 0, NULL,
			      &n->app.session))
		n->app.session = 0;
	else
		n->app.connects++;
}

static void act_call(struct ex_node *n)
{
	uint32_t i = n->app.made, id = ex_own(n, i);
	lend_ns limit = n->scope->deadline_us ? n->now + n->scope->deadline_us * LEND_US : 0;
	struct lend_core_call call = {.method = EX_METHOD + id,
				      .deadline = limit ? limit : LEND_NEVER,
				      .request = EX_BUF_REQUEST + id,
				      .tag = i};
	int rc = lend_core_call(n->core, n->now, n->app.session, &n->bufs, &call, &n->app.call[i]);

	lend_core_cancel(n->core, n->app.stale, CANCELLED); /* no effect */
	if (rc == 0) {
		n->app.made++;
		n->app.limit[i] = limit;
		ex_buf_lend(n, EX_BUF_REQUEST + id);
	} else if (rc != E_AGAIN) {
		ex_bad(n, "a call cannot be made");
	}
}

static void act_reply(struct ex_node *n, uint32_t i)
{
	struct ex_req req = n->app.req[i];
	uint32_t buf = EX_BUF_REPLY + req.id;
	const struct lend_seg *seg = &n->bufs.seg[buf];

	memset(&n->app.req[i], 0, sizeof(req));
	if (seg->len > LEND_KEPT_MAX ||
	    lend_core_reply_short(n->core, n->now, req.handle, OK, seg->data, seg->len)) {
		n->app.replies++;
		ex_buf_lend(n, buf);
		if (lend_core_reply(n->core, n->now, req.handle, &n->bufs, OK, buf))
			ex_bad(n, "a request cannot be answered");
	}
	if (lend_core_reply(n->core, n->now, req.handle, &n->bufs, OK, 0) != E_STALE)
		ex_bad(n, "a request is answered twice");
}

void ex_prog_act(struct ex_node *n, uint64_t input)
{
	uint32_t arg = (uint32_t)input;

	switch ((enum ex_kind)(input >> 56)) {
	case EX_CONNECT:
		act_connect(n);
		return;
	case EX_CALL:
		act_call(n);
		return;
	case EX_CANCEL:
		n->app.cancels++;
		n->app.cancelled |= (uint8_t)(1u << arg);
		lend_core_cancel(n->core, n->app.call[arg], CANCELLED);
		return;
	case EX_REPLY:
		act_reply(n, arg);
		return;
	case EX_CLOSE:
		n->app.closes++;
		n->app.cancelled = UINT8_MAX;
		lend_core_disconnect(n->core, n->app.session);
		return;
	case EX_OP:
		ex_mem_op(n, n->app.mem.forget);
		return;
	case EX_AGAIN:
		n->app.mem.again++;
		ex_mem_op(n, false);
		return;
	case EX_NONE:
	case EX_DELIVER:
	case EX_TICK:
	case EX_PASS:
	case EX_DROP:
	case EX_DUP:
	case EX_CRASH:
	case EX_START:
	case EX_KINDS:
		return;
	}
}

uint32_t ex_prog_api(const struct ex_node *n)
{
	const struct ex_scope *s = n->scope;
	const struct ex_app *a = &n->app;
	uint32_t api = 0;

	for (uint32_t i = 0; i < EX_REQS; i++)
		api |= a->req[i].used ? 1u << (EX_API_REPLY + i) : 0;
	if (ex_serves(n))
		return api;
	api |= !a->session && a->connects < s->connects ? 1u << EX_API_CONNECT : 0;
	api |= a->session && a->made < s->calls ? 1u << EX_API_CALL : 0;
	api |= a->session && a->closes < s->closes ? 1u << EX_API_CLOSE : 0;
	api |= ex_mem_wants(n) ? 1u << EX_API_OP : 0;
	api |= ex_mem_wants(n) && a->mem.forget && !a->mem.again ? 1u << EX_API_AGAIN : 0;
	for (uint32_t i = 0; i < EX_PER; i++)
		api |= a->call[i] && a->cancels < s->cancels ? 1u << (EX_API_CANCEL + i) : 0;
	return api;
}

void ex_prog_canon(struct ex_node *n)
{
	for (uint32_t i = 0; i < EX_PER; i++)
		n->app.limit[i] -= n->app.limit[i] ? n->now - EX_NOW : 0;
}

void ex_prog_audit(struct ex_node *n)
{
	ex_buf_audit(n);
	for (uint32_t i = 0; i < EX_PER; i++)
		if (n->app.limit[i] && n->app.limit[i] <= n->now)
			ex_bad(n, "a call outlives its deadline");
	if (n->app.peers + n->core->free_sess.free != n->core->free_sess.cap)
		ex_bad(n, "kept peers are miscounted");
}
