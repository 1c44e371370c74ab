/* Goal: the store agrees with a naive model on every byte, status, holder and page count, on any
 * history with retransmissions, FORGET, time, and processes that die. Method: the model keeps each
 * object's bytes in its own array, shared pages as plain numbers, holders as flags and grants as a
 * list; seeds drive both; all ledgers are audited now and then, and are zero at the end. Covers:
 * mn/store/store.c, mn/store/exec.c, mn/store/data_exec.c, mn/store/ref_exec.c, mn/store/space.c,
 * mn/store/hold.c, mn/store/cow.c, mn/store/page_tree.c, mn/store/frame.c, mn/store/lease.c */
#include "unit/storemodel.h"

static void fill_random(uint64_t len)
{
	uint64_t v = lend_rng_next(&rng);

	for (uint64_t i = 0; i < len; i++)
		buf[i] = (uint8_t)(v >> i % 56) + (uint8_t)i;
}

static uint64_t draw_length(void)
{
	return below(3) ? below(5 * LEND_MEM_PAGE) : 64 * LEND_MEM_PAGE + below(25 * LEND_MEM_PAGE);
}

static void expect_status(enum lend_mem_status status, enum lend_mem_status want)
{
	cr_assert_eq(status, want, "seed %llu: status %d, want %d", (unsigned long long)seed,
		     status, want);
}

static void do_release(int w);
static void do_free(void);

static void do_put(int w)
{
	struct lend_memterms t = terms(true);
	uint64_t len = draw_length();
	struct mobject *o = empty(1);
	bool fits;

	if (!o) {
		do_release((int)below(CLIENTS));
		do_free();
		return;
	}
	fill_random(len);
	o->len = len;
	memcpy(o->bytes, buf, len);
	fits = touch(o, 0, len);
	expect_status(kit_put(k, &client[w], buf, len, t, &o->ref),
		      fits ? LEND_MEM_OK : LEND_MEM_RESOURCE_EXHAUSTED);
	if (fits)
		apply(o, w, t);
	else
		o->kind = 0;
}

static void do_get(int w)
{
	struct mobject *o = pick(1);
	struct lend_memref ref;
	uint64_t from, len, offset, n;

	if (!o)
		return;
	from = below(o->len + 1);
	len = below(o->len - from + 1);
	offset = below(len + 1);
	n = below(len - offset + 1);
	cr_assert_eq(lend_memref_slice(&o->ref, from, len, LEND_RIGHT_READ, &ref), 0);
	expect_status(kit_get(k, &client[w], &ref, offset, n, got), LEND_MEM_OK);
	cr_assert_eq(memcmp(got, o->bytes + from + offset, n), 0, AT);
	expect_status(kit_get(k, &client[w], &ref, offset, len - offset + 1, got),
		      LEND_MEM_OUT_OF_RANGE);
}

static void do_alloc(int w)
{
	struct mobject *o = empty(2);

	if (!o)
		return;
	o->owner = w;
	o->len = draw_length();
	expect_status(kit_alloc(k, &client[w], o->len, &o->space), LEND_MEM_OK);
}

static void do_map(int w)
{
	struct mobject *from = pick(1), *o = from ? empty(2) : NULL;
	struct lend_memref ref;
	uint64_t offset, len;

	if (!o)
		return;
	offset = below(2) ? 0 : below(from->len + 1);
	len = below(2) ? from->len - offset : below(from->len - offset + 1);
	o->owner = w;
	share(o, from, offset, len);
	cr_assert_eq(lend_memref_slice(&from->ref, offset, len, LEND_RIGHT_MAP, &ref), 0);
	expect_status(kit_map(k, &client[w], &ref, &o->space), LEND_MEM_OK);
}

static void do_write(int w)
{
	struct mobject *o = pick(2);
	uint64_t offset, len;
	bool fits;

	if (!o)
		return;
	offset = below(o->len + 1);
	len = below(o->len - offset + 1);
	if (below(2) && len > 9000)
		len = below(9000);
	fill_random(len);
	if (below(8))
		w = o->owner;
	if (o->owner != w) {
		expect_status(
		    kit_space_op(k, &client[w], LEND_MEMOP_WRITE, &o->space, offset, len, buf),
		    LEND_MEM_NOT_FOUND);
		return;
	}
	fits = touch(o, offset, len);
	expect_status(kit_space_op(k, &client[w], LEND_MEMOP_WRITE, &o->space, offset, len, buf),
		      fits ? LEND_MEM_OK : LEND_MEM_RESOURCE_EXHAUSTED);
	if (fits)
		memcpy(o->bytes + offset, buf, len);
}

static void do_read(void)
{
	struct mobject *o = pick(2);

	if (!o)
		return;
	expect_status(
	    kit_space_op(k, &client[o->owner], LEND_MEMOP_READ, &o->space, 0, o->len, got),
	    LEND_MEM_OK);
	cr_assert_eq(memcmp(got, o->bytes, o->len), 0, AT);
}

static void do_seal(void)
{
	struct mobject *from = pick(2), *o = from ? empty(1) : NULL;
	struct lend_memop op = {.kind = LEND_MEMOP_SEAL, .terms = terms(true)};
	int w;

	if (!o)
		return;
	w = from->owner;
	op.space = from->space;
	op.offset = below(2) ? 0 : below(from->len + 1);
	op.len = below(2) ? from->len - op.offset : below(from->len - op.offset + 1);
	op.flags = below(3) == 0 ? LEND_MEMOP_CONSUME : 0;
	expect_status(kit_do(k, &client[w], &op, NULL), LEND_MEM_OK);
	cr_assert(lend_memref_decode(k->out.head, &o->ref));
	share(o, from, op.offset, op.len);
	apply(o, w, op.terms);
	if (op.flags)
		from->kind = 0;
}

static void do_free(void)
{
	struct mobject *o = pick(2);

	if (!o)
		return;
	expect_status(kit_space_op(k, &client[o->owner], LEND_MEMOP_FREE, &o->space, 0, 0, NULL),
		      LEND_MEM_OK);
	o->kind = 0;
}

/* Adopts a reference; half of the time, FORGETs the adopt. */
static void do_adopt(int w)
{
	struct mobject *o = pick(1);
	struct mgrant *g, old;
	uint8_t forgot;

	if (!o)
		return;
	g = next_grant(o);
	if (o->held[w] || !g) {
		expect_status(kit_ref_op(k, &client[w], LEND_MEMOP_ADOPT, &o->ref),
			      o->held[w] ? LEND_MEM_OK : LEND_MEM_FAILED_PRECONDITION);
		return;
	}
	old = *g;
	expect_status(kit_ref_op(k, &client[w], LEND_MEMOP_ADOPT, &o->ref), LEND_MEM_OK);
	if (below(2)) {
		expect_status(kit_forget(k, &client[w], client[w].id, &forgot), LEND_MEM_OK);
		cr_assert_eq(forgot, LEND_FORGOT_UNDONE, AT);
		if (old.expires < k->now + 5 * S)
			old.expires = k->now + 5 * S;
		*g = old;
		return;
	}
	o->held[w] = true;
	if (--g->left == 0 && g->kind == LEND_TERMS_TRANSFER)
		g->kind = 0;
}

static void do_grant(int w)
{
	struct mobject *o = pick(1);
	struct lend_memterms t = terms(false);
	uint8_t forgot;

	if (!o || !has_grant_room(o))
		return;
	expect_status(kit_grant(k, &client[w], &o->ref, t),
		      o->held[w] ? LEND_MEM_OK : LEND_MEM_FAILED_PRECONDITION);
	if (below(3) == 0) {
		expect_status(kit_forget(k, &client[w], client[w].id, &forgot), LEND_MEM_OK);
		return; /* nothing has changed */
	}
	if (!o->held[w])
		return;
	add_grant(o, t);
	o->held[w] &= t.kind != LEND_TERMS_TRANSFER;
}

static void do_release(int w)
{
	struct mobject *o = pick(1);
	struct mgrant *g;

	if (!o)
		return;
	g = next_grant(o);
	expect_status(kit_release(k, &client[w], &o->ref),
		      o->held[w] || g ? LEND_MEM_OK : LEND_MEM_FAILED_PRECONDITION);
	if (!o->held[w] && g && --g->left == 0 && g->kind == LEND_TERMS_TRANSFER)
		g->kind = 0;
	o->held[w] = false;
	settle(o);
}

/* A put that is retransmitted and then forgotten, or forgotten before it arrives. */
static void do_forgotten_put(int w)
{
	struct lend_memop op = {
	    .kind = LEND_MEMOP_PUT, .len = 1 + below(9000), .terms = terms(true)};
	uint8_t reply[64], forgot;
	bool fits = (op.len + page_size - 1) / page_size <= FRAMES - pages_used();
	bool before = below(2);

	fill_random(op.len);
	op.client = client[w].number;
	op.life = client[w].life;
	op.id = op.low = client[w].low = ++client[w].id;
	if (before)
		expect_status(kit_forget(k, &client[w], op.id, &forgot), LEND_MEM_OK);
	expect_status(kit_exec(k, &client[w], &op, buf), before ? LEND_MEM_ABORTED
							 : fits ? LEND_MEM_OK
								: LEND_MEM_RESOURCE_EXHAUSTED);
	if (!before && fits) {
		memcpy(reply, k->out.head, 64);
		expect_status(kit_exec(k, &client[w], &op, buf), LEND_MEM_OK);
		cr_assert_eq(memcmp(reply, k->out.head, 64), 0, AT);
	}
	expect_status(kit_forget(k, &client[w], op.id, &forgot), LEND_MEM_OK);
	expect_status(kit_exec(k, &client[w], &op, buf), LEND_MEM_ABORTED);
	client[w].low = 0;
}

/* Returns the unwritten snapshot of this client; NULL: it has none. */
static struct mobject *unwritten_of(int w)
{
	for (int i = 0; i < OBJECTS; i++)
		if (obj[i].kind == 3 && obj[i].owner == w)
			return &obj[i];
	return NULL;
}

static struct lend_memop put_of(const struct mobject *o, uint16_t flags)
{
	return (struct lend_memop){.kind = LEND_MEMOP_PUT,
				   .flags = flags,
				   .client = client[o->owner].number,
				   .life = client[o->owner].life,
				   .id = o->put,
				   .low = o->put,
				   .len = o->len};
}

/* A put that comes before its bytes. Its record is kept until it ends. */
static void do_early(int w)
{
	struct mobject *o = unwritten_of(w) ? NULL : empty(3);
	struct lend_memop op;
	bool fits;

	if (!o)
		return;
	o->owner = w;
	o->len = 1 + draw_length();
	o->put = client[w].low = ++client[w].id;
	fits = touch(o, 0, o->len);
	op = put_of(o, LEND_MEMOP_EARLY);
	expect_status(kit_exec(k, &client[w], &op, NULL),
		      fits ? LEND_MEM_OK : LEND_MEM_RESOURCE_EXHAUSTED);
	if (fits) {
		cr_assert(lend_memref_decode(k->out.head, &o->ref));
		o->held[w] = true;
		return;
	}
	fill_random(o->len);
	op.flags = 0;
	expect_status(kit_exec(k, &client[w], &op, buf), LEND_MEM_RESOURCE_EXHAUSTED);
	client[w].low = 0;
	o->kind = 0;
}

/* Receives the bytes of a put into frames: of `bytes`, or, if the message dies, other ones. */
static enum lend_mem_status land_put(const struct mobject *o, const struct lend_memop *op,
				     bool dies, bool *placed)
{
	static struct lend_store_seg seg[LEND_STORE_SEGS_MAX + 1];
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	uint32_t n = lend_memop_encode(op, head), segs, fixed, p;
	struct client *w = &client[o->owner];
	uint64_t at = 0;

	p = lend_store_place(k->store, &w->peer, head, n, n + op->len, seg + 1, &segs, &fixed);
	*placed = p != 0;
	if (!p)
		return dies ? LEND_MEM_OK : kit_exec(k, w, op, buf);
	for (uint32_t i = 1; i <= segs; at += seg[i++].len)
		memcpy(seg[i].data, buf + at, dies ? seg[i].len / 2 : seg[i].len);
	if (dies)
		lend_store_unplace(k->store, p);
	seg[0] = (struct lend_store_seg){head, n};
	return dies ? LEND_MEM_OK
		    : lend_store_exec(k->store, k->now,
				      &(struct lend_store_in){&w->peer, seg, segs + 1, p, false},
				      &k->out);
}

/* Its bytes arrive: copied, or into its own frames. Another message that lands there meanwhile
 * changes nothing. */
static void fill_early(struct mobject *o)
{
	static struct lend_store_seg seg[LEND_STORE_SEGS_MAX];
	struct lend_memop op = put_of(o, 0);
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	uint32_t n = lend_memop_encode(&op, head), segs = 0, fixed, other = 0;
	struct client *w = &client[o->owner];
	uint32_t settled = lend_store_settled(k->store);
	bool placed, fits = true;
	enum lend_mem_status status;

	fill_random(o->len);
	if (below(3) == 0) {
		other =
		    lend_store_place(k->store, &w->peer, head, n, n + op.len, seg, &segs, &fixed);
		fits = !other || (o->len + page_size - 1) / page_size <= FRAMES - pages_used();
	}
	status = below(2) ? kit_exec(k, w, &op, buf) : land_put(o, &op, false, &placed);
	expect_status(status, fits ? LEND_MEM_OK : LEND_MEM_RESOURCE_EXHAUSTED);
	cr_assert_eq(lend_store_settled(k->store), settled + fits, AT);
	for (uint32_t i = 0; other && i < segs; i++)
		memset(seg[i].data, 0xee, seg[i].len);
	if (other)
		lend_store_unplace(k->store, other);
	if (!fits)
		return;
	memcpy(o->bytes, buf, o->len);
	expect_status(kit_exec(k, w, &op, buf), LEND_MEM_OK); /* repeated */
	o->kind = 1;
}

static void end_early(struct mobject *o)
{
	struct lend_memop op = put_of(o, 0);
	struct client *w = &client[o->owner];
	uint32_t settled = lend_store_settled(k->store);
	bool forgets = below(2);
	uint8_t forgot;

	if (forgets)
		expect_status(kit_forget(k, w, o->put, &forgot), LEND_MEM_OK);
	else
		expect_status(kit_release(k, w, &o->ref), LEND_MEM_OK);
	cr_assert_eq(lend_store_settled(k->store), settled + 1, AT);
	expect_status(kit_exec(k, w, &op, buf), forgets ? LEND_MEM_ABORTED : LEND_MEM_NOT_FOUND);
	expect_status(kit_get(k, &client[below(CLIENTS)], &o->ref, 0, 1, got), LEND_MEM_NOT_FOUND);
	o->kind = 0;
}

/* Reads of an unwritten snapshot wait; it is its writer's alone; it ends once. */
static void do_unwritten(int w, bool ends)
{
	struct mobject *o = unwritten_of(w);
	struct lend_memop op;
	bool placed;
	int r = (int)below(CLIENTS);

	if (!o)
		return;
	expect_status(kit_get(k, &client[r], &o->ref, 0, below(o->len + 1), got),
		      LEND_MEM_UNWRITTEN);
	expect_status(kit_ref_op(k, &client[r], LEND_MEMOP_MAP, &o->ref), LEND_MEM_UNWRITTEN);
	expect_status(kit_ref_op(k, &client[r], LEND_MEMOP_ADOPT, &o->ref),
		      r == w ? LEND_MEM_OK : LEND_MEM_FAILED_PRECONDITION);
	op = put_of(o, 0);
	if (below(4) == 0) {
		fill_random(o->len);
		expect_status(land_put(o, &op, true, &placed), LEND_MEM_OK);
	} else if (below(2) || ends) {
		if (below(3))
			fill_early(o);
		else
			end_early(o);
	}
	if (ends && o->kind == 3)
		end_early(o);
	if (o->kind != 3)
		client[w].low = 0;
}

static void do_stale(int w)
{
	struct mobject *o = &obj[below(OBJECTS)];

	if (o->kind || !o->ref.version)
		return;
	expect_status(kit_get(k, &client[w], &o->ref, 0, 0, got), LEND_MEM_NOT_FOUND);
	expect_status(kit_release(k, &client[w], &o->ref), LEND_MEM_NOT_FOUND);
}

static void send_hellos(void)
{
	for (uint32_t w = 0; w < CLIENTS; w += 2) {
		uint64_t id = client[w + 1].id, low = client[w + 1].low;

		expect_status(kit_hello(k, &client[w], 1, 1), LEND_MEM_OK);
		expect_status(kit_join(k, &client[w + 1], &client[w], 2), LEND_MEM_OK);
		client[w + 1].id = id;
		client[w + 1].low = low;
	}
}

/* Process 0 or 1, with clients 2p and 2p + 1, hangs up. */
static void do_hangup(int process)
{
	lend_store_hangup(k->store, client[2 * process].life);
	for (int i = 0; i < OBJECTS; i++) {
		if (obj[i].kind >= 2 && obj[i].owner / 2 == process)
			obj[i].kind = 0;
		obj[i].held[2 * process] = obj[i].held[2 * process + 1] = false;
		if (obj[i].kind == 1)
			settle(&obj[i]);
	}
	client[2 * process].low = client[2 * process + 1].low = 0;
	send_hellos();
}

static void run_step(void)
{
	int w = (int)below(CLIENTS);
	struct mobject *early = unwritten_of(w);

	if (early && client[w].id - early->put > 40)
		do_unwritten(w, true);
	switch (below(27)) {
	case 0:
	case 1:
	case 2:
		return do_put(w);
	case 3:
	case 4:
		return do_get(w);
	case 5:
		return do_alloc(w);
	case 6:
	case 7:
		return do_map(w);
	case 8:
	case 9:
	case 10:
		return do_write(w);
	case 11:
	case 12:
		return do_read();
	case 13:
	case 14:
		return do_seal();
	case 15:
		return do_free();
	case 16:
	case 17:
		return do_adopt(w);
	case 18:
		return do_grant(w);
	case 19:
		return do_release(w);
	case 20:
		do_free();
		if (!unwritten_of(w))
			do_forgotten_put(w);
		return;
	case 21:
		return do_stale(w);
	case 22:
		if (below(20) == 0)
			do_hangup((int)below(2));
		return;
	case 23:
	case 24:
		return do_early(w);
	case 25:
		return do_unwritten(w, false);
	default:
		k->now += below(2 * S);
		send_hellos(); /* keeps the leases */
		if (below(2))
			lend_store_tick(k->store, k->now);
		return expire();
	}
}

static void run_history(void)
{
	bool late;

	lend_rng_seed(&rng, seed);
	newest_page = 0;
	memset(obj, 0, OBJECTS * sizeof(*obj));
	memset(client, 0, sizeof(client));
	page_size = seed % 4 ? LEND_MEM_PAGE : LEND_MEM_PAGE << (1 + seed / 4 % 5);
	k = kit_open_paged(FRAMES, page_size, (uint32_t)seed);
	send_hellos();
	for (int i = 0; i < STEPS; i++) {
		run_step();
		late = lend_store_deadline(k->store) == 0; /* some frames are still being freed */
		if (kit_stats(k).pages_used != pages_used() &&
		    !(late && kit_stats(k).pages_used > pages_used()))
			cr_assert_fail("seed %llu step %d: %llu pages, model %u",
				       (unsigned long long)seed, i,
				       (unsigned long long)kit_stats(k).pages_used, pages_used());
		if (i % 100 == 0)
			kit_audit(k);
	}
	for (int i = 0; i < OBJECTS; i++) {
		struct mobject *o = &obj[i];

		if (o->kind == 1) {
			expect_status(kit_get(k, &client[0], &o->ref, 0, o->len, got), LEND_MEM_OK);
			cr_assert_eq(memcmp(got, o->bytes, o->len), 0, AT);
		}
	}
	/* No client renews any more: the ends of leases and grants free everything. */
	while (lend_store_deadline(k->store) != LEND_NEVER)
		kit_next_deadline(k);
	cr_assert_eq(kit_stats(k).pages_used + kit_stats(k).refs + kit_stats(k).clients, 0, AT);
	kit_close(k);
}

Test(store_model, agrees_with_a_naive_model)
{
	obj = calloc(OBJECTS, sizeof(*obj));
	for (seed = 1; seed <= 40; seed++)
		run_history();
	free(obj);
}
