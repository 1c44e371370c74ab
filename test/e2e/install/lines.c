/* lines - counts the lines of a file of any length for its clients.
 * lines serves at shm:lines
 * lines FILE calls it
 * Both use the memory node at shm:mn0: lend-mn --listen shm:mn0 --size 1G */
#include <stdio.h>
#include <stdlib.h>

#include <lend/mem.h>

enum { COUNT = 1, FILE_MAX = 64 << 20 };

static struct lend_mem *mem;

static uint64_t lines(const char *bytes, uint64_t len)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < len; i++)
		n += bytes[i] == '\n';
	return n;
}

static void answer(lend_request request, struct lend_ep *ep, uint64_t n)
{
	struct lend_buf *out = lend_buf_take(ep, 24);

	if (out)
		out->len = (uint32_t)snprintf(out->data, 24, "%llu", (unsigned long long)n);
	lend_reply(ep, request, out ? LEND_OK : LEND_RESOURCE_EXHAUSTED, out);
}

/* A long argument while it is fetched. */
struct job {
	struct lend_op op;
	struct lend_ep *ep;
	struct iovec into;
};

static void came(struct lend_op *op)
{
	struct job *job = (struct job *)(void *)op;

	if (op->status == LEND_OK)
		answer(op->parent, job->ep, lines(job->into.iov_base, job->into.iov_len));
	else
		lend_reply(job->ep, op->parent, op->status, NULL);
	free(job->into.iov_base);
	free(job);
}

static void count(lend_request request, const struct lend_buf *bytes, void *ep)
{
	struct job *job;
	struct lend_arg arg;
	uint32_t cursor = 0;

	if (lend_arg_next(bytes, &cursor, &arg) != 1 || arg.len > FILE_MAX) {
		lend_reply(ep, request, LEND_INVALID_ARGUMENT, NULL);
		return;
	}
	if (arg.bytes) { /* short: it is in the message */
		answer(request, ep, lines(arg.bytes, arg.len));
		return;
	}
	job = calloc(1, sizeof(*job)); /* long: it is fetched when needed */
	if (job) {
		job->op = (struct lend_op){.done = came, .parent = request};
		job->ep = ep;
		job->into.iov_len = arg.len;
		job->into.iov_base = malloc(arg.len);
	}
	if (job && job->into.iov_base && lend_get(mem, &arg.ref, 0, &job->into, 1, &job->op) == 0)
		return;
	if (job)
		free(job->into.iov_base);
	free(job);
	lend_reply(ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
}

static int ask(struct lend_ep *ep, const char *name)
{
	static char bytes[FILE_MAX];
	struct lend_call call = {.method = COUNT};
	struct iovec arg = {bytes, 0};
	FILE *file = fopen(name, "rb");
	lend_session session;

	if (!file)
		return -1;
	arg.iov_len = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	if (lend_connect(ep, "shm:lines", &session) < 0 ||
	    lend_call_sync_args(mem, session, &call, &arg, 1) < 0 || call.status != LEND_OK)
		return -1;
	printf("%.*s\n", (int)call.reply->len, (char *)call.reply->data);
	return 0;
}

int main(int argc, char **argv)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;
	int rc;

	config.listen = argc > 1 ? NULL : "shm:lines";
	rc = lend_open(&config, &ep);
	if (rc == 0)
		rc = lend_mem_open(ep, "shm:mn0", &mem);
	if (rc == 0 && argc > 1)
		rc = ask(ep, argv[1]);
	else if (rc == 0 && (rc = lend_serve(ep, COUNT, count, ep, 0)) == 0)
		rc = lend_run(ep, LEND_NEVER);
	if (rc < 0)
		fprintf(stderr, "lines: %s\n", lend_why());
	lend_mem_close(mem);
	lend_close(ep);
	return rc < 0;
}
