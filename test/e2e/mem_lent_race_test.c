/* Goal: a read in place by another process is OK only with the bytes of that call, whatever the two
 * processes do at the same time; neither waits for the other. Method: a caller overwrites the
 * memory of calls that it cancels, while a reader in another process reads it; either one is killed
 * at a random time and started again, or stopped while it reads.
 * Covers: cn/lent/in_place.c, cn/lent/lender.c, src/wire/lent_table.c */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/lent_pair.h"
#include "lend/alloc.h"
#include "util/rng.h"

enum { LEN = 4 << 20, ROUNDS = 5 };

/* Shared by both processes. */
static struct shared {
	_Atomic uint64_t calls, reads, fine, late, wrong, mapped;
	char reader[104];
} * shared;

static void share_counts(void)
{
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(shared, MAP_FAILED);
}

/* Returns whether all words are equal, as the caller stores them, and of a call: after its end the
 * caller stores their complement. */
static bool is_whole(const uint64_t *word)
{
	if (word[0] >> 63)
		return false;
	for (uint32_t i = 1; i < LEN / 8; i++)
		if (word[i] != word[0])
			return false;
	return true;
}

static void store_words(uint64_t *word, uint64_t value)
{
	for (uint32_t i = 0; i < LEN / 8; i++)
		((volatile uint64_t *)word)[i] = value;
}

/* Runs a turn, or sleeps until one is due: both processes may share a CPU. */
static void wait_turn(struct lend_ep *ep)
{
	cr_assert(lend_wait(ep, lend_now(ep) + SECOND / 50000) >= 0);
}

/* A caller for ever: lends, lets the reader read, cancels, overwrites. Odd calls lend memory
 * outside of the shared heap. */
static _Noreturn void run_caller(uint64_t seed)
{
	uint64_t *memory[2] = {lend_malloc_shared(LEN), lend_malloc(LEN)};
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	lent.reader = NULL;
	lent_open_caller("shm", shared->reader);
	for (uint64_t n = 1;; n++) {
		struct lend_call call = {.method = LENT_KEEP, .timeout = 10 * SECOND};
		struct iovec arg = {memory[n % 2], LEN};
		uint64_t spins = lend_rng_below(&rng, 1000000), before = shared->reads;

		store_words(arg.iov_base, n);
		call.status = LEND_UNKNOWN;
		if (lend_call_start_args(lent.caller_mem, lent.session, &call, &arg, 1) < 0)
			_exit(0); /* the reader is gone */
		while (shared->reads == before && call.status == LEND_UNKNOWN)
			wait_turn(lent.caller);
		for (volatile uint64_t i = 0; i < spins; i++)
			continue;
		lend_call_cancel_args(lent.caller_mem, &call);
		while (call.status == LEND_UNKNOWN)
			wait_turn(lent.caller);
		store_words(arg.iov_base, ~n);
		if (call.reply)
			lend_buf_give(lent.caller, call.reply);
		shared->calls++;
	}
}

static uint64_t *into;

/* One read of the newest request, by view or copy. */
static void read_once(bool view)
{
	struct lend_arg_view seen = {.bytes = NULL};
	struct iovec iov = {into, LEN};
	struct lend_op op = {.parent = lent.request};
	const uint64_t *bytes = into;
	bool whole, ok;

	if ((view ? lend_arg_map(lent.reader_mem, &lent.seen, &seen, &op)
		  : lend_arg_get(lent.reader_mem, &lent.seen, 0, &iov, 1, &op)) < 0)
		return; /* the request has ended */
	if (lend_op_wait(lent.reader_mem, &op) < 0 || op.status != LEND_OK) {
		shared->late++;
		return;
	}
	if (view)
		bytes = seen.bytes;
	shared->mapped += view;
	whole = is_whole(bytes);
	ok = !view || lend_arg_intact(&seen) == 0;
	shared->fine += ok;
	shared->late += !ok;
	shared->wrong += ok && !whole;
	if (view)
		lend_arg_unmap(lent.reader_mem, &seen);
}

static void read_next(struct lend_rng *rng)
{
	int before = lent.begun;

	wait_turn(lent.reader);
	shared->reads += lent.begun != before;
	for (uint64_t i = 1 + lend_rng_below(rng, 3); lent.begun != before && i; i--)
		read_once(lend_rng_below(rng, 2));
	if (lent.begun != before)
		(void)lend_reply(lent.reader, lent.request, LEND_OK, NULL);
}

static pid_t start_caller(uint64_t seed)
{
	pid_t pid = fork();

	if (!pid)
		run_caller(seed);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(mem_lent_race, caller__overwrites_and_is_killed__no_torn_read)
{
	struct lend_rng rng;

	share_counts();
	lend_rng_seed(&rng, 1);
	into = malloc(LEN);
	lent_open_reader("shm");
	cr_assert_eq(lend_address(lent.reader, shared->reader, sizeof(shared->reader)), 0);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t until = shared->calls + 5 + lend_rng_below(&rng, 10);
		pid_t pid = start_caller(round);

		while (shared->calls < until)
			read_next(&rng);
		end_child(pid);
		cr_assert_eq(shared->wrong, 0, "round %lu", (unsigned long)round);
	}
	cr_assert(shared->fine && shared->mapped, "%lu reads, %lu too late",
		  (unsigned long)shared->fine, (unsigned long)shared->late);
	lend_mem_close(lent.reader_mem);
	lend_close(lent.reader);
	free(into);
}

/* A reader for ever, which holds each view until its next request. */
static _Noreturn void run_reader(uint64_t seed)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	into = malloc(LEN);
	lent_open_reader("shm");
	(void)lend_address(lent.reader, shared->reader, sizeof(shared->reader));
	for (;;)
		read_next(&rng);
}

/* The caller ends its calls within a few turns of its own, with the reader stopped, or dead. */
static void end_calls(uint64_t *memory, pid_t pid, int signal)
{
	struct lend_call call = {.method = LENT_KEEP, .timeout = 10 * SECOND};
	struct iovec arg = {memory, LEN};
	uint64_t before = shared->mapped;
	int turns = 0;

	store_words(memory, 5);
	call.status = LEND_UNKNOWN;
	cr_assert_eq(lend_call_start_args(lent.caller_mem, lent.session, &call, &arg, 1), 0);
	while (shared->mapped == before && call.status == LEND_UNKNOWN)
		wait_turn(lent.caller);
	kill(pid, signal);
	lend_call_cancel_args(lent.caller_mem, &call);
	for (; call.status == LEND_UNKNOWN; turns++)
		lent_turn();
	cr_assert(turns < 10, "done waits for the reader: %d turns", turns);
	if (call.reply)
		lend_buf_give(lent.caller, call.reply);
}

static void stop_readers(int signal, bool shared_heap)
{
	uint64_t *memory = shared_heap ? lend_malloc_shared(LEN) : lend_malloc(LEN);

	for (uint64_t round = 0; round < ROUNDS; round++) {
		pid_t pid = fork();

		if (!pid)
			run_reader(round);
		while (!*(volatile char *)shared->reader)
			sched_yield();
		lent_open_caller("shm", shared->reader);
		end_calls(memory, pid, signal);
		end_child(pid);
		lend_mem_close(lent.caller_mem);
		lend_close(lent.caller);
		lent.caller = NULL;
		memset(shared->reader, 0, sizeof(shared->reader));
		cr_assert_eq(shared->wrong, 0);
	}
	lend_free(memory);
}

Test(mem_lent_race, reader__stopped__done_does_not_wait)
{
	share_counts();
	stop_readers(SIGSTOP, true);
	stop_readers(SIGSTOP, false);
}

Test(mem_lent_race, reader__killed__done_does_not_wait)
{
	share_counts();
	stop_readers(SIGKILL, true);
	stop_readers(SIGKILL, false);
}
