/* ref_failure - checks of references that fail, each kind in a function of its own, for
 * equal_counts.sh: what a forger learns from the time of an answer must not depend on which byte is
 * wrong, or on whether the object exists. Functions with one first letter must cost the same.
 * Threads: one. */
#include <stdio.h>

#include "mn/store/space.h"
#include "unit/storekit.h"
#include "wire/lent_table.h"

enum { TIMES = 100, LIVE_SLOTS = 8, TENANT = 3 };

static struct kit *kit;
static struct lend_lent_entry entry;
static struct lend_memref root, slice, bound, lent, lent_slice; /* genuine */
static struct lend_memref next;                                 /* genuine, and not cached */

__attribute__((noinline)) static unsigned check_node(const struct lend_memref *ref)
{
	unsigned failed = 0;

	for (int i = 0; i < TIMES; i++) {
		uint32_t object;

		failed += lend_snapshot_find(kit->store, ref, LEND_RIGHT_READ, TENANT, &object) ==
			  LEND_MEM_PERMISSION_DENIED;
	}
	return failed;
}

__attribute__((noinline)) static unsigned check_lent(const struct lend_memref *ref)
{
	unsigned failed = 0;

	for (int i = 0; i < TIMES; i++) {
		uint64_t first;

		failed += lend_lent_check(&entry, ref, 0, 1, &first) == LEND_MEM_PERMISSION_DENIED;
	}
	return failed;
}

static void put_snapshots(void)
{
	static struct client client;
	static uint8_t data[100];
	struct lend_memref all[LIVE_SLOTS];
	struct lend_memop put = {
	    .kind = LEND_MEMOP_PUT, .flags = LEND_MEMOP_BOUND, .len = 100, .terms = kit_owned};
	static struct lend_lent_table table;
	static struct lend_lent_entry entries[LEND_LENT_MAX];

	kit = kit_open(64, 1);
	kit->tenant = TENANT;
	cr_assert_eq(kit_hello(kit, &client, 1, 1), LEND_MEM_OK);
	for (int i = 0; i < LIVE_SLOTS; i++)
		cr_assert_eq(kit_put(kit, &client, data, 100, kit_owned, &all[i]), LEND_MEM_OK);
	root = all[2];
	next = all[5];
	cr_assert_eq(kit_do(kit, &client, &put, data), LEND_MEM_OK);
	cr_assert(lend_memref_decode(kit->out.head, &bound));
	cr_assert_eq(lend_memref_slice(&root, 10, 20, LEND_RIGHT_READ, &slice), 0);
	cr_assert_eq(kit_get(kit, &client, &root, 0, 1, data), LEND_MEM_OK);
	cr_assert_eq(kit_get(kit, &client, &bound, 0, 1, data), LEND_MEM_OK);
	lend_lent_init(&table, entries);
	lent = (struct lend_memref){.node = 7, .epoch = 9, .key_id = 4};
	cr_assert(lend_lent_add(&table, 0, 100, kit->config.key, &lent));
	lend_lent_copy(&entries[lent.slot], &entry);
	cr_assert_eq(lend_memref_slice(&lent, 10, 20, LEND_RIGHT_READ, &lent_slice), 0);
}

/* X(group, name, genuine reference, change) */
#define FAILURES(X)                                                                                \
	X(node, a_token_first, root, r.token[0] ^= 1)                                              \
	X(node, a_token_middle, root, r.token[7] ^= 0x80)                                          \
	X(node, a_token_last, root, r.token[15] ^= 0x80)                                           \
	X(node, a_token_all, root, memset(r.token, 0x5a, sizeof(r.token)))                         \
	X(node, a_token_other, root, memcpy(r.token, next.token, sizeof(r.token)))                 \
	X(node, a_length, root, r.root_len++)                                                      \
	X(node, a_serial_next, root, r.serial++)                                                   \
	X(node, a_serial_none, root, r.serial = 0)                                                 \
	X(node, a_slot_other, root, r.slot = next.slot)                                            \
	X(node, a_slot_free, root, r.slot += 500)                                                  \
	X(node, a_slot_beyond, root, r.slot |= LEND_MEMREF_SLOT_MASK)                              \
	X(node, a_not_cached, next, r.token[3] ^= 1)                                               \
	X(node, b_token, slice, r.token[0] ^= 1)                                                   \
	X(node, b_parent_token, slice, memcpy(r.token, root.token, sizeof(r.token)))               \
	X(node, b_offset, slice, r.slice[0].offset--)                                              \
	X(node, b_len, slice, r.slice[0].len++)                                                    \
	X(node, b_right, slice, r.rights[1] = LEND_RIGHT_ALL)                                      \
	X(node, c_token, bound, r.token[9] ^= 4)                                                   \
	X(node, c_tenant, bound, r.tenant++)                                                       \
	X(node, c_key_id, bound, r.key_id++)                                                       \
	X(lent, d_token_first, lent, r.token[0] ^= 1)                                              \
	X(lent, d_token_last, lent, r.token[15] ^= 1)                                              \
	X(lent, d_length, lent, r.root_len++)                                                      \
	X(lent, d_tenant, lent, r.tenant++)                                                        \
	X(lent, d_key_id, lent, r.key_id++)                                                        \
	X(lent, e_token, lent_slice, r.token[0] ^= 1)                                              \
	X(lent, e_offset, lent_slice, r.slice[0].offset--)                                         \
	X(lent, e_parent_token, lent_slice, memcpy(r.token, lent.token, sizeof(r.token)))

/* The change is not counted: only what check_ runs is inside the function. */
#define X(group, name, genuine, change)                                                            \
	__attribute__((noinline)) static unsigned failure_##name(const struct lend_memref *ref)    \
	{                                                                                          \
		unsigned failed = check_##group(ref);                                              \
                                                                                                   \
		__asm__ volatile("# " #name : "+r"(failed)); /* unlike others */                   \
		return failed;                                                                     \
	}
FAILURES(X)
#undef X

int main(void)
{
	unsigned kinds = 0, failed = 0;

	put_snapshots();
#define X(group, name, genuine, change)                                                            \
	{                                                                                          \
		struct lend_memref r = genuine;                                                    \
                                                                                                   \
		change;                                                                            \
		failed += failure_##name(&r);                                                      \
		kinds++;                                                                           \
	}
	FAILURES(X)
#undef X
	printf("%u kinds, %u of %u checks failed\n", kinds, failed, kinds * TIMES);
	return failed != kinds * TIMES;
}
