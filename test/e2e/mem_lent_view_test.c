/* Goal: an argument that its caller lends is read in place over shared memory, without a message
 * and without a copy, and a view shows that its call has ended; over networks a view has fetched
 * bytes. Method: caller and reader in one thread, memory in and outside of the shared heap; calls
 * end with views open; forged tables; callers that are killed.
 * Covers: cn/lent/arg_read.c, cn/lent/arg_view.c, cn/lent/in_place.c, src/rpc/peer_memory.c */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/lent_pair.h"
#include "lend/alloc.h"
#include "lend/stats.h"
#include "sys/ref_counts.h"
#include "one_line_test.h"

enum { LENT_METHOD = 0x4c454e41, MOST = 20 << 20 };

static uint64_t count_datagrams(struct lend_ep *ep)
{
	struct lend_stats stats;

	lend_stats_get(ep, &stats);
	return stats.tx_datagrams;
}

static void view_all(const char *carrier, bool shared)
{
	static const uint64_t len[] = {16385, 1 << 20, MOST};

	lent_open(carrier);
	for (unsigned i = 0; i < 9; i++) {
		uint64_t n = len[i % 3];
		uint8_t *memory = shared ? lend_malloc_shared(n) : lend_malloc(n);
		struct lend_arg_view view;
		struct lend_call call;

		cr_assert(memory);
		lent_fill(memory, n, i + 3);
		lent_begin(&call, memory, n);
		cr_assert_eq(lent_map(&view), LEND_OK);
		cr_assert_eq(view.len, n);
		cr_assert(lent_is_filled(view.bytes, n, i + 3), "%lu bytes", (unsigned long)n);
		cr_assert_eq(lend_arg_intact(&view), 0);
		lend_arg_unmap(lent.reader_mem, &view);
		cr_assert_null(view.bytes);
		lent_finish();
		lend_free(memory);
	}
	lent_close();
}

TestRuns(mem_lent_view, map__over_shm_in_shared_heap__bytes_of_the_call, view_all("shm", true));
TestRuns(mem_lent_view, map__over_shm_other_memory__bytes_of_the_call, view_all("shm", false));
TestRuns(mem_lent_view, map__over_udp__bytes_of_the_call, view_all("udp", false));

/* From the second read on neither side sends anything, and nothing is copied. */
Test(mem_lent_view, map__second_time__no_message_no_copy)
{
	uint8_t *memory = lend_malloc_shared(MOST);
	struct lend_arg_view view;
	struct lend_call call;
	uint64_t before, seen;

	lent_open("shm");
	lent_fill(memory, MOST, 5);
	lent_begin(&call, memory, MOST);
	cr_assert_eq(lent_map(&view), LEND_OK);
	lend_arg_unmap(lent.reader_mem, &view);
	before = count_datagrams(lent.reader) + count_datagrams(lent.caller);
	seen = lend_ref_counts.in_place;
	for (int i = 0; i < 100; i++) {
		uint8_t byte;

		cr_assert_eq(lent_map(&view), LEND_OK);
		cr_assert_eq(lend_ref_counts.in_place, seen + 2 * (unsigned)i + 1);
		memory[MOST - 1] = (uint8_t)i; /* the very bytes, against the contract */
		cr_assert_eq(((const uint8_t *)view.bytes)[MOST - 1], (uint8_t)i);
		lend_arg_unmap(lent.reader_mem, &view);
		cr_assert_eq(lent_get(&byte, 1), LEND_OK);
	}
	cr_assert_eq(count_datagrams(lent.reader) + count_datagrams(lent.caller), before);
	lent_finish();
	lend_free(memory);
	lent_close();
}

/* The call ends with the view open: the view shows it, and can still be read. */
static void ends_with_view(const char *carrier, bool shared, int intact)
{
	uint8_t *memory, byte;
	struct lend_arg_view view, late;
	struct lend_call call, next;
	lend_request first;
	struct lend_arg old;

	lent_open(carrier);
	memory = shared ? lend_malloc_shared(MOST) : lend_malloc(MOST);
	lent_fill(memory, MOST, 5);
	lent_begin(&call, memory, MOST);
	cr_assert_eq(lent_map(&view), LEND_OK);
	old = lent.seen;
	first = lent.request;
	lent_finish();
	memset(memory, 0xee, MOST);
	cr_assert_eq(lend_arg_intact(&view), intact);
	cr_assert(intact || lent_is_filled(view.bytes, MOST, 5));
	(void)*(volatile const uint8_t *)view.bytes;
	lent_begin(&next, memory, MOST);
	cr_assert_neq(lent.request.id, first.id);
	cr_assert_eq(lend_arg_intact(&view), intact);
	lent.seen = old;
	cr_assert_eq(lent_map(&late), LEND_NOT_FOUND);
	cr_assert_null(late.bytes);
	cr_assert_eq(lent_get(&byte, 1), LEND_NOT_FOUND);
	lend_arg_unmap(lent.reader_mem, &view);
	lent_finish();
	lend_free(memory);
	lent_close();
}

TestRuns(mem_lent_view, call_ends__shared_heap__view_is_not_intact,
	 ends_with_view("shm", true, -ESTALE));
TestRuns(mem_lent_view, call_ends__other_memory__view_is_not_intact,
	 ends_with_view("shm", false, -ESTALE));

/* The next endpoint's first loan has the old one's place in the process's table of loans. */
Test(mem_lent_view, caller__lends_by_another_endpoint__not_intact)
{
	char *memory = lend_malloc_shared(20000), to[104];
	struct lend_arg_view view;
	struct lend_call call;

	lent_open("shm");
	lent_begin(&call, memory, 20000);
	cr_assert_eq(lent_map(&view), LEND_OK);
	lent_finish();
	lend_mem_close(lent.caller_mem);
	lend_close(lent.caller);
	cr_assert_eq(lend_address(lent.reader, to, sizeof(to)), 0);
	lent_open_caller("shm", to);
	lent_begin(&call, memory, 20000);
	cr_assert_eq(lend_arg_intact(&view), -ESTALE);
	lend_arg_unmap(lent.reader_mem, &view);
	lent_finish();
	lend_free(memory);
	lent_close();
}

TestRuns(mem_lent_view, call_ends__over_udp__view_has_its_own_bytes,
	 ends_with_view("udp", false, 0));

/* Replies that name no table, or one outside of the caller's memory: the bytes come by message. */
static uint64_t table[2];
static uint32_t table_len;

static void on_ask(lend_request of, const struct lend_buf *bytes, void *unused)
{
	struct lend_buf *reply = lend_buf_take(lent.caller, 1 << 20);
	bool asks = ((const uint8_t *)bytes->data)[2];

	(void)unused;
	memset(reply->data, 7, 1 << 20);
	memcpy(reply->data, table, asks ? table_len : 0);
	reply->len = asks ? table_len : 1 << 20;
	reply->next = NULL;
	lend_reply(lent.caller, of, LEND_OK, reply);
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

	lent_open("shm");
	memory = lend_malloc_shared(1 << 20);
	into = lend_malloc(1 << 20);
	lent_begin(&call, memory, 1 << 20);
	cr_assert_eq(lend_serve(lent.caller, LENT_METHOD, on_ask, NULL, LEND_RESERVED), 0);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		memcpy(table, &row[i], sizeof(table));
		table_len = row[i].len;
		cr_assert_eq(lent_get(into, 1 << 20), LEND_OK, "row %zu", i);
		cr_assert_eq(into[100], 7);
	}
	lent_finish();
	lend_free(memory);
	lend_free(into);
	lent_close();
}

/* An argument in the message has a view, too. */
Test(mem_lent_view, map__bytes_in_message__at_once)
{
	struct lend_arg_view view;

	lent_open("shm");
	lent.seen = (struct lend_arg){.len = 5, .bytes = "bytes"};
	cr_assert_eq(lent_map(&view), LEND_OK);
	cr_assert_eq(view.bytes, lent.seen.bytes);
	cr_assert_eq(lend_arg_intact(&view), 0);
	lend_arg_unmap(lent.reader_mem, &view);
	lent_close();
}

/* The caller is killed: its memory stays readable until the view ends. */
Test(mem_lent_view, caller__killed__view_stays_mapped)
{
	struct lend_arg_view view;
	pid_t pid;

	lent_open_reader("shm");
	pid = fork();
	if (!pid) {
		struct lend_call call = {.method = LENT_KEEP, .timeout = 60 * SECOND};

		lent.reader = NULL;
		lent_open_caller("shm", lent.address);
		struct iovec arg = {lend_malloc_shared(MOST), MOST};
		lent_fill(arg.iov_base, MOST, 9);
		(void)lend_call_sync_args(lent.caller_mem, lent.session, &call, &arg, 1);
		_exit(0);
	}
	while (!lent.begun)
		lent_turn();
	cr_assert_eq(lent_map(&view), LEND_OK);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (lend_request_session(lent.reader, lent.request).id)
		lent_turn();
	lent_turn();
	cr_assert(lent_is_filled(view.bytes, MOST, 9));
	lend_arg_unmap(lent.reader_mem, &view);
	lend_mem_close(lent.reader_mem);
	lend_close(lent.reader);
}
