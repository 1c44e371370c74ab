/* Goal: a call's priority reaches the handler, its nested calls and the order in which workers
 * begin; an invalid one is refused; a request that is no longer waited for is not run. Method:
 * handlers record what they see; one worker is blocked while other requests queue up. Covers:
 * src/rpc/worker.c, src/rpc/job_queue.c, src/rpc/nested_calls.c */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <sched.h>
#include <string.h>

#include "e2e/rpc_pair.h"

enum { MS = 1000000, NOTE = 30, GATE = 31, PASS = 32, JOBS = 6 };

struct scene {
	struct pair pair;
	atomic_bool open; /* releases GATE */
	atomic_int in_gate, noted;
	unsigned seen[16]; /* priorities, in the order of handlers */
	struct lend_call onward;
	lend_request passed;
};

static void serve_note(lend_request request, const struct lend_buf *in, void *arg)
{
	struct scene *s = arg;
	int i = atomic_fetch_add(&s->noted, 1);

	s->seen[i] = lend_request_priority(s->pair.server, request);
	(void)in;
	lend_reply(s->pair.server, request, LEND_OK, NULL);
	cr_expect(s->seen[i] >= 1 && s->seen[i] <= 8);
}

static void serve_gate(lend_request request, const struct lend_buf *in, void *arg)
{
	struct scene *s = arg;

	(void)in;
	atomic_store(&s->in_gate, 1);
	while (!atomic_load(&s->open))
		sched_yield();
	lend_reply(s->pair.server, request, LEND_OK, NULL);
}

static void pass_done(struct lend_call *call)
{
	struct scene *s = (struct scene *)(void *)((char *)call - offsetof(struct scene, onward));

	lend_buf_give(s->pair.server, call->reply);
	lend_reply(s->pair.server, s->passed, call->status, NULL);
}

/* Calls NOTE of the same server as a nested call; the request's byte is its priority. */
static void serve_pass(lend_request request, const struct lend_buf *in, void *arg)
{
	struct scene *s = arg;
	lend_session session;

	s->passed = request;
	s->onward = (struct lend_call){.method = NOTE, .parent = request, .done = pass_done};
	s->onward.priority = in->len ? *(const unsigned char *)in->data : 0;
	cr_assert_eq(lend_connect(s->pair.server, s->pair.address, &session), 0, "%s", lend_why());
	cr_assert_eq(lend_call_start(s->pair.server, session, &s->onward), 0, "%s", lend_why());
}

static void open_scene(struct scene *s, const char *scheme, uint32_t schedule)
{
	struct lend_config server = LEND_CONFIG_INIT, client = LEND_CONFIG_INIT;

	memset(s, 0, sizeof(*s));
	server.workers = 1;
	server.schedule = schedule;
	pair_open_with(&s->pair, scheme, &server, &client);
	cr_assert_eq(lend_serve(s->pair.server, NOTE, serve_note, s, LEND_SLOW), 0);
	cr_assert_eq(lend_serve(s->pair.server, GATE, serve_gate, s, LEND_SLOW), 0);
	cr_assert_eq(lend_serve(s->pair.server, PASS, serve_pass, s, 0), 0);
}

static void start_ask(struct scene *s, struct ask *ask, uint32_t method, uint8_t priority,
		      lend_ns timeout)
{
	*ask = (struct ask){.call = {.method = method, .priority = priority, .timeout = timeout},
			    .done = false};
	ask->call.done = ask_done;
	cr_assert_eq(lend_call_start(s->pair.client, s->pair.session, &ask->call), 0, "%s",
		     lend_why());
}

Test(rpc_priority, one_that_does_not_exist_is_refused)
{
	struct scene s;

	open_scene(&s, "shm", 0);
	for (unsigned p = 9; p < 256; p++) {
		struct lend_call call = {.method = ECHO, .priority = (uint8_t)p};

		cr_assert_eq(lend_call_start(s.pair.client, s.pair.session, &call), -22);
	}
	pair_close(&s.pair);
}

Test(rpc_priority, handlers_and_their_calls_see_it)
{
	static const struct {
		uint8_t asked, onward;
		unsigned want;
	} row[] = {{0, 0, LEND_NORMAL}, {1, 0, 1}, {8, 0, 8}, {8, 2, 2}, {1, 8, 8}};

	for (int scheme = 0; scheme < SCHEMES; scheme++)
		for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
			struct scene s;
			struct ask ask = {.call = {.method = PASS, .priority = row[i].asked}};

			open_scene(&s, pair_schemes[scheme], 0);
			ask.call.done = ask_done;
			ask.call.request = lend_buf_take(s.pair.client, 1);
			ask.call.request->len = 1;
			*(unsigned char *)ask.call.request->data = row[i].onward;
			cr_assert_eq(lend_call_start(s.pair.client, s.pair.session, &ask.call), 0);
			cr_assert(pair_until(&s.pair, &ask.done));
			cr_expect_eq(ask.call.status, LEND_OK);
			cr_expect_eq(s.seen[0], row[i].want, "row %zu: %u", i, s.seen[0]);
			ask_give(s.pair.client, &ask);
			pair_close(&s.pair);
		}
}

/* Blocks the only worker, queues calls behind it, and releases it; true when all ended. */
static void queue_up(struct scene *s, const uint8_t *priority, const lend_ns *timeout)
{
	struct ask first, ask[JOBS];

	start_ask(s, &first, GATE, 0, 0);
	while (!atomic_load(&s->in_gate))
		pair_turns(&s->pair, 1);
	for (int i = 0; i < JOBS; i++) {
		struct lend_stats stats;
		uint64_t requests;

		lend_stats_get(s->pair.server, &stats);
		requests = stats.requests;
		start_ask(s, &ask[i], NOTE, priority[i], timeout[i]);
		do { /* one by one, so that they arrive in this order */
			pair_turns(&s->pair, 1);
			lend_stats_get(s->pair.server, &stats);
		} while (stats.requests == requests);
	}
	for (int i = 0; i < JOBS; i++) /* calls with a deadline to miss expire */
		while (timeout[i] < 100 * MS && !ask[i].done)
			pair_turns(&s->pair, 1);
	atomic_store(&s->open, true);
	cr_assert(pair_until(&s->pair, &first.done));
	for (int i = 0; i < JOBS; i++) {
		cr_assert(pair_until(&s->pair, &ask[i].done));
		cr_expect_eq(ask[i].call.status,
			     timeout[i] < 100 * MS ? LEND_DEADLINE_EXCEEDED : LEND_OK);
		ask_give(s->pair.client, &ask[i]);
	}
	ask_give(s->pair.client, &first);
}

Test(rpc_priority, workers_begin_in_its_order)
{
	static const uint8_t priority[JOBS] = {8, 4, 1, 4, 7, 2};
	static const lend_ns later = 5000ull * MS,
			     timeout[JOBS] = {later, later, later, later, later, later};
	static const unsigned want[JOBS] = {1, 2, 4, 4, 7, 8};
	struct scene s;

	open_scene(&s, "shm", 0);
	queue_up(&s, priority, timeout);
	cr_expect_arr_eq(s.seen, want, sizeof(want));
	pair_close(&s.pair);
}

Test(rpc_priority, and_by_deadline_within_one)
{
	static const uint8_t priority[JOBS] = {6, 5, 5, 5, 5, 6};
	static const lend_ns timeout[JOBS] = {900ull * MS,  LEND_NEVER,   3000ull * MS,
					      2000ull * MS, 4000ull * MS, 800ull * MS};
	static const unsigned want[JOBS] = {5, 5, 5, 5, 6, 6};
	struct scene s;

	open_scene(&s, "shm", LEND_EARLIEST_FIRST);
	queue_up(&s, priority, timeout);
	cr_expect_arr_eq(s.seen, want, sizeof(want));
	pair_close(&s.pair);
}

Test(rpc_priority, request__cancelled_in_queue__is_not_run)
{
	static const uint8_t priority[JOBS] = {1, 1, 1, 4, 4, 4};
	static const lend_ns timeout[JOBS] = {20 * MS, 3000ull * MS, 20 * MS,
					      20 * MS, 3000ull * MS, 3000ull * MS};
	struct scene s;

	open_scene(&s, "shm", 0);
	queue_up(&s, priority, timeout);
	cr_expect_eq(atomic_load(&s.noted), 3);
	pair_close(&s.pair);
}

/* How many turns of a hundred send much, while a long message is sent next to calls of a priority,
 * from memory that has to be copied. With urgent ones no turn would, on a machine that never
 * preempts. */
static uint64_t long_turns(uint8_t priority)
{
	static char bytes[4 << 20];
	struct ask bulk = {.call = {.method = SINK, .priority = LEND_BULK, .done = ask_done}};
	struct ask other = {.done = true};
	uint64_t turns = 0, before, much = 0;
	struct lend_stats stats;
	struct scene s;

	open_scene(&s, "shm", 0);
	bulk.call.request = lend_buf_wrap(s.pair.client, bytes, sizeof(bytes), NULL, NULL);
	cr_assert_eq(lend_call_start(s.pair.client, s.pair.session, &bulk.call), 0);
	lend_stats_get(s.pair.client, &stats);
	while (!bulk.done) {
		if (other.done) {
			ask_give(s.pair.client, &other);
			other = (struct ask){.call = {.method = ECHO, .priority = priority}};
			other.call.done = ask_done;
			cr_assert_eq(lend_call_start(s.pair.client, s.pair.session, &other.call),
				     0);
		}
		before = stats.tx_bytes;
		pair_turns(&s.pair, 1);
		lend_stats_get(s.pair.client, &stats);
		turns += stats.tx_bytes - before > 1024;
		much += stats.tx_bytes - before > 40000;
	}
	cr_assert(pair_until(&s.pair, &other.done));
	ask_give(s.pair.client, &other);
	ask_give(s.pair.client, &bulk);
	pair_close(&s.pair);
	return 100 * much / turns;
}

Test(rpc_priority, turns_are_short_while_there_are_urgent_calls)
{
	cr_expect_leq(long_turns(LEND_URGENT), 15);
	cr_expect_geq(long_turns(LEND_NORMAL), 30);
}
