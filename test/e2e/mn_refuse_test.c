/* Goal: a node that has begun to end refuses each operation at once; none waits for a round of the
 * fair queue, because no round comes any more. A HELLO never waits for one. Method: node and client
 * in one thread; a long put leaves its process without credit, and no round follows. Covers:
 * mn/node_server.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "cn/client.h"
#include "lend/mem.h"
#include "mn/node_server.h"
#include "sys/mapped_memory.h"

#define SECOND UINT64_C(1000000000)
enum { LEN = 4 << 20, SIZE = 16 << 20 };

/* Static: both ends stay open until the process ends. */
static struct lend_ep *node_ep, *ep;
static struct lend_mem *mem;
static struct mn_serve *serve;
static char bytes[LEN];
static bool ended;

static void mark_ended(struct lend_op *op)
{
	(void)op;
	ended = true;
}

static void open_node(const char *address)
{
	static struct lend_mapping arena, pages;
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_store_config c;
	struct lend_store *store;

	config.listen = address;
	cr_assert_eq(lend_open(&config, &node_ep), 0, "%s", lend_why());
	lend_store_config_default(&c, SIZE, LEND_MEM_PAGE);
	c.node = c.epoch = 1;
	cr_assert_eq(lend_mapping_map(&arena, lend_store_size(&c)), 0);
	cr_assert_eq(lend_mapping_map(&pages, lend_store_pages_size(&c)), 0);
	store = lend_store_init(arena.base, &c, pages.base, lend_now(node_ep));
	cr_assert_eq(mn_serve_open(node_ep, store, &serve), 0, "%s", lend_why());
}

/* Puts len bytes; rounds: with rounds of the fair queue while the put is under way. */
static enum lend_status put_bytes(size_t len, bool rounds)
{
	static const struct lend_terms owned = {sizeof(owned), LEND_OWNED, 0, 0, 0};
	struct lend_op op = {.timeout = 5 * SECOND, .done = mark_ended};
	struct iovec iov = {bytes, len};

	ended = false;
	cr_assert_eq(lend_put(mem, &iov, 1, &owned, &op), 0, "%s", lend_why());
	while (!ended) {
		cr_assert_geq(lend_poll(node_ep), 0);
		cr_assert_geq(lend_poll(ep), 0);
		if (rounds && !ended)
			mn_serve_turn(serve);
	}
	return op.status;
}

/* Opens both ends, and leaves the client's process without credit. */
static void make_debt(void)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char address[64];

	(void)snprintf(address, sizeof(address), "shm:refuse.%d", (int)getpid());
	open_node(address);
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(ep, address, &mem), 0, "%s", lend_why());
	cr_assert_eq(put_bytes(LEN, true), LEND_OK);
	cr_assert(!mn_serve_waits(serve));
}

static bool answered;

static void mark_answered(struct lend_call *call)
{
	(void)call;
	answered = true;
}

/* A HELLO can close its own flow, in which it must not wait then. */
Test(mn_refuse, hello_of_a_process_in_debt__is_answered_without_a_round)
{
	static struct lend_call hello = {.method = LEND_MEM_METHOD, .done = mark_answered};
	struct lend_op op = {.timeout = 5 * SECOND, .done = mark_ended};
	struct lend_memop what = {.kind = LEND_MEMOP_HELLO, .client = 77};
	struct iovec iov = {bytes, 100};

	make_debt();
	ended = false;
	cr_assert_eq(lend_put(mem, &iov, 1, NULL, &op), 0, "%s", lend_why());
	hello.request = cn_op_encode(mem, &what);
	cr_assert_not_null(hello.request);
	cr_assert_eq(lend_call_start(ep, mem->node[0]->session, &hello), 0, "%s", lend_why());
	for (lend_ns end = lend_now(ep) + 5 * SECOND; !answered && lend_now(ep) < end;) {
		cr_assert_geq(lend_poll(node_ep), 0);
		cr_assert_geq(lend_poll(ep), 0);
	}
	cr_assert(answered);
	cr_assert_eq(hello.status, LEND_OK, "%d", (int)hello.status);
	cr_assert(!ended && mn_serve_waits(serve), "the put has to wait for a round");
	while (!ended) {
		mn_serve_turn(serve);
		cr_assert_geq(lend_poll(node_ep), 0);
		cr_assert_geq(lend_poll(ep), 0);
	}
	cr_assert_eq(op.status, LEND_OK);
}

Test(mn_refuse, operation_of_a_process_in_debt__unavailable)
{
	make_debt();
	mn_serve_refuse(serve);
	cr_expect_eq(put_bytes(100, false), LEND_UNAVAILABLE);
}
