/* Goal: method numbers of Lend's own services are not an application's by accident, and no
 * benchmark runs an application's handler.
 * Method: register around both ends of the range; run each measuring command that takes --connect
 * against a server whose method 1 counts. Covers: src/rpc/method.c, apps/common/bench_server.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "e2e/rpc_server.h"

enum { FIRST = LEND_METHOD_RESERVED_FIRST, LAST = LEND_METHOD_RESERVED_LAST, NOT_RUN = 1 };

static struct lend_buf *no_place(lend_session session, uint32_t method, uint64_t len,
				 const void *first, uint32_t n, void *arg)
{
	(void)session, (void)method, (void)len, (void)first, (void)n, (void)arg;
	return NULL;
}

Test(rpc_reserved, registration__of_a_reserved_number__is_refused)
{
	static const struct {
		uint32_t method;
		unsigned flags;
		int want;
	} row[] = {{FIRST - 1, 0, 0},
		   {FIRST, 0, -EINVAL},
		   {FIRST, LEND_SLOW, -EINVAL},
		   {LAST, 0, -EINVAL},
		   {LAST, LEND_RESERVED, 0},
		   {LAST + 1u, LEND_SLOW, 0},
		   {LEND_METHOD_PING, 0, -EINVAL},
		   {1, 8, -EINVAL},
		   {1, LEND_CHAIN, 0}};
	struct lend_ep *ep;

	cr_assert_eq(lend_open(NULL, &ep), 0, "%s", lend_why());
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		cr_expect_eq(lend_serve(ep, row[i].method, server_never, NULL, row[i].flags),
			     row[i].want, "row %zu", i);
	cr_expect_eq(lend_serve(ep, FIRST, NULL, NULL, 0), -EINVAL);
	cr_expect_not_null(strstr(lend_why(), "0x4c454e00 to 0x4c454eff"), "%s", lend_why());
	cr_expect_eq(lend_serve_long(ep, FIRST, no_place, NULL), -EINVAL);
	cr_expect_eq(lend_serve_long(ep, LAST, no_place, NULL), 0);
	cr_expect_eq(lend_serve_long(ep, FIRST - 1, no_place, NULL), 0);
	lend_close(ep);
}

Test(rpc_reserved, ping__of_any_endpoint__is_an_empty_reply)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct pair pair;
		struct ask ask = {.done = false};

		pair_open(&pair, pair_schemes[s]);
		ask_run(&pair, &ask, LEND_METHOD_PING, ask_bytes(pair.client, 100, 1));
		cr_expect_eq(ask.call.status, LEND_OK);
		cr_expect_eq(ask.call.reply_len, 0);
		ask_give(pair.client, &ask);
		pair_close(&pair);
	}
}

static atomic_int handled;

static void count(lend_request request, const struct lend_buf *in, void *arg)
{
	struct server *s = arg;

	(void)in;
	atomic_fetch_add(&handled, 1);
	lend_reply(s->ep, request, LEND_OK, NULL);
}

static void *serve_counting(void *arg)
{
	struct server *s = arg;
	struct lend_config config = LEND_CONFIG_INIT;
	char address[128];

	pair_address(address, sizeof(address), s->scheme);
	config.listen = address;
	cr_assert_eq(lend_open(&config, &s->ep), 0, "%s", lend_why());
	lend_address(s->ep, s->address, sizeof(s->address));
	for (uint32_t method = 0; method < 32; method++)
		cr_assert_eq(lend_serve(s->ep, method, count, s, 0), 0);
	pthread_barrier_wait(&s->ready);
	cr_assert_eq(lend_run(s->ep, LEND_NEVER), 0);
	lend_close(s->ep);
	return NULL;
}

/* Runs lend and compares its output, one line, with both words; returns its exit code. */
static int run_lend(const char *args, const char *address, const char *word, const char *other)
{
	char command[512], line[1024] = "", more[8];
	FILE *out;
	int status;

	(void)snprintf(command, sizeof(command), "'%s/lend' %s --connect %s 2>&1", LEND_BUILD_DIR,
		       args, address);
	out = popen(command, "r");
	cr_assert_not_null(out);
	cr_expect_not_null(fgets(line, sizeof(line), out), "%s: silent", command);
	cr_expect_null(fgets(more, sizeof(more), out), "%s: more than %s", command, line);
	cr_expect(strstr(line, word) && strstr(line, other), "%s: %s", command, line);
	status = pclose(out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(rpc_reserved, benchmark__of_an_applications_server__runs_no_handler)
{
	static const char *const row[] = {
	    "lat --seconds 0.1",
	    "rate --seconds 0.1 --window 8",
	    "bw --seconds 0.1",
	    "load --seconds 0.1",
	    "priority --seconds 0.1 --rounds 1 --bulk 1M",
	    "start --count 1",
	    "connect --seconds 0.1",
	};

	for (int i = 0; i < SCHEMES; i++) {
		struct server s = {.scheme = pair_schemes[i]};

		pthread_barrier_init(&s.ready, NULL, 2);
		cr_assert_eq(pthread_create(&s.thread, NULL, serve_counting, &s), 0);
		pthread_barrier_wait(&s.ready);
		for (size_t k = 0; k < sizeof(row) / sizeof(row[0]); k++)
			cr_expect_eq(run_lend(row[k], s.address, "no benchmark server",
					      "lend serve --listen"),
				     NOT_RUN, "%s", row[k]);
		cr_expect_eq(atomic_load(&handled), 0);
		server_stop(&s);
	}
}
