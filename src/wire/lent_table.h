/* lent_table - the ranges of memory that a process lends: which references to them are valid.
 *
 *   FREE (serial 0) -> LENT (serial n) -> FREE
 *
 * Serials increase and never repeat, so a reference to an entry that was used again is stale.
 * Entries have no pointers and a fixed layout; the list of free ones is separate. Layer: wire
 * (pure). Threads: one changes a table; another may copy an entry, check the copy, use the bytes,
 * and then load the serial again behind an acquire fence. */
#ifndef LEND_WIRE_LENT_TABLE_H
#define LEND_WIRE_LENT_TABLE_H

#include <stdatomic.h>

#include "wire/memop.h"

enum { LEND_LENT_MAX = 4096 };
#define LEND_LENT_SERIAL_MAX ((UINT64_C(1) << 48) - 1)
#define LEND_LENT_NOWHERE    UINT64_MAX       /* offset of bytes that are not in shared memory */
#define LEND_LENT_EXPIRED    (UINT64_MAX - 1) /* of bytes that are not read any more */
#define LEND_LENT_TABLE_LEN  (LEND_LENT_MAX * sizeof(struct lend_lent_entry))

struct lend_lent_entry {
	_Atomic uint64_t serial; /* 0: free */
	_Atomic uint64_t at;     /* offset in the owner's shared memory, NOWHERE or EXPIRED */
	uint64_t len;            /* bytes */
	uint8_t token[16];       /* token of the root reference */
	uint8_t key_id;          /* first byte of the id of the owner's key; 0: none */
	uint8_t zero[23];
};
_Static_assert(sizeof(struct lend_lent_entry) == 64, "one cache line");

struct lend_lent_table {
	struct lend_lent_entry *entry; /* borrowed; LEND_LENT_MAX of them */
	uint64_t serial;               /* the last one used */
	uint32_t n;                    /* entries in use */
	uint16_t free[LEND_LENT_MAX];  /* the first LEND_LENT_MAX - n are the free entries */
};

/* Makes an empty table of LEND_LENT_MAX zeroed entries, borrowed as long as the table is used. */
void lend_lent_init(struct lend_lent_table *t, struct lend_lent_entry *entry);
/* Adds len bytes, at an offset of shared memory or NOWHERE, and fills in *ref, of which node,
 * epoch and key id are given, signed with key. Returns false: no entry is free, or len is above
 * LEND_MEMREF_ROOT_MAX. */
bool lend_lent_add(struct lend_lent_table *t, uint64_t at, uint64_t len, const uint8_t key[16],
		   struct lend_memref *ref);
/* Sets the offset of an entry's bytes in shared memory, where they are from now on. */
void lend_lent_move(struct lend_lent_entry *e, uint64_t at);
/* Frees the entry of slot if it still has this serial; returns whether it had. */
bool lend_lent_end(struct lend_lent_table *t, uint32_t slot, uint64_t serial);
/* Checks a decoded reference of home CALLER against an entry or a copy of one, for the bytes
 * [offset, offset + len) of what the reference names. Returns LEND_MEM_OK and where they start in
 * the lent memory in *first; NOT_FOUND: the entry is free or another; PERMISSION_DENIED: the token
 * is wrong, or there is no right to read; ABORTED: it has expired; OUT_OF_RANGE. */
enum lend_mem_status lend_lent_check(const struct lend_lent_entry *e, const struct lend_memref *ref,
				     uint64_t offset, uint64_t len, uint64_t *first);

/* For another process that maps the table. Copies an entry that its owner may change meanwhile: the
 * copy is valid if the entry still has its serial afterwards. */
void lend_lent_copy(const struct lend_lent_entry *e, struct lend_lent_entry *copy);
/* Returns whether a copied entry's bytes are inside shared memory of that length. */
bool lend_lent_inside(const struct lend_lent_entry *copy, uint64_t memory_len);
/* Returns whether an entry still has this serial. If so, all bytes that were read before are those
 * that it lends. */
bool lend_lent_intact(const struct lend_lent_entry *e, uint64_t serial);

#endif
