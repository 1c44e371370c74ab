/* space - the objects of a store: mutable spaces and sealed snapshots, named by slot and serial.
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_SPACE_H
#define MN_STORE_SPACE_H

#include "mn/store/store.h"

/* There is room for one more object. */
bool lend_object_room(const struct lend_store *s);
/* Any object, in no list yet; takes the view. And its end. */
uint32_t lend_object_make(struct lend_store *s, const struct lend_view *view,
			  enum lend_object_kind kind);
void lend_object_destroy(struct lend_store *s, uint32_t object);
/* A snapshot that nobody keeps yet, or a space in its client's list. Takes the view. There is room.
 */
uint32_t lend_snapshot_make(struct lend_store *s, const struct lend_view *view);
uint32_t lend_space_make(struct lend_store *s, const struct lend_view *view, uint32_t client);
/* Into its client's list, and the count. */
void lend_space_link(struct lend_store *s, uint32_t object);
void lend_space_end(struct lend_store *s, uint32_t object);
/* Ends a snapshot that neither hold nor grant keeps. */
void lend_snapshot_settle(struct lend_store *s, uint32_t object);

/* The object, or 0: gone, of another kind, or not in this table. */
uint32_t lend_object_find(const struct lend_store *s, uint32_t slot, uint64_t serial,
			  enum lend_object_kind kind);
/* The reference to a whole snapshot; also of one that is gone, so that a record can repeat it. */
void lend_snapshot_ref(const struct lend_store *s, uint32_t slot, uint64_t serial, uint64_t len,
		       struct lend_memref *ref);
/* Among a million references what one needs is in no cache: the object is asked for when its slot
 * was seen; deep: its first hold, too, which waits for the object. The slot may be anything. */
void lend_snapshot_ahead(const struct lend_store *s, uint32_t slot, bool deep);
/* The snapshot that a reference proves to name and right allows, if need be 0. */
enum lend_mem_status lend_snapshot_find(struct lend_store *s, const struct lend_memref *ref,
					unsigned right, uint32_t *object);

#endif
