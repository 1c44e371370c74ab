/* gateway_media - media at the gateway: an addition to the original.
 * Layer: apps. Threads: the endpoint's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "apps/social/http_gateway.h"
#include "apps/social/request_blob.h"
#include "lend/alloc.h"

enum { MEDIA_MAX = 16 << 20 };

struct medium {
	struct social_blob_op op; /* first */
	struct gate *g;
	Social__Media media;
	Social__Blob blob;
	uint8_t ref[SOCIAL_REF_LEN];
};

static void end_upload(const Social__Media *reply, void *medium)
{
	struct medium *m = medium;
	char json[160];

	if (!social_ended(m->g->request, SOCIAL_MEDIA, reply))
		return;
	(void)snprintf(json, sizeof(json), "{\"media_id\":\"%" PRId64 "\",\"media_type\":\"%s\"}",
		       reply->media_id, m->media.media_type);
	gate_reply(m->g, 200, json);
}

static void undo_upload(void *medium)
{
	social_blob_give_back(&((struct medium *)medium)->blob);
}

static void call_upload(void *medium)
{
	struct medium *m = medium;

	social__media_service__upload(social_call(m->g->request, SOCIAL_MEDIA), &m->media,
				      end_upload, m);
}

static struct medium *make_medium(struct gate *g)
{
	struct medium *m = social_state(g->request, sizeof(*m));

	m->g = g;
	social__media__init(&m->media);
	m->media.body = &m->blob;
	m->op.blob = &m->blob;
	return m;
}

void gate_upload_media(struct gate *g)
{
	struct medium *m = make_medium(g);
	struct http_field *file = NULL, *f;

	for (size_t i = 0; !file && (f = http_form(g->http, i)); i++)
		file = *f->filename ? f : NULL;
	m->media.media_type =
	    (char *)(uintptr_t)(file ? gate_media_type(file->filename, file->data, file->len)
				     : NULL);
	if (!m->media.media_type) {
		gate_reply(g, file ? 415 : 400,
			   file ? "The bytes are not of the file's type" : "Incomplete arguments");
		return;
	}
	social_blob_set(&m->blob, file->data, file->len);
	social_on_fail(g->request, undo_upload, m);
	social_blob_send(g->request, &m->blob, call_upload, m);
}

/* Replies with bytes, which it takes. */
static void reply_media(struct medium *m, char *bytes, size_t len)
{
	char type[64];

	(void)snprintf(type, sizeof(type), "image/%.32s", m->media.media_type);
	http_reply(m->g->http, 200, type, bytes, len, false);
	gate_end(m->g);
}

static void end_get(struct social_blob_op *op)
{
	struct medium *m = (struct medium *)op;
	char *bytes = op->arg;

	social.counters[SOCIAL_GATEWAY].blob_rx_bytes += m->blob.length;
	if (social_ended_with(m->g->request, op->op.status, "media are lost"))
		reply_media(m, bytes, m->blob.length);
	else
		lend_free(bytes);
}

static void got_media(const Social__Media *reply, void *medium)
{
	struct medium *m = medium;
	uint64_t len = reply && reply->body ? social_blob_len(reply->body) : 0;
	char *bytes;

	if (!social_ended(m->g->request, SOCIAL_MEDIA, reply))
		return;
	bytes = len && len <= MEDIA_MAX ? lend_malloc(len) : NULL;
	if (!bytes) {
		social_fail(m->g->request, LEND_NOT_FOUND, "media without bytes");
		return;
	}
	if (!social_blob_is_ref(reply->body)) {
		memcpy(bytes, reply->body->data.data, len);
		reply_media(m, bytes, len);
		return;
	}
	memcpy(m->ref, reply->body->ref.data, sizeof(m->ref));
	social__blob__init(&m->blob);
	m->blob.ref = (ProtobufCBinaryData){sizeof(m->ref), m->ref};
	m->blob.length = len;
	m->op.done = end_get;
	m->op.arg = bytes;
	social_begin(m->g->request);
	social_blob_get(social.mem, &m->op, bytes);
}

void gate_get_media(struct gate *g)
{
	struct medium *m = make_medium(g);
	const char *filename, *dot;
	char id[32];

	if (!gate_text(g, "filename", &filename))
		return;
	dot = strrchr(filename, '.');
	(void)snprintf(id, sizeof(id), "%.*s", (int)(dot ? dot - filename : 0), filename);
	if (!dot || !dot[1] || strspn(dot + 1, "abcdefghijklmnopqrstuvwxyz0123456789") > 8 ||
	    dot[1 + strspn(dot + 1, "abcdefghijklmnopqrstuvwxyz0123456789")] ||
	    !gate_parse(id, 1, INT64_MAX, &m->media.media_id)) {
		gate_reply(g, 400, "filename is ID.TYPE");
		return;
	}
	m->media.media_type = social_text_copy(g->request, dot + 1, strlen(dot + 1));
	m->media.body = NULL;
	social__media_service__get(social_call(g->request, SOCIAL_MEDIA), &m->media, got_media, m);
}
