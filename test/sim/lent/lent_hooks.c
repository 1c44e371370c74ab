/* lent_hooks - replaces functions of the product during a run, by the linker's --wrap: the clock,
 * random bits and carriers by simulated ones; the path of short messages by a drawn one; those of
 * the table of loans by themselves, with a record of each loan, and turns of other processes before
 * each step of a read in place. Layer: test/sim. */
#include <string.h>

#include "core/core.h"
#include "io/builtin.h"
#include "sim/lent/lent.h"
#include "sys/clock.h"
#include "sys/rand.h"

#define CLOSE_MAX (3000 * LENT_MS) /* lend_mem_close() may take that long */

#define HOOK(type, name, ...)                                                                      \
	type __real_##name(__VA_ARGS__);                                                           \
	type __wrap_##name(__VA_ARGS__);                                                           \
	type __wrap_##name(__VA_ARGS__)

/* Functions that wait read the clock. A node that dies has a clock of its own then. */
HOOK(lend_ns, lend_clock_now, void)
{
	bool waits = lent && lent->waits;

	if (!lent)
		return __real_lend_clock_now();
	if (lent->skew)
		lent->skew += 5 * LENT_US;
	LENT_CHECK(lent->skew < CLOSE_MAX && (!waits || lent->now < lent->closes + CLOSE_MAX),
		   "a client does not close");
	if (waits) {
		lent->waits = false;
		lent_step(LENT_STEP);
		lent->waits = true;
	}
	return lent->now + lent->skew;
}

HOOK(void, lend_random, void *bytes, size_t len)
{
	if (!lent) {
		__real_lend_random(bytes, len);
		return;
	}
	for (size_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)lend_rng_next(&lent->rng[LENT_BITS]);
}

/* Endpoints whose short messages take different paths call each other. */
HOOK(struct lend_core *, lend_core_init, void *memory, const struct lend_core_config *config,
     lend_ns now)
{
	static const uint8_t fast[] = {LEND_FAST_ALWAYS, LEND_FAST_ALWAYS, LEND_FAST_NEVER,
				       LEND_FAST_COIN};
	struct lend_core_config own = *config;

	own.features &= (uint8_t) ~(lent ? lent->node[lent->born].without : 0);
	own.fast = lent ? fast[config->seed[1] % 4] : own.fast;
	return __real_lend_core_init(memory, &own, now);
}

HOOK(int, lend_io_shm_open, const struct lend_io_config *config, struct lend_io **io)
{
	return lent ? lent_carrier_open(LENT_SHM, config, io) : __real_lend_io_shm_open(config, io);
}

HOOK(int, lend_io_udp_open, const struct lend_io_config *config, struct lend_io **io)
{
	return lent ? lent_carrier_open(LENT_UDP, config, io) : __real_lend_io_udp_open(config, io);
}

HOOK(bool, lend_lent_add, struct lend_lent_table *t, uint64_t at, uint64_t len, const uint8_t *key,
     struct lend_memref *ref)
{
	bool added = __real_lend_lent_add(t, at, len, key, ref);

	if (!lent || !added)
		return added;
	LENT_CHECK(lent->lending && lent->loans < LENT_LOANS, "a loan of no call");
	lent->lending->lent = true;
	lent_sums.loans++;
	lent->loan[lent->loans++] = (struct lent_loan){t, ref->serial, ref->slot, lent->lending};
	return true;
}

HOOK(bool, lend_lent_end, struct lend_lent_table *t, uint32_t slot, uint64_t serial)
{
	bool ended = __real_lend_lent_end(t, slot, serial);
	uint32_t i = 0;

	if (!lent)
		return ended;
	while (i < lent->loans && (lent->loan[i].table != t || lent->loan[i].slot != slot ||
				   lent->loan[i].serial != serial))
		i++;
	LENT_CHECK(i < lent->loans, "a loan ends that did not begin, or twice");
	lent->loan[i].call->ended = lent->now;
	lent_trace("loan of call %u ends", lent->loan[i].call->id);
	lent->loan[i] = lent->loan[--lent->loans];
	return ended;
}

/* Turns of other nodes may free the bytes that the product then copies, as those of any process:
 * that is an error to the address sanitizer only. */
static void race_before_copy(void)
{
#ifndef __SANITIZE_ADDRESS__
	lent_call_race();
#endif
}

HOOK(enum lend_mem_status, lend_lent_check, const struct lend_lent_entry *e,
     const struct lend_memref *ref, uint64_t offset, uint64_t len, uint64_t *first)
{
	race_before_copy();
	return __real_lend_lent_check(e, ref, offset, len, first);
}

HOOK(bool, lend_lent_inside, const struct lend_lent_entry *copy, uint64_t memory_len)
{
	race_before_copy();
	return __real_lend_lent_inside(copy, memory_len);
}

HOOK(bool, lend_lent_intact, const struct lend_lent_entry *e, uint64_t serial)
{
	lent_call_race();
	return __real_lend_lent_intact(e, serial);
}
