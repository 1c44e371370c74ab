/* blob - see blob.h. */
#include "apps/social/blob.h"

#include <errno.h>
#include <stdlib.h>

bool social_blob_is_ref(const Social__Blob *blob)
{
	return blob->ref.len == SOCIAL_REF_LEN;
}

struct lend_ref social_blob_ref(const Social__Blob *blob)
{
	struct lend_ref ref;

	lend_ref_load(&ref, blob->ref.data);
	return ref;
}

uint64_t social_blob_len(const Social__Blob *blob)
{
	struct lend_ref ref;

	if (!social_blob_is_ref(blob))
		return blob->data.len;
	ref = social_blob_ref(blob);
	return lend_ref_len(&ref);
}

void social_blob_set(Social__Blob *blob, const void *data, size_t len)
{
	social__blob__init(blob);
	blob->data = (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)data};
	blob->length = len;
}

void social_blob_set_ref(Social__Blob *blob, const struct lend_ref *ref, unsigned rights,
			 uint8_t text[SOCIAL_REF_LEN])
{
	struct lend_ref narrow;

	social__blob__init(blob);
	blob->length = lend_ref_len(ref);
	if (lend_ref_slice(ref, 0, blob->length, rights, &narrow) < 0)
		narrow = *ref;
	lend_ref_store(text, &narrow);
	blob->ref = (ProtobufCBinaryData){SOCIAL_REF_LEN, text};
}

static void end_op(struct lend_op *op)
{
	struct social_blob_op *b = (struct social_blob_op *)op;

	b->done(b);
}

/* Ends an operation that did not start. */
static void check_start(struct social_blob_op *b, int err)
{
	if (!err)
		return;
	b->op.status = err == -EINVAL ? LEND_INVALID_ARGUMENT : LEND_UNAVAILABLE;
	b->done(b);
}

static void begin_op(struct social_blob_op *b)
{
	b->op = (struct lend_op){.done = end_op, .parent = b->op.parent};
	if (social_blob_is_ref(b->blob))
		b->ref = social_blob_ref(b->blob);
}

static void end_put(struct lend_op *op)
{
	struct social_blob_op *b = (struct social_blob_op *)op;

	if (op->status == LEND_OK) {
		uint64_t len = b->blob->length;

		lend_ref_store(b->text, &op->ref);
		social__blob__init(b->blob);
		b->blob->ref = (ProtobufCBinaryData){SOCIAL_REF_LEN, b->text};
		b->blob->length = len;
	}
	b->done(b);
}

void social_blob_put(struct lend_mem *mem, struct social_blob_op *op, const void *data, size_t len,
		     enum lend_hold hold)
{
	const struct lend_terms terms = {
	    .size = sizeof(terms), .hold = LEND_TRANSFER, .ttl = SOCIAL_BLOB_TTL};
	struct iovec bytes = {(void *)(uintptr_t)data, len};

	op->op = (struct lend_op){.done = end_put, .parent = op->op.parent};
	op->blob->length = len;
	check_start(op, mem ? lend_put(mem, &bytes, 1, hold == LEND_OWNED ? NULL : &terms, &op->op)
			    : -ENODEV);
}

void social_blob_get(struct lend_mem *mem, struct social_blob_op *op, void *into)
{
	struct iovec memory = {into, social_blob_len(op->blob)};

	begin_op(op);
	check_start(op, mem ? lend_get(mem, &op->ref, 0, &memory, 1, &op->op) : -ENODEV);
}

struct lend_get_part social_blob_part(const Social__Blob *blob, void *into)
{
	return (struct lend_get_part){
	    .ref = social_blob_ref(blob), .into = into, .len = social_blob_len(blob)};
}

void social_blob_map(struct lend_mem *mem, struct social_blob_op *op, struct lend_arg_view *view)
{
	struct lend_arg bytes = {.len = social_blob_len(op->blob)};

	begin_op(op);
	bytes.ref = op->ref;
	check_start(op, mem ? lend_arg_map(mem, &bytes, view, &op->op) : -ENODEV);
}

void social_blob_adopt(struct lend_mem *mem, struct social_blob_op *op)
{
	begin_op(op);
	check_start(op, mem ? lend_adopt(mem, &op->ref, &op->op) : -ENODEV);
}

void social_blob_release(struct lend_mem *mem, struct social_blob_op *op)
{
	begin_op(op);
	check_start(op, mem ? lend_release(mem, &op->ref, 1, &op->op) : -ENODEV);
}

/* A release without a completion. */
struct drop {
	struct lend_op op; /* first */
	struct lend_ref ref;
};

static void end_drop(struct lend_op *op)
{
	free(op);
}

void social_blob_drop(struct lend_mem *mem, const struct lend_ref *ref)
{
	struct drop *d = mem ? calloc(1, sizeof(*d)) : NULL;

	if (!d)
		return; /* its ttl, or the end of the lease, releases it */
	d->op.done = end_drop;
	d->ref = *ref;
	if (lend_release(mem, &d->ref, 1, &d->op) < 0)
		free(d);
}
