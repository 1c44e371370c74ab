/* call_reflect - see call_reflect.h. */
#include "apps/tools/call_reflect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/common/report.h"
#include "lend/stream.h"

/* A stream of the reflection service. */
struct talk {
	struct lend_stream stream; /* first */
	struct lend_ep *ep;
	bool over;
	char why[512];
};

static void note_end(struct lend_stream *stream)
{
	struct talk *t = (struct talk *)stream;

	t->over = true;
	(void)snprintf(t->why, sizeof(t->why), "%s%s%s", app_status_name(stream->status),
		       stream->why && *stream->why ? ": " : "", stream->why ? stream->why : "");
}

static void send_bytes(struct talk *t, const char *bytes, size_t len)
{
	struct lend_buf *message = lend_buf_take(t->ep, (uint32_t)len);

	if (!message)
		app_die("%s", lend_why());
	memcpy(message->data, bytes, len);
	message->len = (uint32_t)len;
	/* After a failure the stream ends with the reason. */
	if (lend_stream_write(t->ep, &t->stream, message) < 0)
		lend_buf_give(t->ep, message);
}

/* Waits for a response. Returns its bytes, to be freed; NULL: the stream is over. */
static char *receive_bytes(struct talk *t, size_t *len)
{
	struct lend_buf *message;
	char *bytes;
	int rc;

	while ((rc = lend_stream_read(t->ep, &t->stream, &message)) == -EAGAIN && !t->over)
		if (lend_wait(t->ep, LEND_NEVER) < 0)
			app_die("%s", lend_why());
	while (rc < 0 && !t->over)
		if (lend_wait(t->ep, LEND_NEVER) < 0)
			app_die("%s", lend_why());
	if (rc < 0)
		return NULL;
	*len = 0;
	for (const struct lend_buf *b = message; b; b = b->next)
		*len += b->len;
	bytes = malloc(*len + 1);
	if (!bytes)
		app_die("no memory for a description of %zu bytes", *len);
	*len = 0;
	for (const struct lend_buf *b = message; b; *len += b->len, b = b->next)
		memcpy(bytes + *len, b->data, b->len);
	lend_buf_give(t->ep, message);
	return bytes;
}

/* Asks by one version of the protocol. Returns NULL: done; else why not. */
static const char *ask_version(struct talk *t, lend_session session, const struct app_proto *proto,
			       const char *service)
{
	const char *request, *why;
	size_t len = 0;
	char *response;

	if (lend_stream_open(t->ep, session, &t->stream) < 0)
		return lend_why();
	why = proto->reflect(service, NULL, 0, &request, &len);
	while (!why && request) {
		send_bytes(t, request, len);
		response = receive_bytes(t, &len);
		why = response ? proto->reflect(NULL, response, len, &request, &len) : t->why;
		free(response);
	}
	if (!t->over)
		lend_stream_cancel(t->ep, &t->stream);
	while (!t->over)
		if (lend_wait(t->ep, LEND_NEVER) < 0)
			app_die("%s", lend_why());
	return why;
}

const char *call_reflect(struct lend_ep *ep, lend_session session, const struct app_proto *proto,
			 const char *service, lend_ns timeout)
{
	static const char *const versions[] = {"v1", "v1alpha"};
	const char *why = NULL;
	static struct talk t;
	char name[80];

	for (unsigned i = 0; i < 2; i++) {
		const struct lend_call_head head = {.name = name};

		(void)snprintf(name, sizeof(name),
			       "/grpc.reflection.%s.ServerReflection/ServerReflectionInfo",
			       versions[i]);
		t = (struct talk){.ep = ep,
				  .stream = {.head = &head, .ended = note_end, .timeout = timeout}};
		why = ask_version(&t, session, proto, service);
		if (!why || t.stream.status != LEND_UNIMPLEMENTED)
			break;
	}
	if (why && t.stream.status == LEND_UNIMPLEMENTED)
		return "the server has no reflection service";
	return why;
}
