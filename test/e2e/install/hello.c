/* hello - a server that answers in capitals, and its client.
 *   hello            serves at shm:hello
 *   hello TEXT       asks it
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <lend/rpc.h>

enum { SHOUT = 1 };

static void shout(lend_request request, const struct lend_buf *in, void *ep)
{
	struct lend_buf *out = lend_buf_take(ep, in->len);

	if (!out) {
		lend_reply(ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return;
	}
	for (out->len = 0; out->len < in->len; out->len++)
		((char *)out->data)[out->len] =
		    (char)toupper(((const unsigned char *)in->data)[out->len]);
	lend_reply(ep, request, LEND_OK, out);
}

static int ask(struct lend_ep *ep, const char *text)
{
	struct lend_call call = {.method = SHOUT};
	lend_session session;

	if (lend_connect(ep, "shm:hello", &session) < 0)
		return -1;
	call.request = lend_buf_take(ep, (uint32_t)strlen(text));
	if (!call.request)
		return -1;
	call.request->len = (uint32_t)strlen(text);
	memcpy(call.request->data, text, call.request->len);
	if (lend_call_sync(ep, session, &call) < 0 || call.status != LEND_OK)
		return -1;
	printf("%.*s\n", (int)call.reply->len, (char *)call.reply->data);
	return 0;
}

int main(int argc, char **argv)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;
	int rc;

	config.listen = argc > 1 ? NULL : "shm:hello";
	if (lend_open(&config, &ep) < 0) {
		fprintf(stderr, "hello: %s\n", lend_why());
		return 1;
	}
	if (argc > 1)
		rc = ask(ep, argv[1]);
	else
		rc = lend_serve(ep, SHOUT, shout, ep, 0) < 0 ? -1 : lend_run(ep, LEND_NEVER);
	if (rc < 0)
		fprintf(stderr, "hello: %s\n", lend_why());
	lend_close(ep);
	return rc < 0;
}
