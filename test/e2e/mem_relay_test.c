/* Goal: a callee that cannot reach the lender of an argument reads it through its caller, and only
 * what that passed on. Method: three endpoints of one thread. The first lends over shm, the second
 * is on shm and udp and passes the reference on, the third is on udp only. The bytes are compared;
 * the call is cut after every number of turns; a reference that was not passed on is refused.
 * Covers: cn/lent/relay.c, cn/lent/caller.c, cn/lent/arg_read.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lend/mem.h"
#include "sys/ref_counts.h"

enum { METHOD = 5, MOST = 5 << 20 };
#define SECOND UINT64_C(1000000000)

struct side {
	struct lend_ep *ep;
	struct lend_mem *mem;
	lend_session next;
};
static struct side first, second, third;
static struct lend_call passed; /* from the second to the third */
static lend_request kept, inner;
static struct lend_arg seen; /* what the third got */
static struct lend_op op;
static int ends, reads;
static unsigned char *data, *into;

static void run_turn(void)
{
	struct side *all[] = {&first, &second, &third};

	for (int i = 0; i < 3; i++)
		if (all[i]->ep)
			(void)lend_poll(all[i]->ep);
}

static void answer_kept(struct lend_call *call)
{
	enum lend_status status = call->status;

	if (call->reply)
		lend_buf_give(second.ep, call->reply);
	call->reply = NULL;
	(void)lend_reply(second.ep, kept, status, NULL);
}

static void pass_on(lend_request request, const struct lend_arg *args, int n, void *arg)
{
	struct lend_argument same = {.ref = &args[0].ref, .home = args[0].home};

	(void)arg;
	cr_assert_eq(n, 1);
	kept = request;
	passed = (struct lend_call){.method = METHOD, .parent = request, .done = answer_kept};
	cr_assert_eq(lend_call_start_argv(second.mem, second.next, &passed, &same, 1), 0);
}

static void keep_request(lend_request request, const struct lend_arg *args, int n, void *arg)
{
	(void)arg;
	cr_assert_eq(n, 1);
	cr_assert_null(args[0].bytes);
	inner = request;
	seen = args[0];
}

static void open_side(struct side *s, const char *listen, lend_args_handler_fn *serve)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.listen = listen;
	cr_assert_eq(lend_open(&config, &s->ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(s->ep, NULL, &s->mem), 0);
	if (serve)
		cr_assert_eq(lend_serve_args(s->mem, METHOD, serve, NULL, LEND_ARGS_PART), 0);
}

static void dial_peer(struct side *from, const char *to)
{
	cr_assert_eq(lend_connect(from->ep, to, &from->next), 0, "%s", lend_why());
	while (lend_session_message_max(from->ep, from->next) == UINT64_C(1) << 30)
		run_turn();
	for (int i = 0; i < 2000; i++)
		run_turn();
}

static unsigned char byte_at(uint32_t i)
{
	return (unsigned char)(i * 2654435761u >> 13);
}

/* Returns whether bytes are those from this offset on. */
static bool is_right(const unsigned char *bytes, uint64_t offset, uint64_t len)
{
	uint64_t i = 0;

	while (i < len && bytes[i] == byte_at((uint32_t)(offset + i)))
		i++;
	return i == len;
}

static void open_all(void)
{
	char list[200], name[64], to[104];

	(void)snprintf(name, sizeof(name), "shm:relay-a%d", (int)getpid());
	open_side(&first, name, NULL);
	(void)snprintf(list, sizeof(list), "shm:relay-b%d,udp:127.0.0.1:0", (int)getpid());
	open_side(&second, list, pass_on);
	open_side(&third, "udp:127.0.0.1:0", keep_request);
	cr_assert_eq(lend_address(third.ep, to, sizeof(to)), 0);
	dial_peer(&second, to);
	(void)snprintf(name, sizeof(name), "shm:relay-b%d", (int)getpid());
	dial_peer(&first, name);
	data = malloc(MOST);
	into = malloc(MOST);
	for (uint32_t i = 0; i < MOST; i++)
		data[i] = byte_at(i);
}

static void close_side(struct side *s)
{
	lend_mem_close(s->mem);
	lend_close(s->ep);
	*s = (struct side){NULL};
}

static void close_all(void)
{
	close_side(&first);
	close_side(&second);
	close_side(&third);
	free(data);
	free(into);
}

static void call_done(struct lend_call *call)
{
	if (call->reply)
		lend_buf_give(first.ep, call->reply);
	memset(data, 0xee, call->status ? MOST : 0); /* it is the caller's again */
	ends++;
}

/* Starts a call that lends len bytes; returns when the third has its request. */
static void begin_call(struct lend_call *call, uint64_t len)
{
	struct iovec iov = {data, len};
	struct lend_argument arg = {.data = &iov, .n = 1, .way = LEND_ARG_CALLER};

	*call = (struct lend_call){.method = METHOD, .done = call_done};
	inner.id = 0;
	ends = 0;
	cr_assert_eq(lend_call_start_argv(first.mem, first.next, call, &arg, 1), 0);
	while (!inner.id)
		run_turn();
	cr_assert_eq(memcmp(seen.home, "shm:", 4), 0);
}

static void finish_call(void)
{
	(void)lend_reply(third.ep, inner, LEND_OK, NULL);
	while (!ends)
		run_turn();
}

static void read_done(struct lend_op *o)
{
	(void)o;
	reads++;
}

static int start_get(uint64_t offset, uint64_t len)
{
	struct iovec iov = {into, len};

	memset(into, 0, len);
	op = (struct lend_op){.parent = inner, .done = read_done};
	reads = 0;
	return lend_arg_get(third.mem, &seen, offset, &iov, 1, &op);
}

static enum lend_status get_bytes(uint64_t offset, uint64_t len)
{
	int rc = start_get(offset, len);

	cr_assert_eq(rc, 0, "%s", lend_why());
	while (!reads)
		run_turn();
	return op.status;
}

Test(mem_relay, reads_through_its_caller)
{
	static const uint64_t lens[] = {20000, 100000, MOST};
	struct lend_arg_view view;
	struct lend_call call;

	open_all();
	for (int i = 0; i < 3; i++) {
		uint64_t relayed = lend_ref_counts.relayed;

		begin_call(&call, lens[i]);
		cr_assert_eq(get_bytes(0, lens[i]), LEND_OK);
		cr_assert(is_right(into, 0, lens[i]));
		cr_assert_eq(get_bytes(1000, 5000), LEND_OK);
		cr_assert(is_right(into, 1000, 5000));
		cr_assert_eq(lend_ref_counts.relayed - relayed, lens[i] + 5000);
		cr_assert_eq(get_bytes(lens[i] - 10, 11), LEND_OUT_OF_RANGE);
		op = (struct lend_op){.parent = inner, .done = read_done};
		reads = 0;
		cr_assert_eq(lend_arg_map(third.mem, &seen, &view, &op), 0);
		while (!reads)
			run_turn();
		cr_assert_eq(op.status, LEND_OK);
		cr_assert(is_right(view.bytes, 0, lens[i]));
		lend_arg_unmap(third.mem, &view);
		finish_call();
	}
	close_all();
}

Test(mem_relay, only_what_was_passed_on)
{
	struct lend_call call;
	struct lend_arg was;

	open_all();
	begin_call(&call, 50000);
	was = seen;
	finish_call();
	begin_call(&call, 50000);
	seen = was; /* its call has ended */
	cr_assert_eq(get_bytes(0, 100), LEND_NOT_FOUND);
	finish_call();
	begin_call(&call, 50000);
	((uint8_t *)&seen.ref)[63] ^= 1; /* in the token */
	cr_assert_eq(get_bytes(0, 100), LEND_PERMISSION_DENIED);
	finish_call();
	close_all();
}

/* The call is cancelled, or the lender ends, after every number of turns: all bytes, or none. */
static void cut_call(bool lender_ends)
{
	struct lend_call call;

	for (int turns = 0; turns < 60; turns += 1 + turns / 8) {
		open_all();
		begin_call(&call, 300000);
		cr_assert_eq(start_get(0, 300000), 0);
		for (int i = 0; i < turns; i++)
			run_turn();
		if (lender_ends)
			close_side(&first);
		else
			lend_call_cancel_args(first.mem, &call);
		while (!reads || !ends)
			run_turn();
		if (op.status == LEND_OK)
			cr_assert(is_right(into, 0, 300000));
		(void)lend_reply(third.ep, inner, LEND_OK, NULL);
		close_all();
	}
}

Test(mem_relay, cancelled)
{
	cut_call(false);
}

Test(mem_relay, lender_ends)
{
	cut_call(true);
}
