/* Goal: the memory of a request is given back only after the carrier has finished reading it; a
 * carrier that copies is not asked. Method: shm, with a flush() for its carriers that returns what
 * a test wants; gone() of wrapped memory counts. Covers: src/rpc/deferred_free.c */
#include <criterion/criterion.h>

#include "e2e/rpc_pair.h"
#include "io/builtin.h"

enum { ENDS = 2, LEN = 100 };

static struct lend_io_ops ops[ENDS];
static uint32_t opened, asked;
static bool lending, reading;

static bool flush(struct lend_io *io, uint32_t buf)
{
	cr_assert(io && buf);
	asked++;
	return !reading;
}

int __real_lend_io_shm_open(const struct lend_io_config *config, struct lend_io **io);
int __wrap_lend_io_shm_open(const struct lend_io_config *config, struct lend_io **io);

int __wrap_lend_io_shm_open(const struct lend_io_config *config, struct lend_io **io)
{
	int rc = __real_lend_io_shm_open(config, io);

	cr_assert_eq(rc, 0);
	cr_assert_lt(opened, ENDS);
	ops[opened] = *(*io)->ops;
	ops[opened].flush = lending ? flush : NULL;
	(*io)->ops = &ops[opened++];
	return 0;
}

static char memory[LEN];
static int gone;

static void on_gone(void *arg)
{
	(void)arg;
	gone++;
}

/* A call that was sent and is cancelled: its request may still be in a queue. */
static void give_up(struct pair *pair, struct ask *ask)
{
	pair_open(pair, "shm");
	ask->call = (struct lend_call){.method = HOLD, .done = ask_done};
	ask->call.request = lend_buf_wrap(pair->client, memory, LEN, on_gone, NULL);
	cr_assert_eq(lend_call_start(pair->client, pair->session, &ask->call), 0);
	pair_until_held(pair, 1);
	lend_call_cancel(pair->client, &ask->call);
	cr_assert(pair_until(pair, &ask->done));
	cr_assert_eq(ask->call.status, LEND_CANCELLED);
}

Test(rpc_deferred_free, request__carrier_still_reads__freed_later, .timeout = 60)
{
	struct ask ask = {.done = false};
	struct pair pair;

	lending = reading = true;
	give_up(&pair, &ask);
	cr_assert_null(ask.call.request, "it is still read");
	pair_turns(&pair, 10);
	cr_assert_eq(gone, 0);
	reading = false;
	pair_turns(&pair, 1);
	cr_assert_eq(gone, 1);
	pair_close(&pair);
	cr_assert_eq(gone, 1, "once");
}

Test(rpc_deferred_free, at_once_where_nothing_is_read, .timeout = 60)
{
	struct ask ask = {.done = false};
	struct pair pair;

	lending = true;
	give_up(&pair, &ask);
	cr_assert_not_null(ask.call.request);
	cr_assert_geq(asked, 1);
	ask_give(pair.client, &ask);
	cr_assert_eq(gone, 1);
	pair_close(&pair);
}

Test(rpc_deferred_free, carriers_that_copy_are_not_asked, .timeout = 60)
{
	struct ask ask = {.done = false};
	struct pair pair;

	give_up(&pair, &ask);
	cr_assert_not_null(ask.call.request);
	cr_assert_eq(opened, ENDS);
	cr_assert_eq(asked, 0);
	ask_give(pair.client, &ask);
	pair_close(&pair);
	cr_assert_eq(gone, 1);
}
