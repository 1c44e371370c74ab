/* Goal: memory that a peer can still write to is read only once, so that no change between two
 * reads gets past a check. Method: bytes that change after each read in turn (double_fetch.h);
 * whatever is accepted must be valid by itself. A decoder that reads twice shows that the method
 * works. Covers: src/wire/memop.c, src/wire/pkt.h, src/wire/pkt.c, mn/store/ref_exec.c */
#include "unit/double_fetch.h"

#include "unit/storekit.h"
#include "util/bits.h"
#include "wire/pkt.h"

enum { READS_MAX = 64 };

typedef enum lend_mem_status decoder(const void *bytes, size_t n, uint64_t len,
				     struct lend_memop *op);

/* True: the accepted operation encodes, and the encoding is accepted again. */
static bool is_sound(const struct lend_memop *op, uint64_t len)
{
	uint8_t bytes[LEND_MEMOP_FIXED_MAX];
	struct lend_memop again;

	return op->kind < LEND_MEMOP_KINDS && op->fixed == lend_memop_fixed(op->kind) &&
	       op->fixed + lend_memop_payload(op) == len &&
	       lend_memop_decode(bytes, lend_memop_encode(op, bytes), len, &again) == LEND_MEM_OK;
}

/* False: for some k the decoder accepted an invalid operation. */
static bool survives(decoder *decode, const uint8_t *before, const uint8_t *after, uint32_t n,
		     uint64_t len)
{
	for (unsigned k = 1; k < READS_MAX; k++) {
		struct lend_memop op;

		flip_arm(before, after, n, k);
		if (decode(flip.bytes, n, len, &op) == LEND_MEM_OK && !is_sound(&op, len))
			return false;
		if (flip.reads < k)
			return true;
	}
	cr_assert_fail("more than %d reads", READS_MAX);
	return false;
}

/* A planted bug: the kind is checked with one read and used with another. */
static enum lend_mem_status reads_twice(const void *bytes, size_t n, uint64_t len,
					struct lend_memop *op)
{
	const volatile uint8_t *at = bytes;
	uint8_t copy[LEND_MEMOP_FIXED_MAX];
	enum lend_mem_status status;

	memcpy(copy, bytes, n);
	status = lend_memop_decode(copy, n, len, op);
	op->kind = at[0];
	return status;
}

static uint32_t sample(uint8_t kind, uint8_t *bytes, uint64_t *len)
{
	struct lend_memop op = {.kind = kind, .client = 3, .id = 77, .low = 70, .life = 5, .n = 1};

	lend_memref_sign(&op.ref, (const uint8_t *)"0123456789abcdef");
	if (kind == LEND_MEMOP_SEAL || kind == LEND_MEMOP_PUT || kind == LEND_MEMOP_GRANT)
		op.terms = (struct lend_memterms){LEND_TERMS_SHARED, 3, 1000};
	*len = lend_memop_encode(&op, bytes) + lend_memop_payload(&op);
	return lend_memop_fixed(kind);
}

static bool every_byte_may_change(decoder *decode)
{
	bool fine = true;

	for (uint8_t kind = 1; kind < LEND_MEMOP_KINDS; kind++) {
		uint8_t before[LEND_MEMOP_FIXED_MAX], after[LEND_MEMOP_FIXED_MAX];
		uint32_t step = kind == 1 ? 1 : 3; /* all of the header, then a third of each */
		uint64_t len;
		uint32_t n = sample(kind, before, &len);

		for (uint32_t i = kind % step; i < n && fine; i += step) {
			memcpy(after, before, n);
			after[i] ^= 0xff;
			fine = survives(decode, before, after, n, len);
		}
	}
	return fine;
}

Test(double_fetch, memop_decode__each_byte_changes__sound_or_refused)
{
	flip_open();
	cr_assert(every_byte_may_change(lend_memop_decode));
}

Test(double_fetch, planted_second_read__is_seen)
{
	flip_open();
	cr_assert_not(every_byte_may_change(reads_twice));
}

static bool decode_whole(struct lend_pkt_view *v, const void *data, uint32_t len)
{
	return lend_pkt_decode(v, data, len) == LEND_PKT_OK;
}

static bool decode_short(struct lend_pkt_view *v, const void *data, uint32_t len)
{
	return lend_pkt_decode_short(v, data, len);
}

/* The fields of a view stay consistent when the datagram changes after the decode. */
static bool view_is_sound(const struct lend_pkt_view *v, uint32_t len)
{
	uint64_t blocks = sizeof(v->head) + lend_pkt_block_len(v->head.kind) +
			  (lend_pkt_reports(&v->head) ? sizeof(v->seen) : 0);

	return v->head.magic == LEND_PKT_MAGIC && v->head.version == LEND_PKT_VERSION &&
	       v->head.kind < LEND_PKT_KINDS && !(v->head.flags & LEND_PKT_RESERVED) &&
	       blocks + v->payload_len == len && v->head.offset + v->payload_len <= v->head.length;
}

Test(double_fetch, pkt_decode__each_byte_changes__sound_or_refused)
{
	static bool (*const decode[])(struct lend_pkt_view *, const void *,
				      uint32_t) = {decode_whole, decode_short};
	static const uint8_t mask[4] = {1, 0x10, 0x20, 0xff};
	uint8_t before[100] = {0}, after[100];
	struct lend_pkt head = {.magic = LEND_PKT_MAGIC,
				.version = LEND_PKT_VERSION,
				.kind = LEND_PKT_REQUEST,
				.flags = 4};
	struct lend_pkt_view v;

	flip_open();
	head.length = sizeof(before) - sizeof(head) - sizeof(struct lend_pkt_request);
	memcpy(before, &head, sizeof(head));
	for (uint32_t i = 0; i < sizeof(head) * 8; i++) {
		uint32_t at = i / 8, d = i / 4 % 2;

		memcpy(after, before, sizeof(after));
		after[at] ^= mask[i % 4];
		for (unsigned k = 1; k < READS_MAX; k++) {
			flip_arm(before, after, sizeof(before), k);
			if (decode[d](&v, flip.bytes, sizeof(before)))
				cr_assert(view_is_sound(&v, sizeof(before)), "byte %u, %u", at, k);
			if (flip.reads < k)
				break;
		}
	}
}

/* A batch in which one reference becomes a forgery between the check of all and the release. */
static void release_two(unsigned k, bool *more)
{
	const struct lend_memterms shared = {LEND_TERMS_SHARED, 0, UINT64_C(1000000000)};
	struct kit *kit = kit_open(64, 7);
	struct client w = {.number = 0};
	struct lend_memref ref[2];
	uint8_t before[2 * LEND_MEMREF_LEN], after[sizeof(before)], head[LEND_MEMOP_FIXED_MAX];
	struct lend_memop op = {.kind = LEND_MEMOP_RELEASE, .n = 2};

	cr_assert_eq(kit_hello(kit, &w, 1, 1), LEND_MEM_OK);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(kit_put(kit, &w, "abc", 3, shared, &ref[i]), LEND_MEM_OK);
		lend_memref_encode(&ref[i], before + i * LEND_MEMREF_LEN);
	}
	memcpy(after, before, sizeof(after));
	after[sizeof(after) - 1] ^= 1; /* last byte of the second reference's token */
	op.client = w.number, op.life = w.life, op.id = ++w.id, op.low = w.low ? w.low : w.id;
	struct lend_store_seg seg[] = {{head, lend_memop_encode(&op, head)},
				       {NULL, sizeof(before)}};
	struct lend_store_in in = {&w.peer, seg, 2, 0, false};

	flip_arm(before, after, sizeof(before), k);
	seg[1].data = flip.bytes;
	if (lend_store_exec(kit->store, kit->now, &in, &kit->out) == LEND_MEM_OK)
		cr_assert_eq(lend_load_u32(kit->out.head), 2, "read %u: one was skipped", k);
	else
		cr_assert_eq(kit_stats(kit).refs, 2, "read %u: one was released", k);
	*more = flip.reads >= k;
	kit_close(kit);
}

Test(double_fetch, release__forged_between_passes__all_or_none)
{
	bool more = true;

	flip_open();
	for (unsigned k = 1; more; k++)
		release_two(k, &more);
}
