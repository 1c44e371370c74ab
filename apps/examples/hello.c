/* hello: a server at shm:hello. hello NAME: its client. */
#include <stdio.h>
#include <string.h>

#include <lend/rpc.h>

enum { GREET = 1 };

static void greet(lend_request request, const struct lend_buf *in, void *ep)
{
	struct lend_buf *out = lend_buf_take(ep, in->len + 8);

	if (out)
		out->len = (uint32_t)snprintf(out->data, out->cap, "hello, %.*s", (int)in->len,
					      (char *)in->data);
	lend_reply(ep, request, out ? LEND_OK : LEND_RESOURCE_EXHAUSTED, out);
}

static int call_greet(struct lend_ep *ep, char *name)
{
	struct lend_call call = {.method = GREET};
	lend_session session;

	call.request = lend_buf_wrap(ep, name, (uint32_t)strlen(name), NULL, NULL);
	if (lend_connect(ep, "shm:hello", &session) < 0 || lend_call_sync(ep, session, &call) < 0)
		return -1;
	return call.status ? -1 : printf("%.*s\n", (int)call.reply->len, (char *)call.reply->data);
}

int main(int argc, char **argv)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep = NULL;
	int failed;

	config.listen = argc > 1 ? NULL : "shm:hello";
	failed = lend_open(&config, &ep) < 0 || lend_serve(ep, GREET, greet, ep, 0) < 0 ||
		 (argc > 1 ? call_greet(ep, argv[1]) : lend_run(ep, LEND_NEVER)) < 0;
	if (failed)
		fprintf(stderr, "hello: %s\n", lend_why());
	lend_close(ep);
	return failed;
}
