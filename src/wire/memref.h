/* memref - a reference: 64 bytes that name bytes at their home and prove the right to use them.
 *
 *   0  node 4          4  epoch 4          8  worker and slot 4
 *   12 version 1       13 depth 1          14 rights 2: root, slice 1, slice 2, five bits each
 *   16 serial 6        22 root length 6
 *   28 slice 1: offset 5, length 5         38 slice 2: the same
 *   48 token 16
 *
 * This is version 1: the home is a memory node. Version 2 also names other homes. It differs in
 *
 *   4  epoch 2         6  tenant 2         13 depth: lower 4 bits, home: upper 4 bits
 *   22 root length 5   27 key id 1
 *
 * Home CALLER: memory that the caller lends while its call is in flight. Node and epoch identify
 * the caller, slot is an entry of its table (lent_table.h). Home SET is reserved for replica sets
 * and refused. A node's reference is of version 2 if it is bound: tenant is the number of the one
 * tenant whose sessions may use it. Else tenant is zero. Key id: the first byte of the id of the
 * caller's key, so that a reader with several keys finds the one to connect with; 0: none.
 *
 * The home signs a root: token = PRF(boot key, bytes 0-27 as of depth 0). A process that has a
 * reference can narrow it without the node: token' = PRF(token, depth | offset | length | rights),
 * offset relative to the parent. The step cannot be reversed, so a narrow reference gives access to
 * its own range only. After two slices only the node can narrow further. PRF = SipHash-2-4-128.
 *
 * Layer: wire (pure). Plain data, any thread. */
#ifndef LEND_WIRE_MEMREF_H
#define LEND_WIRE_MEMREF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LEND_MEMREF_LEN = 64,
	LEND_MEMREF_NODE_VERSION = 1, /* version of references whose home is a memory node */
	LEND_MEMREF_HOME_VERSION = 2, /* version of references with any home */
	LEND_MEMREF_DEPTH_MAX = 2,
	LEND_MEMREF_TEXT = 86, /* characters of base64url, without padding */
	LEND_MEMREF_WORKER_SHIFT =
	    26, /* bits of slot: the worker's number above, its entry below */
	LEND_MEMREF_SLOT_MASK = (1 << 26) - 1,
	LEND_MEMREF_WORKERS_MAX = 64,
};
#define LEND_MEMREF_ROOT_MAX ((UINT64_C(1) << 40) - 1) /* bytes of a snapshot */

enum lend_home { LEND_HOME_NODE, LEND_HOME_CALLER, LEND_HOME_SET };

/* As in lend/mem.h; two of five bits are free and zero. */
enum { LEND_RIGHT_READ = 1, LEND_RIGHT_MAP = 2, LEND_RIGHT_GRANT = 4, LEND_RIGHT_ALL = 7 };

struct lend_memslice {
	uint64_t offset, len; /* relative to the parent; zero when unused */
};

struct lend_memref {
	uint32_t node, epoch, slot;
	uint8_t version, depth;
	uint8_t home, key_id; /* enum lend_home; key_id and tenant: version 2 only */
	uint16_t tenant;
	uint8_t rights[1 + LEND_MEMREF_DEPTH_MAX]; /* root, slice 1, slice 2; unused ones zero */
	uint64_t serial, root_len;
	struct lend_memslice slice[LEND_MEMREF_DEPTH_MAX];
	uint8_t token[16];
};

void lend_memref_encode(const struct lend_memref *ref, uint8_t out[LEND_MEMREF_LEN]);
/* Decodes any 64 bytes. False unless the format is valid: version, home, depth, rights that only
 * narrow, slices inside their parents, unused ones zero. Does not check the token. */
bool lend_memref_decode(const uint8_t bytes[LEND_MEMREF_LEN], struct lend_memref *ref);
/* Reads version, home, node, epoch, slot and serial from bytes that were decoded before; the other
 * fields of *ref are zero. */
void lend_memref_root(const uint8_t bytes[LEND_MEMREF_LEN], struct lend_memref *ref);

/* Returns the length of the range that ref names, and its offset in the root in *first. */
uint64_t lend_memref_range(const struct lend_memref *ref, uint64_t *first);
uint64_t lend_memref_len(const struct lend_memref *ref);
unsigned lend_memref_rights(const struct lend_memref *ref);
static inline uint32_t lend_memref_worker(const struct lend_memref *ref)
{
	return ref->slot >> LEND_MEMREF_WORKER_SHIFT;
}

/* Narrows ref to [offset, offset + len) of it with these rights. Returns 0; -ERANGE, -EPERM (a
 * right that ref does not have), -EMLINK (sliced twice already). out may be ref; it is unchanged on
 * failure. */
int lend_memref_slice(const struct lend_memref *ref, uint64_t offset, uint64_t len, unsigned rights,
		      struct lend_memref *out);

/* For the home. Signs the root that the fields name: depth 0, all rights. Version 1 if the home is
 * a node and no tenant is given, else 2. */
void lend_memref_sign(struct lend_memref *ref, const uint8_t key[16]);
/* Returns whether the token matches this key and these slices. Constant time in the token. */
bool lend_memref_verify(const struct lend_memref *ref, const uint8_t key[16]);
/* The same check in two steps: root_token() computes the root's token, a constant function of its
 * node, epoch, slot, serial, length and rights; proves() returns whether ref's token derives from
 * it by ref's slices, and differs is 0: a difference of other fields, which costs no branch. */
void lend_memref_root_token(const struct lend_memref *ref, const uint8_t key[16],
			    uint8_t token[16]);
bool lend_memref_proves(const struct lend_memref *ref, const uint8_t root[16], uint64_t differs);
/* For the node. Narrows a verified reference of any depth to one slice of the root, so that it can
 * be sliced once more. Returns 0, -ERANGE, -EPERM. */
int lend_memref_narrow(const struct lend_memref *ref, const uint8_t key[16], uint64_t offset,
		       uint64_t len, unsigned rights, struct lend_memref *out);

/* Writes LEND_MEMREF_TEXT characters without a terminating zero. */
void lend_memref_text(const uint8_t bytes[LEND_MEMREF_LEN], char out[LEND_MEMREF_TEXT]);
/* Parses the text form. False for other characters, or for text that lend_memref_text() never
 * writes. */
bool lend_memref_parse(const char text[LEND_MEMREF_TEXT], uint8_t out[LEND_MEMREF_LEN]);

#endif
