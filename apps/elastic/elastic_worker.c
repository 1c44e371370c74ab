/* elastic_worker - the processes of lend elastic: a worker serves a key-value store with its
 * values on a memory node; a function fetches bytes by reference, replies and ends.
 * Layer: apps. Threads: one per process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/memnode.h"
#include "apps/common/options.h"
#include "apps/elastic/elastic.h"
#include "util/crc32c.h"

struct store {
	struct app_server server;
	struct lend_mem *mem;
	struct lend_ref *value; /* by key; keys of them */
	uint64_t size;          /* bytes of each value */
	uint32_t keys;
};

/* A value on its way from the node to the caller. */
struct fetch {
	struct lend_op op; /* first */
	struct iovec into; /* the bytes of reply */
	struct lend_buf *reply;
	lend_request request;
	struct lend_ep *ep;
};

static const struct lend_option options[] = {
    OPT_TEXT(struct elastic_task, ref, "ref", "REF", "The reference to begin with"),
    OPT_TEXT(struct elastic_task, caller, "caller", "ADDR", "Where a function replies"),
    OPT_SIZE(struct elastic_task, size, "size", 1, APP_PATTERN_MAX, "Bytes of a value"),
    OPT_NUMBER(struct elastic_task, keys, "values", 1, 1u << 20, "Number of values"),
    {.name = NULL}};

static void read_task(struct elastic_task *task, int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options,
	    .child = &app_server_syntax,
	    .child_at = offsetof(struct elastic_task, server),
	    .doc = "A process of lend elastic, which starts it."};

	app_options_read(&syntax, argc, argv, task);
	if (!task->ref || !task->size)
		app_bad("lend elastic starts this command; run that instead");
}

/* Opens a client of the memory node of a reference. */
static struct lend_mem *open_node(struct lend_ep *ep, const char *text, struct lend_ref *ref)
{
	struct lend_mem *mem = app_node_open(ep, NULL);

	if (lend_ref_parse(mem, text, ref) < 0) {
		lend_mem_close(mem);
		app_bad("--ref: %s", lend_why());
	}
	return mem;
}

static void fetch_done(struct lend_op *op)
{
	struct fetch *fetch = (struct fetch *)(void *)op;

	if (op->status != LEND_OK) {
		lend_buf_give(fetch->ep, fetch->reply);
		fetch->reply = NULL;
	}
	lend_reply(fetch->ep, fetch->request, op->status, fetch->reply);
	free(fetch);
}

static void refuse_get(const struct store *store, lend_request request, enum lend_status status)
{
	lend_reply(store->server.ep, request, status, NULL);
}

/* Answers a request for one key with its value, which is fetched from the memory node. */
static void serve_get(lend_request request, const struct lend_buf *in, void *arg)
{
	struct store *store = arg;
	struct fetch *fetch;
	uint32_t key;

	if (in->len != sizeof(key)) {
		refuse_get(store, request, LEND_INVALID_ARGUMENT);
		return;
	}
	memcpy(&key, in->data, sizeof(key));
	if (key >= store->keys) {
		refuse_get(store, request, LEND_NOT_FOUND);
		return;
	}
	fetch = malloc(sizeof(*fetch));
	if (fetch)
		*fetch =
		    (struct fetch){.op = {.done = fetch_done, .parent = request},
				   .reply = lend_buf_take(store->server.ep, (uint32_t)store->size),
				   .request = request,
				   .ep = store->server.ep};
	if (!fetch || !fetch->reply) {
		free(fetch);
		refuse_get(store, request, LEND_RESOURCE_EXHAUSTED);
		return;
	}
	fetch->reply->len = (uint32_t)store->size;
	fetch->into = (struct iovec){fetch->reply->data, store->size};
	if (lend_get(store->mem, &store->value[key], 0, &fetch->into, 1, &fetch->op) < 0) {
		fetch->op.status = LEND_UNAVAILABLE;
		fetch_done(&fetch->op);
	}
}

static void *take_memory(uint64_t len)
{
	void *bytes = malloc(len);

	if (!bytes)
		app_die("no memory for %llu bytes; end some processes", (unsigned long long)len);
	return bytes;
}

/* Fetches all bytes of a reference. */
static void fetch_all(struct lend_mem *mem, const struct lend_ref *ref, void *bytes, uint64_t len)
{
	struct iovec into = {bytes, len};
	struct lend_op op = {.done = NULL};

	app_node_wait(mem, &op, lend_get(mem, ref, 0, &into, 1, &op), "get");
}

static void close_store(void *arg)
{
	struct store *store = arg;

	lend_mem_close(store->mem);
	free(store->value);
}

int app_elastic_worker(int argc, char **argv)
{
	struct elastic_task task = {.server = APP_SERVER_ARGS_INIT, .keys = 1};
	static struct store store;
	struct lend_ref list;
	char *stored;

	read_task(&task, argc, argv);
	app_server_open(&store.server, &task.server, NULL);
	store.mem = open_node(store.server.ep, task.ref, &list);
	store.size = task.size;
	store.keys = task.keys;
	store.value = take_memory(task.keys * sizeof(*store.value));
	stored = take_memory(task.keys * sizeof(*store.value));
	fetch_all(store.mem, &list, stored, task.keys * sizeof(*store.value));
	for (uint32_t i = 0; i < task.keys; i++)
		lend_ref_load(&store.value[i], stored + i * sizeof(*store.value));
	free(stored);
	if (lend_serve(store.server.ep, APP_METHOD_STORE_GET, serve_get, &store, LEND_RESERVED) < 0)
		app_die("%s", lend_why());
	store.server.closing = close_store;
	store.server.arg = &store;
	return app_server_run(&store.server);
}

static void send_reply(struct lend_ep *ep, lend_session session, const struct elastic_reply *reply)
{
	struct lend_call call = {.method = APP_METHOD_FUNCTION};

	call.request = lend_buf_take(ep, sizeof(*reply));
	if (!call.request)
		app_die("no memory for a reply; end some processes");
	memcpy(call.request->data, reply, sizeof(*reply));
	call.request->len = sizeof(*reply);
	if (lend_call_sync(ep, session, &call) < 0 || call.status != LEND_OK)
		app_die("the caller does not take the reply: %s", lend_why());
	lend_buf_give(ep, call.request);
	lend_buf_give(ep, call.reply);
}

int app_elastic_function(int argc, char **argv)
{
	struct elastic_task task = {.server = APP_SERVER_ARGS_INIT};
	struct lend_config config = LEND_CONFIG_INIT;
	struct elastic_reply reply = {.in_main = app_now()};
	lend_session session;
	struct lend_mem *mem;
	struct lend_ref ref;
	struct lend_ep *ep;
	void *bytes;

	read_task(&task, argc, argv);
	if (!task.caller)
		app_bad("lend elastic starts this command; run that instead");
	config.listen = task.server.listen;
	config.eal = task.server.eal;
	if (lend_open(&config, &ep) < 0)
		app_die("%s", lend_why());
	mem = open_node(ep, task.ref, &ref);
	if (lend_connect(ep, task.caller, &session) < 0)
		app_die("%s", lend_why());
	reply.attached = app_now();
	bytes = take_memory(task.size);
	fetch_all(mem, &ref, bytes, task.size);
	reply.fetched = app_now();
	reply.crc = lend_crc32c(0, bytes, task.size);
	send_reply(ep, session, &reply);
	free(bytes);
	lend_mem_close(mem);
	lend_close(ep);
	return APP_EXIT_OK;
}
