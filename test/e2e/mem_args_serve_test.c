/* Goal: a handler of lend_serve_args() runs when its arguments are there, whatever way they came,
 * and never without them; references are passed on without their bytes. Method: caller, middle and
 * reader in one thread, without a node, over shm and udp; each way and flag, gathered arguments,
 * slices, references without their request, callers that end before the fetch.
 * Covers: cn/args/args_serve.c, cn/args/args_plan.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lend/mem.h"
#include "lend/stats.h"

#define SECOND UINT64_C(1000000000)
enum { READ = 1, PASS, LEN = 300000, ARGS = 3 };

struct side {
	struct lend_ep *ep;
	struct lend_mem *mem;
	char address[104];
};
static struct side caller, middle, reader;
static lend_session first, direct, second;
static unsigned char data[LEN];
static int runs, ends, pass_rc;
static bool drop_parent, narrow;
static uint64_t sum_of[ARGS];
static unsigned flags_of;
static struct lend_op part_op;

static uint64_t sum_bytes(const void *bytes, uint64_t len)
{
	uint64_t sum = len;

	for (uint64_t i = 0; i < len; i++)
		sum = sum * 31 + ((const unsigned char *)bytes)[i];
	return sum;
}

static void open_side(struct side *side, const char *carrier, const char *name)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char listen[64] = "udp:127.0.0.1:0";

	if (!strcmp(carrier, "shm"))
		snprintf(listen, sizeof(listen), "shm:serve%d.%s", (int)getpid(), name);
	config.listen = listen;
	cr_assert_eq(lend_open(&config, &side->ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(side->ep, "", &side->mem), 0);
	cr_assert_eq(lend_address(side->ep, side->address, sizeof(side->address)), 0);
}

static void turn_all(void)
{
	cr_assert(lend_poll(caller.ep) >= 0);
	cr_assert(lend_poll(middle.ep) >= 0);
	cr_assert(lend_poll(reader.ep) >= 0);
	sched_yield(); /* lets a worker run */
}

static void part_done(struct lend_op *op)
{
	lend_reply(reader.ep, op->parent, op->status, NULL);
}

static void read_args(lend_request request, const struct lend_arg *args, int n, void *unused)
{
	static unsigned char into[LEN];
	struct iovec to = {into, 100};

	(void)unused;
	runs++;
	for (int i = 0; i < n && i < ARGS; i++)
		sum_of[i] = args[i].bytes ? sum_bytes(args[i].bytes, args[i].len) : 0;
	if (!(flags_of & LEND_ARGS_PART)) {
		cr_assert(!n || args[0].bytes);
		cr_assert(!n || !args[0].view || lend_arg_intact(args[0].view) == 0);
		lend_reply(reader.ep, request, LEND_OK, NULL);
		return;
	}
	cr_assert_null(args[0].bytes);
	part_op = (struct lend_op){.parent = request, .done = part_done};
	cr_assert_eq(lend_arg_get(reader.mem, &args[0], 7, &to, 1, &part_op), 0);
}

static void pass_done(struct lend_call *call)
{
	lend_buf_give(middle.ep, call->reply);
	lend_reply(middle.ep, call->parent, call->status, NULL);
	free(call);
}

/* Passes the first argument on by its reference, or a slice of it. */
static void pass_args(lend_request request, const struct lend_arg *args, int n, void *unused)
{
	struct lend_call *call = calloc(1, sizeof(*call));
	struct lend_ref ref = args[0].ref;
	struct lend_argument arg = {.ref = &ref, .home = args[0].home};

	(void)unused, (void)n;
	if (narrow)
		cr_assert_eq(lend_ref_slice(&ref, 1000, 2000, LEND_READ, &ref), 0);
	*call = (struct lend_call){.method = READ, .parent = request, .done = pass_done};
	call->parent.id = drop_parent ? 0 : request.id;
	pass_rc = lend_call_start_argv(middle.mem, second, call, &arg, 1);
	if (pass_rc == 0)
		return;
	free(call);
	lend_reply(middle.ep, request, LEND_FAILED_PRECONDITION, NULL);
}

static void open_all(const char *carrier, unsigned flags)
{
	uint8_t context[32];

	flags_of = flags;
	runs = ends = 0;
	drop_parent = narrow = false;
	open_side(&caller, carrier, "a");
	open_side(&middle, carrier, "b");
	open_side(&reader, carrier, "c");
	cr_assert_eq(lend_serve_args(reader.mem, READ, read_args, NULL, flags), 0, "%s",
		     lend_why());
	cr_assert_eq(lend_serve_args(middle.mem, PASS, pass_args, NULL, LEND_ARGS_PART), 0);
	cr_assert_eq(lend_connect(caller.ep, middle.address, &first), 0);
	cr_assert_eq(lend_connect(caller.ep, reader.address, &direct), 0);
	cr_assert_eq(lend_connect(middle.ep, reader.address, &second), 0);
	while (lend_session_context(caller.ep, first, context) < 0 ||
	       lend_session_context(caller.ep, direct, context) < 0)
		turn_all();
	for (int i = 0; i < LEN; i++)
		data[i] = (unsigned char)(i * 7 + i / 251);
}

static void close_all(void)
{
	struct side *side[] = {&reader, &middle, &caller};

	for (int i = 0; i < 3; i++) {
		lend_mem_close(side[i]->mem);
		lend_close(side[i]->ep);
	}
}

static void on_ended(struct lend_call *call)
{
	if (call->reply)
		lend_buf_give(caller.ep, call->reply);
	if (call->request)
		lend_buf_give(caller.ep, call->request);
	ends++;
}

static void run_call(struct lend_call *call, lend_session session, uint32_t method,
		     const struct lend_argument *arg, int n)
{
	int before = ends;

	*call = (struct lend_call){.method = method, .done = on_ended, .timeout = 10 * SECOND};
	cr_assert_eq(lend_call_start_argv(caller.mem, session, call, arg, n), 0, "%s", lend_why());
	while (ends == before)
		turn_all();
}

/* Three arguments in each way: of several pieces, of one, and empty. */
static void run_ways(const char *carrier, unsigned flags)
{
	static const enum lend_arg_way ways[] = {LEND_ARG_VALUE, LEND_ARG_CALLER, LEND_ARG_AUTO};
	const struct iovec three[3] = {{data, 3}, {data + 3, LEN - 7}, {data + LEN - 4, 4}};
	const struct iovec one = {data + 5, 9000};
	struct lend_call call;

	open_all(carrier, flags);
	for (int i = 0; i < 3; i++) {
		const struct lend_argument arg[ARGS] = {{.data = three, .n = 3, .way = ways[i]},
							{.data = &one, .n = 1, .way = ways[i]},
							{.way = ways[i]}};

		memset(sum_of, 0, sizeof(sum_of));
		run_call(&call, direct, READ, arg, ARGS);
		cr_assert_eq(call.status, LEND_OK, "%d", call.status);
		cr_assert_eq(sum_of[0], sum_bytes(data, LEN));
		cr_assert_eq(sum_of[1], sum_bytes(data + 5, 9000));
		cr_assert_eq(sum_of[2], sum_bytes(data, 0));
		cr_assert_eq(call.hops, 1);
	}
	cr_assert_eq(runs, 3);
	close_all();
}

static const char *const carriers[] = {"shm", "udp"};

Test(mem_args_serve, arguments__each_way__handler_has_bytes)
{
	static const unsigned flags[] = {LEND_ARGS_MAP, LEND_ARGS_COPY, LEND_SLOW,
					 LEND_SLOW | LEND_ARGS_COPY};

	for (int c = 0; c < 2; c++)
		for (int f = 0; f < 4; f++)
			run_ways(carriers[c], flags[f]);
}

Test(mem_args_serve, part__handler_reads_a_range)
{
	const struct iovec all = {data, LEN};
	const struct lend_argument arg = {.data = &all, .n = 1, .way = LEND_ARG_CALLER};
	struct lend_call call;

	for (int c = 0; c < 2; c++) {
		open_all(carriers[c], LEND_ARGS_PART);
		run_call(&call, direct, READ, &arg, 1);
		cr_assert_eq(call.status, LEND_OK);
		close_all();
	}
}

Test(mem_args_serve, reference__passed_on__no_byte_moves)
{
	const struct iovec all = {data, LEN};
	const struct lend_argument arg = {.data = &all, .n = 1, .way = LEND_ARG_CALLER};
	struct lend_stats stats;
	struct lend_call call;

	for (int c = 0; c < 2; c++) {
		open_all(carriers[c], 0);
		run_call(&call, first, PASS, &arg, 1);
		cr_assert_eq(call.status, LEND_OK, "%d", call.status);
		cr_assert_eq(sum_of[0], sum_bytes(data, LEN));
		cr_assert_eq(call.hops, 2);
		narrow = true;
		run_call(&call, first, PASS, &arg, 1);
		cr_assert_eq(call.status, LEND_OK, "%d", call.status);
		cr_assert_eq(sum_of[0], sum_bytes(data + 1000, 2000));
		lend_stats_get(middle.ep, &stats);
		cr_assert_lt(stats.tx_bytes, 20000);
		cr_assert_lt(stats.rx_bytes, 20000);
		close_all();
	}
}

Test(mem_args_serve, reference__without_its_request__einval)
{
	const struct iovec all = {data, LEN};
	const struct lend_argument arg = {.data = &all, .n = 1, .way = LEND_ARG_CALLER};
	struct lend_call call;

	open_all("udp", 0);
	drop_parent = true;
	run_call(&call, first, PASS, &arg, 1);
	cr_assert_eq(pass_rc, -EINVAL);
	cr_assert_eq(call.status, LEND_FAILED_PRECONDITION);
	cr_assert_eq(runs, 0);
	close_all();
}

Test(mem_args_serve, message__without_arguments__not_run)
{
	struct lend_argument arg = {.way = LEND_ARG_CALLER};
	const struct iovec bytes = {(char[80]){0}, 80};
	struct lend_call call;

	for (int c = 0; c < 2; c++) {
		open_all(carriers[c], 0);
		arg = (struct lend_argument){.data = &bytes, .n = 1, .way = LEND_ARG_VALUE};
		/* not arguments */
		call = (struct lend_call){.method = READ, .done = on_ended};
		call.request = lend_buf_take(caller.ep, 64);
		memset(call.request->data, 0xff, call.request->len = 64);
		cr_assert_eq(lend_call_start(caller.ep, direct, &call), 0);
		for (int before = ends; ends == before;)
			turn_all();
		cr_assert_eq(call.status, LEND_INVALID_ARGUMENT);
		cr_assert_eq(call.ran, LEND_RAN_NO);
		cr_assert_eq(runs, 0);
		run_call(&call, direct, READ, &arg, 1);
		cr_assert_eq(runs, 1);
		close_all();
	}
}

/* Sends a reference whose token was changed. */
static void forge_ref(lend_request request, const struct lend_arg *args, int n, void *unused)
{
	struct lend_call *call = calloc(1, sizeof(*call));
	struct lend_ref ref = args[0].ref;
	struct lend_argument arg = {.ref = &ref, .home = args[0].home};

	(void)unused, (void)n;
	ref.word[7] ^= 1;
	*call = (struct lend_call){.method = READ, .parent = request, .done = pass_done};
	cr_assert_eq(lend_call_start_argv(middle.mem, second, call, &arg, 1), 0);
}

Test(mem_args_serve, forged_reference__handler_does_not_run)
{
	const struct iovec all = {data, LEN};
	const struct lend_argument arg = {.data = &all, .n = 1, .way = LEND_ARG_CALLER};
	struct lend_call call;

	for (int c = 0; c < 2; c++) {
		open_all(carriers[c], c ? LEND_SLOW : 0);
		cr_assert_eq(lend_serve_args(middle.mem, PASS, forge_ref, NULL, LEND_ARGS_PART), 0);
		run_call(&call, first, PASS, &arg, 1);
		cr_assert_eq(call.status, LEND_PERMISSION_DENIED, "%d", call.status);
		cr_assert_eq(runs, 0);
		close_all();
	}
}
