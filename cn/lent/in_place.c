#include "cn/lent/in_place.h"

#include <errno.h>
#include <string.h>

#include "cn/lent/arg_view.h"
#include "lend/carrier.h"
#include "sys/ref_counts.h"
#include "util/bits.h"
#include "wire/lent_table.h"

enum way { READ, ASK, MESSAGE };

/* Finds the entry of ref in the caller's memory; NULL: its table is unknown. */
static const struct lend_lent_entry *find_entry(const struct cn_node *caller,
						const struct lend_peer_memory *memory,
						const struct lend_memref *ref)
{
	if (!caller->placed || caller->id != ref->node || caller->epoch != ref->epoch ||
	    ref->slot >= LEND_LENT_MAX)
		return NULL;
	return (const struct lend_lent_entry *)(const void *)((const uint8_t *)memory->at +
							      caller->table) +
	       ref->slot;
}

/* Copies mapped bytes to the memory that the operation reads into. */
static void copy_bytes(const struct cn_op *op, const uint8_t *from)
{
	const struct iovec *iov = op->n > 1 ? op->data : &op->one;

	for (uint32_t i = 0; i < op->n; i++) {
		if (iov[i].iov_len)
			memcpy(iov[i].iov_base, from, iov[i].iov_len);
		from += iov[i].iov_len;
	}
}

/* Reads or views the bytes of an entry. ASK: they are not in the mapped memory. */
static enum way read_entry(struct cn_op *op, const struct lend_lent_entry *entry,
			   const struct lend_memref *ref, const struct lend_peer_memory *memory,
			   enum lend_status *status)
{
	struct lend_lent_entry copy;
	const uint8_t *bytes;
	uint64_t first;

	lend_lent_copy(entry, &copy);
	*status = (enum lend_status)lend_lent_check(&copy, ref, op->offset, op->len, &first);
	if (*status == LEND_OK && !lend_lent_inside(&copy, memory->len))
		return ASK;
	if (*status != LEND_OK)
		return READ;
	bytes = (const uint8_t *)memory->at + atomic_load_explicit(&copy.at, memory_order_relaxed) +
		first;
	lend_ref_count(&lend_ref_counts.in_place);
	if (op->view)
		cn_arg_view_set(op, memory, entry, ref->serial, bytes);
	else
		copy_bytes(op, bytes);
	if (!lend_lent_intact(entry, ref->serial))
		*status = LEND_NOT_FOUND;
	return READ;
}

/* Returns whether the caller's memory can be mapped as soon as its address is resolved. */
static bool is_mappable(const struct cn_op *op)
{
	return lend_carrier_traits(op->mem->node[op->node]->address) & LEND_CARRIER_IN_PLACE;
}

static enum way try_read(struct cn_op *op, enum lend_status *status)
{
	struct cn_node *caller = op->mem->node[op->node];
	const struct lend_lent_entry *entry;
	struct lend_peer_memory memory;
	struct lend_memref ref;
	int rc = lend_session_memory(op->mem->ep, caller->session, &memory);

	if (rc < 0)
		return rc == -ENOTSUP || !is_mappable(op) ? MESSAGE : ASK;
	cn_ref_in(&ref, &cn_op_outer(op)->ref);
	entry = find_entry(caller, &memory, &ref);
	return entry ? read_entry(op, entry, &ref, &memory, status) : ASK;
}

int cn_in_place_before(struct cn_op *op)
{
	enum lend_status status = LEND_OK;
	enum way way = op->parent || op->by_message ? MESSAGE : try_read(op, &status);

	if (way == ASK && op->placing) /* the answer did not help */
		way = MESSAGE;
	if (way == MESSAGE && !op->parent && !op->by_message && is_mappable(op))
		lend_ref_count(&lend_ref_counts.copied);
	op->placing = way == ASK;
	op->by_message = way == MESSAGE;
	if (way == READ)
		return (int)status;
	if (way == MESSAGE && op->view && !cn_arg_view_alloc(op))
		return LEND_RESOURCE_EXHAUSTED;
	return CN_GO;
}

bool cn_in_place_after(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len)
{
	struct cn_node *caller = op->mem->node[op->node];
	struct lend_peer_memory memory;
	struct lend_memref ref;

	if (*status == LEND_NOT_FOUND || *status == LEND_PERMISSION_DENIED ||
	    *status == LEND_OUT_OF_RANGE || *status == LEND_ABORTED)
		return false;
	if (*status != LEND_OK || len != 16 || lend_load_u64(body + 8) != LEND_LENT_MAX ||
	    lend_session_memory(op->mem->ep, caller->session, &memory) < 0)
		return true;
	caller->table = lend_load_u64(body);
	caller->placed = caller->table % sizeof(struct lend_lent_entry) == 0 &&
			 caller->table <= memory.len &&
			 LEND_LENT_TABLE_LEN <= memory.len - caller->table;
	cn_ref_in(&ref, &cn_op_outer(op)->ref);
	caller->id = ref.node;
	caller->epoch = ref.epoch;
	return true;
}
