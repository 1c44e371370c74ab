/* space - the objects of a store: mutable spaces and sealed snapshots, identified by slot and
 * serial.
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_SPACE_H
#define MN_STORE_SPACE_H

#include "mn/store/store.h"

/* Returns whether the table has room for one more object. */
bool lend_object_room(const struct lend_store *s);
/* Make an object of any kind, in no list yet, which takes the view; and end one. */
uint32_t lend_object_make(struct lend_store *s, const struct lend_view *view,
			  enum lend_object_kind kind);
void lend_object_destroy(struct lend_store *s, uint32_t object);
/* Make a snapshot that nothing keeps yet, or a space in its client's list. Both take the view. The
 * table must have room. */
uint32_t lend_snapshot_make(struct lend_store *s, const struct lend_view *view);
uint32_t lend_space_make(struct lend_store *s, const struct lend_view *view, uint32_t client);
/* Links a space into its client's list, and counts it. */
void lend_space_link(struct lend_store *s, uint32_t object);
void lend_space_end(struct lend_store *s, uint32_t object);
/* Ends the snapshot if it has no holds and no grants. */
void lend_snapshot_end_unused(struct lend_store *s, uint32_t object);

/* Returns the object; 0: it has ended, is of another kind, or is not in this table. */
uint32_t lend_object_find(const struct lend_store *s, uint32_t slot, uint64_t serial,
			  enum lend_object_kind kind);
/* Builds the reference to the whole snapshot of a PUT or SEAL; also to one that has ended, so that
 * the record can repeat its reply. */
void lend_snapshot_ref(const struct lend_store *s, const struct lend_record *r,
		       struct lend_memref *ref);
/* Prefetches an object as soon as its slot is known, because among a million references it is in no
 * cache. deep: also its first hold, which needs the object. Any slot number is allowed. */
void lend_snapshot_prefetch(const struct lend_store *s, uint32_t slot, bool deep);
/* Checks a reference: *object is its snapshot when the reference is genuine, permits right, and is
 * bound to no other tenant than this one; right may be 0. Whatever is wrong with a token, and
 * whether its snapshot exists, the check runs the same instructions. */
enum lend_mem_status lend_snapshot_find(struct lend_store *s, const struct lend_memref *ref,
					unsigned right, uint32_t tenant, uint32_t *object);

#endif
