/* Goal: lent arguments are read from the caller's memory while the call is in flight, and never
 * afterwards: OK means the bytes of that call. Method: caller, forwarder and reader in one thread,
 * without a node; calls are cut after every number of turns and the memory is overwritten in done;
 * forged references, readers that stop, callers that lie or are killed.
 * Covers: cn/lent/lender.c, cn/lent/caller.c */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lend/mem.h"
#include "sys/ref_counts.h"
#include "util/rng.h"
#include "util/bits.h"
#include "one_line_test.h"

#define SECOND UINT64_C(1000000000)
enum { READ = 1, PASS, KEEP, LENT = 0x4c454e41, MOST = 5 << 20 };

struct side {
	struct lend_ep *ep;
	struct lend_mem *mem;
	char address[104];
};
static struct side caller, middle, reader;
static lend_session first, second;
static unsigned char *data, *into;
static struct iovec arg;
static struct lend_arg seen;
static lend_request request;
static struct lend_op op;
static int begun, ended, fetched;

static void open_side(struct side *side, const char *carrier, const char *name)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char listen[64] = "udp:127.0.0.1:0";

	if (!strcmp(carrier, "shm"))
		snprintf(listen, sizeof(listen), "shm:lent%d.%s", (int)getpid(), name);
	config.listen = listen;
	config.probe = SECOND / 50;
	config.dead = SECOND / 2;
	cr_assert_eq(lend_open(&config, &side->ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(side->ep, "", &side->mem), 0);
	cr_assert_eq(lend_address(side->ep, side->address, sizeof(side->address)), 0);
}

static void close_side(struct side *side)
{
	lend_mem_close(side->mem);
	lend_close(side->ep);
	*side = (struct side){.ep = NULL};
}

static void turn(void)
{
	cr_assert(!caller.ep || lend_poll(caller.ep) >= 0);
	cr_assert(!middle.ep || lend_poll(middle.ep) >= 0);
	cr_assert(!reader.ep || lend_poll(reader.ep) >= 0);
}

static void on_fetched(struct lend_op *of)
{
	(void)of;
	fetched++;
}

static int fetch(uint64_t offset, uint64_t len)
{
	static struct iovec to;

	to = (struct iovec){into, len};
	memset(into, 0, len);
	op = (struct lend_op){.done = on_fetched, .parent = request};
	return lend_arg_get(reader.mem, &seen, offset, &to, 1, &op);
}

static void keep(lend_request of, const struct lend_buf *bytes, void *unused)
{
	uint32_t cursor = 0;

	(void)unused;
	request = of;
	cr_assert_eq(lend_arg_next(bytes, &cursor, &seen), 1, "%s", lend_why());
	begun++;
}

static void passed(struct lend_call *call)
{
	if (call->request)
		lend_buf_give(middle.ep, call->request);
	lend_reply(middle.ep, call->parent, call->status, call->reply);
	free(call);
}

static void pass(lend_request of, const struct lend_buf *bytes, void *unused)
{
	struct lend_call *call = calloc(1, sizeof(*call));

	(void)unused, (void)bytes;
	*call = (struct lend_call){.method = KEEP,
				   .parent = of,
				   .request = lend_request_take(middle.ep, of),
				   .done = passed};
	cr_assert_eq(lend_call_start(middle.ep, second, call), 0);
}

/* The bytes are the caller's again: it uses the memory for something else. */
static void on_ended(struct lend_call *call)
{
	if (call->reply)
		lend_buf_give(caller.ep, call->reply);
	memset(data, 0xee, arg.iov_len);
	ended++;
}

static void fill(uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		data[i] = (unsigned char)(i * 7 + i / 251);
	arg = (struct iovec){data, len};
}

static bool is_same(uint64_t offset, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if (into[i] != (unsigned char)((i + offset) * 7 + (i + offset) / 251))
			return false;
	return true;
}

static void open_all(const char *carrier)
{
	open_side(&caller, carrier, "a");
	open_side(&middle, carrier, "b");
	open_side(&reader, carrier, "c");
	cr_assert_eq(lend_serve(middle.ep, PASS, pass, NULL, 0), 0);
	cr_assert_eq(lend_serve(reader.ep, KEEP, keep, NULL, 0), 0);
	cr_assert_eq(lend_connect(caller.ep, middle.address, &first), 0);
	cr_assert_eq(lend_connect(middle.ep, reader.address, &second), 0);
	cr_assert_eq(lend_args_place(caller.mem, LEND_ARG_CALLER), 0);
	data = malloc(MOST);
	into = malloc(MOST);
}

static void close_all(void)
{
	close_side(&reader);
	close_side(&middle);
	if (caller.ep)
		close_side(&caller);
	free(data);
	free(into);
}

/* Starts a call that lends len bytes, and returns when the reader has its request. */
static void begin(struct lend_call *call, uint64_t len)
{
	int before = begun;

	fill(len);
	*call = (struct lend_call){.method = PASS, .done = on_ended, .timeout = 10 * SECOND};
	cr_assert_eq(lend_call_start_args(caller.mem, first, call, &arg, 1), 0, "%s", lend_why());
	while (begun == before)
		turn();
	cr_assert_null(seen.bytes);
	cr_assert_str_eq(seen.home, caller.address);
}

static enum lend_status get(uint64_t offset, uint64_t len)
{
	int before = fetched;

	cr_assert_eq(fetch(offset, len), 0, "%s", lend_why());
	while (fetched == before)
		turn();
	return op.status;
}

static void finish(enum lend_status status)
{
	int before = ended;

	lend_reply(reader.ep, request, status, NULL);
	while (ended == before)
		turn();
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
			cr_assert_eq(get(0, len[i]), LEND_OK, "%d", op.status);
			cr_assert(is_same(0, len[i]), "%lu bytes", (unsigned long)len[i]);
			cr_assert_eq(get(777, 1234), LEND_OK);
			cr_assert(is_same(777, 1234));
			cr_assert_eq(get(len[i] - 1, 2), LEND_OUT_OF_RANGE);
			finish(LEND_OK);
			cr_assert_eq(call.status, LEND_OK);
		}
	lend_args_stat_get(caller.mem, &stat);
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
	old = seen;
	finish(LEND_OK);
	begin(&call, 50000);
	for (uint32_t bit = 0; bit < 512; bit++) {
		struct lend_arg good = seen;
		int before = fetched;

		bits = (unsigned char *)&seen.ref;
		bits[bit / 8] ^= (unsigned char)(1u << bit % 8);
		if (fetch(0, 50000) == 0) {
			while (fetched == before)
				turn();
			cr_assert(op.status == LEND_NOT_FOUND ||
				      op.status == LEND_PERMISSION_DENIED,
				  "bit %u: %d", bit, op.status);
		}
		seen = good;
	}
	cr_assert_eq(get(0, 50000), LEND_OK);
	seen = old;
	cr_assert_eq(get(0, 50000), LEND_NOT_FOUND);
	finish(LEND_OK);
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
		int before = fetched;

		begin(&call, 3 << 20);
		cr_assert_eq(fetch(0, 3 << 20), 0);
		for (int i = 0; i < turns && fetched == before; i++)
			turn();
		ended = 0;
		lend_call_cancel_args(caller.mem, &call);
		while (!ended || fetched == before)
			turn();
		fine += op.status == LEND_OK;
		refused += op.status != LEND_OK;
		cr_assert(op.status != LEND_OK || is_same(0, 3 << 20), "torn, %d turns", turns);
		(void)lend_reply(reader.ep, request, LEND_OK, NULL);
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
			turn();
		until = lend_now(caller.ep) + SECOND / 10;
		ended = 0;
		lend_call_cancel_args(caller.mem, &call);
		while (!ended && lend_now(caller.ep) < until)
			cr_assert(lend_poll(caller.ep) >= 0);
		cr_assert(ended, "done waits for the reader, after %d turns", turns);
		lend_op_cancel(reader.mem, &op);
		(void)lend_reply(reader.ep, request, LEND_OK, NULL);
		for (int i = 0; i < 50; i++)
			turn();
	}
	close_all();
}

TestRuns(mem_lent, done__reader_stops__does_not_wait_over_shm, stopped("shm"));
TestRuns(mem_lent, done__reader_stops__does_not_wait_over_udp, stopped("udp"));

/* A caller that answers reads with other lengths than it was asked for. */
static uint32_t lie;

static void on_lie(lend_request of, const struct lend_buf *bytes, void *unused)
{
	struct lend_buf *reply = lend_buf_take(caller.ep, lie + 1);

	(void)bytes, (void)unused;
	memset(reply->data, 1, lie);
	reply->len = lie;
	reply->next = NULL;
	lend_reply(caller.ep, of, LEND_OK, reply);
}

Test(mem_lent, caller__lies_about_lengths__read_fails)
{
	static const uint32_t len[] = {0, 1, 19999, 20001, 3 << 20};
	struct lend_call call;

	open_all("shm");
	begin(&call, 20000);
	cr_assert_eq(lend_serve(caller.ep, LENT, on_lie, NULL, LEND_RESERVED), 0);
	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		lie = len[i];
		cr_assert_neq(get(0, 20000), LEND_OK, "%u bytes", lie);
	}
	finish(LEND_OK);
	close_all();
}

/* Addresses that a caller may send: nothing is dialled on another carrier, and nothing hangs. */
Test(mem_lent, caller__names_other_addresses__no_bytes)
{
	static const char *const home[] = {"udp:127.0.0.1:9", "", "shm", ":", "shm:", "mail:x"};
	struct lend_call call;

	open_all("shm");
	begin(&call, 20000);
	for (size_t i = 0; i < sizeof(home) / sizeof(home[0]); i++) {
		strcpy(seen.home, home[i]);
		if (fetch(0, 20000) < 0)
			continue;
		while (!fetched)
			turn();
		cr_assert_eq(op.status, LEND_UNAVAILABLE, "%s: %d", home[i], op.status);
		fetched = 0;
	}
	strcpy(seen.home, reader.address); /* as another process that took the caller's address */
	cr_assert_eq(get(0, 20000), LEND_NOT_FOUND, "a process that lends nothing: %d", op.status);
	strcpy(seen.home, caller.address);
	op.parent.id = 0;
	cr_assert_eq(lend_arg_get(reader.mem, &seen, 0, &(struct iovec){into, 1}, 1, &op), -EINVAL);
	cr_assert_eq(get(0, 20000), LEND_OK);
	finish(LEND_OK);
	close_all();
}

/* A process that lends and is killed, with reads under way and then at once. */
static void killed(const char *carrier)
{
	struct lend_call call;
	pid_t pid;

	open_side(&reader, carrier, "c");
	cr_assert_eq(lend_serve(reader.ep, KEEP, keep, NULL, 0), 0);
	data = malloc(MOST);
	into = malloc(MOST);
	pid = fork();
	if (!pid) {
		open_side(&caller, carrier, "a");
		(void)lend_args_place(caller.mem, LEND_ARG_CALLER);
		(void)lend_connect(caller.ep, reader.address, &first);
		reader.ep = NULL;
		fill(MOST);
		call = (struct lend_call){.method = KEEP, .timeout = 60 * SECOND};
		(void)lend_call_sync_args(caller.mem, first, &call, &arg, 1);
		_exit(0);
	}
	while (!begun)
		turn();
	cr_assert_eq(get(0, MOST), LEND_OK);
	fill(MOST);
	cr_assert(is_same(0, MOST));
	cr_assert_eq(fetch(0, MOST), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (lend_ns until = lend_now(reader.ep) + 5 * SECOND; fetched < 2;) {
		turn();
		cr_assert(lend_now(reader.ep) < until, "a read of a dead caller hangs");
	}
	cr_assert(op.status != LEND_OK || is_same(0, MOST));
	if (fetch(0, MOST) == 0) { /* a failed fetch means that the request ended with its caller */
		while (fetched < 3)
			turn();
		cr_assert(op.status != LEND_OK || is_same(0, MOST));
	}
	close_side(&reader);
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
	memcpy(bytes + 8, &seen.ref, sizeof(seen.ref));
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
	finish(LEND_OK);
	close_all();
}

/* Two clients of one endpoint lend from one table; slices are read as far as they reach. */
Test(mem_lent, clients__two_of_one_endpoint__both_lend)
{
	struct lend_mem *mem, *other;
	struct lend_call call;

	open_all("shm");
	mem = caller.mem;
	cr_assert_eq(lend_mem_open(caller.ep, "", &other), 0);
	cr_assert_eq(lend_args_place(other, LEND_ARG_CALLER), 0);
	caller.mem = other;
	begin(&call, 30000);
	cr_assert_eq(get(0, 30000), LEND_OK);
	finish(LEND_OK);
	lend_mem_close(other);
	caller.mem = mem;
	begin(&call, 30000);
	cr_assert_eq(lend_ref_slice(&seen.ref, 1000, 500, LEND_READ, &seen.ref), 0);
	cr_assert_eq(get(100, 400), LEND_OK);
	cr_assert(is_same(1100, 400));
	cr_assert_eq(get(100, 401), LEND_OUT_OF_RANGE);
	finish(LEND_OK);
	begin(&call, 30000);
	cr_assert_eq(lend_ref_slice(&seen.ref, 0, 500, LEND_MAP, &seen.ref), 0);
	cr_assert_eq(get(0, 1), LEND_PERMISSION_DENIED);
	finish(LEND_OK);
	close_all();
}

/* Arguments go to a node again: the method of the lender ends with it. */
Test(mem_lent, place__changed_back__method_is_gone)
{
	struct lend_call call = {.method = LENT};
	lend_session session;

	open_side(&caller, "shm", "a");
	open_side(&reader, "shm", "c");
	cr_assert_eq(lend_args_place(caller.mem, LEND_ARG_CALLER), 0);
	cr_assert_eq(lend_args_place(caller.mem, LEND_ARG_NODE), 0);
	cr_assert_eq(lend_connect(reader.ep, caller.address, &session), 0);
	call.timeout = 5 * SECOND;
	cr_assert_eq(lend_call_start(reader.ep, session, &call), 0);
	while (call.status == LEND_UNKNOWN)
		turn();
	cr_assert_eq(call.status, LEND_UNIMPLEMENTED, "%d", call.status);
	close_side(&reader);
	close_side(&caller);
}

/* Its session is not up, and no message could hold it: it is lent, too. */
static void start_at_once(const char *carrier)
{
	enum { LONG = 20 << 20 };
	struct lend_call call = {.method = KEEP, .done = on_ended};

	open_side(&caller, carrier, "a");
	open_side(&reader, carrier, "c");
	cr_assert_eq(lend_serve(reader.ep, KEEP, keep, NULL, 0), 0);
	cr_assert_eq(lend_connect(caller.ep, reader.address, &first), 0);
	data = malloc(LONG);
	into = malloc(4096);
	fill(LONG);
	cr_assert_eq(lend_call_start_args(caller.mem, first, &call, &arg, 1), 0, "%s", lend_why());
	while (!begun && !ended)
		turn();
	cr_assert_eq(begun, 1, "status %d", call.status);
	cr_assert_eq(get(LONG - 4096, 4096), LEND_OK);
	cr_assert(is_same(LONG - 4096, 4096));
	finish(LEND_OK);
	close_side(&reader);
	close_side(&caller);
	free(data);
	free(into);
}

TestRuns(mem_lent, start__before_session_is_up__lent_over_shm, start_at_once("shm"));
TestRuns(mem_lent, start__before_session_is_up__lent_over_udp, start_at_once("udp"));

/* An endpoint that does not listen cannot lend: without a node the arguments go by value. */
Test(mem_lent, caller__without_an_address__by_value)
{
	struct lend_call call = {.method = KEEP, .done = on_ended};
	uint64_t before = lend_ref_counts.by_value;
	struct lend_args_stat stat;

	open_side(&reader, "shm", "c");
	cr_assert_eq(lend_serve(reader.ep, KEEP, keep, NULL, 0), 0);
	cr_assert_eq(lend_open(NULL, &caller.ep), 0);
	cr_assert_eq(lend_mem_open(caller.ep, "", &caller.mem), 0);
	cr_assert_eq(lend_args_place(caller.mem, LEND_ARG_CALLER), 0);
	cr_assert_eq(lend_connect(caller.ep, reader.address, &first), 0);
	data = malloc(MOST);
	fill(100000);
	cr_assert_eq(lend_call_start_args(caller.mem, first, &call, &arg, 1), 0);
	while (!begun)
		turn();
	cr_assert(seen.bytes);
	lend_args_stat_get(caller.mem, &stat);
	cr_assert_eq(stat.lent, 0);
	cr_assert_eq(lend_ref_counts.by_value, before + 1);
	finish(LEND_OK);
	if (call.request)
		lend_buf_give(caller.ep, call.request);
	close_side(&reader);
	close_side(&caller);
	free(data);
}
