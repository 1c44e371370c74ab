#include "e2e/lent_pair.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lent_pair lent;

static lend_session onward; /* of the service to the reader */

static struct lend_ep *lent_open_side(const char *carrier, char side, struct lend_mem **mem)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char listen[64] = "udp:127.0.0.1:0";
	struct lend_ep *ep;

	if (!strcmp(carrier, "shm"))
		snprintf(listen, sizeof(listen), "shm:lent%d.%c", (int)getpid(), side);
	config.listen = listen;
	config.probe = SECOND / 50;
	config.dead = SECOND / 2;
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert(!mem || lend_mem_open(ep, "", mem) == 0);
	return ep;
}

void lent_turn(void)
{
	cr_assert(!lent.caller || lend_poll(lent.caller) >= 0);
	cr_assert(!lent.middle || lend_poll(lent.middle) >= 0);
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
	lent.reader = lent_open_side(carrier, 'r', &lent.reader_mem);
	cr_assert_eq(lend_serve(lent.reader, LENT_KEEP, on_keep, NULL, 0), 0);
	cr_assert_eq(lend_address(lent.reader, lent.address, sizeof(lent.address)), 0);
}

void lent_connect_caller(const char *carrier, const char *to)
{
	lent.caller = lent_open_side(carrier, 'c', &lent.caller_mem);
	cr_assert_eq(lend_connect(lent.caller, to, &lent.session), 0);
	cr_assert_eq(lend_args_place(lent.caller_mem, LEND_ARG_CALLER), 0);
}

void lent_open_caller(const char *carrier, const char *to)
{
	uint8_t context[32];

	lent_connect_caller(carrier, to);
	while (lend_session_context(lent.caller, lent.session, context) < 0)
		lent_turn();
}

void lent_open(const char *carrier)
{
	lent_open_reader(carrier);
	lent_open_caller(carrier, lent.address);
}

static void on_passed(struct lend_call *call)
{
	if (call->request)
		lend_buf_give(lent.middle, call->request);
	lend_reply(lent.middle, call->parent, call->status, call->reply);
	free(call);
}

static void pass_on(lend_request of, const struct lend_buf *bytes, void *unused)
{
	struct lend_call *call = calloc(1, sizeof(*call));

	(void)unused, (void)bytes;
	*call = (struct lend_call){.method = LENT_KEEP,
				   .parent = of,
				   .request = lend_request_take(lent.middle, of),
				   .done = on_passed};
	cr_assert_eq(lend_call_start(lent.middle, onward, call), 0);
}

void lent_open_through(const char *carrier)
{
	char address[104];

	lent_open_reader(carrier);
	lent.middle = lent_open_side(carrier, 'm', NULL);
	cr_assert_eq(lend_serve(lent.middle, LENT_KEEP, pass_on, NULL, 0), 0);
	cr_assert_eq(lend_connect(lent.middle, lent.address, &onward), 0);
	cr_assert_eq(lend_address(lent.middle, address, sizeof(address)), 0);
	lent_open_caller(carrier, address);
}

void lent_close(void)
{
	lend_mem_close(lent.reader_mem);
	lend_close(lent.reader);
	lend_close(lent.middle);
	lend_mem_close(lent.caller_mem);
	lend_close(lent.caller);
}

void lent_fill(void *bytes, uint64_t len, unsigned seed)
{
	for (uint64_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(i * seed + i / 253);
}

bool lent_is_part(const void *bytes, uint64_t offset, uint64_t len, unsigned seed)
{
	for (uint64_t i = offset; i < offset + len; i++)
		if (((const uint8_t *)bytes)[i - offset] != (uint8_t)(i * seed + i / 253))
			return false;
	return true;
}

bool lent_is_filled(const void *bytes, uint64_t len, unsigned seed)
{
	return lent_is_part(bytes, 0, len, seed);
}

static void on_ended(struct lend_call *call)
{
	if (call->reply)
		lend_buf_give(lent.caller, call->reply);
	if (lent.overwrites)
		memset(lent.arg.iov_base, 0xee, lent.arg.iov_len);
	lent.ended++;
}

void lent_start(struct lend_call *call, void *memory, uint64_t len)
{
	lent.arg = (struct iovec){memory, len};
	*call = (struct lend_call){.method = LENT_KEEP, .done = on_ended, .timeout = 60 * SECOND};
	cr_assert_eq(lend_call_start_args(lent.caller_mem, lent.session, call, &lent.arg, 1), 0,
		     "%s", lend_why());
}

void lent_begin(struct lend_call *call, void *memory, uint64_t len)
{
	int before = lent.begun;

	lent_start(call, memory, len);
	while (lent.begun == before) {
		cr_assert_eq(call->status, LEND_UNKNOWN, "%d", call->status);
		lent_turn();
	}
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

int lent_start_get(void *into, uint64_t offset, uint64_t len)
{
	static struct iovec to;

	to = (struct iovec){into, len};
	memset(into, 0, len);
	lent.op = (struct lend_op){.parent = lent.request, .done = on_read};
	return lend_arg_get(lent.reader_mem, &lent.seen, offset, &to, 1, &lent.op);
}

enum lend_status lent_get_at(void *into, uint64_t offset, uint64_t len)
{
	int before = lent.read_ops;

	cr_assert_eq(lent_start_get(into, offset, len), 0, "%s", lend_why());
	while (lent.read_ops == before)
		lent_turn();
	return lent.op.status;
}

enum lend_status lent_get(void *into, uint64_t len)
{
	return lent_get_at(into, 0, len);
}
