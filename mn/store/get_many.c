/* get_many - several references read by one operation, each with a status of its own.
 *
 * The reply has a fixed form, so that the client receives each part where it wants it: a part that
 * fails is as many zeros. Nothing is pinned before all references were checked, because the whole
 * operation waits for a snapshot that is still being written.
 * Layer: mn/store (pure). */
#include "mn/store/data_exec.h"
#include "mn/store/space.h"
#include "util/bits.h"

_Static_assert(4 * LEND_MEM_MANY_MAX <= LEND_MEMOP_REPLY_MAX, "the statuses fit");

/* A part after its reference was checked. */
struct checked {
	uint32_t object;
	uint64_t first, len; /* bytes of the snapshot */
	enum lend_mem_status status;
};

static enum lend_mem_status check_part(struct lend_step *t, const struct lend_mempart *part,
				       struct checked *c)
{
	uint64_t whole = lend_memref_range(&part->ref, &c->first);
	enum lend_mem_status status =
	    lend_snapshot_find(t->s, &part->ref, LEND_RIGHT_READ, t->peer->tenant, &c->object);

	if (status == LEND_MEM_OK && !lend_is_inside(part->offset, part->len, whole))
		status = LEND_MEM_OUT_OF_RANGE;
	c->first += part->offset;
	return status;
}

/* Checks all parts. A failure is that of the whole operation. */
static enum lend_mem_status check_parts(struct lend_step *t, struct checked *all)
{
	uint64_t room = LEND_MEM_PART_MAX;

	for (uint32_t i = 0; i < t->op->n; i++) {
		struct checked *c = &all[i];
		uint8_t bytes[LEND_MEMPART_LEN];
		struct lend_mempart part;
		bool good;

		(void)lend_cursor_read(&t->payload, bytes, sizeof(bytes));
		good = lend_mempart_decode(bytes, &part);
		c->len = part.len;
		if (part.len > room)
			return LEND_MEM_INVALID_ARGUMENT;
		room -= part.len;
		c->status = good ? check_part(t, &part, c) : LEND_MEM_INVALID_ARGUMENT;
		if (c->status == LEND_MEM_UNWRITTEN) {
			t->op->ref = part.ref;
			return LEND_MEM_UNWRITTEN;
		}
	}
	return LEND_MEM_OK;
}

static enum lend_mem_status emit_part(struct lend_step *t, const struct checked *c)
{
	struct lend_view view = lend_object_view(t->s, c->object);

	return lend_emit_pages(t, &view, c->first, c->len);
}

/* Adds zeros to the reply: frame 0 has no other bytes. */
static void emit_zeros(struct lend_step *t, uint64_t len)
{
	for (uint64_t left = len, n; left; left -= n) {
		n = lend_min_u64(left, lend_page_size(t->s));
		lend_seg_add(t->out->seg, &t->out->n, lend_page(t->s, 0), n);
	}
	t->out->pinned |= len > 0;
	t->out->len += len;
}

enum lend_mem_status lend_op_get_many(struct lend_step *t)
{
	struct checked all[LEND_MEM_MANY_MAX];
	struct lend_store_out *out = t->out;
	enum lend_mem_status status = check_parts(t, all);

	if (status)
		return status;
	for (uint32_t i = 0; i < t->op->n; i++) {
		status = all[i].status ? all[i].status : emit_part(t, &all[i]);
		if (status)
			emit_zeros(t, all[i].len);
		lend_op_count(t->s, status);
		out->damaged |= status == LEND_MEM_DATA_LOSS;
		lend_store_u32(out->head + 4 * i, status);
	}
	if (out->pinned) {
		out->head_len = 4 * t->op->n;
	} else {
		out->len = 4 * t->op->n;
		out->seg[out->n++] = (struct lend_store_seg){out->head, out->len};
	}
	return LEND_MEM_OK;
}
