/* hello - a server that greets, and its client.
 *   cc -o hello hello.c $(pkg-config --cflags --libs lend)
 *   ./hello &            serves at shm:hello
 *   ./hello world        calls it, as lend call shm:hello 1 --data world does
 */
#include <lend/rpc.h>
#include <stdio.h>
#include <string.h>

enum { GREET = 1 };

static void greet(lend_request request, const struct lend_buf *name, void *ep)
{
	struct lend_buf *reply = lend_buf_take(ep, name->len + 8);

	if (reply)
		reply->len = (uint32_t)sprintf(reply->data, "hello, %.*s", (int)name->len,
					       (const char *)name->data);
	lend_reply(ep, request, reply ? LEND_OK : LEND_RESOURCE_EXHAUSTED, reply);
}

static int ask(struct lend_ep *ep, char *name)
{
	struct lend_call call = {.method = GREET};
	lend_session session;

	call.request = lend_buf_wrap(ep, name, (uint32_t)strlen(name), NULL, NULL);
	if (lend_connect(ep, "shm:hello", &session) < 0 || lend_call_sync(ep, session, &call) < 0)
		return -1;
	if (call.status == LEND_OK)
		printf("%.*s\n", (int)call.reply->len, (const char *)call.reply->data);
	return call.status == LEND_OK ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep = NULL;
	int rc;

	config.listen = argc > 1 ? NULL : "shm:hello";
	rc = lend_open(&config, &ep);
	if (rc == 0 && argc > 1)
		rc = ask(ep, argv[1]);
	else if (rc == 0 && (rc = lend_serve(ep, GREET, greet, ep, 0)) == 0)
		rc = lend_run(ep, LEND_NEVER);
	if (rc < 0)
		fprintf(stderr, "hello: %s\n", lend_why());
	lend_close(ep);
	return rc < 0;
}
