/* named - a method with a name, and metadata in both directions.
 *   cc -o named named.c $(pkg-config --cflags --libs lend)
 *   ./named &            serves /hello.Greeter/Greet at shm:named
 *   ./named Ada          prints "hello, Ada" and the metadata of the reply
 */
#include <lend/metadata.h>
#include <lend/tracing.h>
#include <stdio.h>
#include <string.h>

#define GREET "/hello.Greeter/Greet"

/* Replies with a greeting to the user in the request's metadata. */
static void greet_user(lend_request request, const struct lend_buf *in, void *arg)
{
	struct lend_metadata *trailing = lend_metadata_new();
	struct lend_reply_head head = {.trailing = trailing};
	struct lend_buf *out = lend_buf_take(arg, 128);
	const char *user = "stranger";
	struct lend_pair pair;
	struct lend_span span;

	(void)in;
	for (uint32_t at = 0; lend_request_metadata(arg, request, &at, &pair);)
		if (!strcmp(pair.key, "user"))
			user = pair.value;
	if (lend_request_span(arg, request, &span)) /* with LEND_TRACE=1: lend trace shows it */
		printf("traced: %s\n", span.name);
	if (out)
		out->len = (uint32_t)snprintf(out->data, 128, "hello, %.100s", user);
	if (trailing)
		lend_metadata_add(trailing, "served-by", "named", 5);
	lend_reply_with(arg, request, out ? LEND_OK : LEND_RESOURCE_EXHAUSTED, out, &head);
	lend_metadata_free(trailing);
}

static int serve_greetings(void)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;

	config.listen = "shm:named";
	if (lend_open(&config, &ep) < 0 || lend_serve_name(ep, GREET, greet_user, ep, 0) < 0)
		return -1;
	return lend_run(ep, LEND_NEVER);
}

static void print_reply(struct lend_ep *ep, const struct lend_call *call)
{
	struct lend_pair pair;

	printf("%.*s\n", (int)call->reply->len, (char *)call->reply->data);
	for (uint32_t at = 0; lend_call_metadata(ep, call, true, &at, &pair);)
		printf("%s: %.*s\n", pair.key, (int)pair.len, (char *)pair.value);
}

static int ask_greeting(const char *user)
{
	struct lend_metadata *metadata = lend_metadata_new();
	struct lend_call_head head = {.name = GREET, .metadata = metadata};
	struct lend_call call = {.head = &head};
	lend_session session;
	struct lend_ep *ep;

	if (!metadata || lend_open(NULL, &ep) < 0)
		return -1;
	if (lend_metadata_add(metadata, "user", user, strlen(user)) ||
	    lend_connect(ep, "shm:named", &session) || lend_call_sync(ep, session, &call))
		return -1;
	if (call.status == LEND_OK)
		print_reply(ep, &call);
	else
		fprintf(stderr, "status %d: %s\n", call.status, lend_call_why(ep, &call));
	lend_buf_give(ep, call.reply);
	lend_close(ep);
	lend_metadata_free(metadata);
	return call.status ? 1 : 0;
}

int main(int argc, char **argv)
{
	int rc = argc > 1 ? ask_greeting(argv[1]) : serve_greetings();

	if (rc < 0)
		fprintf(stderr, "named: %s\n", lend_why());
	return rc != 0;
}
