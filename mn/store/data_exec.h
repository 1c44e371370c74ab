/* data_exec - the operations on bytes and on references, one function each.
 *
 * A function changes the store and fills in the record, or fails and changes nothing. exec.c builds
 * the reply from the record, so a retransmitted operation gets the same reply.
 *
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_DATA_EXEC_H
#define MN_STORE_DATA_EXEC_H

#include "mn/store/cow.h"
#include "mn/store/store.h"

struct lend_step {
	struct lend_store *s;
	lend_ns now;
	uint32_t client;
	struct lend_store_peer *peer;
	struct lend_memop *op;
	struct lend_cursor payload;
	uint32_t *placed; /* chain of frames with the payload; 0: none */
	uint64_t landed;  /* serial of the unwritten snapshot that has the payload; 0: none */
	struct lend_record record;
	struct lend_store_out *out;
};

enum lend_mem_status lend_op_put(struct lend_step *t);
/* Writes the bytes of the EARLY put with this record. */
enum lend_mem_status lend_op_fill(struct lend_step *t, struct lend_record *r);
enum lend_mem_status lend_op_get(struct lend_step *t);
enum lend_mem_status lend_op_get_many(struct lend_step *t); /* get_many.c */
enum lend_mem_status lend_op_alloc(struct lend_step *t);
enum lend_mem_status lend_op_read(struct lend_step *t);
enum lend_mem_status lend_op_write(struct lend_step *t);
enum lend_mem_status lend_op_seal(struct lend_step *t);
enum lend_mem_status lend_op_map(struct lend_step *t);
enum lend_mem_status lend_op_free(struct lend_step *t);
enum lend_mem_status lend_op_adopt(struct lend_step *t);
enum lend_mem_status lend_op_grant(struct lend_step *t);
enum lend_mem_status lend_op_release(struct lend_step *t);
enum lend_mem_status lend_op_forget(struct lend_step *t);

/* lend_terms_room() returns whether the terms of a new snapshot fit into the tables and the quota
 * of references. An operation that consumes a space gives one reference back. */
bool lend_terms_room(const struct lend_step *t, bool consume);
void lend_terms_apply(struct lend_step *t, uint32_t object);
/* Returns the caller's own space; 0: not found, or not the caller's. */
uint32_t lend_op_space(const struct lend_store *s, uint32_t client,
		       const struct lend_memspace *space);
/* Adds the pages of a range to the reply, in place and pinned. Adds none if one of them does not
 * match its checksum. Parts of LEND_MEM_PART_MAX in all always fit. */
enum lend_mem_status lend_emit_pages(struct lend_step *t, const struct lend_view *view,
				     uint64_t offset, uint64_t len);
/* Counts an operation, or a part of one, that failed. */
void lend_op_count(struct lend_store *s, enum lend_mem_status status);
/* Returns whether [offset, offset + len) is inside [0, whole). */
static inline bool lend_is_inside(uint64_t offset, uint64_t len, uint64_t whole)
{
	return offset <= whole && len <= whole - offset;
}
/* Returns the snapshot that an EARLY put made and that still has no bytes; 0: there is none. */
uint32_t lend_op_unwritten(const struct lend_store *s, const struct lend_record *r);

#endif
