/* Goal: a turn that finds nothing polls carriers with cheap polls more than once, and once if it
 * has something to send or a poll is expensive; a sleep ends when a carrier is due. Method: shm,
 * with carriers that count their polls, and report the cost of a poll and their due time as the
 * test wants. Covers: src/rpc/loop.c, src/rpc/sleep.c */
#include <criterion/criterion.h>

#include "e2e/rpc_pair.h"
#include "io/builtin.h"

enum { LOOKS = 3 };

static struct lend_io_ops ops;
static uint32_t (*real_rx)(struct lend_io *io, struct lend_in *in, uint32_t cap);
static uint32_t looks;
static bool quick;
static struct lend_io *due_io; /* its count_rx() is due at a time; NULL: none */
static struct lend_ep *due_ep;

static uint32_t count_rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	looks++;
	if (io == due_io && io->due && io->due <= lend_now(NULL)) {
		io->due = 0;
		lend_stop(due_ep);
	}
	return real_rx(io, in, cap);
}

int __real_lend_io_shm_open(const struct lend_io_config *config, struct lend_io **io);
int __wrap_lend_io_shm_open(const struct lend_io_config *config, struct lend_io **io);

int __wrap_lend_io_shm_open(const struct lend_io_config *config, struct lend_io **io)
{
	int rc = __real_lend_io_shm_open(config, io);

	cr_assert_eq(rc, 0);
	cr_expect((*io)->cheap_poll);
	ops = *(*io)->ops;
	real_rx = ops.rx;
	ops.rx = count_rx;
	(*io)->ops = &ops;
	(*io)->cheap_poll = quick;
	due_io = *io;
	return 0;
}

/* Polls during a client's idle turn, with a call to send or without. */
static uint32_t looks_of(bool cheap, bool call)
{
	struct ask ask = {.done = false};
	struct pair pair;
	uint32_t n;

	quick = cheap;
	pair_open(&pair, "shm");
	pair_turns(&pair, 10);
	ask.call = (struct lend_call){.method = ECHO, .done = ask_done};
	if (call)
		cr_assert_eq(lend_call_start(pair.client, pair.session, &ask.call), 0);
	looks = 0;
	cr_assert_eq(lend_poll(pair.client), 0);
	n = looks;
	cr_assert(!call || pair_until(&pair, &ask.done));
	pair_close(&pair);
	return n;
}

Test(rpc_polls, in_vain, .timeout = 60)
{
	cr_expect_eq(looks_of(true, false), LOOKS);
	cr_expect_eq(looks_of(true, true), 1, "what is to be sent does not wait");
	cr_expect_eq(looks_of(false, false), 1);
}

/* Nothing arrives and no call is in flight, so only the carrier's own time ends the sleep. */
Test(rpc_polls, carrier_due__wakes_a_sleeping_endpoint, .timeout = 60)
{
	struct lend_config config = LEND_CONFIG_INIT;
	lend_ns begun, until;
	char address[128];

	pair_address(address, sizeof(address), "shm");
	config.listen = address;
	cr_assert_eq(lend_open(&config, &due_ep), 0, "%s", lend_why());
	begun = lend_now(due_ep);
	until = begun + UINT64_C(20000000000);
	due_io->due = begun + 20000000;
	cr_assert_eq(lend_wait(due_ep, until), 0);
	cr_expect_eq(due_io->due, 0, "rx() did not run when it was due");
	cr_expect(lend_now(due_ep) >= begun + 20000000 && lend_now(due_ep) < until);
	lend_close(due_ep);
}
