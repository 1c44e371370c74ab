/* tiers - a file through three processes by reference: the middle one never receives its bytes.
 *   cc -o tiers tiers.c $(pkg-config --cflags --libs lend)
 *   lend-mn --listen shm:mn0 --size 1G & ./tiers back & ./tiers front & ./tiers count FILE
 */
#include <lend/mem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1, FILE_MAX = 64 << 20 };

static struct lend_ep *ep;
static lend_session next; /* the next tier */

/* Gets an argument by reference. Each worker thread has a client of its own. */
static char *fetch(lend_request request, const struct lend_arg *arg)
{
	static _Thread_local struct lend_mem *mem;
	struct iovec into = {malloc(arg->len), arg->len};
	struct lend_op op = {.parent = request};

	if ((mem || lend_mem_open(lend_request_ep(ep, request), "shm:mn0", &mem) == 0) &&
	    lend_get_sync(mem, &arg->ref, 0, &into, 1, &op) == 0)
		return into.iov_base;
	free(into.iov_base);
	return NULL;
}

/* The back tier. A short argument is in the message, a long one is on the memory node. */
static void count(lend_request request, const struct lend_buf *bytes, void *unused)
{
	struct lend_buf *out = lend_buf_take(ep, 24);
	struct lend_arg arg = {.len = 0};
	uint32_t cursor = 0, n = 0;
	char *fetched = NULL;

	(void)unused;
	if (lend_arg_next(bytes, &cursor, &arg) == 1 && !arg.bytes && arg.len <= FILE_MAX)
		arg.bytes = fetched = fetch(request, &arg);
	for (uint64_t i = 0; arg.bytes && i < arg.len; i++)
		n += ((const char *)arg.bytes)[i] == '\n';
	if (out && arg.bytes)
		out->len = (uint32_t)snprintf(out->data, 24, "%u", n);
	lend_reply(ep, request, out && out->len ? LEND_OK : LEND_UNAVAILABLE, out);
	free(fetched);
}

static void forwarded(struct lend_call *call)
{
	lend_buf_give(ep, call->request);
	lend_reply(ep, call->parent, call->status, call->reply);
	free(call);
}

/* The front tier passes the request on as it is, with its deadline and its cancellation. */
static void forward(lend_request request, const struct lend_buf *bytes, void *unused)
{
	struct lend_call *call = calloc(1, sizeof(*call));

	(void)bytes, (void)unused;
	if (!call)
		abort();
	*call = (struct lend_call){.method = COUNT, .parent = request, .done = forwarded};
	call->request = lend_request_take(ep, request);
	if (lend_call_start(ep, next, call) == 0)
		return;
	call->status = LEND_UNAVAILABLE;
	forwarded(call);
}

static int ask(FILE *file)
{
	static char bytes[FILE_MAX];
	struct iovec arg = {bytes, file ? fread(bytes, 1, sizeof(bytes), file) : 0};
	struct lend_call call = {.method = COUNT};
	struct lend_mem *mem;

	if (lend_mem_open(ep, "shm:mn0", &mem) < 0)
		return -1;
	if (lend_call_sync_args(mem, next, &call, &arg, 1) == 0 && call.status == LEND_OK)
		printf("%.*s\n", (int)call.reply->len, (const char *)call.reply->data);
	lend_mem_close(mem);
	return call.status == LEND_OK ? 0 : -1;
}

int main(int argc, char **argv)
{
	bool is_back = argc == 2 && !strcmp(argv[1], "back"), is_front = argc == 2 && !is_back;
	struct lend_config config = LEND_CONFIG_INIT;

	config.listen = is_back ? "shm:back" : is_front ? "shm:front" : NULL;
	if (lend_open(&config, &ep) < 0 ||
	    (!is_back && lend_connect(ep, is_front ? "shm:back" : "shm:front", &next) < 0) ||
	    lend_serve(ep, COUNT, is_back ? count : forward, NULL, is_back ? LEND_SLOW : 0) < 0 ||
	    (argc == 2 ? lend_run(ep, LEND_NEVER) : ask(fopen(argv[argc - 1], "rb"))) < 0)
		return fprintf(stderr, "tiers: %s\n", lend_why()), 1;
	lend_close(ep);
	return 0;
}
