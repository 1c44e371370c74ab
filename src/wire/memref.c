#include "wire/memref.h"

#include <string.h>

#include "util/bits.h"
#include "util/siphash.h"

/* errno.h is not a header of the pure layers; these are Linux's numbers on every machine. */
enum { ERR_PERM = 1, ERR_MLINK = 31, ERR_RANGE = 34 };
enum { SIGNED = 28, RIGHT_BITS = 31, HOME_SHIFT = 4, DEPTH_BITS = 15 };

static void store_u40(uint8_t *at, uint64_t v)
{
	lend_store_u32(at, (uint32_t)v);
	at[4] = (uint8_t)(v >> 32);
}

static void store_u48(uint8_t *at, uint64_t v)
{
	lend_store_u32(at, (uint32_t)v);
	lend_store_u16(at + 4, (uint16_t)(v >> 32));
}

static bool has_home(uint8_t version)
{
	return version == LEND_MEMREF_HOME_VERSION;
}

/* Loads 5 bytes. It reads 8, which is safe because the token follows the last field. */
static uint64_t load_u40(const uint8_t *at)
{
	return lend_load_u64(at) & ((UINT64_C(1) << 40) - 1);
}

static uint64_t load_u48(const uint8_t *at)
{
	return lend_load_u64(at) & ((UINT64_C(1) << 48) - 1);
}

/* Writes the bytes that the root's token covers, with these rights. */
static void encode_root(const struct lend_memref *ref, uint8_t depth, uint16_t rights, uint8_t *out)
{
	lend_store_u32(out, ref->node);
	lend_store_u32(out + 4, ref->epoch);
	lend_store_u32(out + 8, ref->slot);
	out[12] = ref->version;
	out[13] = depth;
	lend_store_u16(out + 14, rights);
	store_u48(out + 16, ref->serial);
	store_u48(out + 22, ref->root_len);
	if (!has_home(ref->version))
		return;
	lend_store_u16(out + 6, ref->tenant);
	out[13] |= (uint8_t)(ref->home << HOME_SHIFT);
	out[27] = ref->key_id;
}

void lend_memref_encode(const struct lend_memref *ref, uint8_t out[LEND_MEMREF_LEN])
{
	encode_root(ref, ref->depth,
		    (uint16_t)(ref->rights[0] | ref->rights[1] << 5 | ref->rights[2] << 10), out);
	for (int i = 0; i < LEND_MEMREF_DEPTH_MAX; i++) {
		store_u40(out + 28 + 10 * i, ref->slice[i].offset);
		store_u40(out + 33 + 10 * i, ref->slice[i].len);
	}
	memcpy(out + 48, ref->token, 16);
}

static bool is_narrowed(const struct lend_memref *ref)
{
	uint64_t len = ref->root_len;

	for (int i = 0; i < LEND_MEMREF_DEPTH_MAX; i++) {
		const struct lend_memslice *s = &ref->slice[i];

		if (i >= ref->depth) {
			if (s->offset || s->len || ref->rights[i + 1])
				return false;
			continue;
		}
		if (s->offset > len || s->len > len - s->offset ||
		    ref->rights[i + 1] & ~ref->rights[i])
			return false;
		len = s->len;
	}
	return true;
}

void lend_memref_root(const uint8_t bytes[LEND_MEMREF_LEN], struct lend_memref *ref)
{
	*ref = (struct lend_memref){.node = lend_load_u32(bytes),
				    .epoch = lend_load_u32(bytes + 4),
				    .slot = lend_load_u32(bytes + 8),
				    .version = bytes[12],
				    .depth = bytes[13],
				    .serial = load_u48(bytes + 16)};
	if (!has_home(ref->version))
		return;
	ref->epoch = lend_load_u16(bytes + 4);
	ref->tenant = lend_load_u16(bytes + 6);
	ref->depth = bytes[13] & DEPTH_BITS;
	ref->home = bytes[13] >> HOME_SHIFT;
	ref->key_id = bytes[27];
}

bool lend_memref_decode(const uint8_t bytes[LEND_MEMREF_LEN], struct lend_memref *ref)
{
	uint16_t rights = lend_load_u16(bytes + 14);

	lend_memref_root(bytes, ref);
	ref->rights[0] = rights & RIGHT_BITS;
	ref->rights[1] = rights >> 5 & RIGHT_BITS;
	ref->rights[2] = rights >> 10 & RIGHT_BITS;
	ref->root_len = load_u48(bytes + 22);
	if (has_home(ref->version))
		ref->root_len = load_u40(bytes + 22);
	for (int i = 0; i < LEND_MEMREF_DEPTH_MAX; i++) {
		ref->slice[i].offset = load_u40(bytes + 28 + 10 * i);
		ref->slice[i].len = load_u40(bytes + 33 + 10 * i);
	}
	memcpy(ref->token, bytes + 48, 16);
	if ((ref->version != LEND_MEMREF_NODE_VERSION && !has_home(ref->version)) ||
	    ref->home >= LEND_HOME_SET || ref->depth > LEND_MEMREF_DEPTH_MAX || rights & 0x8000 ||
	    ref->rights[0] & ~LEND_RIGHT_ALL || ref->root_len > LEND_MEMREF_ROOT_MAX)
		return false;
	if (ref->depth == 0) /* the common case: all bytes of slices must be zero */
		return !(rights >> 5 | lend_load_u64(bytes + 28) | lend_load_u64(bytes + 36) |
			 lend_load_u32(bytes + 44));
	return is_narrowed(ref);
}

uint64_t lend_memref_range(const struct lend_memref *ref, uint64_t *first)
{
	uint64_t len = ref->root_len;

	*first = 0;
	for (int i = 0; i < ref->depth; i++) {
		*first += ref->slice[i].offset;
		len = ref->slice[i].len;
	}
	return len;
}

uint64_t lend_memref_len(const struct lend_memref *ref)
{
	return ref->depth ? ref->slice[ref->depth - 1].len : ref->root_len;
}

unsigned lend_memref_rights(const struct lend_memref *ref)
{
	return ref->rights[ref->depth];
}

/* Derives the token of slice `depth`, 1 or 2, from its parent's. */
static void derive_token(uint8_t token[16], const struct lend_memref *ref, int depth)
{
	const struct lend_memslice *s = &ref->slice[depth - 1];
	uint8_t key[16], what[12];

	memcpy(key, token, sizeof(key));
	what[0] = (uint8_t)depth;
	store_u40(what + 1, s->offset);
	store_u40(what + 6, s->len);
	what[11] = ref->rights[depth];
	lend_siphash128(key, what, sizeof(what), token);
}

int lend_memref_slice(const struct lend_memref *ref, uint64_t offset, uint64_t len, unsigned rights,
		      struct lend_memref *out)
{
	uint64_t parent = lend_memref_len(ref);
	struct lend_memref r = *ref;

	if (offset > parent || len > parent - offset)
		return -ERR_RANGE;
	if (rights & ~lend_memref_rights(ref))
		return -ERR_PERM;
	if (ref->depth >= LEND_MEMREF_DEPTH_MAX)
		return -ERR_MLINK;
	r.slice[r.depth] = (struct lend_memslice){offset, len};
	r.depth++;
	r.rights[r.depth] = (uint8_t)rights;
	derive_token(r.token, &r, r.depth);
	*out = r;
	return 0;
}

void lend_memref_root_token(const struct lend_memref *ref, const uint8_t key[16], uint8_t token[16])
{
	uint8_t bytes[SIGNED];

	encode_root(ref, 0, ref->rights[0], bytes);
	lend_siphash128(key, bytes, SIGNED, token);
}

void lend_memref_sign(struct lend_memref *ref, const uint8_t key[16])
{
	ref->version = ref->home == LEND_HOME_NODE && !ref->tenant ? LEND_MEMREF_NODE_VERSION
								   : LEND_MEMREF_HOME_VERSION;
	if (has_home(ref->version))
		ref->epoch = (uint16_t)ref->epoch;
	ref->depth = 0;
	memset(ref->slice, 0, sizeof(ref->slice));
	memset(ref->rights, 0, sizeof(ref->rights));
	ref->rights[0] = LEND_RIGHT_ALL;
	lend_memref_root_token(ref, key, ref->token);
}

bool lend_memref_proves(const struct lend_memref *ref, const uint8_t root[16], uint64_t differs)
{
	uint8_t token[16];

	memcpy(token, root, sizeof(token));
	for (int depth = 1; depth <= ref->depth; depth++)
		derive_token(token, ref, depth);
	return ((uint64_t)!lend_equal_ct(token, ref->token, sizeof(token)) | differs) == 0;
}

bool lend_memref_verify(const struct lend_memref *ref, const uint8_t key[16])
{
	uint8_t root[16];

	lend_memref_root_token(ref, key, root);
	return lend_memref_proves(ref, root, 0);
}

int lend_memref_narrow(const struct lend_memref *ref, const uint8_t key[16], uint64_t offset,
		       uint64_t len, unsigned rights, struct lend_memref *out)
{
	struct lend_memref r = *ref;
	uint64_t first, parent = lend_memref_range(ref, &first);

	if (offset > parent || len > parent - offset)
		return -ERR_RANGE;
	if (rights & ~lend_memref_rights(ref))
		return -ERR_PERM;
	memset(r.slice, 0, sizeof(r.slice));
	r.depth = 1;
	r.slice[0] = (struct lend_memslice){first + offset, len};
	r.rights[1] = (uint8_t)rights;
	r.rights[2] = 0;
	lend_memref_root_token(&r, key, r.token);
	derive_token(r.token, &r, 1);
	*out = r;
	return 0;
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void lend_memref_text(const uint8_t bytes[LEND_MEMREF_LEN], char out[LEND_MEMREF_TEXT])
{
	uint32_t bits = 0, n = 0, at = 0;

	for (uint32_t i = 0; i < LEND_MEMREF_LEN; i++) {
		bits = bits << 8 | bytes[i];
		for (n += 8; n >= 6; n -= 6)
			out[at++] = letters[bits >> (n - 6) & 63];
	}
	out[at] = letters[bits << (6 - n) & 63];
}

static int letter_value(char c)
{
	for (int i = 0; i < 64; i++)
		if (letters[i] == c)
			return i;
	return -1;
}

bool lend_memref_parse(const char text[LEND_MEMREF_TEXT], uint8_t out[LEND_MEMREF_LEN])
{
	uint32_t bits = 0, n = 0, at = 0;

	for (uint32_t i = 0; i < LEND_MEMREF_TEXT; i++) {
		int value = letter_value(text[i]);

		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t)value;
		n += 6;
		if (n >= 8) {
			n -= 8;
			out[at++] = (uint8_t)(bits >> n);
		}
	}
	return (bits & ((1u << n) - 1)) == 0;
}
