/* storekit - a store with its memory, and clients that send it encoded operations. Layer: test.
 * Everything is static: a test includes it and uses what it needs. */
#ifndef TEST_UNIT_STOREKIT_H
#define TEST_UNIT_STOREKIT_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mn/store/exec.h"

#define KIT __attribute__((unused)) static

struct kit {
	struct lend_store_config config;
	struct lend_store *store;
	void *pages, *scratch;
	size_t size;
	lend_ns now;
	uint32_t tenant; /* a client */
	struct lend_store_out out;
};

struct client {
	struct lend_store_peer peer; /* its session */
	uint32_t number;
	uint64_t life;
	uint8_t key[LEND_MEMOP_KEY]; /* key of its life */
	uint64_t id, low;            /* ids of the newest operation */
};

KIT struct kit *kit_open_paged(uint32_t pages, uint32_t page, uint32_t epoch)
{
	struct kit *k = calloc(1, sizeof(*k));

	lend_store_config_default(&k->config, (uint64_t)pages * page, page);
	k->config.objects = 2000;
	k->config.holds = 4000;
	k->config.grants = 2000;
	k->config.clients = 300;
	k->config.incarnations = 300;
	k->config.open = 64;
	k->config.node = 11;
	k->config.epoch = epoch;
	k->config.worker = 2;
	k->config.workers = 3;
	k->config.checksum = 1; /* checksums are on in every test of the store */
	k->config.addresses = "shm:mn0";
	memset(k->config.key, (int)epoch, sizeof(k->config.key));
	k->size = lend_store_size(&k->config);
	k->store = aligned_alloc(64, (k->size + 63) & ~(size_t)63);
	k->pages = aligned_alloc(page, lend_store_pages_size(&k->config));
	memset(k->pages, 0, lend_store_pages_size(&k->config));
	k->now = 1000;
	lend_store_init(k->store, &k->config, k->pages, k->now);
	k->scratch = malloc(lend_store_audit_size(k->store));
	return k;
}

KIT struct kit *kit_open(uint32_t pages, uint32_t epoch)
{
	return kit_open_paged(pages, LEND_MEM_PAGE, epoch);
}

KIT void kit_audit(struct kit *k)
{
	const char *bad = lend_store_audit(k->store, k->scratch);

	cr_assert_null(bad, "%s", bad);
	cr_assert_eq(lend_store_scrub(k->store), 0, "a page's sum is not that of its bytes");
}

KIT void kit_close(struct kit *k)
{
	kit_audit(k);
	free(k->store);
	free(k->pages);
	free(k->scratch);
	free(k);
}

KIT struct lend_memstats kit_stats(struct kit *k)
{
	struct lend_memstats stats;

	lend_store_stats(k->store, &stats);
	return stats;
}

/* Runs the operation unchanged, in awkward segments; the reply stays in k->out. */
KIT enum lend_mem_status kit_exec(struct kit *k, struct client *w, const struct lend_memop *op,
				  const void *payload)
{
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	uint32_t n = lend_memop_encode(op, head);
	uint64_t len = lend_memop_payload(op);
	uint64_t part = len / 3;
	struct lend_store_seg seg[] = {{head, n / 2},
				       {head, 0},
				       {head + n / 2, n - n / 2},
				       {(void *)(uintptr_t)payload, part},
				       {(uint8_t *)(uintptr_t)payload + part, len - part}};
	struct lend_store_in in = {&w->peer, seg, len ? 5 : 3, 0, false};

	w->peer.tenant = k->tenant;
	return lend_store_exec(k->store, k->now, &in, &k->out);
}

/* Runs the client's next operation. */
KIT enum lend_mem_status kit_do(struct kit *k, struct client *w, struct lend_memop *op,
				const void *payload)
{
	op->client = w->number;
	op->life = w->life;
	op->id = ++w->id;
	op->low = w->low ? w->low : w->id;
	return kit_exec(k, w, op, payload);
}

KIT enum lend_mem_status kit_hello(struct kit *k, struct client *w, uint32_t process,
				   uint32_t number)
{
	struct lend_memop op = {.kind = LEND_MEMOP_HELLO, .client = number};
	struct lend_memhello hello;

	if (w->number == 0) {
		memset(w, 0, sizeof(*w));
		memcpy(w->peer.incarnation, &process, sizeof(process));
		w->number = number;
	}
	if (kit_exec(k, w, &op, NULL))
		return k->out.status;
	cr_assert(lend_memhello_decode(k->out.head, k->out.len, &hello));
	w->life = hello.life;
	memcpy(w->key, hello.key, sizeof(w->key));
	return LEND_MEM_OK;
}

/* A session of another client of the same process joins its life. */
KIT enum lend_mem_status kit_join(struct kit *k, struct client *w, const struct client *of,
				  uint32_t number)
{
	struct lend_memop op = {.kind = LEND_MEMOP_HELLO, .client = number, .life = of->life};

	*w = (struct client){.number = number, .life = of->life};
	memcpy(w->peer.incarnation, of->peer.incarnation, sizeof(w->peer.incarnation));
	memset(w->peer.context, (int)number, sizeof(w->peer.context));
	memcpy(w->key, of->key, sizeof(w->key));
	lend_memop_proof(w->key, w->peer.context, &op, op.proof);
	return kit_exec(k, w, &op, NULL);
}

static const struct lend_memterms kit_owned = {LEND_TERMS_OWNED, 0, 0};

KIT enum lend_mem_status kit_put(struct kit *k, struct client *w, const void *data, uint64_t len,
				 struct lend_memterms terms, struct lend_memref *ref)
{
	struct lend_memop op = {.kind = LEND_MEMOP_PUT, .len = len, .terms = terms};

	if (kit_do(k, w, &op, data) == LEND_MEM_OK)
		cr_assert(lend_memref_decode(k->out.head, ref));
	return k->out.status;
}

/* Copies the reply's bytes and unpins. */
KIT void kit_collect(struct kit *k, void *to)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < k->out.n; i++) {
		memcpy((uint8_t *)to + at, k->out.seg[i].data, k->out.seg[i].len);
		at += k->out.seg[i].len;
	}
	cr_assert_eq(at, k->out.len);
	if (k->out.pinned)
		lend_store_done(k->store, k->out.tenant, k->out.seg, k->out.n);
}

KIT enum lend_mem_status kit_get(struct kit *k, struct client *w, const struct lend_memref *ref,
				 uint64_t offset, uint64_t len, void *to)
{
	struct lend_memop op = {.kind = LEND_MEMOP_GET, .ref = *ref, .offset = offset, .len = len};

	if (kit_do(k, w, &op, NULL) == LEND_MEM_OK)
		kit_collect(k, to);
	return k->out.status;
}

KIT enum lend_mem_status kit_ref_op(struct kit *k, struct client *w, uint8_t kind,
				    const struct lend_memref *ref)
{
	uint8_t bytes[LEND_MEMREF_LEN];
	struct lend_memop op = {.kind = kind, .ref = *ref, .n = 1};

	if (kind != LEND_MEMOP_RELEASE)
		return kit_do(k, w, &op, NULL);
	lend_memref_encode(ref, bytes);
	return kit_do(k, w, &op, bytes);
}

KIT enum lend_mem_status kit_release(struct kit *k, struct client *w, const struct lend_memref *ref)
{
	return kit_ref_op(k, w, LEND_MEMOP_RELEASE, ref);
}

KIT enum lend_mem_status kit_grant(struct kit *k, struct client *w, const struct lend_memref *ref,
				   struct lend_memterms terms)
{
	struct lend_memop op = {.kind = LEND_MEMOP_GRANT, .ref = *ref, .terms = terms};

	return kit_do(k, w, &op, NULL);
}

KIT enum lend_mem_status kit_map(struct kit *k, struct client *w, const struct lend_memref *ref,
				 struct lend_memspace *space)
{
	if (kit_ref_op(k, w, LEND_MEMOP_MAP, ref) == LEND_MEM_OK)
		lend_memspace_decode(k->out.head, 16, space);
	return k->out.status;
}

KIT enum lend_mem_status kit_alloc(struct kit *k, struct client *w, uint64_t len,
				   struct lend_memspace *space)
{
	struct lend_memop op = {.kind = LEND_MEMOP_ALLOC, .len = len};

	if (kit_do(k, w, &op, NULL) == LEND_MEM_OK)
		lend_memspace_decode(k->out.head, 16, space);
	return k->out.status;
}

KIT enum lend_mem_status kit_space_op(struct kit *k, struct client *w, uint8_t kind,
				      const struct lend_memspace *space, uint64_t offset,
				      uint64_t len, void *bytes)
{
	struct lend_memop op = {.kind = kind, .space = *space, .offset = offset, .len = len};

	if (kind == LEND_MEMOP_FREE)
		op.offset = op.len = 0;
	if (kit_do(k, w, &op, bytes) == LEND_MEM_OK && kind == LEND_MEMOP_READ)
		kit_collect(k, bytes);
	return k->out.status;
}

KIT enum lend_mem_status kit_seal(struct kit *k, struct client *w,
				  const struct lend_memspace *space, uint64_t offset, uint64_t len,
				  struct lend_memterms terms, struct lend_memref *ref)
{
	struct lend_memop op = {
	    .kind = LEND_MEMOP_SEAL, .space = *space, .offset = offset, .len = len, .terms = terms};

	if (kit_do(k, w, &op, NULL) == LEND_MEM_OK)
		cr_assert(lend_memref_decode(k->out.head, ref));
	return k->out.status;
}

KIT enum lend_mem_status kit_forget(struct kit *k, struct client *w, uint64_t target,
				    uint8_t *forgot)
{
	struct lend_memop op = {.kind = LEND_MEMOP_FORGET,
				.client = w->number,
				.life = w->life,
				.low = w->low,
				.target = target};

	if (kit_exec(k, w, &op, NULL) == LEND_MEM_OK)
		*forgot = k->out.head[0];
	return k->out.status;
}

/* Advances to the store's next deadline, as the daemon does. */
KIT void kit_next_deadline(struct kit *k)
{
	lend_ns at = lend_store_deadline(k->store);

	cr_assert_neq(at, LEND_NEVER);
	if (at > k->now)
		k->now = at;
	lend_store_tick(k->store, k->now);
}

#endif
