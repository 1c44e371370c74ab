#include "wire/lent_table.h"

#include <string.h>

#include "util/bits.h"

void lend_lent_init(struct lend_lent_table *t, struct lend_lent_entry *entry)
{
	t->entry = entry;
	t->serial = 0;
	t->n = 0;
	for (uint32_t i = 0; i < LEND_LENT_MAX; i++)
		t->free[i] = (uint16_t)(LEND_LENT_MAX - 1 - i);
}

bool lend_lent_add(struct lend_lent_table *t, uint64_t at, uint64_t len, const uint8_t key[16],
		   struct lend_memref *ref)
{
	struct lend_lent_entry *e;

	if (t->n == LEND_LENT_MAX || t->serial == LEND_LENT_SERIAL_MAX ||
	    len > LEND_MEMREF_ROOT_MAX)
		return false;
	ref->home = LEND_HOME_CALLER;
	ref->tenant = 0;
	ref->slot = t->free[LEND_LENT_MAX - 1 - t->n++];
	ref->serial = ++t->serial;
	ref->root_len = len;
	lend_memref_sign(ref, key);
	e = &t->entry[ref->slot];
	atomic_store_explicit(&e->at, at, memory_order_relaxed);
	e->len = len;
	e->key_id = ref->key_id;
	memcpy(e->token, ref->token, sizeof(e->token));
	atomic_store_explicit(&e->serial, ref->serial, memory_order_release);
	return true;
}

void lend_lent_move(struct lend_lent_entry *e, uint64_t at)
{
	atomic_store_explicit(&e->at, at, memory_order_release);
}

bool lend_lent_end(struct lend_lent_table *t, uint32_t slot, uint64_t serial)
{
	struct lend_lent_entry *e = &t->entry[slot % LEND_LENT_MAX];

	if (slot >= LEND_LENT_MAX || !serial ||
	    atomic_load_explicit(&e->serial, memory_order_relaxed) != serial)
		return false;
	atomic_store_explicit(&e->serial, 0, memory_order_relaxed);
	/* A reader that sees later stores to the bytes or to the entry also sees serial 0. */
	atomic_thread_fence(memory_order_seq_cst);
	t->free[LEND_LENT_MAX - t->n--] = (uint16_t)slot;
	return true;
}

/* Returns whether ref derives from the root of this entry. The token proves the slices; that it
 * also covers the root's fields helps only if these are as they were signed. Runs the same
 * instructions whatever is wrong. */
static bool derives_from_root(const struct lend_lent_entry *e, const struct lend_memref *ref)
{
	uint64_t differs = (ref->root_len ^ e->len) | (uint64_t)(ref->rights[0] ^ LEND_RIGHT_ALL) |
			   ref->tenant | (uint64_t)(ref->key_id ^ e->key_id);

	return lend_memref_proves(ref, e->token, differs);
}

enum lend_mem_status lend_lent_check(const struct lend_lent_entry *e, const struct lend_memref *ref,
				     uint64_t offset, uint64_t len, uint64_t *start)
{
	uint64_t serial = atomic_load_explicit(&e->serial, memory_order_relaxed);
	uint64_t first, n = lend_memref_range(ref, &first);

	if (!serial || serial != ref->serial || ref->home != LEND_HOME_CALLER)
		return LEND_MEM_NOT_FOUND;
	if (!derives_from_root(e, ref) || !(lend_memref_rights(ref) & LEND_RIGHT_READ))
		return LEND_MEM_PERMISSION_DENIED;
	if (atomic_load_explicit(&e->at, memory_order_relaxed) == LEND_LENT_EXPIRED)
		return LEND_MEM_ABORTED;
	if (offset > n || len > n - offset)
		return LEND_MEM_OUT_OF_RANGE;
	*start = first + offset;
	return LEND_MEM_OK;
}

void lend_lent_copy(const struct lend_lent_entry *e, struct lend_lent_entry *copy)
{
	/* Behind the serial: with a newer one the other fields are not of this entry. */
	atomic_store_explicit(&copy->serial, atomic_load_explicit(&e->serial, memory_order_acquire),
			      memory_order_relaxed);
	atomic_store_explicit(&copy->at, atomic_load_explicit(&e->at, memory_order_acquire),
			      memory_order_relaxed);
	copy->len = e->len;
	copy->key_id = e->key_id;
	memcpy(copy->token, e->token, sizeof(copy->token));
	LEND_ONCE(*copy);
}

bool lend_lent_inside(const struct lend_lent_entry *copy, uint64_t memory_len)
{
	uint64_t at = atomic_load_explicit(&copy->at, memory_order_relaxed);

	return at <= memory_len && copy->len <= memory_len - at;
}

bool lend_lent_intact(const struct lend_lent_entry *e, uint64_t serial)
{
	/* With lend_lent_end()'s fence: if one of those reads saw a store that followed the end,
	 * this load sees the end. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&e->serial, memory_order_relaxed) == serial;
}
