/* Goal: with any loss, duplication or reordering of the first sixteen datagrams, put, adopt, get
 * and release take effect exactly once, and no page, hold, grant or pin is left behind. Method: all
 * 2^16 sets of such datagrams between two clients and the real store behind the real core. A puts,
 * B adopts, reads and releases, A releases; after its timeout a client sends FORGET and
 * retries. Covers: mn/store/exec.c, mn/store/hold.c, mn/store/ref_exec.c, mn/store/data_exec.c,
 * mn/store/lease.c */
#include <stdalign.h>

#include "mn/store/exec.h"
#include "mn/store/frame.h"
#include "scen/exhaustive_faults.h"
#include "one_line_test.h"

enum { A, B, NODE, CLIENTS = 2, SMALL = 1000, LARGE = 8 * 1376 - 200, PAGES = 8 };
enum { ARENA = 128 << 10, SALT = 9 };
#define TTL  (1000 * LEND_MS)
#define LATE (5000 * LEND_MS) /* restored grants have expired by then */

struct plan {
	const char *name;
	uint32_t len;
	struct lend_memterms terms;
	bool up;          /* faults begin once both clients have sent HELLO */
	lend_ns patience; /* timeout of operations that can be forgotten; 0: no timeout */
};

struct client {
	uint64_t session, id, life;
	uint8_t kind;    /* the operation in progress */
	bool forgetting; /* its FORGET is in progress */
	bool ready, done;
};

/* State of the current run. */
static struct {
	const struct plan *plan;
	struct client client[CLIENTS];
	struct lend_store_peer peer[CLIENTS]; /* by incarnation: a session stays with its process */
	struct lend_store *store;
	struct lend_memref ref;
	bool put;
} at;

static uint32_t forgot[LEND_FORGOT_RAN + 1]; /* over all runs: count of each result */

static alignas(64) unsigned char arena[ARENA];
static alignas(LEND_MEM_PAGE) unsigned char pages[(PAGES + 1) * LEND_MEM_PAGE];
static unsigned char scratch[ARENA];

static void open_store(struct faults *f)
{
	struct lend_store_config c;

	lend_store_config_default(&c, PAGES * LEND_MEM_PAGE, LEND_MEM_PAGE);
	c.pages = PAGES;
	c.objects = c.holds = c.grants = c.clients = c.incarnations = 4;
	c.placements = 1;
	c.open = 16;
	c.node = 11;
	c.epoch = 12;
	memset(c.key, 13, sizeof(c.key));
	cr_assert(lend_store_size(&c) && lend_store_size(&c) <= sizeof(arena));
	cr_assert_leq(lend_store_pages_size(&c), sizeof(pages));
	memset(arena, 0, lend_store_size(&c));
	at.store = lend_store_init(arena, &c, pages, f->now);
	cr_assert_leq(lend_store_audit_size(at.store), sizeof(scratch));
}

static void on_give(struct faults *f, const struct lend_seg *seg)
{
	struct lend_store_seg pinned = {seg->data, seg->len};

	(void)f;
	lend_store_done(at.store, 0, &pinned, 1);
}

static void on_alarm(struct faults *f)
{
	lend_store_tick(at.store, f->now);
	f->alarm = lend_store_deadline(at.store);
}

/* Like mn/node_server: bytes in, operation, pages out without a copy. */
static void serve(struct faults *f, const struct lend_event *e)
{
	static struct lend_store_out out;
	struct faults_node *n = &f->node[NODE];
	const struct lend_seg *buf = &n->seg[e->buf];
	struct lend_store_seg seg = {e->buf ? buf->data : (void *)(uintptr_t)e->data, e->len};
	struct lend_store_in in = {.seg = &seg, .n = 1};
	uint8_t incarnation[16];
	uint32_t address, first = 0, last = 0;

	if (lend_core_session_peer(n->core, e->session, &address, incarnation))
		faults_wrong(f, "a request of no client");
	in.peer = &at.peer[incarnation[0] % CLIENTS];
	memcpy(in.peer->incarnation, incarnation, sizeof(incarnation));
	lend_store_exec(at.store, f->now, &in, &out);
	faults_give(f, NODE, e->buf);
	for (uint32_t i = 0; i < out.n; i++) {
		uint32_t next =
		    out.pinned ? faults_wrap(f, NODE, out.seg[i].data, (uint32_t)out.seg[i].len)
			       : faults_buf(f, NODE, (uint32_t)out.seg[i].len, 0);

		if (!out.pinned)
			memcpy(n->seg[next].data, out.seg[i].data, out.seg[i].len);
		first = first ? first : next;
		if (last)
			n->seg[last].next = next;
		last = next;
	}
	if (lend_core_reply(n->core, f->now, e->call, &n->bufs, (uint8_t)out.status, first))
		faults_wrong(f, "no reply");
	f->alarm = lend_store_deadline(at.store);
}

static uint32_t request(struct faults *f, uint32_t i)
{
	const struct client *c = &at.client[i];
	struct lend_memop op = {.kind = c->forgetting ? LEND_MEMOP_FORGET : c->kind,
				.client = 1,
				.life = c->life,
				.id = lend_memop_recorded(c->kind) && !c->forgetting ? c->id : 0,
				.low = lend_memop_recorded(c->kind) ? c->id : 0,
				.target = c->forgetting ? c->id : 0,
				.n = c->kind == LEND_MEMOP_RELEASE,
				.len = at.plan->len,
				.terms = at.plan->terms};
	uint32_t buf = faults_buf(f, i, 0, 0), n;
	struct lend_seg *seg = &f->node[i].seg[buf];

	if (at.put)
		op.ref = at.ref;
	n = lend_memop_encode(&op, seg->data);
	seg->len = n + (uint32_t)lend_memop_payload(&op);
	if (op.kind == LEND_MEMOP_PUT)
		faults_fill((uint8_t *)seg->data + n, at.plan->len, SALT);
	else if (op.kind == LEND_MEMOP_RELEASE)
		lend_memref_encode(&at.ref, (uint8_t *)seg->data + n);
	return buf;
}

static void say(struct faults *f, uint32_t i)
{
	struct client *c = &at.client[i];
	struct faults_node *n = &f->node[i];
	bool hasty = at.plan->patience && lend_memop_recorded(c->kind) && !c->forgetting;
	struct lend_core_call call = {.method = LEND_MEM_METHOD,
				      .deadline = hasty ? f->now + at.plan->patience : LEND_NEVER,
				      .request = request(f, i)};
	uint64_t handle;

	if (lend_core_call(n->core, f->now, c->session, &n->bufs, &call, &handle))
		faults_wrong(f, "no call");
}

static void start(struct faults *f, uint32_t i, uint8_t kind)
{
	at.client[i].kind = kind;
	at.client[i].id += lend_memop_recorded(kind);
	say(f, i);
}

/* The operation is done: the client starts its next one. */
static void go_on(struct faults *f, uint32_t i, const struct lend_event *e)
{
	struct client *c = &at.client[i];
	struct lend_memhello hello;

	switch (c->kind) {
	case LEND_MEMOP_HELLO:
		if (!lend_memhello_decode(e->data, e->data_len, &hello))
			faults_wrong(f, "a strange HELLO");
		c->life = hello.life;
		c->ready = true;
		if (i == A && !at.plan->up)
			start(f, A, LEND_MEMOP_PUT);
		if (i == B && at.put)
			start(f, B, LEND_MEMOP_ADOPT);
		return;
	case LEND_MEMOP_PUT:
		if (e->data_len != LEND_MEMREF_LEN || !lend_memref_decode(e->data, &at.ref))
			faults_wrong(f, "a strange reference");
		at.put = true;
		c->done = at.plan->terms.kind == LEND_TERMS_TRANSFER;
		if (at.client[B].ready)
			start(f, B, LEND_MEMOP_ADOPT);
		return;
	case LEND_MEMOP_ADOPT:
		start(f, B, LEND_MEMOP_GET);
		return;
	case LEND_MEMOP_GET:
		if (e->len != at.plan->len || !faults_same(f, i, e, e->reply, SALT))
			faults_wrong(f, "the bytes are wrong");
		start(f, B, LEND_MEMOP_RELEASE);
		if (!at.client[A].done)
			start(f, A, LEND_MEMOP_RELEASE);
		return;
	default:
		c->done = true;
		return;
	}
}

static void on_end(struct faults *f, uint32_t i, const struct lend_event *e)
{
	struct client *c = &at.client[i];

	if (e->status == DEADLINE_EXCEEDED && e->ran == RAN_YES)
		faults_wrong(f, "it ran without a recorded reply");
	if (c->forgetting && e->status == OK) {
		c->forgetting = false;
		forgot[*(const uint8_t *)e->data % (LEND_FORGOT_RAN + 1)]++;
		if (*(const uint8_t *)e->data >= LEND_FORGOT_RAN)
			faults_wrong(f, "a forgotten operation took effect");
		start(f, i, c->kind);
	} else if (e->status == DEADLINE_EXCEEDED && at.plan->patience) {
		/* A release is sent again under its number, other operations are forgotten
		 * first. */
		c->forgetting = c->kind != LEND_MEMOP_RELEASE;
		say(f, i);
	} else if (e->status == OK) {
		go_on(f, i, e);
	} else {
		faults_wrong(f, "an operation failed");
	}
	faults_give(f, i, e->buf);
	faults_give(f, i, e->reply);
}

static void on_event(struct faults *f, uint32_t node, const struct lend_event *e)
{
	if (e->kind == LEND_EV_REQUEST && node == NODE)
		serve(f, e);
	else if (e->kind == LEND_EV_CALL_END && node != NODE)
		on_end(f, node, e);
	else if (e->kind == LEND_EV_REQUEST || e->kind == LEND_EV_CALL_END ||
		 e->kind == LEND_EV_NEED)
		faults_wrong(f, "an impossible event");
	else if (e->kind == LEND_EV_SESSION_DOWN && !(at.client[A].done && at.client[B].done))
		faults_wrong(f, "a session went down");
}

static void audit(struct faults *f, bool over)
{
	const char *bad = lend_store_audit(at.store, scratch);
	struct lend_memstats s;

	lend_store_stats(at.store, &s);
	if (bad)
		faults_wrong(f, bad);
	if (s.holds || s.pages_pinned)
		faults_wrong(f, "a hold or pin is left");
	if (over && (s.refs || s.grants || s.pages_used || s.nodes_used || s.leases_expired))
		faults_wrong(f, "a snapshot, grant, page or node is left");
	while (over && lend_frame_clean_deadline(at.store) < LEND_NEVER)
		lend_frame_clean(at.store, lend_frame_clean_deadline(at.store));
	for (uint32_t i = 0; over && i < sizeof(pages) / 8; i++)
		if (((const uint64_t *)(const void *)pages)[i])
			faults_wrong(f, "a free page has bytes");
}

static void meet(struct faults *f)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		at.client[i].session = faults_connect(f, i, NODE);
		start(f, i, LEND_MEMOP_HELLO);
	}
	if (!at.plan->up)
		return;
	while (!(at.client[A].ready && at.client[B].ready) && faults_step(f, LEND_NEVER))
		continue;
	faults_begin(f);
	start(f, A, LEND_MEMOP_PUT);
}

static void run(struct faults *f, const void *arg)
{
	lend_ns bound, began;

	memset(&at, 0, sizeof(at));
	at.plan = arg;
	faults_reset(f, 3);
	open_store(f);
	f->on_event = on_event;
	f->on_alarm = on_alarm;
	f->on_give = on_give;
	if (!at.plan->up)
		faults_begin(f);
	meet(f);
	began = f->now;
	bound = began + faults_bound() + 10 * LEND_MS;
	while (!(at.client[A].done && at.client[B].done) && faults_step(f, bound))
		continue;
	if (!(at.client[A].done && at.client[B].done))
		faults_wrong(f, "the operations do not end in time");
	f->longest = lend_max_u64(f->longest, f->now - began);
	faults_rest(f, began);
	audit(f, at.plan->terms.kind == LEND_TERMS_TRANSFER);
	for (uint32_t i = 0; i < CLIENTS; i++)
		lend_core_disconnect(f->node[i].core, at.client[i].session);
	for (lend_ns until = f->now + LATE; faults_step(f, until);)
		continue;
	audit(f, true);
	while (faults_step(f, LEND_NEVER))
		continue;
	faults_over(f);
}

static void all_faults(struct plan plan)
{
	for (enum fault fault = FAULT_LOST; fault <= FAULT_FULL; fault++)
		if (fault != FAULT_STALE || plan.patience)
			faults_all(plan.name, fault, run, &plan);
}

static const struct lend_memterms transfer = {LEND_TERMS_TRANSFER, 0, TTL};
static const struct lend_memterms shared = {LEND_TERMS_SHARED, 1, TTL};

TestRuns(exhaustive_faults_store, small_and_transferred,
	 all_faults((struct plan){"put, adopt, get, release", SMALL, transfer, true, 0}));
TestRuns(exhaustive_faults_store, from_connect_on,
	 all_faults((struct plan){"connect, put, adopt, get, release", SMALL, shared, false, 0}));
TestRuns(exhaustive_faults_store, three_pages_shared,
	 all_faults((struct plan){"put, adopt, get, release of three pages", LARGE, shared, true,
				  0}));

Test(exhaustive_faults_store, impatient_clients_forget)
{
	all_faults((struct plan){"put or forget, adopt or forget, get, release", SMALL, transfer,
				 true, 600 * LEND_US});
	cr_assert(forgot[LEND_FORGOT_PREVENTED] > 100 && forgot[LEND_FORGOT_UNDONE] > 100);
}
