/* Goal: arguments and results arrive complete, inline or by reference; calls beyond the slots wait
 * for one; the inline threshold is measured; bytes that are no arguments are refused. Method: every
 * length around the limits over both carriers, caller and callee in one thread; messages of random
 * bytes in two segments. Covers: cn/args/args.c, cn/args/args_message.c, cn/args/args_start.c,
 * cn/args/inline_threshold.c, cn/args/cost_probe.c, cn/args/costs.c, src/wire/arg.h */
#include <criterion/criterion.h>
#include <errno.h>
#include <lend/metadata.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/args_pair.h"
#include "util/rng.h"

static void all_lengths(const char *carrier)
{
	static const size_t len[] = {0, 1, 7, 8, 4096, 4097, 8192, 8193, 60000, BIG};
	static const uint64_t limit[] = {0, 8192, 1 << 30};
	char *bytes = malloc(MANY * BIG);
	struct iovec iov[MANY];
	struct lend_rng rng;

	lend_rng_seed(&rng, 5);
	mem_fill(bytes, MANY * BIG, 9);
	open_all(carrier, "64M", 0);
	for (int round = 0; round < 60; round++) {
		struct lend_call call = {.method = ECHO, .done = ended, .timeout = 10 * SECOND};
		int n = (int)lend_rng_below(&rng, MANY + 1);

		lend_args_threshold_set(caller.mem, limit[lend_rng_below(&rng, 3)]);
		lend_args_threshold_set(callee.mem, limit[lend_rng_below(&rng, 3)]);
		for (int i = 0; i < n; i++)
			iov[i] = (struct iovec){bytes + i * BIG, len[lend_rng_below(&rng, 10)]};
		WAIT_FOR(lend_call_start_args(caller.mem, session, &call, iov, n));
		cr_assert_eq(call.status, LEND_OK, "%d", call.status);
		compare(call.reply, iov, n);
		lend_buf_give(caller.ep, call.reply);
		settle("echo", round);
	}
	close_all();
	free(bytes);
}

OVER_EACH(mem_args, all_lengths)

/* References of two workers in one message, and in one batch that is released. */
Test(mem_args, all_lengths_workers)
{
	node_more = "--workers 2";
	all_lengths("shm");
}

static char seen[64], told[64];

static void serve_named(lend_request request, const struct lend_arg *args, int n, void *arg)
{
	struct lend_reply_head head = {.message = "none of these"};
	struct lend_pair pair = {0};
	uint32_t at = 0;

	(void)args;
	(void)arg;
	cr_assert(lend_request_metadata(callee.ep, request, &at, &pair));
	snprintf(seen, sizeof(seen), "%s %s %d",
		 lend_request_text(callee.ep, request, LEND_TEXT_METHOD), (const char *)pair.value,
		 n);
	cr_assert_eq(lend_reply_with(callee.ep, request, LEND_NOT_FOUND, NULL, &head), 0);
}

static void note_why(struct lend_call *call)
{
	snprintf(told, sizeof(told), "%s", lend_call_why(caller.ep, call));
	ended(call);
}

/* By name with metadata, on nodes and in the message; and a name that nobody serves. */
static void named_methods(const char *carrier)
{
	struct lend_metadata *metadata = lend_metadata_new();

	lend_metadata_add(metadata, "user", "ada", 3);
	open_all(carrier, "64M", 0);
	cr_assert_eq(lend_serve_args_name(callee.mem, "/shop.Cart/Add", serve_named, NULL, 0), 0);
	cr_assert_eq(
	    lend_serve_args(callee.mem, lend_method_number("/shop.Cart/Add"), serve_named, NULL, 0),
	    -EEXIST);
	for (int i = 0; i < 4; i++) {
		struct lend_call_head head = {.name = i < 3 ? "/shop.Cart/Add" : "/shop.Cart/Ad",
					      .metadata = metadata};
		struct lend_call call = {.head = &head, .done = note_why};

		seen[0] = told[0] = 0;
		lend_args_threshold_set(caller.mem, i % 2 ? 0 : 1 << 30);
		WAIT_FOR(lend_call_start_args(caller.mem, session, &call, three, 3));
		cr_assert_eq(call.status, i < 3 ? LEND_NOT_FOUND : LEND_UNIMPLEMENTED, "%d: %d", i,
			     call.status);
		cr_assert_str_eq(seen, i < 3 ? "/shop.Cart/Add ada 3" : "");
		cr_assert_eq(i < 3, !strcmp(told, "none of these"), "%d: %s", i, told);
		settle("named", i);
	}
	close_all();
	lend_metadata_free(metadata);
}

OVER_EACH(mem_args, named_methods)

/* More calls than slots: two are answered once nothing else is in flight, then the next ones
 * run. */
Test(mem_args, more_calls_than_slots)
{
	enum { N = 20 };
	static struct lend_call call[N];
	int idle = 0;

	open_all("shm", "64M", 2);
	for (int i = 0; i < N; i++) {
		call[i] = (struct lend_call){.method = LATER, .done = ended};
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call[i], three, 3), 0);
	}
	while (ends < N) {
		turn();
		if (lates < 2 || ++idle < 1000)
			continue;
		cr_assert_eq(lates, 2);
		while (lates)
			(void)lend_reply(callee.ep, late[--lates], LEND_OK, NULL);
		idle = 0;
	}
	for (int i = 0; i < N; i++) {
		cr_assert_eq(call[i].status, LEND_OK, "%d: %d", i, call[i].status);
		lend_buf_give(caller.ep, call[i].reply);
	}
	settle("many", 0);
	close_all();
}

/* Measures until the threshold of the method differs from the initial one. */
static void measure_threshold(const char *more)
{
	struct lend_call call = {.method = REFUSE, .done = ended};
	lend_ns until;
	uint64_t is;

	node_more = more;
	open_all("shm", "64M", 0);
	cr_assert_eq(lend_args_threshold(caller.mem, session, 0), 8192);
	lend_args_threshold_set(caller.mem, LEND_NEVER);
	cr_assert_eq(lend_args_threshold(caller.mem, session, REFUSE), 32 << 10, "not yet known");
	WAIT_FOR(lend_call_start_args(caller.mem, session, &call, three, 3));
	for (until = lend_now(caller.ep) + 5 * SECOND; lend_now(caller.ep) < until; turn())
		if ((is = lend_args_threshold(caller.mem, session, REFUSE)) != 32 << 10)
			break;
	cr_assert(is >= 1023 && is != 32 << 10, "%llu", (unsigned long long)is);
	settle("measured", 0);
	close_all();
	node_more = "";
}

Test(mem_args, threshold)
{
	measure_threshold("");
}

Test(mem_args, threshold_of_a_node_with_workers)
{
	for (int i = 0; i < 3; i++)
		measure_threshold("--workers 3");
}

/* Closed in the middle of measuring. */
Test(mem_args, closed_while_it_measures)
{
	for (int turns = 0; turns < 60; turns += 3) {
		struct lend_call call = {.method = KEEP, .done = ended};

		open_all("shm", "64M", 0);
		lend_args_threshold_set(caller.mem, LEND_NEVER);
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
		for (int i = 0; i < turns; i++)
			turn();
		close_side(&caller);
		close_all();
	}
}

Test(mem_args, bad_arguments)
{
	struct lend_buf request = {.len = 0};
	struct lend_call call = {.method = ECHO, .request = &request};
	struct lend_arg a;
	uint32_t cursor = 0;

	open_all("shm", "16M", 0);
	cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), -EINVAL);
	cr_assert_eq(call.status, LEND_UNKNOWN);
	call.request = NULL;
	cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, -1), -EINVAL);
	cr_assert_eq(lend_call_start_args(caller.mem, session, &call, NULL, 1), -EINVAL);
	cr_assert_eq(lend_call_start_args(caller.mem, (lend_session){12345}, &call, three, 3),
		     -ESTALE);
	cr_assert_eq(lend_reply_args(caller.mem, (lend_request){12345}, LEND_OK, three, 3, NULL),
		     -ESTALE);
	cr_assert_eq(lend_arg_next(NULL, &cursor, &a), 0);
	close_all();
}

/* Any bytes: decoding ends with a result, stays inside the message, and makes progress. */
Test(mem_args, hostile_messages)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, 77);
	for (int round = 0; round < 200000; round++) {
		uint8_t bytes[300];
		uint32_t len = (uint32_t)lend_rng_below(&rng, sizeof(bytes) + 1), at, cursor = 0;
		struct lend_buf tail = {0}, head = {0};
		struct lend_arg a;
		int rc;

		for (uint32_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)(lend_rng_below(&rng, 4) ? 0 : lend_rng_next(&rng));
		at = (uint32_t)lend_rng_below(&rng, len + 1);
		tail = (struct lend_buf){.data = bytes + at, .len = len - at};
		head = (struct lend_buf){.data = bytes, .len = at, .next = &tail};
		for (uint32_t before = 0; (rc = lend_arg_next(&head, &cursor, &a)) > 0;
		     before = cursor) {
			cr_assert_gt(cursor, before, "round %d", round);
			cr_assert_leq(cursor, len, "round %d", round);
			if (!a.bytes)
				cr_assert_eq(lend_ref_len(&a.ref), a.len);
			else if (a.len)
				cr_assert((const uint8_t *)a.bytes >= bytes &&
					      (const uint8_t *)a.bytes + a.len <= bytes + len,
					  "round %d", round);
		}
		cr_assert(rc == 0 || rc == -EINVAL || rc == -EMSGSIZE, "round %d: %d", round, rc);
		cr_assert(rc || cursor == len);
	}
}
