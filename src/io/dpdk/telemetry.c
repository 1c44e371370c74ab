/* telemetry - /lend/endpoints, /lend/sessions and /lend/node for dpdk-telemetry.py.
 *
 * DPDK runs a command in a thread of its own, and an endpoint's numbers belong to the endpoint's
 * thread. So a command leaves a request at each carrier, wakes its endpoint, and waits. The
 * endpoint fills in DPDK's dictionary within its next poll, while it holds the lock. If it does not
 * poll in time, the command takes the request back and reports that.
 *
 * Layer: io. Threads: any. Locks: turns, then dpdk_world, then lock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include <rte_telemetry.h>

#include "io/dpdk/bell.h"
#include "util/check.h"

enum { ANSWER_MS = 300, DEPTH = 3, SESSIONS_AT_ONCE = 16 };

struct dpdk_request {
	enum lend_io_topic topic;
	uint32_t from, most;
	struct rte_tel_data *data; /* receives the numbers */
	bool done;
};

/* What an endpoint writes into: DPDK's dictionaries, one inside of the other. */
struct tel_sink {
	struct lend_io_sink sink; /* first */
	struct rte_tel_data *data[DEPTH];
	char name[DEPTH][32];
	uint32_t depth;
};

static pthread_mutex_t turns = PTHREAD_MUTEX_INITIALIZER; /* held by one command at a time */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  /* protects dpdk.request */
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;

static struct rte_tel_data *make_dictionary(void)
{
	struct rte_tel_data *data = rte_tel_data_alloc();

	if (data)
		rte_tel_data_start_dict(data);
	return data;
}

/* Adds a dictionary, which it takes, to another one. */
static void add_dictionary(struct rte_tel_data *to, const char *name, struct rte_tel_data *data)
{
	if (data && (!to || rte_tel_data_add_dict_container(to, name, data, 0) < 0))
		rte_tel_data_free(data);
}

static void begin_group(struct lend_io_sink *sink, const char *name)
{
	struct tel_sink *s = (struct tel_sink *)sink;

	LEND_CHECK(s->depth + 1 < DEPTH);
	s->depth++;
	s->data[s->depth] = make_dictionary();
	(void)snprintf(s->name[s->depth], sizeof(s->name[0]), "%s", name);
}

static void end_group(struct lend_io_sink *sink)
{
	struct tel_sink *s = (struct tel_sink *)sink;

	LEND_CHECK(s->depth > 0);
	s->depth--;
	add_dictionary(s->data[s->depth], s->name[s->depth + 1], s->data[s->depth + 1]);
}

static void put_text(struct lend_io_sink *sink, const char *name, const char *value)
{
	struct tel_sink *s = (struct tel_sink *)sink;

	if (s->data[s->depth])
		(void)rte_tel_data_add_dict_string(s->data[s->depth], name, value);
}

static void put_number(struct lend_io_sink *sink, const char *name, uint64_t value)
{
	struct tel_sink *s = (struct tel_sink *)sink;

	if (s->data[s->depth])
		(void)rte_tel_data_add_dict_u64(s->data[s->depth], name, value);
}

void dpdk_telemetry_answer(struct dpdk *io)
{
	struct tel_sink s = {.sink = {begin_group, end_group, put_text, put_number}};

	pthread_mutex_lock(&lock);
	if (io->request) {
		s.data[0] = io->request->data;
		io->describe(io->user, io->request->topic, io->request->from, io->request->most,
			     &s.sink);
		LEND_CHECK(s.depth == 0);
		io->request->done = true;
		io->request = NULL;
		pthread_cond_broadcast(&answered);
	}
	pthread_mutex_unlock(&lock);
}

void dpdk_telemetry_forget(struct dpdk *io)
{
	pthread_mutex_lock(&lock);
	if (io->request) {
		io->request->done = true;
		io->request = NULL;
		pthread_cond_broadcast(&answered);
	}
	pthread_mutex_unlock(&lock);
}

/* Returns the first carrier of the i-th endpoint, or NULL. dpdk_world held. */
static struct dpdk *find_endpoint(uint32_t i)
{
	struct dpdk *io = dpdk_world_first();

	for (; io; io = io->next) {
		const struct dpdk *before = dpdk_world_first();

		while (before != io && before->user != io->user)
			before = before->next;
		if (io->describe && before == io && i-- == 0)
			return io;
	}
	return NULL;
}

/* Waits for the endpoint's answer; false: it did not poll. The carrier lives until it has answered.
 * lock held. */
static bool await_answer(struct dpdk *io, const struct dpdk_request *request)
{
	struct timespec end;
	int rc = 0;

	(void)clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += ANSWER_MS * 1000000L;
	end.tv_sec += end.tv_nsec / 1000000000L;
	end.tv_nsec %= 1000000000L;
	while (!request->done && rc == 0)
		rc = pthread_cond_timedwait(&answered, &lock, &end);
	if (!request->done)
		io->request = NULL;
	return request->done;
}

/* Wakes the endpoint's thread, unless nothing can: it polls at intervals. dpdk_world held. */
static void wake_endpoint(struct dpdk *io)
{
	if (io->kind == DPDK_MEMIF)
		dpdk_bell_wake(io);
	else if (io->kind == DPDK_DEVICE && io->port[0])
		(void)eventfd_write(io->port[0]->owner->wake_fd, 1);
}

/* Asks the i-th endpoint. Returns false if there is none. */
static bool ask_endpoint(uint32_t i, struct dpdk_request *request, struct rte_tel_data *all)
{
	struct dpdk *io;
	char name[16];

	pthread_mutex_lock(&dpdk_world);
	io = find_endpoint(i);
	if (!io) {
		pthread_mutex_unlock(&dpdk_world);
		return false;
	}
	request->data = make_dictionary();
	request->done = !request->data;
	pthread_mutex_lock(&lock);
	io->request = request->data ? request : NULL;
	atomic_store(&io->changed, true);
	wake_endpoint(io);
	pthread_mutex_unlock(&dpdk_world);
	if (!await_answer(io, request))
		(void)rte_tel_data_add_dict_string(request->data, "error", "does not poll");
	pthread_mutex_unlock(&lock);
	(void)snprintf(name, sizeof(name), "%u", i);
	add_dictionary(all, name, request->data);
	return true;
}

/* Runs a command: of all endpoints, or of one, ENDPOINT[,FROM]. */
static int run_command(enum lend_io_topic topic, const char *params, struct rte_tel_data *all)
{
	unsigned one = 0, from = 0;
	int given = params ? sscanf(params, "%u,%u", &one, &from) : 0;
	struct dpdk_request request = {.topic = topic, .from = from, .most = SESSIONS_AT_ONCE};

	rte_tel_data_start_dict(all);
	pthread_mutex_lock(&turns);
	if (given >= 1)
		(void)ask_endpoint(one, &request, all);
	else
		for (uint32_t i = 0; ask_endpoint(i, &request, all);)
			i++;
	pthread_mutex_unlock(&turns);
	return 0;
}

static int report_endpoints(const char *cmd, const char *params, struct rte_tel_data *data)
{
	(void)cmd;
	return run_command(LEND_IO_ENDPOINT, params, data);
}

static int report_sessions(const char *cmd, const char *params, struct rte_tel_data *data)
{
	(void)cmd;
	return run_command(LEND_IO_SESSIONS, params, data);
}

static int report_node(const char *cmd, const char *params, struct rte_tel_data *data)
{
	(void)cmd;
	return run_command(LEND_IO_NODE, params, data);
}

void dpdk_telemetry_start(void)
{
	(void)rte_telemetry_register_cmd(
	    "/lend/endpoints", report_endpoints,
	    "Addresses and counters of endpoints. Parameter: endpoint");
	(void)rte_telemetry_register_cmd("/lend/sessions", report_sessions,
					 "Sessions of endpoints. Parameters: endpoint, first");
	(void)rte_telemetry_register_cmd("/lend/node", report_node,
					 "Numbers of memory nodes. Parameter: endpoint");
}
