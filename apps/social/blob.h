/* blob - texts and media of messages, in place or on a memory node.
 *
 * The process that brings bytes by reference puts them with LEND_TRANSFER; the one that keeps them
 * adopts the reference; readers only read. A put that no process adopts ends after SOCIAL_BLOB_TTL.
 *
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_BLOB_H
#define APPS_SOCIAL_BLOB_H

#include "lend/mem.h"
#include "social.pb-c.h"

/* SOCIAL_REF_MIN: shorter bytes go by value in `auto`; over shm, where a hop costs less, those
 * below SOCIAL_REF_MIN_SHM. */
enum { SOCIAL_REF_LEN = 64, SOCIAL_REF_MIN = 8 << 10, SOCIAL_REF_MIN_SHM = 32 << 10 };
/* Longer than the timeout of any request. */
#define SOCIAL_BLOB_TTL UINT64_C(6000000000)

/* One operation on a blob, in the caller's memory. */
struct social_blob_op {
	struct lend_op op; /* first; its status is the result */
	Social__Blob *blob;
	struct lend_ref ref;
	uint8_t text[SOCIAL_REF_LEN];
	void (*done)(struct social_blob_op *op); /* runs once, possibly before the start returns */
	void *arg;
};

/* Returns whether a blob is a valid reference. Anything that is not has its bytes in place. */
bool social_blob_is_ref(const Social__Blob *blob);
/* Returns the length of a blob's bytes. */
uint64_t social_blob_len(const Social__Blob *blob);
/* Reads the reference of a blob. */
struct lend_ref social_blob_ref(const Social__Blob *blob);
/* Sets a blob to bytes in place, which it borrows. */
void social_blob_set(Social__Blob *blob, const void *data, size_t len);
/* Sets a blob to a reference with fewer rights, of which text has room for the bytes. */
void social_blob_set_ref(Social__Blob *blob, const struct lend_ref *ref, unsigned rights,
			 uint8_t text[SOCIAL_REF_LEN]);
/* Puts bytes, and sets the blob of the operation to their reference. hold: LEND_TRANSFER or
 * LEND_OWNED. Borrows op, bytes and blob until done. */
void social_blob_put(struct lend_mem *mem, struct social_blob_op *op, const void *data, size_t len,
		     enum lend_hold hold);
/* Reads the bytes of the operation's blob, a reference, into memory of its length. */
void social_blob_get(struct lend_mem *mem, struct social_blob_op *op, void *into);
/* Returns the part of lend_get_many() that reads a blob, a reference, into memory of its length. */
struct lend_get_part social_blob_part(const Social__Blob *blob, void *into);
/* As social_blob_get(), as a view: of a pool in place. It lasts until lend_arg_unmap(), which is
 * due after OK.
 */
void social_blob_map(struct lend_mem *mem, struct social_blob_op *op, struct lend_arg_view *view);
/* Adopts, or releases, the reference of the operation's blob. */
void social_blob_adopt(struct lend_mem *mem, struct social_blob_op *op);
void social_blob_release(struct lend_mem *mem, struct social_blob_op *op);
/* Releases a reference without a completion. */
void social_blob_drop(struct lend_mem *mem, const struct lend_ref *ref);

#endif
