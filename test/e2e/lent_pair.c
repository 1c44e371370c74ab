#include "e2e/lent_pair.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct lent_pair lent;

static struct lend_ep *lent_open_side(const char *listen, struct lend_mem **mem)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;

	config.listen = listen;
	config.probe = SECOND / 50;
	config.dead = SECOND / 2;
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(ep, "", mem), 0);
	return ep;
}

void lent_turn(void)
{
	cr_assert(!lent.caller || lend_poll(lent.caller) >= 0);
	cr_assert(!lent.reader || lend_poll(lent.reader) >= 0);
}

static void on_keep(lend_request of, const struct lend_buf *bytes, void *unused)
{
	uint32_t cursor = 0;

	(void)unused;
	lent.request = of;
	cr_assert_eq(lend_arg_next(bytes, &cursor, &lent.seen), 1, "%s", lend_why());
	lent.begun++;
}

void lent_open_reader(const char *carrier)
{
	char listen[64] = "udp:127.0.0.1:0";

	if (!strcmp(carrier, "shm"))
		snprintf(listen, sizeof(listen), "shm:view%d.r", (int)getpid());
	lent.reader = lent_open_side(listen, &lent.reader_mem);
	cr_assert_eq(lend_serve(lent.reader, LENT_KEEP, on_keep, NULL, 0), 0);
}

void lent_open_caller(const char *carrier, const char *to)
{
	char listen[64] = "udp:127.0.0.1:0";
	uint8_t context[32];

	if (!strcmp(carrier, "shm"))
		snprintf(listen, sizeof(listen), "shm:view%d.c", (int)getpid());
	lent.caller = lent_open_side(listen, &lent.caller_mem);
	cr_assert_eq(lend_connect(lent.caller, to, &lent.session), 0);
	cr_assert_eq(lend_args_place(lent.caller_mem, LEND_ARG_CALLER), 0);
	while (lend_session_context(lent.caller, lent.session, context) < 0)
		lent_turn();
}

void lent_open(const char *carrier)
{
	char address[104];

	lent_open_reader(carrier);
	cr_assert_eq(lend_address(lent.reader, address, sizeof(address)), 0);
	lent_open_caller(carrier, address);
}

void lent_close(void)
{
	lend_mem_close(lent.reader_mem);
	lend_close(lent.reader);
	lend_mem_close(lent.caller_mem);
	lend_close(lent.caller);
}

void lent_fill(void *bytes, uint64_t len, unsigned seed)
{
	for (uint64_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(i * seed + i / 253);
}

bool lent_is_filled(const void *bytes, uint64_t len, unsigned seed)
{
	for (uint64_t i = 0; i < len; i++)
		if (((const uint8_t *)bytes)[i] != (uint8_t)(i * seed + i / 253))
			return false;
	return true;
}

static void on_ended(struct lend_call *call)
{
	if (call->reply)
		lend_buf_give(lent.caller, call->reply);
	lent.ended++;
}

/* Starts a call that lends memory; returns when the reader has its request. */
void lent_begin(struct lend_call *call, void *memory, uint64_t len)
{
	struct iovec arg = {memory, len};
	int before = lent.begun;

	*call = (struct lend_call){.method = LENT_KEEP, .done = on_ended, .timeout = 60 * SECOND};
	cr_assert_eq(lend_call_start_args(lent.caller_mem, lent.session, call, &arg, 1), 0, "%s",
		     lend_why());
	while (lent.begun == before)
		lent_turn();
	cr_assert_null(lent.seen.bytes);
}

void lent_finish(void)
{
	int before = lent.ended;

	lend_reply(lent.reader, lent.request, LEND_OK, NULL);
	while (lent.ended == before)
		lent_turn();
}

static void on_read(struct lend_op *op)
{
	(void)op;
	lent.read_ops++;
}

enum lend_status lent_map(struct lend_arg_view *view)
{
	struct lend_op op = {.parent = lent.request, .done = on_read};
	int before = lent.read_ops;

	cr_assert_eq(lend_arg_map(lent.reader_mem, &lent.seen, view, &op), 0, "%s", lend_why());
	while (lent.read_ops == before)
		lent_turn();
	return op.status;
}

enum lend_status lent_get(void *into, uint64_t len)
{
	struct iovec iov = {into, len};
	struct lend_op op = {.parent = lent.request, .done = on_read};
	int before = lent.read_ops;

	cr_assert_eq(lend_arg_get(lent.reader_mem, &lent.seen, 0, &iov, 1, &op), 0, "%s",
		     lend_why());
	while (lent.read_ops == before)
		lent_turn();
	return op.status;
}
