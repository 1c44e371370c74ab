/* Goal: lent arguments are read from the caller's memory while the call is in flight, and never
 * afterwards: OK means the bytes of that call. Method: caller, forwarder and reader in one thread,
 * without a node; calls are cut after every number of turns and the memory is overwritten in done;
 * forged references, readers that stop, callers that lie or are killed.
 * Covers: cn/lent/lender.c, cn/lent/caller.c */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/lent_pair.h"
#include "sys/ref_counts.h"
#include "util/rng.h"
#include "util/bits.h"
#include "one_line_test.h"

enum { LENT = 0x4c454e41, MOST = 5 << 20, SEED = 7 };

static unsigned char *data, *into;

/* The memory is overwritten as soon as a call has ended: it is the caller's again. */
static void open_all(const char *carrier)
{
	lent_open_through(carrier);
	lent.overwrites = true;
	data = malloc(MOST);
	into = malloc(MOST);
}

static void close_all(void)
{
	lent_close();
	free(data);
	free(into);
}

/* Starts a call with data as it is. */
static void begin_filled(struct lend_call *call, uint64_t len)
{
	char home[104];

	lent_begin(call, data, len);
	cr_assert_eq(lend_address(lent.caller, home, sizeof(home)), 0);
	cr_assert_str_eq(lent.seen.home, home);
}

static void begin(struct lend_call *call, uint64_t len)
{
	lent_fill(data, len, SEED);
	begin_filled(call, len);
}

static int fetch(uint64_t offset, uint64_t len)
{
	return lent_start_get(into, offset, len);
}

static enum lend_status get(uint64_t offset, uint64_t len)
{
	return lent_get_at(into, offset, len);
}

static bool is_same(uint64_t offset, uint64_t len)
{
	return lent_is_part(into, offset, len, SEED);
}

static void read_all(const char *carrier)
{
	static const uint64_t len[] = {16385, 100000, 1 << 20, MOST};
	struct lend_args_stat stat;
	struct lend_call call;

	open_all(carrier);
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < 4; i++) {
			begin(&call, len[i]);
			cr_assert_eq(get(0, len[i]), LEND_OK, "%d", lent.op.status);
			cr_assert(is_same(0, len[i]), "%lu bytes", (unsigned long)len[i]);
			cr_assert_eq(get(777, 1234), LEND_OK);
			cr_assert(is_same(777, 1234));
			cr_assert_eq(get(len[i] - 1, 2), LEND_OUT_OF_RANGE);
			lent_finish();
			cr_assert_eq(call.status, LEND_OK);
		}
	lend_args_stat_get(lent.caller_mem, &stat);
	cr_assert_eq(stat.lent, 12);
	cr_assert_eq(stat.by_ref + stat.fallbacks, 0);
	close_all();
}

TestRuns(mem_lent, read__over_shm__bytes_of_the_call, read_all("shm"));
TestRuns(mem_lent, read__over_udp__bytes_of_the_call, read_all("udp"));

/* The parent of the reads of an old argument is a later request of the same caller. */
static void stale_and_forged(const char *carrier)
{
	struct lend_call call;
	struct lend_arg old;
	unsigned char *bits;

	open_all(carrier);
	begin(&call, 50000);
	old = lent.seen;
	lent_finish();
	begin(&call, 50000);
	for (uint32_t bit = 0; bit < 512; bit++) {
		struct lend_arg good = lent.seen;
		int before = lent.read_ops;

		bits = (unsigned char *)&lent.seen.ref;
		bits[bit / 8] ^= (unsigned char)(1u << bit % 8);
		if (fetch(0, 50000) == 0) {
			while (lent.read_ops == before)
				lent_turn();
			cr_assert(lent.op.status == LEND_NOT_FOUND ||
				      lent.op.status == LEND_PERMISSION_DENIED,
				  "bit %u: %d", bit, lent.op.status);
		}
		lent.seen = good;
	}
	cr_assert_eq(get(0, 50000), LEND_OK);
	lent.seen = old;
	cr_assert_eq(get(0, 50000), LEND_NOT_FOUND);
	lent_finish();
	close_all();
}

TestRuns(mem_lent, reference__stale_or_forged__refused_over_shm, stale_and_forged("shm"));
TestRuns(mem_lent, reference__stale_or_forged__refused_over_udp, stale_and_forged("udp"));

/* The call is cancelled, and done overwrites the memory, after every number of turns of a read. */
static void cut(const char *carrier)
{
	int fine = 0, refused = 0;

	open_all(carrier);
	for (int turns = 0; turns < 120; turns++) {
		struct lend_call call;
		int before = lent.read_ops;

		begin(&call, 3 << 20);
		cr_assert_eq(fetch(0, 3 << 20), 0);
		for (int i = 0; i < turns && lent.read_ops == before; i++)
			lent_turn();
		lent.ended = 0;
		lend_call_cancel_args(lent.caller_mem, &call);
		while (!lent.ended || lent.read_ops == before)
			lent_turn();
		fine += lent.op.status == LEND_OK;
		refused += lent.op.status != LEND_OK;
		cr_assert(lent.op.status != LEND_OK || is_same(0, 3 << 20), "torn, %d turns",
			  turns);
		(void)lend_reply(lent.reader, lent.request, LEND_OK, NULL);
	}
	cr_assert(refused, "%d reads whole, %d refused", fine, refused);
	close_all();
}

TestRuns(mem_lent, read__call_ends_meanwhile__never_torn_over_shm, cut("shm"));
TestRuns(mem_lent, read__call_ends_meanwhile__never_torn_over_udp, cut("udp"));

/* Readers that ask and then do nothing: the caller alone is turned. */
static void stopped(const char *carrier)
{
	struct lend_call call;

	open_all(carrier);
	for (int turns = 0; turns < 40; turns += 3) {
		lend_ns until;

		begin(&call, 4 << 20);
		cr_assert_eq(fetch(0, 4 << 20), 0);
		for (int i = 0; i < turns; i++)
			lent_turn();
		until = lend_now(lent.caller) + SECOND / 10;
		lent.ended = 0;
		lend_call_cancel_args(lent.caller_mem, &call);
		while (!lent.ended && lend_now(lent.caller) < until)
			cr_assert(lend_poll(lent.caller) >= 0);
		cr_assert(lent.ended, "done waits for the reader, after %d turns", turns);
		lend_op_cancel(lent.reader_mem, &lent.op);
		(void)lend_reply(lent.reader, lent.request, LEND_OK, NULL);
		for (int i = 0; i < 50; i++)
			lent_turn();
	}
	close_all();
}

TestRuns(mem_lent, done__reader_stops__does_not_wait_over_shm, stopped("shm"));
TestRuns(mem_lent, done__reader_stops__does_not_wait_over_udp, stopped("udp"));

/* A caller that answers reads with other lengths than it was asked for. */
static uint32_t lie;

static void on_lie(lend_request of, const struct lend_buf *bytes, void *unused)
{
	struct lend_buf *reply = lend_buf_take(lent.caller, lie + 1);

	(void)bytes, (void)unused;
	memset(reply->data, 1, lie);
	reply->len = lie;
	reply->next = NULL;
	lend_reply(lent.caller, of, LEND_OK, reply);
}

Test(mem_lent, caller__lies_about_lengths__read_fails)
{
	static const uint32_t len[] = {0, 1, 19999, 20001, 3 << 20};
	struct lend_call call;

	open_all("shm");
	begin(&call, 20000);
	cr_assert_eq(lend_serve(lent.caller, LENT, on_lie, NULL, LEND_RESERVED), 0);
	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		lie = len[i];
		cr_assert_neq(get(0, 20000), LEND_OK, "%u bytes", lie);
	}
	lent_finish();
	close_all();
}

/* Addresses that a caller may send: nothing is dialled on another carrier, and nothing hangs. */
Test(mem_lent, caller__names_other_addresses__no_bytes)
{
	static const char *const home[] = {"udp:127.0.0.1:9", "", "shm", ":", "shm:", "mail:x"};
	struct lend_call call;
	char good[104];

	open_all("shm");
	begin(&call, 20000);
	strcpy(good, lent.seen.home);
	for (size_t i = 0; i < sizeof(home) / sizeof(home[0]); i++) {
		strcpy(lent.seen.home, home[i]);
		if (fetch(0, 20000) < 0)
			continue;
		while (!lent.read_ops)
			lent_turn();
		cr_assert_eq(lent.op.status, LEND_UNAVAILABLE, "%s: %d", home[i], lent.op.status);
		lent.read_ops = 0;
	}
	/* as another process that took the caller's address */
	cr_assert_eq(lend_address(lent.reader, lent.seen.home, sizeof(lent.seen.home)), 0);
	cr_assert_eq(get(0, 20000), LEND_NOT_FOUND, "a process that lends nothing: %d",
		     lent.op.status);
	strcpy(lent.seen.home, good);
	lent.op.parent.id = 0;
	cr_assert_eq(
	    lend_arg_get(lent.reader_mem, &lent.seen, 0, &(struct iovec){into, 1}, 1, &lent.op),
	    -EINVAL);
	cr_assert_eq(get(0, 20000), LEND_OK);
	lent_finish();
	close_all();
}

/* A process that lends and is killed, with reads under way and then at once. */
static void killed(const char *carrier)
{
	struct lend_call call;
	pid_t pid;

	lent_open_reader(carrier);
	data = malloc(MOST);
	into = malloc(MOST);
	pid = fork();
	if (!pid) {
		struct iovec arg = {data, MOST};

		lent.reader = NULL;
		lent_connect_caller(carrier, lent.address);
		lent_fill(data, MOST, SEED);
		call = (struct lend_call){.method = LENT_KEEP, .timeout = 60 * SECOND};
		(void)lend_call_sync_args(lent.caller_mem, lent.session, &call, &arg, 1);
		_exit(0);
	}
	while (!lent.begun)
		lent_turn();
	cr_assert_eq(get(0, MOST), LEND_OK);
	cr_assert(is_same(0, MOST));
	cr_assert_eq(fetch(0, MOST), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (lend_ns until = lend_now(lent.reader) + 5 * SECOND; lent.read_ops < 2;) {
		lent_turn();
		cr_assert(lend_now(lent.reader) < until, "a read of a dead caller hangs");
	}
	cr_assert(lent.op.status != LEND_OK || is_same(0, MOST));
	if (fetch(0, MOST) == 0) { /* a failed fetch means that the request ended with its caller */
		while (lent.read_ops < 3)
			lent_turn();
		cr_assert(lent.op.status != LEND_OK || is_same(0, MOST));
	}
	lend_mem_close(lent.reader_mem);
	lend_close(lent.reader);
	free(data);
	free(into);
}

TestRuns(mem_lent, caller__killed__reads_end_over_shm, killed("shm"));
TestRuns(mem_lent, caller__killed__reads_end_over_udp, killed("udp"));

/* The head of an argument, a reference, and the length and text of its home, cut at any byte. */
Test(mem_lent, message__malformed_home__refused)
{
	static const uint64_t by_ref = UINT64_C(1) << 63, homed = UINT64_C(1) << 62;
	static const uint64_t bad[] = {0, 104, 105, UINT32_MAX, UINT64_MAX, UINT64_MAX - 7};
	uint8_t bytes[256] = {0};
	struct lend_buf message = {.data = bytes, .len = 8 + 64 + 8 + 8};
	struct lend_call call;
	struct lend_arg got;
	uint32_t cursor = 0;

	open_all("shm");
	begin(&call, 20000);
	lend_store_u64(bytes, 20000 | by_ref | homed);
	memcpy(bytes + 8, &lent.seen.ref, sizeof(lent.seen.ref));
	lend_store_u64(bytes + 72, 5);
	memcpy(bytes + 80, "shm:x", 5);
	cr_assert_eq(lend_arg_next(&message, &cursor, &got), 1, "%s", lend_why());
	cr_assert_eq(cursor, message.len);
	cr_assert_str_eq(got.home, "shm:x");
	for (message.len = 84; message.len; message.len--) {
		cursor = 0;
		cr_assert_eq(lend_arg_next(&message, &cursor, &got), -EINVAL, "%u bytes",
			     message.len);
	}
	message.len = sizeof(bytes);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cursor = 0;
		lend_store_u64(bytes + 72, bad[i]);
		cr_assert_eq(lend_arg_next(&message, &cursor, &got), -EINVAL, "length %zu", i);
	}
	cursor = 0;
	lend_store_u64(bytes + 72, 6); /* with a zero byte */
	cr_assert_eq(lend_arg_next(&message, &cursor, &got), -EINVAL);
	cursor = 0;
	lend_store_u64(bytes, 16 | homed);
	cr_assert_eq(lend_arg_next(&message, &cursor, &got), -EINVAL);
	lent_finish();
	close_all();
}

/* Two clients of one endpoint lend from one table; slices are read as far as they reach. */
Test(mem_lent, clients__two_of_one_endpoint__both_lend)
{
	struct lend_mem *mem, *other;
	struct lend_call call;

	open_all("shm");
	mem = lent.caller_mem;
	cr_assert_eq(lend_mem_open(lent.caller, "", &other), 0);
	cr_assert_eq(lend_args_place(other, LEND_ARG_CALLER), 0);
	lent.caller_mem = other;
	begin(&call, 30000);
	cr_assert_eq(get(0, 30000), LEND_OK);
	lent_finish();
	lend_mem_close(other);
	lent.caller_mem = mem;
	begin(&call, 30000);
	cr_assert_eq(lend_ref_slice(&lent.seen.ref, 1000, 500, LEND_READ, &lent.seen.ref), 0);
	cr_assert_eq(get(100, 400), LEND_OK);
	cr_assert(is_same(1100, 400));
	cr_assert_eq(get(100, 401), LEND_OUT_OF_RANGE);
	lent_finish();
	begin(&call, 30000);
	cr_assert_eq(lend_ref_slice(&lent.seen.ref, 0, 500, LEND_MAP, &lent.seen.ref), 0);
	cr_assert_eq(get(0, 1), LEND_PERMISSION_DENIED);
	lent_finish();
	close_all();
}

/* Arguments go to a node again: the method of the lender ends with it. */
Test(mem_lent, place__changed_back__method_is_gone)
{
	struct lend_call call = {.method = LENT};
	lend_session session;
	char address[104];

	lent_open("shm");
	cr_assert_eq(lend_args_place(lent.caller_mem, LEND_ARG_NODE), 0);
	cr_assert_eq(lend_address(lent.caller, address, sizeof(address)), 0);
	cr_assert_eq(lend_connect(lent.reader, address, &session), 0);
	call.timeout = 5 * SECOND;
	cr_assert_eq(lend_call_start(lent.reader, session, &call), 0);
	while (call.status == LEND_UNKNOWN)
		lent_turn();
	cr_assert_eq(call.status, LEND_UNIMPLEMENTED, "%d", call.status);
	lent_close();
}

/* Its session is not up, and no message could hold it: it is lent, too. */
static void start_at_once(const char *carrier)
{
	enum { LONG = 20 << 20 };
	struct lend_call call;

	data = malloc(LONG);
	into = malloc(4096);
	/* On a busy machine this takes longer than a session lives that is not polled. */
	lent_fill(data, LONG, SEED);
	lent_open_reader(carrier);
	lent_connect_caller(carrier, lent.address);
	begin_filled(&call, LONG);
	cr_assert_eq(get(LONG - 4096, 4096), LEND_OK);
	cr_assert(is_same(LONG - 4096, 4096));
	lent_finish();
	close_all();
}

TestRuns(mem_lent, start__before_session_is_up__lent_over_shm, start_at_once("shm"));
TestRuns(mem_lent, start__before_session_is_up__lent_over_udp, start_at_once("udp"));

/* An endpoint that does not listen cannot lend: without a node the arguments go by value. */
Test(mem_lent, caller__without_an_address__by_value)
{
	uint64_t before = lend_ref_counts.by_value;
	struct lend_args_stat stat;
	struct lend_call call;

	lent_open_reader("shm");
	cr_assert_eq(lend_open(NULL, &lent.caller), 0);
	cr_assert_eq(lend_mem_open(lent.caller, "", &lent.caller_mem), 0);
	cr_assert_eq(lend_args_place(lent.caller_mem, LEND_ARG_CALLER), 0);
	cr_assert_eq(lend_connect(lent.caller, lent.address, &lent.session), 0);
	data = malloc(MOST);
	lent_start(&call, data, 100000);
	while (!lent.begun)
		lent_turn();
	cr_assert(lent.seen.bytes);
	lend_args_stat_get(lent.caller_mem, &stat);
	cr_assert_eq(stat.lent, 0);
	cr_assert_eq(lend_ref_counts.by_value, before + 1);
	lent_finish();
	if (call.request)
		lend_buf_give(lent.caller, call.request);
	close_all();
}
