/* Goal: from the moment EAL reads an event until its callback has run, no device is closed, so no
 * socket of a batch is closed and its number reused meanwhile.
 * Method: two event sources of the test. The callback of the first makes the second ready, which is
 * in the next batch, and waits until the program closes a carrier. That may end only after the
 * callback of the second.
 * Covers: src/io/dpdk/intr_gate.c */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "io/conform.h"
#include "io/dpdk_fixture.h"
#include "sys/clock.h"
#include "sys/last_error.h"

enum { ROUNDS = 5, MS = 1000000 };

static int source[2];
static struct rte_intr_handle *handle[2];
static _Atomic bool called, closing, closed, early, ended;

static void spin_for(uint64_t ns)
{
	for (lend_ns end = lend_clock_now() + ns; lend_clock_now() < end;)
		(void)sched_yield();
}

static void on_event(void *which)
{
	int i = (int)(intptr_t)which;
	uint64_t count;

	if (read(source[i], &count, sizeof(count)) < 0)
		return;
	if (i == 0) {
		(void)eventfd_write(source[1], 1);
		called = true;
		while (!closing)
			(void)sched_yield();
		spin_for(5 * MS); /* close() waits now */
	} else {
		spin_for(5 * MS); /* for a close() that ended to be noted */
		early = closed;
		ended = true;
	}
}

static void add_source(int i)
{
	source[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	handle[i] = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	cr_assert(handle[i] != NULL && source[i] >= 0);
	cr_assert_eq(rte_intr_fd_set(handle[i], source[i]), 0);
	cr_assert_eq(rte_intr_type_set(handle[i], RTE_INTR_HANDLE_EXT), 0);
	cr_assert_eq(rte_intr_callback_register(handle[i], on_event, (void *)(intptr_t)i), 0);
}

static void remove_source(int i)
{
	int rc;

	do /* -EAGAIN: its callback is running */
		rc = rte_intr_callback_unregister(handle[i], on_event, (void *)(intptr_t)i);
	while (rc == -EAGAIN);
	cr_assert_eq(rc, 1);
	rte_intr_instance_free(handle[i]);
	(void)close(source[i]);
}

Test(dpdk_intr_batch, close_between_two_batches__waits, .init = dpdk_begin, .fini = dpdk_end,
     .timeout = 60)
{
	struct lend_io_config config = {.listen = "dpdk:memif@127.0.0.1:0"};
	struct lend_io *first, *other;

	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	cr_assert_eq(lend_io_open(&config, &first), 0, "%s", lend_why_text());
	add_source(0);
	add_source(1);
	for (int i = 0; i < ROUNDS; i++) {
		cr_assert_eq(lend_io_open(&config, &other), 0, "%s", lend_why_text());
		called = closing = closed = ended = false;
		cr_assert_eq(eventfd_write(source[0], 1), 0);
		while (!called)
			(void)sched_yield();
		closing = true;
		other->ops->close(other);
		closed = true;
		while (!ended)
			(void)sched_yield();
		cr_assert(!early, "round %d", i);
	}
	remove_source(0);
	remove_source(1);
	first->ops->close(first);
}
