#include "wire/memop.h"

#include <string.h>

#include "util/bits.h"
#include "util/check.h"
#include "util/siphash.h"

enum { VERSION = 1 };
/* The fields of each operation, in wire order. */
enum {
	F_REF = 1,
	F_SPACE = 2,
	F_TERMS_FIRST = 4,
	F_OFFSET = 8,
	F_LEN = 16,
	F_TERMS = 32,
	F_RIGHTS = 64,
	F_N = 128,
	F_TARGET = 256,
	HAS_BYTES = 512, /* payload of len */
	RECORDED = 1024,
	F_PROOF = 2048,
};

static const uint16_t shape[LEND_MEMOP_KINDS] = {
    [LEND_MEMOP_HELLO] = F_PROOF,
    [LEND_MEMOP_PUT] = F_TERMS_FIRST | F_LEN | HAS_BYTES | RECORDED,
    [LEND_MEMOP_GET] = F_REF | F_OFFSET | F_LEN,
    [LEND_MEMOP_ALLOC] = F_LEN | RECORDED,
    [LEND_MEMOP_READ] = F_SPACE | F_OFFSET | F_LEN,
    [LEND_MEMOP_WRITE] = F_SPACE | F_OFFSET | F_LEN | HAS_BYTES | RECORDED,
    [LEND_MEMOP_SEAL] = F_SPACE | F_OFFSET | F_LEN | F_TERMS | RECORDED,
    [LEND_MEMOP_MAP] = F_REF | RECORDED,
    [LEND_MEMOP_ADOPT] = F_REF | RECORDED,
    [LEND_MEMOP_GRANT] = F_REF | F_TERMS | RECORDED,
    [LEND_MEMOP_RELEASE] = F_N | RECORDED,
    [LEND_MEMOP_NARROW] = F_REF | F_OFFSET | F_LEN | F_RIGHTS,
    [LEND_MEMOP_FREE] = F_SPACE | RECORDED,
    [LEND_MEMOP_FORGET] = F_TARGET,
    [LEND_MEMOP_POOL_MAP] = F_REF | F_TARGET | RECORDED,
    [LEND_MEMOP_POOL_VIEW] = F_SPACE | F_OFFSET | F_TARGET,
    [LEND_MEMOP_POOL_DROP] = F_SPACE | F_TARGET,
    [LEND_MEMOP_GET_MANY] = F_N,
};

bool lend_memop_recorded(uint8_t kind)
{
	return kind < LEND_MEMOP_KINDS && shape[kind] & RECORDED;
}

uint32_t lend_memop_fixed(uint8_t kind)
{
	uint32_t s;

	if (kind == 0 || kind >= LEND_MEMOP_KINDS)
		return 0;
	s = shape[kind];
	return LEND_MEMOP_HEAD + LEND_MEMREF_LEN * (s & F_REF) +
	       16 * (s / F_SPACE % 2 + s / F_TERMS_FIRST % 2 + s / F_TERMS % 2 + s / F_PROOF % 2) +
	       8 * (s / F_OFFSET % 2 + s / F_LEN % 2 + s / F_RIGHTS % 2 + s / F_N % 2 +
		    s / F_TARGET % 2);
}

uint64_t lend_memop_payload(const struct lend_memop *op)
{
	if (op->kind == LEND_MEMOP_PUT && op->flags & LEND_MEMOP_EARLY)
		return 0;
	if (shape[op->kind] & HAS_BYTES)
		return op->len;
	if (op->kind == LEND_MEMOP_GET_MANY)
		return (uint64_t)op->n * LEND_MEMPART_LEN;
	return shape[op->kind] & F_N ? (uint64_t)op->n * LEND_MEMREF_LEN : 0;
}

static uint8_t *put_u64(uint8_t *at, uint64_t v)
{
	lend_store_u64(at, v);
	return at + 8;
}

static uint8_t *put_terms(uint8_t *at, const struct lend_memterms *terms)
{
	put_u64(at, terms->kind | (uint64_t)terms->n << 32);
	return put_u64(at + 8, terms->ttl);
}

uint32_t lend_memop_encode(const struct lend_memop *op, uint8_t out[LEND_MEMOP_FIXED_MAX])
{
	uint8_t *at = out + LEND_MEMOP_HEAD;
	uint16_t s;

	LEND_CHECK(op->kind > 0 && op->kind < LEND_MEMOP_KINDS);
	s = shape[op->kind];
	out[0] = op->kind;
	out[1] = VERSION;
	lend_store_u16(out + 2, op->flags);
	lend_store_u32(out + 4, op->client);
	lend_store_u64(out + 8, op->id);
	lend_store_u64(out + 16, op->low);
	lend_store_u64(out + 24, op->life);
	if (s & F_REF) {
		if (op->ref_bytes)
			memcpy(at, op->ref_bytes, LEND_MEMREF_LEN);
		else
			lend_memref_encode(&op->ref, at);
		at += LEND_MEMREF_LEN;
	}
	if (s & F_SPACE) {
		lend_memspace_encode(&op->space, at);
		at += 16;
	}
	if (s & F_TERMS_FIRST)
		at = put_terms(at, &op->terms);
	if (s & F_OFFSET)
		at = put_u64(at, op->offset);
	if (s & F_LEN)
		at = put_u64(at, op->len);
	if (s & F_TERMS)
		at = put_terms(at, &op->terms);
	if (s & F_RIGHTS)
		at = put_u64(at, op->rights);
	if (s & F_N)
		at = put_u64(at, op->n);
	if (s & F_TARGET)
		at = put_u64(at, op->target);
	if (s & F_PROOF) {
		memcpy(at, op->proof, sizeof(op->proof));
		at += sizeof(op->proof);
	}
	return (uint32_t)(at - out);
}

/* Takes a field from a cursor. decode() has checked the fields' total width before. */
static uint64_t take_u64(const uint8_t **at)
{
	uint64_t v = lend_load_u64(*at);

	*at += 8;
	return v;
}

static bool take_terms(const uint8_t **at, struct lend_memterms *terms)
{
	uint64_t first = take_u64(at);

	terms->kind = (uint8_t)first;
	terms->n = (uint32_t)(first >> 32);
	terms->ttl = take_u64(at);
	if (first & 0xffffff00u || terms->ttl > LEND_MEM_TTL_MAX)
		return false;
	if (terms->kind == LEND_TERMS_SHARED)
		return terms->ttl > 0;
	if (terms->kind == LEND_TERMS_TRANSFER)
		return terms->ttl > 0 && terms->n == 0;
	return terms->kind == LEND_TERMS_OWNED && terms->n == 0 && terms->ttl == 0;
}

static bool take_u32(const uint8_t **at, uint32_t *v)
{
	uint64_t wide = take_u64(at);

	*v = (uint32_t)wide;
	return wide <= UINT32_MAX;
}

static bool take_fields(const uint8_t *at, struct lend_memop *op)
{
	uint16_t s = shape[op->kind];
	bool ok = true;

	if (s & F_REF) {
		ok &= lend_memref_decode(at, &op->ref);
		at += LEND_MEMREF_LEN;
	}
	if (s & F_SPACE) {
		ok &= lend_memspace_decode(at, 16, &op->space);
		at += 16;
	}
	if (s & F_TERMS_FIRST)
		ok &= take_terms(&at, &op->terms);
	if (s & F_OFFSET)
		op->offset = take_u64(&at);
	if (s & F_LEN)
		op->len = take_u64(&at);
	if (s & F_TERMS)
		ok &= take_terms(&at, &op->terms);
	if (s & F_RIGHTS)
		ok &= take_u32(&at, &op->rights);
	if (s & F_N)
		ok &= take_u32(&at, &op->n) && op->n >= 1 && op->n <= LEND_MEM_BATCH_MAX;
	if (s & F_TARGET)
		op->target = take_u64(&at);
	if (s & F_PROOF)
		memcpy(op->proof, at, sizeof(op->proof));
	return ok;
}

/* Returns the flags that an operation may have. */
static uint16_t flags_of(uint8_t kind)
{
	switch (kind) {
	case LEND_MEMOP_SEAL:
		return LEND_MEMOP_CONSUME | LEND_MEMOP_BOUND;
	case LEND_MEMOP_PUT:
		return LEND_MEMOP_EARLY | LEND_MEMOP_BOUND | LEND_MEMOP_ONE_SIDED;
	case LEND_MEMOP_WRITE:
		return LEND_MEMOP_ONE_SIDED;
	case LEND_MEMOP_GET:
		return LEND_MEMOP_IN_PLACE | LEND_MEMOP_END | LEND_MEMOP_ONE_SIDED;
	default:
		return 0;
	}
}

static bool has_sense(const struct lend_memop *op, uint64_t payload)
{
	bool part = op->kind == LEND_MEMOP_GET || op->kind == LEND_MEMOP_READ ||
		    shape[op->kind] & HAS_BYTES;
	bool shown = op->flags & LEND_MEMOP_ONE_SIDED;

	if (op->flags & ~flags_of(op->kind) || (shown && (op->flags & (op->flags - 1) || !op->len)))
		return false;
	if (shown && shape[op->kind] & HAS_BYTES ? !payload || payload > LEND_MEMOP_SHOWN_MAX
						 : payload != lend_memop_payload(op))
		return false;
	if (part && op->len > LEND_MEM_PART_MAX)
		return false;
	if (op->kind == LEND_MEMOP_GET_MANY && op->n > LEND_MEM_MANY_MAX)
		return false;
	if (op->kind == LEND_MEMOP_GET && op->flags & LEND_MEMOP_END && op->len)
		return false;
	/* Its one hold is the writer's: the snapshot ends with it. */
	if (op->kind == LEND_MEMOP_PUT && op->flags & LEND_MEMOP_EARLY &&
	    (op->terms.kind || !op->len))
		return false;
	if (lend_memop_recorded(op->kind) && op->id == 0)
		return false;
	return op->kind != LEND_MEMOP_GRANT || op->terms.kind != LEND_TERMS_OWNED;
}

enum lend_mem_status lend_memop_decode(const void *bytes, size_t n, uint64_t len,
				       struct lend_memop *op)
{
	uint8_t at[LEND_MEMOP_FIXED_MAX];

	memset(op, 0, sizeof(*op));
	if (n < LEND_MEMOP_HEAD || len < n)
		return LEND_MEM_INVALID_ARGUMENT;
	n = lend_min_u64(n, sizeof(at));
	lend_copy_short(at, bytes, (uint32_t)n);
	LEND_ONCE(at);
	if (at[1] != VERSION || at[0] == 0 || at[0] >= LEND_MEMOP_KINDS)
		return LEND_MEM_UNIMPLEMENTED;
	op->kind = at[0];
	op->fixed = lend_memop_fixed(op->kind);
	if (n < op->fixed)
		return LEND_MEM_INVALID_ARGUMENT;
	op->flags = lend_load_u16(at + 2);
	op->client = lend_load_u32(at + 4);
	op->id = lend_load_u64(at + 8);
	op->low = lend_load_u64(at + 16);
	op->life = lend_load_u64(at + 24);
	if (!take_fields(at + LEND_MEMOP_HEAD, op) || !has_sense(op, len - op->fixed))
		return LEND_MEM_INVALID_ARGUMENT;
	return LEND_MEM_OK;
}

void lend_mempart_encode(const uint8_t ref[LEND_MEMREF_LEN], uint64_t offset, uint64_t len,
			 uint8_t out[LEND_MEMPART_LEN])
{
	memcpy(out, ref, LEND_MEMREF_LEN);
	put_u64(put_u64(out + LEND_MEMREF_LEN, offset), len);
}

bool lend_mempart_decode(const uint8_t bytes[LEND_MEMPART_LEN], struct lend_mempart *part)
{
	const uint8_t *at = bytes + LEND_MEMREF_LEN;

	part->offset = take_u64(&at);
	part->len = take_u64(&at);
	return lend_memref_decode(bytes, &part->ref);
}

void lend_memop_proof(const uint8_t key[LEND_MEMOP_KEY], const uint8_t context[LEND_MEMOP_CONTEXT],
		      const struct lend_memop *hello, uint8_t proof[LEND_MEMOP_KEY])
{
	uint8_t what[8 + 16 + LEND_MEMOP_CONTEXT] = "join";

	lend_store_u64(what + 8, hello->life);
	lend_store_u64(what + 16, hello->client);
	memcpy(what + 24, context, LEND_MEMOP_CONTEXT);
	lend_siphash128(key, what, sizeof(what), proof);
}

uint32_t lend_memhello_encode(const struct lend_memhello *hello, uint8_t out[LEND_MEMOP_REPLY_MAX])
{
	LEND_CHECK(hello->text_len <= LEND_MEMOP_TEXT_MAX);
	lend_store_u32(out, hello->node);
	lend_store_u32(out + 4, hello->epoch);
	lend_store_u32(out + 8, hello->page);
	lend_store_u16(out + 12, (uint16_t)hello->open);
	out[14] = hello->worker;
	out[15] = hello->workers;
	lend_store_u64(out + 16, hello->lease);
	lend_store_u64(out + 24, hello->life);
	memcpy(out + 32, hello->key, sizeof(hello->key));
	lend_store_u64(out + 48, hello->text_len);
	memcpy(out + LEND_MEMOP_HELLO_LEN, hello->text, hello->text_len);
	return LEND_MEMOP_HELLO_LEN + hello->text_len;
}

bool lend_memhello_decode(const void *bytes, size_t len, struct lend_memhello *hello)
{
	const uint8_t *at = bytes;

	if (len < LEND_MEMOP_HELLO_LEN)
		return false;
	hello->node = lend_load_u32(at);
	hello->epoch = lend_load_u32(at + 4);
	hello->page = lend_load_u32(at + 8);
	hello->open = lend_load_u16(at + 12);
	hello->worker = at[14];
	hello->workers = at[15];
	hello->lease = lend_load_u64(at + 16);
	hello->life = lend_load_u64(at + 24);
	memcpy(hello->key, at + 32, sizeof(hello->key));
	hello->text_len = lend_load_u32(at + 48);
	hello->text = (const char *)at + LEND_MEMOP_HELLO_LEN;
	return hello->text_len == len - LEND_MEMOP_HELLO_LEN &&
	       hello->text_len <= LEND_MEMOP_TEXT_MAX && hello->life &&
	       hello->page >= LEND_MEM_PAGE && hello->page <= LEND_MEM_PAGE_MAX &&
	       lend_is_pow2(hello->page) && hello->open >= 1 && hello->open <= LEND_MEM_OPEN_MAX &&
	       hello->worker < hello->workers && hello->workers <= LEND_MEMREF_WORKERS_MAX;
}

void lend_memspace_encode(const struct lend_memspace *space, uint8_t out[16])
{
	lend_store_u32(out, space->slot);
	lend_store_u32(out + 4, space->epoch);
	lend_store_u64(out + 8, space->serial);
}

bool lend_memspace_decode(const void *bytes, size_t len, struct lend_memspace *space)
{
	const uint8_t *at = bytes;

	if (len < 16)
		return false;
	space->slot = lend_load_u32(at);
	space->epoch = lend_load_u32(at + 4);
	space->serial = lend_load_u64(at + 8);
	return true;
}

uint32_t lend_memview_encode(const struct lend_memview *view, uint8_t out[LEND_MEMVIEW_MAX])
{
	LEND_CHECK(view->n <= LEND_MEM_EXTENTS_MAX);
	lend_memspace_encode(&view->pinned_map, out);
	lend_store_u64(out + 16, view->pages);
	lend_store_u32(out + 24, view->base);
	lend_store_u32(out + 28, view->n);
	for (uint32_t i = 0; i < view->n; i++) {
		lend_store_u32(out + LEND_MEMVIEW_LEN + 8 * i, view->extent[i].frame);
		lend_store_u32(out + LEND_MEMVIEW_LEN + 8 * i + 4, view->extent[i].pages);
	}
	return LEND_MEMVIEW_LEN + 8 * view->n;
}

bool lend_memview_decode(const void *bytes, size_t len, struct lend_memview *view)
{
	const uint8_t *at = bytes;

	if (len < LEND_MEMVIEW_LEN)
		return false;
	(void)lend_memspace_decode(at, 16, &view->pinned_map);
	view->pages = lend_load_u64(at + 16);
	view->base = lend_load_u32(at + 24);
	view->n = lend_load_u32(at + 28);
	if (view->n > LEND_MEM_EXTENTS_MAX || len != LEND_MEMVIEW_LEN + 8 * (size_t)view->n)
		return false;
	for (uint32_t i = 0; i < view->n; i++) {
		view->extent[i].frame = lend_load_u32(at + LEND_MEMVIEW_LEN + 8 * i);
		view->extent[i].pages = lend_load_u32(at + LEND_MEMVIEW_LEN + 8 * i + 4);
		if (!view->extent[i].pages)
			return false;
	}
	return true;
}

uint32_t lend_memstats_encode(const struct lend_memstats *stats, uint8_t out[LEND_MEMSTATS_LEN])
{
	uint8_t *at = put_u64(out, sizeof(*stats) / 8);

#define X(name, text) at = put_u64(at, stats->name);
	LEND_MEM_STATS(X)
#undef X
	return (uint32_t)(at - out);
}

bool lend_memstats_decode(const void *bytes, size_t len, struct lend_memstats *stats)
{
	const uint8_t *at = bytes;
	uint64_t n;

	memset(stats, 0, sizeof(*stats));
	if (len < 8 || len % 8)
		return false;
	n = take_u64(&at);
	if (n != len / 8 - 1)
		return false;
#define X(name, text)                                                                              \
	if (n > 0) {                                                                               \
		stats->name = take_u64(&at);                                                       \
		n--;                                                                               \
	}
	LEND_MEM_STATS(X)
#undef X
	return true;
}
