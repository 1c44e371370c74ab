#include "fuzz/store_checks.h"

#include <stdlib.h>

#include "fuzz/finding.h"
#include "mn/store/lease.h"
#include "util/bits.h"

struct node node;
static void *fresh, *before, *scratch; /* arenas: after init, and before the operation */
static uint8_t *pages;
static size_t size;

static void make_fresh(void)
{
	struct lend_store_config config;

	lend_store_config_default(&config, (uint64_t)NODE_PAGES * LEND_MEM_PAGE, LEND_MEM_PAGE);
	config.objects = 24;
	config.holds = 20;
	config.grants = 12;
	config.clients = 5;
	config.incarnations = 3;
	config.placements = 2;
	config.open = 8;
	config.checksum = 1;
	config.node = 11;
	config.epoch = 7;
	config.worker = 2;
	config.workers = 64;
	config.addresses = "shm:mn0";
	memset(config.key, 9, sizeof(config.key));
	size = lend_store_size(&config);
	fresh = aligned_alloc(64, size);
	before = aligned_alloc(64, size);
	node.store = aligned_alloc(64, size);
	pages = aligned_alloc(LEND_MEM_PAGE, lend_store_pages_size(&config));
	memset(pages, 0, lend_store_pages_size(&config));
	scratch = malloc(lend_store_audit_size(lend_store_init(fresh, &config, pages, 1000)));
}

void node_open(void)
{
	if (!fresh)
		make_fresh();
	memcpy(node.store, fresh, size);
	for (uint64_t key = 1; key <= NODE_CLIENTS; key++)
		(void)lend_store_pool_open(node.store, key);
	node.now = 1000;
	node.ref_n = node.space_n = 0;
	for (uint32_t i = 0; i < NODE_CLIENTS; i++) {
		node.client[i] = (struct node_client){.number = 1 + i % 2};
		node.client[i].peer.incarnation[0] = (uint8_t)(1 + i / 2);
		node.client[i].peer.context[0] = (uint8_t)i;
	}
	for (uint32_t i = 0; i < NODE_PINS; i++)
		node.pinned[i] = false;
	for (uint32_t i = 0; i < NODE_PLACED; i++)
		node.placed[i].placement = 0;
}

void node_audit(void)
{
	const char *bad = lend_store_audit(node.store, scratch);

	if (bad)
		fuzz_fail(__FILE__, __LINE__, bad);
	if (lend_store_scrub(node.store))
		fuzz_fail(__FILE__, __LINE__, "a page's sum is not that of its bytes");
}

void node_done(uint32_t i)
{
	if (node.pinned[i])
		lend_store_done(node.store, 0, node.out[i].seg, node.out[i].n);
	node.pinned[i] = false;
}

void node_tick(lend_ns later)
{
	node.now += later;
	lend_store_tick(node.store, node.now);
}

void node_close(void)
{
	struct lend_memstats stats;
	uint32_t rounds = 0;

	for (uint32_t i = 0; i < NODE_PINS; i++)
		node_done(i);
	for (uint32_t i = 0; i < NODE_PLACED; i++)
		if (node.placed[i].placement)
			lend_store_unplace(node.store, node.placed[i].placement);
	node_audit();
	for (uint32_t i = 1; i <= node.store->incarnation.top; i++)
		lend_store_hangup(node.store, lend_incarnation_at(node.store, i)->life);
	for (uint64_t key = 1; key <= NODE_CLIENTS; key++)
		lend_store_pool_hangup(node.store, key);
	lend_store_stats(node.store, &stats);
	FUZZ_CHECK(stats.clients + stats.incarnations + stats.spaces + stats.holds == 0,
		   "a client that hung up keeps something");
	for (lend_ns at; (at = lend_store_deadline(node.store)) != LEND_NEVER;) {
		FUZZ_CHECK(rounds++ < 1000, "events never end");
		node_tick(at > node.now ? at - node.now : 0);
	}
	lend_store_stats(node.store, &stats);
	FUZZ_CHECK(stats.pages_used + stats.pages_pinned + stats.nodes_used == 0, "pages leak");
	FUZZ_CHECK(stats.refs + stats.spaces + stats.holds + stats.grants == 0, "objects leak");
	node_audit();
}

static uint64_t some_len(struct choice *c)
{
	static const uint32_t len[] = {0, 1, 64, 4095, 4096, 4097, 8191, 8192, 8193, 12288, 20000};

	return choice_rare(c, 8) ? choice_edge(c) : len[choice_of(c, 11)];
}

static struct lend_memterms some_terms(struct choice *c)
{
	struct lend_memterms t = {.kind = (uint8_t)choice_of(c, 3)};

	if (t.kind != LEND_TERMS_OWNED)
		t.ttl = UINT64_C(1) << choice_of(c, 40);
	if (t.kind == LEND_TERMS_SHARED)
		t.n = choice_of(c, 3);
	return t;
}

static struct lend_memref some_ref(struct choice *c)
{
	struct lend_memref ref = {.version = LEND_MEMREF_NODE_VERSION, .root_len = 64};
	uint64_t offset;

	if (!node.ref_n)
		return ref;
	ref = node.ref[choice_of(c, node.ref_n < NODE_SEEN ? node.ref_n : NODE_SEEN)];
	if (choice_rare(c, 4)) {
		offset = some_len(c);
		(void)lend_memref_slice(&ref, offset, some_len(c), 1 + choice_of(c, 7), &ref);
	}
	return ref;
}

static uint32_t add_refs(struct choice *c, uint32_t n, uint8_t *to)
{
	for (uint32_t i = 0; i < n; i++) {
		struct lend_memref ref = some_ref(c);

		lend_memref_encode(&ref, to + (size_t)i * LEND_MEMREF_LEN);
	}
	return n * LEND_MEMREF_LEN;
}

static void add_parts(struct choice *c, uint32_t n, uint8_t *to)
{
	for (uint32_t i = 0; i < n; i++, to += LEND_MEMPART_LEN) {
		struct lend_memref ref = some_ref(c);
		uint8_t bytes[LEND_MEMREF_LEN];

		lend_memref_encode(&ref, bytes);
		lend_mempart_encode(bytes, choice_rare(c, 3) ? some_len(c) : 0, some_len(c), to);
	}
}

static void some_id(struct choice *c, struct node_client *w, struct lend_memop *op)
{
	op->id = choice_rare(c, 6) ? w->id - choice_of(c, 4) : ++w->id;
	if (!choice_rare(c, 4) && w->id - w->low >= 6)
		w->low = w->id - choice_of(c, 6);
	op->low = w->low;
	op->target = w->id - choice_of(c, 9);
}

/* HELLO in the current session or a new one: with the life of a client of its process, rarely of
 * another process, or without. */
static void some_join(struct choice *c, struct node_client *w, struct lend_memop *op)
{
	uint32_t sibling = (uint32_t)(w - node.client) ^ choice_of(c, 2);
	const struct node_client *of =
	    &node.client[choice_rare(c, 8) ? choice_of(c, NODE_CLIENTS) : sibling];

	if (choice_rare(c, 4))
		w->peer.life = w->peer.clients = 0;
	op->life = choice_rare(c, 2) ? of->life : 0;
	op->client = choice_rare(c, 8) ? 0 : w->number;
	lend_memop_proof(of->key, w->peer.context, op, op->proof);
}

void node_say(struct choice *c, struct node_message *m)
{
	struct lend_memop op = {.kind = (uint8_t)(1 + choice_of(c, LEND_MEMOP_KINDS - 1))};
	struct node_client *w;
	uint64_t payload;

	m->client = choice_of(c, NODE_CLIENTS);
	m->placement = 0;
	w = &node.client[m->client];
	if (!w->life && !choice_rare(c, 8))
		op.kind = LEND_MEMOP_HELLO;
	op.client = w->number;
	op.life = w->life;
	if (op.kind == LEND_MEMOP_HELLO)
		some_join(c, w, &op);
	if (op.kind == LEND_MEMOP_SEAL)
		op.flags = choice_rare(c, 3) ? LEND_MEMOP_CONSUME : 0;
	some_id(c, w, &op);
	op.ref = some_ref(c);
	if (node.space_n)
		op.space =
		    node.space[choice_of(c, node.space_n < NODE_SEEN ? node.space_n : NODE_SEEN)];
	op.offset = choice_rare(c, 3) ? some_len(c) : 0;
	op.len = some_len(c);
	op.terms = some_terms(c);
	op.rights = choice_of(c, 9);
	if (op.kind >= LEND_MEMOP_POOL_MAP)
		op.target = 1 + m->client;
	op.n = choice_rare(c, 2) ? 1 + choice_of(c, 5) : 1;
	m->fixed = lend_memop_encode(&op, m->bytes);
	payload = lend_memop_payload(&op);
	if (payload > NODE_MESSAGE - m->fixed)
		payload = choice_u16(c) % (NODE_MESSAGE - m->fixed);
	m->len = m->fixed + (uint32_t)payload;
	if (op.kind == LEND_MEMOP_RELEASE)
		(void)add_refs(c, op.n, m->bytes + m->fixed);
	else if (op.kind == LEND_MEMOP_GET_MANY)
		add_parts(c, op.n, m->bytes + m->fixed);
	else
		memset(m->bytes + m->fixed, (int)m->client + 1, payload);
}

/* Bytes added by a greater length are zero, so that an input always does the same. */
static void set_len(struct node_message *m, uint32_t len)
{
	if (len > m->len)
		memset(m->bytes + m->len, 0, len - m->len);
	m->len = len;
}

void node_spoil(struct choice *c, struct node_message *m)
{
	for (uint32_t n = 1 + choice_of(c, 3); n > 0; n--) {
		uint32_t at = choice_u8(c) % LEND_MEMOP_FIXED_MAX;
		uint64_t v = choice_edge(c);

		switch (choice_of(c, 4)) {
		case 0:
			m->bytes[at] ^= (uint8_t)(1u << choice_of(c, 8));
			break;
		case 1:
			memcpy(m->bytes + (at & ~7u), &v, 8);
			break;
		case 2:
			memcpy(m->bytes + (at & ~3u), &v, 4);
			break;
		default:
			set_len(m, choice_rare(c, 2) ? choice_u8(c)
						     : choice_u16(c) % (NODE_MESSAGE + 1));
		}
	}
}

void node_place(struct node_message *m)
{
	uint32_t n = m->len < 512 ? m->len : 512, at;

	m->placement = lend_store_place(node.store, &node.client[m->client].peer, m->bytes, n,
					m->len, m->seg, &m->segs, &m->fixed);
	if (!m->placement)
		return;
	at = m->fixed;
	for (uint32_t i = 0; i < m->segs; i++) {
		FUZZ_CHECK(m->seg[i].len <= m->len - at, "frames for more than the message");
		memcpy(m->seg[i].data, m->bytes + at, m->seg[i].len);
		at += (uint32_t)m->seg[i].len;
	}
	FUZZ_CHECK(at == m->len, "frames for less than the message");
}

/* Changes that a failed operation may leave. */
static void forgive(struct lend_store *was, const struct lend_store *is)
{
	memcpy(lend_at(was, was->records), lend_at(is, is->records),
	       (size_t)is->config.clients * is->config.open * sizeof(struct lend_record));
	for (uint32_t i = 1; i <= is->client.top; i++) {
		lend_client_at(was, i)->low = lend_client_at(is, i)->low;
		lend_client_at(was, i)->records = lend_client_at(is, i)->records;
	}
	for (uint32_t i = 1; i <= is->incarnation.top; i++)
		lend_incarnation_at(was, i)->expires = lend_incarnation_at(is, i)->expires;
	was->lease_next = is->lease_next;
}

static bool decodes(const struct node_message *m, struct lend_memop *op)
{
	size_t n = m->len < LEND_MEMOP_FIXED_MAX ? m->len : LEND_MEMOP_FIXED_MAX;

	return lend_memop_decode(m->bytes, n, m->len, op) == LEND_MEM_OK;
}

/* The client that an operation names, found by examining every entry; 0: not of this session's
 * life. */
static uint32_t speaker(const struct lend_store *s, uint64_t life, const struct lend_memop *op)
{
	for (uint32_t i = 1; i <= s->incarnation.top; i++) {
		const struct lend_incarnation *inc = lend_incarnation_at(s, i);

		if (!inc->life || inc->life != op->life || inc->life != life)
			continue;
		for (uint32_t c = inc->clients; c; c = lend_client_at(s, c)->next)
			if (lend_client_at(s, c)->number == op->client)
				return c;
	}
	return 0;
}

/* True: its record answered it, so it did not run. */
static bool is_repeat(const struct lend_memop *op, uint32_t client)
{
	return client && lend_memop_recorded(op->kind) &&
	       lend_record_at(before, client, op->id)->id == op->id;
}

static void compare(bool unheard)
{
	struct lend_store *was = before;
	const uint8_t *a = (const void *)&was->config, *b = (const void *)&node.store->config;

	if (was->dying)
		return; /* short of room, it frees more frames, even if not enough */
	if (!unheard)
		forgive(was, node.store);
	FUZZ_CHECK(memcmp(a, b, was->undo - offsetof(struct lend_store, config)) == 0,
		   "a failed operation changed the store");
}

static uint8_t last_byte; /* keeps the compiler from removing the reads below */

static void look(const struct lend_store_out *out)
{
	uint64_t sum = 0;

	FUZZ_CHECK(out->n <= LEND_STORE_SEGS_MAX, "more segments than there can be");
	for (uint32_t i = 0; i < out->n; i++) {
		const volatile uint8_t *at = out->seg[i].data;
		bool in_pages = (const uint8_t *)at >= pages &&
				(const uint8_t *)at + out->seg[i].len <=
				    pages + (size_t)(NODE_PAGES + 1) * LEND_MEM_PAGE;

		sum += out->seg[i].len;
		FUZZ_CHECK(in_pages || (!out->pinned && out->seg[i].data == out->head),
			   "a reply outside the pages");
		if (out->seg[i].len)
			last_byte = (uint8_t)(at[0] ^ at[out->seg[i].len - 1]);
	}
	FUZZ_CHECK(sum == out->len, "a reply's length is not that of its segments");
	FUZZ_CHECK(out->status == LEND_MEM_OK || (out->n == 0 && !out->pinned),
		   "bytes of a failure");
}

/* Remembers the objects that the reply gave. */
static void learn(const struct node_message *m, const struct lend_store_out *out)
{
	struct node_client *w = &node.client[m->client];
	struct lend_memhello hello;
	struct lend_memref ref;

	if (out->status != LEND_MEM_OK || out->pinned)
		return;
	if (m->bytes[0] == LEND_MEMOP_HELLO && lend_memhello_decode(out->head, out->len, &hello)) {
		if (!lend_load_u64(m->bytes + 24)) /* the reply to a join has no key */
			memcpy(w->key, hello.key, sizeof(w->key));
		w->life = hello.life;
	} else if (out->len == LEND_MEMREF_LEN && lend_memref_decode(out->head, &ref))
		node.ref[node.ref_n++ % NODE_SEEN] = ref;
	else if (m->bytes[0] == LEND_MEMOP_ALLOC || m->bytes[0] == LEND_MEMOP_MAP ||
		 m->bytes[0] == LEND_MEMOP_POOL_MAP)
		(void)lend_memspace_decode(out->head, 16, &node.space[node.space_n++ % NODE_SEEN]);
	if (m->bytes[0] == LEND_MEMOP_POOL_MAP && out->len > 40) /* its pinned mapping */
		(void)lend_memspace_decode(out->head + 24, 16,
					   &node.space[node.space_n++ % NODE_SEEN]);
}

/* Checks each part of a GET_MANY that was read as a GET. */
static void expect_parts(const struct node_message *m, const struct lend_store_out *out,
			 struct lend_memop op, uint32_t client)
{
	uint64_t len = 0;

	op.kind = LEND_MEMOP_GET;
	for (uint32_t i = 0; i < op.n; i++) {
		struct lend_mempart part = {.len = 0};
		bool good = lend_mempart_decode(m->bytes + m->fixed + i * LEND_MEMPART_LEN, &part);

		len += part.len;
		op.ref = part.ref;
		op.offset = part.offset;
		op.len = part.len;
		if (lend_load_u32(out->head + 4 * i) != LEND_MEM_OK)
			continue;
		FUZZ_CHECK(good, "it read something that is no reference");
		node_expect_allowed(before, &op, client);
	}
	FUZZ_CHECK(out->len == (out->pinned ? len : 4 * op.n), "not the bytes of all parts");
	FUZZ_CHECK(!out->pinned || out->head_len == 4 * op.n, "not the statuses of all parts");
}

static bool is_status(enum lend_mem_status status)
{
	return status == LEND_MEM_OK || status == LEND_MEM_INVALID_ARGUMENT ||
	       status == LEND_MEM_NOT_FOUND ||
	       (status >= LEND_MEM_PERMISSION_DENIED && status <= LEND_MEM_UNIMPLEMENTED);
}

/* A copy that ends where its memory does. */
static uint8_t *at_end(uint8_t *room, size_t cap, const uint8_t *bytes, size_t len)
{
	return memcpy(room + cap - len, bytes, len);
}

void node_run(struct choice *c, struct node_message *m)
{
	static uint8_t front[256], back[NODE_MESSAGE];
	struct lend_store_seg seg[4 + LEND_STORE_SEGS_MAX];
	uint32_t head = m->placement ? m->fixed : m->len, n = 0, cut;
	struct lend_store_in in = {
	    .peer = &node.client[m->client].peer, .seg = seg, .placement = m->placement};
	uint32_t slot = choice_of(c, NODE_PINS), client = 0;
	struct lend_store_out *out = &node.out[slot];
	struct lend_memop op;
	bool sound = decodes(m, &op);

	node_done(slot);
	cut = choice_rare(c, 3) && head ? choice_u8(c) % head : 0;
	if (cut)
		seg[n++] =
		    (struct lend_store_seg){at_end(front, sizeof(front), m->bytes, cut), cut};
	seg[n++] = (struct lend_store_seg){at_end(back, sizeof(back), m->bytes + cut, head - cut),
					   head - cut};
	for (uint32_t i = 0; m->placement && i < m->segs; i++)
		seg[n++] = m->seg[i];
	in.n = n;
	memcpy(before, node.store, size);
	if (sound)
		client = speaker(before, in.peer->life, &op);
	(void)lend_store_exec(node.store, node.now, &in, out);
	FUZZ_CHECK(is_status(out->status), "an unknown status");
	if (out->status != LEND_MEM_OK && !m->placement)
		compare(!sound || (!client && op.kind != LEND_MEMOP_HELLO));
	FUZZ_CHECK(sound || out->status != LEND_MEM_OK, "it ran an operation that does not decode");
	if (out->status == LEND_MEM_OK && !is_repeat(&op, client))
		node_expect_allowed(before, &op, client);
	if (out->status == LEND_MEM_OK && op.kind == LEND_MEMOP_GET_MANY)
		expect_parts(m, out, op, client);
	m->placement = 0;
	look(out);
	learn(m, out);
	node.pinned[slot] = out->pinned;
}
