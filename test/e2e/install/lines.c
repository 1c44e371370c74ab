/* lines - counts the lines of a file of any length for its clients.
 * lines serves at shm:lines
 * lines FILE calls it
 * The server reads the file in the client's memory: nothing is copied or sent. */
#include <stdio.h>
#include <unistd.h>

#include <lend/alloc.h>
#include <lend/mem.h>

enum { COUNT = 1, FILE_MAX = 64 << 20 };

static void count(lend_request request, const struct lend_arg *args, int n, void *ep)
{
	struct lend_buf *out = lend_buf_take(ep, 24);
	const char *bytes = n == 1 ? args[0].bytes : NULL;
	unsigned lines = 0;

	for (uint64_t i = 0; bytes && i < args[0].len; i++)
		lines += bytes[i] == '\n';
	if (out)
		out->len = (uint32_t)snprintf(out->data, 24, "%u", lines);
	lend_reply(ep, request, bytes && out ? LEND_OK : LEND_INVALID_ARGUMENT, out);
}

static int ask(struct lend_ep *ep, struct lend_mem *mem, FILE *file)
{
	struct iovec text = {lend_malloc_shared(FILE_MAX), 0};
	struct lend_call call = {.method = COUNT};
	lend_session session;

	if (!file || !text.iov_base || lend_connect(ep, "shm:lines", &session) < 0)
		return -1;
	text.iov_len = fread(text.iov_base, 1, FILE_MAX, file);
	if (lend_call_sync_args(mem, session, &call, &text, 1) < 0 || call.status != LEND_OK)
		return -1;
	return printf("%.*s\n", (int)call.reply->len, (char *)call.reply->data);
}

int main(int argc, char **argv)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_mem *mem = NULL;
	struct lend_ep *ep = NULL;
	char name[32] = "shm:lines";
	int rc;

	if (argc > 1) /* the server reads the client's memory by this name */
		snprintf(name, sizeof(name), "shm:lines.%d", (int)getpid());
	config.listen = name;
	rc = lend_open(&config, &ep);
	if (rc == 0)
		rc = lend_mem_open(ep, NULL, &mem);
	if (rc == 0 && argc > 1)
		rc = ask(ep, mem, fopen(argv[1], "rb"));
	else if (rc == 0 && (rc = lend_serve_args(mem, COUNT, count, ep, 0)) == 0)
		rc = lend_run(ep, LEND_NEVER);
	if (rc < 0)
		fprintf(stderr, "lines: %s\n", lend_why());
	lend_mem_close(mem);
	lend_close(ep);
	return rc < 0;
}
