/* allowed - decides independently of the store whether an operation that ran was permitted. Part of
 * store_checks.h. Layer: test. */
#include "fuzz/store_checks.h"
#include "fuzz/finding.h"

static bool takes_ref(uint8_t kind)
{
	return kind == LEND_MEMOP_GET || kind == LEND_MEMOP_MAP || kind == LEND_MEMOP_ADOPT ||
	       kind == LEND_MEMOP_GRANT || kind == LEND_MEMOP_NARROW || kind == LEND_MEMOP_POOL_MAP;
}

static bool takes_space(uint8_t kind)
{
	return kind == LEND_MEMOP_READ || kind == LEND_MEMOP_WRITE || kind == LEND_MEMOP_SEAL ||
	       kind == LEND_MEMOP_FREE || kind == LEND_MEMOP_POOL_VIEW;
}

static unsigned right_for(const struct lend_memop *op)
{
	if (op->kind == LEND_MEMOP_NARROW)
		return op->rights;
	return op->kind == LEND_MEMOP_GET                                      ? LEND_RIGHT_READ
	       : op->kind == LEND_MEMOP_MAP || op->kind == LEND_MEMOP_POOL_MAP ? LEND_RIGHT_MAP
	       : op->kind == LEND_MEMOP_GRANT                                  ? LEND_RIGHT_GRANT
									       : 0;
}

static bool is_inside(uint64_t offset, uint64_t len, uint64_t whole)
{
	return offset <= whole && len <= whole - offset;
}

void node_expect_allowed(const struct lend_store *was, const struct lend_memop *op, uint32_t client)
{
	const struct lend_object *o;

	FUZZ_CHECK(op->kind == LEND_MEMOP_HELLO || client, "run for no client");
	if (takes_ref(op->kind)) {
		FUZZ_CHECK(op->ref.node == was->config.node && op->ref.epoch == was->config.epoch &&
			       lend_memref_verify(&op->ref, was->config.key),
			   "a forged reference");
		FUZZ_CHECK((right_for(op) & ~lend_memref_rights(&op->ref)) == 0,
			   "without permission");
		FUZZ_CHECK(op->kind != LEND_MEMOP_GET ||
			       is_inside(op->offset, op->len, lend_memref_len(&op->ref)),
			   "outside the reference");
	}
	if (takes_space(op->kind)) {
		FUZZ_CHECK(op->space.slot >= 1 && op->space.slot <= was->object.top &&
			       op->space.epoch == was->config.epoch,
			   "a space that never existed");
		o = lend_object_at(was, op->space.slot);
		FUZZ_CHECK(o->kind == LEND_OBJECT_SPACE && o->serial == op->space.serial &&
			       o->client == client,
			   "another client's space, or an earlier one");
		FUZZ_CHECK(op->kind == LEND_MEMOP_FREE || op->kind == LEND_MEMOP_POOL_VIEW ||
			       is_inside(op->offset, op->len, o->len),
			   "outside the space");
	}
}
