/* Goal: message memory is bounded, is freed once, and all of it when an endpoint closes, even
 * buffers that the application leaked. Method: one endpoint or a pair in one thread; gone() counts;
 * the address sanitizer sees a late access. Covers: src/rpc/bufs.c, src/rpc/msg.c,
 * src/rpc/deferred_free.c */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/rpc_pair.h"
#include "lend/alloc.h"

enum { MIB = 1 << 20 };

static uint64_t out_of_pool(struct lend_ep *ep)
{
	struct lend_stats stats;

	lend_stats_get(ep, &stats);
	return stats.buf_bytes;
}

Test(rpc_bufs, sizes)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;

	cr_assert_eq(lend_open(&config, &ep), 0);
	for (uint32_t bits = 0; bits <= 26; bits++)
		for (int more = -1; more <= 1; more++) {
			uint32_t cap = (1u << bits) + (uint32_t)more;
			struct lend_buf *buf = lend_buf_take(ep, cap);

			cr_assert_not_null(buf, "%u bytes", cap);
			cr_assert_geq(buf->cap, cap);
			cr_assert_eq(buf->len, 0);
			cr_assert_null(buf->next);
			memset(buf->data, 7, cap);
			lend_buf_give(ep, buf);
		}
	cr_assert_null(lend_buf_take(ep, UINT32_MAX));
	lend_buf_give(ep, NULL);
	lend_close(ep);
}

Test(rpc_bufs, bounded)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_buf *all = NULL, *buf;
	struct lend_ep *ep;
	uint64_t before, got = 0;

	config.memory_max = 32 * MIB;
	config.message_max = MIB;
	config.receive_budget = MIB;
	cr_assert_eq(lend_open(&config, &ep), 0);
	before = out_of_pool(ep);
	while ((buf = lend_buf_take(ep, MIB))) {
		buf->next = all;
		all = buf;
		got += MIB;
		cr_assert_leq(got, 32 * MIB);
	}
	cr_assert_geq(got, 16 * MIB);
	cr_assert_not_null(strstr(lend_why(), "memory_max"));
	lend_buf_give(ep, all);
	buf = lend_buf_take(ep, 16 * MIB); /* memory that is free in one size serves another */
	cr_assert_not_null(buf);
	lend_buf_give(ep, buf);
	cr_assert_eq(out_of_pool(ep), before);
	lend_close(ep);
}

static void on_gone(void *arg)
{
	++*(int *)arg;
}

Test(rpc_bufs, close__leaked_buffers__are_freed)
{
	for (int s = 0; s < SCHEMES; s++) {
		static char memory[3][100000];
		struct ask ask = {.call = {.method = HOLD, .done = ask_done}};
		struct pair pair;
		int gone[3] = {0};

		pair_open(&pair, pair_schemes[s]);
		cr_assert_not_null(lend_buf_wrap(pair.client, memory[0], 10, on_gone, &gone[0]));
		(void)lend_buf_take(pair.client, 1000);
		ask.call.request =
		    lend_buf_wrap(pair.client, memory[1], sizeof(memory[1]), on_gone, &gone[1]);
		ask.call.reply =
		    lend_buf_wrap(pair.client, memory[2], sizeof(memory[2]), on_gone, &gone[2]);
		cr_assert_eq(lend_call_start(pair.client, pair.session, &ask.call), 0);
		while (!pair.n_held)
			pair_turns(&pair, 1);
		lend_close(pair.client);
		pair.client = NULL;
		cr_assert_eq(ask.times, 1);
		cr_assert_eq(ask.call.status, LEND_CANCELLED);
		for (int i = 0; i < 3; i++)
			cr_assert_eq(gone[i], 1, "gone of %d ran %d times", i, gone[i]);
		pair_close(&pair);
	}
}

static void sink_taken(lend_request request, const struct lend_buf *in, void *arg)
{
	struct pair *pair = arg;
	struct lend_buf *taken = lend_request_take(pair->server, request);

	(void)in;
	cr_assert_not_null(taken);
	lend_buf_give(pair->server, taken);
	cr_assert_eq(lend_reply(pair->server, request, LEND_OK, NULL), 0);
	cr_assert_null(lend_request_take(pair->server, request));
}

/* Calls of every kind, thousands of times: the number of buffers out of the pools does not grow. */
Test(rpc_bufs, nothing_leaks)
{
	static const uint32_t lens[] = {0, 100, 9000, 70000, 200000};

	for (int s = 0; s < SCHEMES; s++) {
		struct lend_config config = LEND_CONFIG_INIT;
		struct pair pair;
		uint64_t client = 0, server = 0;

		config.timeout = 20000000;
		pair_open_with(&pair, pair_schemes[s], &config, &config);
		lend_serve(pair.server, FORWARD, sink_taken, &pair, 0);
		for (uint32_t i = 0; i < 1500; i++) {
			static const uint32_t methods[] = {ECHO, SINK, FORWARD, 77};
			struct ask ask = {.call = {.method = methods[i % 4], .done = ask_done}};
			uint32_t len = lens[i % 5];

			ask.call.timeout = UINT64_C(5000000000);
			ask.call.request = ask_bytes(pair.client, len, i);
			cr_assert_eq(lend_call_start(pair.client, pair.session, &ask.call), 0, "%s",
				     lend_why());
			if (i % 7 == 0) {
				pair_turns(&pair, (int)(i % 11));
				lend_call_cancel(pair.client, &ask.call);
			}
			cr_assert(pair_until(&pair, &ask.done));
			ask_give(pair.client, &ask);
			if (i == 500 || i == 1499) {
				pair_turns(&pair, 500);
				cr_assert(i == 500 || out_of_pool(pair.client) <= client);
				cr_assert(i == 500 ||
					      out_of_pool(pair.server) <= server + 2 * 262144,
					  "%llu then %llu", (unsigned long long)server,
					  (unsigned long long)out_of_pool(pair.server));
				client = out_of_pool(pair.client);
				server = out_of_pool(pair.server);
			}
		}
		pair_close(&pair);
	}
}

static void free_object(void *object)
{
	lend_free(object);
}

/* Pool memory and wrapped objects come from the heap, and a closed endpoint holds none of it. */
Test(rpc_bufs, the_heap_gets_all_back)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct ask ask = {0};
		struct lend_alloc_stat stat;
		struct pair pair;
		char *object = lend_malloc(3 * MIB);

		memset(object, 'o', 3 * MIB);
		pair_open(&pair, pair_schemes[s]);
		ask_run(&pair, &ask, SINK,
			lend_buf_wrap(pair.client, object, 3 * MIB, free_object, object));
		cr_assert_eq(ask.call.status, LEND_OK);
		ask_give(pair.client, &ask);
		pair_close(&pair);
		lend_alloc_trim();
		lend_alloc_stat_get(&stat);
		cr_assert_eq(stat.mapped, 0, "%zu bytes", stat.mapped);
	}
}

/* Runs in a child: gives a buffer that is not its own any more. */
static void give_wrongly(int how)
{
	struct lend_call call = {.method = HOLD};
	struct lend_buf *buf;
	struct pair pair;

	pair_open(&pair, pair_schemes[0]);
	buf = lend_buf_take(pair.client, 100);
	lend_buf_give(pair.client, how == 1 ? NULL : buf);
	if (how == 0)
		exit(0);
	if (how == 1) {
		lend_session session;

		call.request = buf;
		if (lend_connect(pair.client, pair.address, &session) < 0 ||
		    lend_call_start(pair.client, session, &call) < 0)
			exit(2);
	}
	lend_buf_give(pair.client, buf);
}

Test(rpc_bufs, give__of_a_buffer_that_is_not_the_callers__names_the_mistake)
{
	static const char *const want[] = {NULL, "a call or a reply in progress has the buffer",
					   "the buffer was given back already"};

	for (int how = 0; how < 3; how++) {
		char said[512] = "";
		int tube[2], status;
		pid_t pid;

		cr_assert_eq(pipe(tube), 0);
		pid = fork();
		if (pid == 0) {
			dup2(tube[1], STDERR_FILENO);
			give_wrongly(how);
			exit(3);
		}
		close(tube[1]);
		cr_assert_geq(read(tube[0], said, sizeof(said) - 1), 0);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		close(tube[0]);
		if (!want[how]) {
			cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", said);
			continue;
		}
		cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%x", status);
		cr_expect_not_null(strstr(said, want[how]), "%s", said);
		cr_expect_null(strstr(said, ".c:"), "%s", said);
	}
}
