/* Goal: a node that is killed at any store of any operation recovers from its memory as if that
 * operation had not run, or had run completely; nothing else changes, no ledger is wrong, and no
 * page is lost. Method: the store's files are compiled with a call before every store; it copies
 * the memory, recovers and audits the copy, and compares its content with the store's before and
 * after the operation. Random histories under seeds, with tables so small that they fill; LEND_SEED
 * replays one. Covers: mn/store/recover.c, mn/store/undo_log.h, mn/store/store.c, mn/store/exec.c,
 * mn/store/data_exec.c, mn/store/ref_exec.c, mn/store/hold.c, mn/store/frame.c, mn/store/lease.c */
#include <stdio.h>

#include "kill/crash_consistency_sum.h"
#include "mn/store/recover.h"
#include "util/rng.h"

enum { CLIENTS = 3, REFS = 8, SPACES = 6, STEPS = 110, SEEDS = 10, LEN_MAX = TORN_LEN_MAX };

void torn_look(void);

struct world {
	struct kit *k;
	struct client client[CLIENTS];
	struct lend_memref ref[REFS];
	struct lend_memspace space[SPACES];
	uint8_t owner[SPACES];
	uint32_t fine[LEND_MEMOP_KINDS];
	struct lend_rng rng;
	uint64_t seed;
	uint8_t bytes[LEN_MAX];
};

static struct world *w;
static struct lend_store *copy;
static void *copy_pages, *scratch;
static bool armed, any;        /* any: the operation may stop half way */
static uint64_t before, other; /* other: the only other content that was seen; 0: none yet */
static uint64_t points;
static uint32_t fine[LEND_MEMOP_KINDS];
static struct torn_known known;

static uint64_t pick(uint64_t n)
{
	return lend_rng_below(&w->rng, n);
}

/* Releases everything, to the last page. */
static void let_go(void)
{
	lend_ns later = w->k->now + (UINT64_C(1) << 50), next;
	struct lend_memstats stats;

	for (int i = 0; i < CLIENTS; i++)
		lend_store_hangup(copy, w->client[i].life);
	while ((next = lend_store_deadline(copy)) != LEND_NEVER)
		lend_store_tick(copy, next > later ? next : later);
	lend_store_stats(copy, &stats);
	cr_assert(stats.pages_used + stats.nodes_used + stats.refs + stats.spaces == 0,
		  "seed %llu: pages are lost", (unsigned long long)w->seed);
	cr_assert_null(lend_store_audit(copy, scratch));
}

void torn_look(void)
{
	const char *bad;
	uint64_t now;

	if (!armed)
		return;
	armed = false;
	points++;
	memcpy(copy, w->k->store, w->k->size);
	memcpy(copy_pages, w->k->pages, lend_store_pages_size(&w->k->config));
	bad = lend_store_mismatch(copy, w->k->size, &w->k->config);
	if (!bad)
		bad = lend_store_recover(copy, &w->k->config, copy_pages, w->k->now);
	if (!bad)
		bad = lend_store_audit(copy, scratch);
	if (!bad && lend_store_scrub(copy))
		bad = "a page's sum is not that of its bytes";
	cr_assert_null(bad, "seed %llu, point %llu: %s", (unsigned long long)w->seed,
		       (unsigned long long)points, bad);
	now = torn_sum(copy, &known);
	if (now != before && !other)
		other = now;
	cr_assert(any || now == before || now == other, "seed %llu, point %llu: half done",
		  (unsigned long long)w->seed, (unsigned long long)points);
	if (points % 16 == 0)
		let_go();
	armed = true;
}

static void begin(bool may_stop)
{
	before = torn_sum(w->k->store, &known);
	other = 0;
	any = may_stop;
	armed = true;
}

/* Afterwards the store must hold what every further copy held, if that differs from before. */
static void end(void)
{
	armed = false;
	cr_assert(any || !other || other == torn_sum(w->k->store, &known),
		  "seed %llu: what was recovered is not what came of it",
		  (unsigned long long)w->seed);
	kit_audit(w->k);
	known.serial = known.from = known.to = 0;
}

static struct lend_memterms terms(void)
{
	struct lend_memterms t = {(uint8_t)pick(3), 0, 0};

	if (t.kind != LEND_TERMS_OWNED)
		t.ttl = 1000 + pick(5) * 1000;
	if (t.kind == LEND_TERMS_SHARED)
		t.n = 1 + (uint32_t)pick(3);
	return t;
}

/* As a daemon does: the bytes of long operations land in frames first. */
static void run(struct client *client, struct lend_memop *op, const void *payload)
{
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	struct lend_store_seg seg[LEND_STORE_SEGS_MAX], *part = w->k->out.seg;
	uint64_t len = lend_memop_payload(op), done = 0;
	struct lend_store_in in = {&client->peer, seg, 1, 0, false};
	uint32_t n, segs = 0, fixed = 0;

	op->client = client->number;
	op->life = op->kind == LEND_MEMOP_HELLO ? 0 : client->life;
	op->low = client->low;
	n = lend_memop_encode(op, head);
	seg[0] = (struct lend_store_seg){head, n};
	begin(op->kind == LEND_MEMOP_HELLO);
	if (pick(2))
		in.placement = lend_store_place(w->k->store, &client->peer, head, n, n + len, part,
						&segs, &fixed);
	for (uint32_t i = 0; in.placement && i < segs; i++) {
		memcpy(part[i].data, (const uint8_t *)payload + done, part[i].len);
		seg[in.n++] = part[i];
		done += part[i].len;
	}
	if (!in.placement && len)
		seg[in.n++] = (struct lend_store_seg){(void *)(uintptr_t)payload, len};
	(void)lend_store_exec(w->k->store, w->k->now, &in, &w->k->out);
	end();
	w->fine[op->kind] += w->k->out.status == LEND_MEM_OK;
}

static uint64_t length(void)
{
	static const uint64_t at[] = {1, 100, LEND_MEM_PAGE, 2 * LEND_MEM_PAGE,
				      3 * LEND_MEM_PAGE + 7};

	return pick(2) ? at[pick(5)] : 1 + pick(LEN_MAX - 1);
}

static void step_put(struct client *client)
{
	struct lend_memop op = {.kind = LEND_MEMOP_PUT, .len = length(), .terms = terms()};

	op.id = ++client->id;
	run(client, &op, w->bytes);
	if (w->k->out.status == LEND_MEM_OK)
		lend_memref_decode(w->k->out.head, &w->ref[pick(REFS)]);
}

static void step_space(struct client *client)
{
	static const uint8_t kinds[] = {LEND_MEMOP_ALLOC, LEND_MEMOP_MAP};
	struct lend_memop op = {.kind = kinds[pick(2)], .id = ++client->id};

	if (op.kind == LEND_MEMOP_ALLOC)
		op.len = length();
	else
		op.ref = w->ref[pick(REFS)];
	run(client, &op, NULL);
	if (w->k->out.status == LEND_MEM_OK) {
		uint64_t i = pick(SPACES);

		w->owner[i] = (uint8_t)(client - w->client);
		lend_memspace_decode(w->k->out.head, 16, &w->space[i]);
	}
}

static void step_write(struct client *client)
{
	uint64_t i = pick(SPACES);
	struct lend_memop op = {.kind = LEND_MEMOP_WRITE,
				.space = w->space[i],
				.offset = pick(3) * LEND_MEM_PAGE + pick(2) * pick(5000),
				.len = length()};
	const struct lend_object *o = lend_object_at(w->k->store, op.space.slot);

	if (op.space.slot && o->serial == op.space.serial && op.offset < o->len) {
		if (op.len > o->len - op.offset)
			op.len = o->len - op.offset;
		known.serial = o->serial;
		known.from = op.offset;
		known.to = op.offset + op.len;
	}
	client = &w->client[w->owner[i]];
	op.id = ++client->id;
	w->bytes[pick(LEN_MAX)]++;
	run(client, &op, w->bytes);
}

static void step_seal(struct client *client)
{
	uint64_t i = pick(SPACES);
	struct lend_memop op = {.kind = LEND_MEMOP_SEAL,
				.space = w->space[i],
				.offset = pick(2) * pick(9000),
				.terms = terms(),
				.flags = (uint16_t)pick(2)};
	const struct lend_object *o = lend_object_at(w->k->store, op.space.slot);

	if (op.space.slot && o->serial && op.offset < o->len)
		op.len = o->len - op.offset;
	client = &w->client[w->owner[i]];
	op.id = ++client->id;
	run(client, &op, NULL);
	if (w->k->out.status == LEND_MEM_OK)
		lend_memref_decode(w->k->out.head, &w->ref[pick(REFS)]);
}

static void step_share(struct client *client)
{
	static const uint8_t kinds[] = {LEND_MEMOP_ADOPT, LEND_MEMOP_GRANT, LEND_MEMOP_FREE};
	struct lend_memop op = {.kind = kinds[pick(3)]};
	uint64_t i = pick(SPACES);

	op.ref = w->ref[pick(REFS)];
	op.space = w->space[i];
	if (op.kind == LEND_MEMOP_FREE)
		client = &w->client[w->owner[i]];
	op.id = ++client->id;
	op.terms = terms();
	if (op.kind == LEND_MEMOP_GRANT && op.terms.kind == LEND_TERMS_OWNED)
		op.terms = (struct lend_memterms){LEND_TERMS_TRANSFER, 0, 5000};
	run(client, &op, NULL);
}

static void step_release(struct client *client)
{
	uint8_t refs[4 * LEND_MEMREF_LEN];
	struct lend_memop op = {.kind = LEND_MEMOP_RELEASE, .id = ++client->id};

	op.n = 1 + (uint32_t)pick(4);
	for (uint32_t i = 0; i < op.n; i++)
		lend_memref_encode(&w->ref[pick(REFS)], refs + i * LEND_MEMREF_LEN);
	run(client, &op, refs);
}

static void step_forget(struct client *client)
{
	struct lend_memop op = {.kind = LEND_MEMOP_FORGET};

	op.target = client->low + pick(client->id + 2 - client->low);
	if (pick(2) && client->id > client->low + 2)
		op.target = client->id - pick(2);
	if (op.target > client->id)
		client->id = op.target;
	run(client, &op, NULL);
}

/* Clients open, close, and are too late; some of that may stop half way. */
static void step_life(struct client *client)
{
	struct lend_memop op = {.kind = pick(2) ? LEND_MEMOP_BYE_CLIENT : LEND_MEMOP_HELLO};

	if (pick(3)) {
		run(client, &op, NULL);
	} else {
		begin(true);
		if (pick(2)) {
			lend_store_hangup(w->k->store, client->life);
		} else {
			w->k->now += 2000;
			lend_store_tick(w->k->store, w->k->now);
		}
		end();
	}
	(void)kit_hello(w->k, client, 0, client->number);
	client->id += 20; /* numbers of the earlier life are void */
	client->low = client->id + 1;
}

/* A reply stays in flight for a while: later writes go to other pages. */
static void step_get(struct client *client)
{
	struct lend_memop op = {.kind = LEND_MEMOP_GET, .ref = w->ref[pick(REFS)], .len = 1};
	struct lend_store_seg seg;
	uint64_t i = pick(SPACES);

	if (pick(2)) {
		op.kind = LEND_MEMOP_READ;
		op.space = w->space[i];
		client = &w->client[w->owner[i]];
	}
	run(client, &op, NULL);
	if (!w->k->out.pinned)
		return;
	seg = w->k->out.seg[0];
	step_write(client);
	lend_store_done(w->k->store, 0, &seg, 1);
}

static void step(void)
{
	static void (*const kinds[])(struct client *) = {
	    step_put,   step_put,   step_space,   step_write,  step_write,  step_seal,
	    step_share, step_share, step_release, step_forget, step_forget, step_get};
	struct client *client = &w->client[pick(CLIENTS)];

	w->k->now += pick(300);
	lend_store_tick(w->k->store, w->k->now);
	if (client->id > client->low + 20)
		client->low = client->id - 10;
	if (pick(16) == 0)
		step_life(client);
	else
		kinds[pick(sizeof(kinds) / sizeof(kinds[0]))](client);
}

/* A kit with tables that fill. */
static struct kit *small(void)
{
	struct kit *k = kit_open(40, 7);

	k->config.pages = 40;
	k->config.objects = 24;
	k->config.holds = 20;
	k->config.grants = 12;
	k->config.clients = k->config.incarnations = 4;
	k->config.placements = 2;
	k->config.open = 64;
	k->size = lend_store_size(&k->config);
	lend_store_init(k->store, &k->config, k->pages, k->now);
	return k;
}

static void history(uint64_t seed)
{
	w = calloc(1, sizeof(*w));
	w->seed = seed;
	known = (struct torn_known){.client = w->client, .n = CLIENTS};
	lend_rng_seed(&w->rng, seed);
	w->k = small();
	copy = aligned_alloc(64, (w->k->size + 63) & ~(size_t)63);
	copy_pages = aligned_alloc(LEND_MEM_PAGE, lend_store_pages_size(&w->k->config));
	scratch = malloc(lend_store_audit_size(w->k->store));
	for (uint32_t i = 0; i < CLIENTS; i++) {
		cr_assert_eq(kit_hello(w->k, &w->client[i], 1 + i / 2, 1 + i), LEND_MEM_OK);
		w->client[i].low = 1;
	}
	for (size_t i = 0; i < LEN_MAX; i++)
		w->bytes[i] = (uint8_t)(1 + pick(255));
	for (int i = 0; i < STEPS; i++)
		step();
	for (int i = 0; i < LEND_MEMOP_KINDS; i++)
		fine[i] += w->fine[i];
	free(scratch);
	free(copy_pages);
	free(copy);
	kit_close(w->k);
	free(w);
}

Test(torn, killed_before_every_store)
{
	const char *seed = getenv("LEND_SEED");

	if (seed)
		history(strtoull(seed, NULL, 0));
	for (uint64_t i = 1; !seed && i <= SEEDS; i++)
		history(i);
	cr_assert_gt(points, 10000, "the store's files are not instrumented");
	for (int i = LEND_MEMOP_HELLO; i <= LEND_MEMOP_FREE && !seed; i++)
		cr_expect(fine[i] > 4 || i == LEND_MEMOP_NARROW, "operation %d ran %u times", i,
			  fine[i]);
	printf("torn: %llu points\n", (unsigned long long)points);
}
