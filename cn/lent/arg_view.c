#include "cn/lent/arg_view.h"

#include <errno.h>

#include "lend/alloc.h"

/* Stored in lend_arg_view.reserved. */
struct __attribute__((may_alias)) mapped {
	const struct lend_lent_entry *entry; /* NULL: not the caller's memory */
	uint64_t serial;                     /* without an entry: a space of a pool, if not 0 */
	struct lend_peer_memory memory;
	void *heap; /* owned */
};
_Static_assert(sizeof(struct mapped) <= sizeof(((struct lend_arg_view *)0)->reserved), "fits");

static struct mapped *mapped_of(struct lend_arg_view *view)
{
	return (struct mapped *)view->reserved;
}

void cn_arg_view_set(struct cn_op *op, const struct lend_peer_memory *memory,
		     const struct lend_lent_entry *entry, uint64_t serial, const void *bytes)
{
	struct lend_arg_view *view = op->out;

	*mapped_of(view) = (struct mapped){.entry = entry, .serial = serial, .memory = *memory};
	lend_peer_memory_hold(op->mem->ep, memory);
	view->bytes = bytes;
}

void cn_arg_view_space(struct lend_arg_view *view, const void *bytes, lend_space space)
{
	*mapped_of(view) = (struct mapped){.serial = space.id};
	view->bytes = bytes;
}

bool cn_arg_view_alloc(struct cn_op *op)
{
	struct lend_arg_view *view = op->out;
	struct mapped *m = mapped_of(view);

	if (op->parent || m->heap)
		return true;
	m->heap = lend_malloc(op->len);
	op->one = (struct iovec){m->heap, op->len};
	view->bytes = m->heap;
	return m->heap;
}

int lend_arg_intact(const struct lend_arg_view *view)
{
	const struct mapped *m = (const struct mapped *)view->reserved;

	return !m->entry || lend_lent_intact(m->entry, m->serial) ? 0 : -ESTALE;
}

lend_space cn_arg_view_drop(struct lend_mem *mem, struct lend_arg_view *view)
{
	struct mapped *m = mapped_of(view);
	lend_space space = {m->entry ? 0 : m->serial};

	if (m->entry)
		lend_peer_memory_release(mem->ep, &m->memory);
	lend_free(m->heap);
	*view = (struct lend_arg_view){.bytes = NULL};
	return space;
}
