/* Goal: an argument that its caller lends is read in place over shared memory, without a message
 * and without a copy, and a view shows that its call has ended; over networks a view has fetched
 * bytes. Method: caller and reader in one thread, memory in and outside of the shared heap; calls
 * end with views open; forged tables; callers that are killed.
 * Covers: cn/lent/arg_read.c, cn/lent/arg_view.c, cn/lent/in_place.c, src/rpc/peer_memory.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lend/alloc.h"
#include "lend/mem.h"
#include "lend/stats.h"

#define SECOND UINT64_C(1000000000)
enum { KEEP = 1, LENT = 0x4c454e41, MOST = 20 << 20 };

static struct lend_ep *caller, *reader;
static struct lend_mem *caller_mem, *reader_mem;
static lend_session session;
static struct lend_arg seen;
static lend_request request;
static struct iovec arg;
static int begun, ended, read_ops;

static struct lend_ep *open_side(const char *listen, struct lend_mem **mem)
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

static void turn_both(void)
{
	cr_assert(!caller || lend_poll(caller) >= 0);
	cr_assert(!reader || lend_poll(reader) >= 0);
}

static void on_keep(lend_request of, const struct lend_buf *bytes, void *unused)
{
	uint32_t cursor = 0;

	(void)unused;
	request = of;
	cr_assert_eq(lend_arg_next(bytes, &cursor, &seen), 1, "%s", lend_why());
	begun++;
}

static void open_reader(const char *carrier)
{
	char listen[64] = "udp:127.0.0.1:0";

	if (!strcmp(carrier, "shm"))
		snprintf(listen, sizeof(listen), "shm:view%d.r", (int)getpid());
	reader = open_side(listen, &reader_mem);
	cr_assert_eq(lend_serve(reader, KEEP, on_keep, NULL, 0), 0);
}

static void open_caller(const char *carrier, const char *to)
{
	char listen[64] = "udp:127.0.0.1:0";
	uint8_t context[32];

	if (!strcmp(carrier, "shm"))
		snprintf(listen, sizeof(listen), "shm:view%d.c", (int)getpid());
	caller = open_side(listen, &caller_mem);
	cr_assert_eq(lend_connect(caller, to, &session), 0);
	cr_assert_eq(lend_args_place(caller_mem, LEND_ARGS_AT_CALLER), 0);
	while (lend_session_context(caller, session, context) < 0)
		turn_both();
}

static void open_both(const char *carrier)
{
	char address[104];

	open_reader(carrier);
	cr_assert_eq(lend_address(reader, address, sizeof(address)), 0);
	open_caller(carrier, address);
}

static void close_both(void)
{
	lend_mem_close(reader_mem);
	lend_close(reader);
	lend_mem_close(caller_mem);
	lend_close(caller);
}

static void fill_bytes(void *bytes, uint64_t len, unsigned seed)
{
	for (uint64_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(i * seed + i / 253);
}

static bool is_filled(const void *bytes, uint64_t len, unsigned seed)
{
	for (uint64_t i = 0; i < len; i++)
		if (((const uint8_t *)bytes)[i] != (uint8_t)(i * seed + i / 253))
			return false;
	return true;
}

static void on_ended(struct lend_call *call)
{
	if (call->reply)
		lend_buf_give(caller, call->reply);
	ended++;
}

/* Starts a call that lends memory; returns when the reader has its request. */
static void begin_call(struct lend_call *call, void *memory, uint64_t len)
{
	int before = begun;

	arg = (struct iovec){memory, len};
	*call = (struct lend_call){.method = KEEP, .done = on_ended, .timeout = 60 * SECOND};
	cr_assert_eq(lend_call_start_args(caller_mem, session, call, &arg, 1), 0, "%s", lend_why());
	while (begun == before)
		turn_both();
	cr_assert_null(seen.bytes);
}

static void finish_call(void)
{
	int before = ended;

	lend_reply(reader, request, LEND_OK, NULL);
	while (ended == before)
		turn_both();
}

static void on_read(struct lend_op *op)
{
	(void)op;
	read_ops++;
}

static enum lend_status map_arg(struct lend_arg_view *view)
{
	struct lend_op op = {.parent = request, .done = on_read};
	int before = read_ops;

	cr_assert_eq(lend_arg_map(reader_mem, &seen, view, &op), 0, "%s", lend_why());
	while (read_ops == before)
		turn_both();
	return op.status;
}

static enum lend_status get_arg(void *into, uint64_t len)
{
	struct iovec iov = {into, len};
	struct lend_op op = {.parent = request, .done = on_read};
	int before = read_ops;

	cr_assert_eq(lend_arg_get(reader_mem, &seen, 0, &iov, 1, &op), 0, "%s", lend_why());
	while (read_ops == before)
		turn_both();
	return op.status;
}

static uint64_t count_datagrams(struct lend_ep *ep)
{
	struct lend_stats stats;

	lend_stats_get(ep, &stats);
	return stats.tx_datagrams;
}

static void view_all(const char *carrier, bool shared)
{
	static const uint64_t len[] = {16385, 1 << 20, MOST};

	open_both(carrier);
	for (unsigned i = 0; i < 9; i++) {
		uint64_t n = len[i % 3];
		uint8_t *memory = shared ? lend_malloc_shared(n) : lend_malloc(n);
		struct lend_arg_view view;
		struct lend_call call;

		cr_assert(memory);
		fill_bytes(memory, n, i + 3);
		begin_call(&call, memory, n);
		cr_assert_eq(map_arg(&view), LEND_OK);
		cr_assert_eq(view.len, n);
		cr_assert(is_filled(view.bytes, n, i + 3), "%lu bytes", (unsigned long)n);
		cr_assert_eq(lend_arg_intact(&view), 0);
		lend_arg_unmap(reader_mem, &view);
		cr_assert_null(view.bytes);
		finish_call();
		lend_free(memory);
	}
	close_both();
}

Test(mem_lent_view, map__over_shm_in_shared_heap__bytes_of_the_call)
{
	view_all("shm", true);
}

Test(mem_lent_view, map__over_shm_other_memory__bytes_of_the_call)
{
	view_all("shm", false);
}

Test(mem_lent_view, map__over_udp__bytes_of_the_call)
{
	view_all("udp", false);
}

/* From the second read on neither side sends anything, and nothing is copied. */
Test(mem_lent_view, map__second_time__no_message_no_copy)
{
	uint8_t *memory = lend_malloc_shared(MOST);
	struct lend_arg_view view;
	struct lend_call call;
	uint64_t before;

	open_both("shm");
	fill_bytes(memory, MOST, 5);
	begin_call(&call, memory, MOST);
	cr_assert_eq(map_arg(&view), LEND_OK);
	lend_arg_unmap(reader_mem, &view);
	before = count_datagrams(reader) + count_datagrams(caller);
	for (int i = 0; i < 100; i++) {
		uint8_t byte;

		cr_assert_eq(map_arg(&view), LEND_OK);
		memory[MOST - 1] = (uint8_t)i; /* the very bytes, against the contract */
		cr_assert_eq(((const uint8_t *)view.bytes)[MOST - 1], (uint8_t)i);
		lend_arg_unmap(reader_mem, &view);
		cr_assert_eq(get_arg(&byte, 1), LEND_OK);
	}
	cr_assert_eq(count_datagrams(reader) + count_datagrams(caller), before);
	finish_call();
	lend_free(memory);
	close_both();
}

/* The call ends with the view open: the view shows it, and can still be read. */
static void ends_with_view(const char *carrier, bool shared, int intact)
{
	uint8_t *memory, byte;
	struct lend_arg_view view, late;
	struct lend_call call, next;
	lend_request first;
	struct lend_arg old;

	open_both(carrier);
	memory = shared ? lend_malloc_shared(MOST) : lend_malloc(MOST);
	fill_bytes(memory, MOST, 5);
	begin_call(&call, memory, MOST);
	cr_assert_eq(map_arg(&view), LEND_OK);
	old = seen;
	first = request;
	finish_call();
	memset(memory, 0xee, MOST);
	cr_assert_eq(lend_arg_intact(&view), intact);
	cr_assert(intact || is_filled(view.bytes, MOST, 5));
	(void)*(volatile const uint8_t *)view.bytes;
	begin_call(&next, memory, MOST);
	cr_assert_neq(request.id, first.id);
	cr_assert_eq(lend_arg_intact(&view), intact);
	seen = old;
	cr_assert_eq(map_arg(&late), LEND_NOT_FOUND);
	cr_assert_null(late.bytes);
	cr_assert_eq(get_arg(&byte, 1), LEND_NOT_FOUND);
	lend_arg_unmap(reader_mem, &view);
	finish_call();
	lend_free(memory);
	close_both();
}

Test(mem_lent_view, call_ends__shared_heap__view_is_not_intact)
{
	ends_with_view("shm", true, -ESTALE);
}

Test(mem_lent_view, call_ends__other_memory__view_is_not_intact)
{
	ends_with_view("shm", false, -ESTALE);
}

Test(mem_lent_view, call_ends__over_udp__view_has_its_own_bytes)
{
	ends_with_view("udp", false, 0);
}

/* Replies that name no table, or one outside of the caller's memory: the bytes come by message. */
static uint64_t table[2];
static uint32_t table_len;

static void on_ask(lend_request of, const struct lend_buf *bytes, void *unused)
{
	struct lend_buf *reply = lend_buf_take(caller, 1 << 20);
	bool asks = ((const uint8_t *)bytes->data)[2];

	(void)unused;
	memset(reply->data, 7, 1 << 20);
	memcpy(reply->data, table, asks ? table_len : 0);
	reply->len = asks ? table_len : 1 << 20;
	reply->next = NULL;
	lend_reply(caller, of, LEND_OK, reply);
}

Test(mem_lent_view, table__forged__read_by_message)
{
	static const struct {
		uint64_t at, entries;
		uint32_t len;
	} row[] = {
	    {UINT64_MAX, 4096, 16}, {UINT64_MAX - 63, 4096, 16},
	    {1, 4096, 16},          {(UINT64_C(16) << 30) - 64, 4096, 16},
	    {0, 4095, 16},          {0, 4096, 15},
	    {0, 4096, 0},
	};
	uint8_t *memory, *into;
	struct lend_call call;

	open_both("shm");
	memory = lend_malloc_shared(1 << 20);
	into = lend_malloc(1 << 20);
	begin_call(&call, memory, 1 << 20);
	cr_assert_eq(lend_serve(caller, LENT, on_ask, NULL, LEND_RESERVED), 0);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		memcpy(table, &row[i], sizeof(table));
		table_len = row[i].len;
		cr_assert_eq(get_arg(into, 1 << 20), LEND_OK, "row %zu", i);
		cr_assert_eq(into[100], 7);
	}
	finish_call();
	lend_free(memory);
	lend_free(into);
	close_both();
}

/* An argument in the message has a view, too. */
Test(mem_lent_view, map__bytes_in_message__at_once)
{
	struct lend_arg_view view;
	struct lend_op op = {.parent = request, .done = on_read};

	open_both("shm");
	seen = (struct lend_arg){.len = 5, .bytes = "bytes"};
	cr_assert_eq(lend_arg_map(reader_mem, &seen, &view, &op), 0);
	cr_assert_eq(read_ops, 1);
	cr_assert_eq(op.status, LEND_OK);
	cr_assert_eq(view.bytes, seen.bytes);
	cr_assert_eq(lend_arg_intact(&view), 0);
	lend_arg_unmap(reader_mem, &view);
	close_both();
}

/* The caller is killed: its memory stays readable until the view ends. */
Test(mem_lent_view, caller__killed__view_stays_mapped)
{
	struct lend_arg_view view;
	char address[104];
	pid_t pid;

	open_reader("shm");
	cr_assert_eq(lend_address(reader, address, sizeof(address)), 0);
	pid = fork();
	if (!pid) {
		struct lend_call call = {.method = KEEP, .timeout = 60 * SECOND};

		reader = NULL;
		open_caller("shm", address);
		arg = (struct iovec){lend_malloc_shared(MOST), MOST};
		fill_bytes(arg.iov_base, MOST, 9);
		(void)lend_call_sync_args(caller_mem, session, &call, &arg, 1);
		_exit(0);
	}
	while (!begun)
		turn_both();
	cr_assert_eq(map_arg(&view), LEND_OK);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (lend_request_session(reader, request).id)
		turn_both();
	turn_both();
	cr_assert(is_filled(view.bytes, MOST, 9));
	lend_arg_unmap(reader_mem, &view);
	lend_mem_close(reader_mem);
	lend_close(reader);
}
