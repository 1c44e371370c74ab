/* Goal: the caller reads results where the server lends them, until it releases them; and the
 * server has its memory back at the end of each, whatever the caller does. Method: server and
 * caller in one thread, over shm and UDP; a killed server in a process of its own. Covers:
 * cn/args/args.c, cn/args/args_plan.c, cn/lent/arg_read.c, cn/lent/lender.c, cn/lent/loan.c,
 * src/rpc/alarm.c, src/wire/memop.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "e2e/lent_pair.h"
#include "e2e/mem_node.h"
#include "wire/memop.h"

enum { LEN = 3 << 20, RESULTS = 2 };

static struct lend_loan loan[RESULTS];
static struct lend_arg result[RESULTS];
static struct lend_call call;
static int released;

static void on_release(void *of)
{
	(void)of;
	released++;
	for (int i = 0; i < RESULTS; i++) { /* the next use of the memory */
		memset(loan[i].data, 0xee, LEN);
		lend_loan_give(lent.reader_mem, &loan[i]);
	}
}

static void on_reply(struct lend_call *of)
{
	uint32_t cursor = 0;

	cr_assert_eq(of->status, LEND_OK);
	for (int i = 0; i < RESULTS; i++) {
		cr_assert_eq(lend_arg_next(of->reply, &cursor, &result[i]), 1);
		cr_assert_null(result[i].bytes);
		cr_assert(result[i].home[0]);
		result[i].session = lent.session;
	}
	lend_buf_give(lent.caller, of->reply);
	lent.ended++;
}

/* Makes a call whose reply has two loans. */
static void call_for_results(void)
{
	struct iovec iov[RESULTS];
	struct lend_argument arg[RESULTS];
	int ended = lent.ended, begun = lent.begun;
	struct iovec given = {&ended, sizeof(ended)};

	released = 0;
	call = (struct lend_call){.method = LENT_KEEP, .done = on_reply, .timeout = 60 * SECOND};
	cr_assert_eq(lend_call_start_args(lent.caller_mem, lent.session, &call, &given, 1), 0);
	while (lent.begun == begun)
		lent_turn();
	for (int i = 0; i < RESULTS; i++) {
		cr_assert_eq(lend_loan_take(lent.reader_mem, LEN, &loan[i]), 0);
		lent_fill(loan[i].data, LEN, 5 + (unsigned)i);
		iov[i] = (struct iovec){loan[i].data, LEN};
		arg[i] = (struct lend_argument){.data = &iov[i], .n = 1, .way = LEND_ARG_CALLER};
	}
	cr_assert_eq(
	    lend_reply_argv(lent.reader_mem, lent.request, LEND_OK, arg, RESULTS, on_release, NULL),
	    0, "%s", lend_why());
	while (lent.ended == ended)
		lent_turn();
}

static void on_done(struct lend_op *op)
{
	(void)op;
	lent.read_ops++;
}

static int ops_before;

static struct lend_op new_op(void)
{
	ops_before = lent.read_ops;
	return (struct lend_op){.done = on_done};
}

/* Waits for the end of the operation, which was started with result rc. */
static enum lend_status finish_op(const struct lend_op *op, int rc)
{
	cr_assert_eq(rc, 0, "%s", lend_why());
	while (lent.read_ops == ops_before)
		lent_turn();
	return op->status;
}

static enum lend_status map_result(int i, struct lend_arg_view *view)
{
	struct lend_op op = new_op();

	return finish_op(&op, lend_arg_map(lent.caller_mem, &result[i], view, &op));
}

static enum lend_status get_result(int i, void *into, uint64_t len)
{
	struct iovec iov = {into, len};
	struct lend_op op = new_op();

	return finish_op(&op, lend_arg_get(lent.caller_mem, &result[i], 0, &iov, 1, &op));
}

static enum lend_status release_result(int i)
{
	struct lend_op op = new_op();

	return finish_op(&op, lend_arg_release(lent.caller_mem, &result[i], &op));
}

static void read_results(const char *carrier)
{
	static uint8_t bytes[LEN];
	struct lend_arg_view view;

	lent_open(carrier);
	call_for_results();
	for (int i = 0; i < RESULTS; i++) {
		cr_assert_eq(map_result(i, &view), LEND_OK);
		cr_assert(lent_is_filled(view.bytes, LEN, 5 + (unsigned)i));
		/* In place: a later store is seen. */
		((uint8_t *)loan[i].data)[99]++;
		cr_assert_eq(((const uint8_t *)view.bytes)[99] == ((uint8_t *)loan[i].data)[99],
			     !strcmp(carrier, "shm"));
		((uint8_t *)loan[i].data)[99]--;
		cr_assert_eq(lend_arg_intact(&view), 0);
		lend_arg_unmap(lent.caller_mem, &view);
		cr_assert_eq(get_result(i, bytes, LEN), LEND_OK);
		cr_assert(lent_is_filled(bytes, LEN, 5 + (unsigned)i));
	}
	cr_assert_eq(map_result(1, &view), LEND_OK);
	cr_assert_eq(release_result(0), LEND_OK);
	cr_assert_eq(release_result(0), LEND_NOT_FOUND);
	cr_assert_eq(get_result(0, bytes, 1), LEND_NOT_FOUND);
	cr_assert_eq(released, 0, "one of them is still lent");
	cr_assert_eq(release_result(1), LEND_OK);
	while (!released)
		lent_turn();
	cr_assert_eq(lend_arg_intact(&view), strcmp(carrier, "shm") ? 0 : -ESTALE);
	lend_arg_unmap(lent.caller_mem, &view);
	cr_assert_eq(get_result(1, bytes, 1), LEND_NOT_FOUND);
	cr_assert_eq(released, 1);
	lent_close();
}

Test(mem_result, read_and_released__over_shm)
{
	read_results("shm");
}

Test(mem_result, read_and_released__over_udp)
{
	read_results("udp");
}

static void time_passes(const char *carrier)
{
	uint8_t byte;
	lend_ns begun;

	lent_open(carrier);
	lend_loan_ttl_set(lent.reader_mem, SECOND / 20);
	begun = lend_now(lent.caller);
	call_for_results();
	while (!released)
		lent_turn();
	cr_assert_geq(lend_now(lent.caller) - begun, SECOND / 20);
	cr_assert_eq(get_result(0, &byte, 1), LEND_NOT_FOUND);
	cr_assert_eq(release_result(0), LEND_NOT_FOUND);
	lent_close();
}

Test(mem_result, ttl_has_passed__server_has_its_memory_back_shm)
{
	time_passes("shm");
}

Test(mem_result, ttl_has_passed__server_has_its_memory_back_udp)
{
	time_passes("udp");
}

/* The caller ends without a release: the server looks at its session. */
Test(mem_result, caller_is_gone__server_has_its_memory_back)
{
	lent_open("shm");
	call_for_results();
	lend_mem_close(lent.caller_mem);
	lend_close(lent.caller);
	lent.caller = NULL;
	while (!released)
		cr_assert_geq(lend_wait(lent.reader, lend_now(lent.reader) + SECOND), 0);
	lend_mem_close(lent.reader_mem);
	lend_close(lent.reader);
}

static void server_closes(const char *carrier)
{
	struct lend_op op = new_op();
	struct lend_arg_view view;
	enum lend_status status;
	uint8_t byte;

	lent_open(carrier);
	call_for_results();
	cr_assert_eq(map_result(0, &view), LEND_OK);
	lend_mem_close(lent.reader_mem);
	cr_assert_eq(released, 1);
	cr_assert_eq(lend_arg_intact(&view), strcmp(carrier, "shm") ? 0 : -ESTALE);
	lend_arg_unmap(lent.caller_mem, &view);
	status = get_result(0, &byte, 1);
	cr_assert(status == LEND_NOT_FOUND || status == LEND_UNIMPLEMENTED, "%d", status);
	lend_close(lent.reader);
	lent.reader = NULL;
	while (lend_session_message_max(lent.caller, lent.session))
		lent_turn();
	cr_assert_eq(get_result(0, &byte, 1), LEND_UNAVAILABLE);
	cr_assert_eq(release_result(0), LEND_UNAVAILABLE);
	cr_assert_eq(
	    lend_arg_release(lent.caller_mem, &(struct lend_arg){.bytes = "", .len = 0}, &op), 0);
	cr_assert_eq(op.status, LEND_OK);
	lend_mem_close(lent.caller_mem);
	lend_close(lent.caller);
}

Test(mem_result, server_closes__typed_status_shm)
{
	server_closes("shm");
}

Test(mem_result, server_closes__typed_status_udp)
{
	server_closes("udp");
}

/* An argument of a call is no result: its reader cannot end it. */
Test(mem_result, argument_of_a_call__cannot_be_released)
{
	static uint8_t bytes[100000], seen[100000];
	struct lend_op op = new_op();

	lent_open("shm");
	lent_fill(bytes, sizeof(bytes), 3);
	lent_begin(&call, bytes, sizeof(bytes));
	op.parent = lent.request;
	cr_assert_eq(finish_op(&op, lend_arg_release(lent.reader_mem, &lent.seen, &op)),
		     LEND_FAILED_PRECONDITION);
	cr_assert_eq(lent_get(seen, sizeof(seen)), LEND_OK);
	cr_assert_arr_eq(bytes, seen, sizeof(bytes));
	lent_finish();
	lent_close();
}

/* A release that also asks for bytes would read what it frees. One by a slice ends nothing. */
Test(mem_result, release_with_bytes_or_of_a_slice__is_refused)
{
	struct lend_memop say = {.kind = LEND_MEMOP_GET, .flags = LEND_MEMOP_END, .len = 1};
	struct lend_call end = {.method = 0x4c454e41u};
	struct lend_buf *buf;
	struct lend_arg whole;

	lent_open("shm");
	call_for_results();
	say.ref_bytes = (const uint8_t *)&result[0].ref;
	buf = lend_buf_take(lent.caller, LEND_MEMOP_FIXED_MAX);
	cr_assert_not_null(buf);
	buf->len = lend_memop_encode(&say, buf->data);
	end.request = buf;
	cr_assert_eq(lend_call_start(lent.caller, lent.session, &end), 0);
	while (end.status == LEND_UNKNOWN)
		lent_turn();
	cr_assert_eq(end.status, LEND_INVALID_ARGUMENT);
	lend_buf_give(lent.caller, end.request);
	lend_buf_give(lent.caller, end.reply);
	whole = result[0];
	cr_assert_eq(lend_ref_slice(&whole.ref, 1, 10, LEND_READ, &result[0].ref), 0);
	cr_assert_eq(release_result(0), LEND_FAILED_PRECONDITION);
	result[0] = whole;
	cr_assert_eq(release_result(0), LEND_OK);
	cr_assert_eq(release_result(1), LEND_OK);
	while (!released)
		lent_turn();
	lent_close();
}

static void publish_for_a_while(const char *carrier)
{
	static uint8_t bytes[100000], seen[100000];
	struct lend_arg_view view;
	struct lend_arg arg;

	lent_open(carrier);
	lend_loan_ttl_set(lent.reader_mem, SECOND / 20);
	cr_assert_eq(lend_loan_take(lent.reader_mem, sizeof(bytes), loan), 0);
	lent_fill(loan->data, sizeof(bytes), 3);
	lent_begin(&call, bytes, sizeof(bytes));
	cr_assert_eq(lend_loan_publish(lent.reader_mem, loan,
				       lend_request_session(lent.reader, lent.request), &arg),
		     0, "%s", lend_why());
	result[0] = arg;
	result[0].session = lent.session;
	cr_assert_eq(map_result(0, &view), LEND_OK);
	while (get_result(0, seen, sizeof(seen)) == LEND_OK) {
		cr_assert(lent_is_filled(seen, sizeof(seen), 3));
		lent_turn(); /* a read in place needs none, but the ttl does */
	}
	cr_assert_eq(get_result(0, seen, 1), LEND_ABORTED);
	/* The memory is the producer's until it gives it back. */
	cr_assert_eq(lend_arg_intact(&view), 0);
	cr_assert(lent_is_filled(view.bytes, sizeof(seen), 3));
	cr_assert_eq(release_result(0), LEND_ABORTED);
	lend_loan_give(lent.reader_mem, loan);
	cr_assert_eq(get_result(0, seen, 1), LEND_NOT_FOUND);
	lend_arg_unmap(lent.caller_mem, &view);
	lent_finish();
	lent_close();
}

Test(mem_result, published_loan_has_a_ttl__ends_aborted_shm)
{
	publish_for_a_while("shm");
}

Test(mem_result, published_loan_has_a_ttl__ends_aborted_udp)
{
	publish_for_a_while("udp");
}

static struct lend_ep *server_ep;
static struct lend_mem *server_mem;

static void answer_loan(lend_request request, const struct lend_buf *in, void *unused)
{
	struct iovec iov = {NULL, LEN};
	struct lend_argument arg = {.data = &iov, .n = 1, .way = LEND_ARG_CALLER};
	struct lend_loan filled;

	(void)in;
	(void)unused;
	if (lend_loan_take(server_mem, LEN, &filled) < 0)
		_exit(1);
	lent_fill(filled.data, LEN, 5);
	iov.iov_base = filled.data;
	if (lend_reply_argv(server_mem, request, LEND_OK, &arg, 1, NULL, NULL) < 0)
		_exit(1);
}

/* A server in a process of its own. Writes its address to fd. */
static void run_server(const char *listen, int fd)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char address[104] = "";

	config.listen = listen;
	if (lend_open(&config, &server_ep) < 0 || lend_mem_open(server_ep, "", &server_mem) < 0 ||
	    lend_serve(server_ep, LENT_KEEP, answer_loan, NULL, 0) < 0 ||
	    lend_address(server_ep, address, sizeof(address)) < 0 ||
	    write(fd, address, sizeof(address)) < 0)
		_exit(1);
	(void)lend_run(server_ep, LEND_NEVER);
	_exit(0);
}

static void on_loan(struct lend_call *of)
{
	uint32_t cursor = 0;

	cr_assert_eq(of->status, LEND_OK);
	cr_assert_eq(lend_arg_next(of->reply, &cursor, &result[0]), 1);
	result[0].session = lent.session;
	lend_buf_give(lent.caller, of->reply);
	lent.ended++;
}

/* Reads of a killed server's result are right or have a status of their own. */
static void server_is_killed(const char *carrier)
{
	static uint8_t bytes[LEN];
	char listen[64] = "udp:127.0.0.1:0", address[104];
	struct lend_arg_view view;
	enum lend_status status;
	int fds[2], begun;
	pid_t pid;

	if (!strcmp(carrier, "shm"))
		snprintf(listen, sizeof(listen), "shm:kill%d", (int)getpid());
	cr_assert_eq(pipe(fds), 0);
	pid = mem_fork();
	if (!pid)
		run_server(listen, fds[1]);
	cr_assert_eq(read(fds[0], address, sizeof(address)), (ssize_t)sizeof(address));
	lent_open_caller(carrier, address);
	call = (struct lend_call){.method = LENT_KEEP, .done = on_loan, .timeout = 60 * SECOND};
	begun = lent.ended;
	cr_assert_eq(lend_call_start(lent.caller, lent.session, &call), 0);
	while (lent.ended == begun)
		lent_turn();
	cr_assert_eq(map_result(0, &view), LEND_OK);
	mem_child_kill(pid);
	do {
		status = get_result(0, bytes, LEN);
		cr_assert(status == LEND_OK || status == LEND_UNAVAILABLE ||
			      status == LEND_NOT_FOUND || status == LEND_DEADLINE_EXCEEDED,
			  "%d", status);
		cr_assert(status != LEND_OK || lent_is_filled(bytes, LEN, 5));
		lent_turn();
	} while (lend_session_message_max(lent.caller, lent.session));
	cr_assert_eq(get_result(0, bytes, LEN), LEND_UNAVAILABLE);
	cr_assert_eq(lend_arg_intact(&view), 0);
	cr_assert(lent_is_filled(view.bytes, LEN, 5), "the mapping outlives the process");
	lend_arg_unmap(lent.caller_mem, &view);
	lend_mem_close(lent.caller_mem);
	lend_close(lent.caller);
}

Test(mem_result, server_killed__right_bytes_or_status_shm)
{
	server_is_killed("shm");
}

Test(mem_result, server_killed__right_bytes_or_status_udp)
{
	server_is_killed("udp");
}
