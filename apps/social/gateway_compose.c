/* gateway_compose - posts at the gateway: long texts and media go by reference, if that is chosen.
 * Layer: apps. Threads: the endpoint's. */
#include <jansson.h>
#include <sodium.h>
#include <string.h>

#include "apps/social/http_gateway.h"
#include "apps/social/request_blob.h"
#include "util/utf8.h"

enum { FILES_MAX = 8, MEDIA_MAX = 64, POST_TYPES = 4, REQ_ID_BITS = 60 };

struct composing {
	struct gate *g;
	Social__ComposeReq req;
	Social__User creator;
	Social__Blob text, body[FILES_MAX];
	Social__MediaReq media;
	int64_t ids[MEDIA_MAX];
	char *types[MEDIA_MAX];
	Social__Blob *bodies[FILES_MAX];
};

static void end_compose(const Social__Empty *reply, void *composing)
{
	struct composing *c = composing;

	if (social_ended(c->g->request, SOCIAL_COMPOSE_POST, reply))
		gate_reply(c->g, 200, "Successfully upload post");
}

static void call_compose(void *composing)
{
	struct composing *c = composing;

	social__compose_post_service__compose_post(social_call(c->g->request, SOCIAL_COMPOSE_POST),
						   &c->req, end_compose, c);
}

/* Releases what a failed compose put; the services may have released it before. */
static void undo_puts(void *composing)
{
	struct composing *c = composing;

	social_blob_give_back(&c->text);
	for (size_t i = 0; i < c->media.n_bodies; i++)
		social_blob_give_back(&c->body[i]);
}

/* Reads an array of ids, which are texts or numbers, and one of types. */
static bool read_media_lists(struct composing *c, const json_t *ids, const json_t *types)
{
	size_t n = json_array_size(ids);

	if (!json_is_array(ids) || !json_is_array(types) || n != json_array_size(types) ||
	    n > MEDIA_MAX - FILES_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		const json_t *id = json_array_get(ids, i);
		const char *type = json_string_value(json_array_get(types, i));

		c->ids[i] = json_integer_value(id);
		if (!type || (!json_is_string(id) && !json_is_integer(id)) ||
		    (json_is_string(id) &&
		     !gate_parse(json_string_value(id), 1, INT64_MAX, &c->ids[i])) ||
		    c->ids[i] <= 0)
			return false;
		c->types[i] = social_text_copy(c->g->request, type, strlen(type));
	}
	c->media.n_media_ids = c->media.n_media_types = n;
	return true;
}

static bool read_media_fields(struct composing *c)
{
	const char *ids = http_field(c->g->http, "media_ids");
	const char *types = http_field(c->g->http, "media_types");
	json_t *id_list, *type_list;
	bool is_read;

	c->media.media_ids = c->ids;
	c->media.media_types = c->types;
	c->media.bodies = c->bodies;
	if (!ids || !types)
		return !ids && !types;
	id_list = json_loads(ids, 0, NULL);
	type_list = json_loads(types, 0, NULL);
	is_read = read_media_lists(c, id_list, type_list);
	json_decref(id_list);
	json_decref(type_list);
	return is_read;
}

/* Adds the files of a multipart form: media that are new. Returns false: it has answered, since one
 * is not of its type, or there are too many. */
static bool read_files(struct composing *c)
{
	const struct http_field *f;

	for (size_t i = 0; (f = http_form(c->g->http, i)); i++) {
		const char *type;
		size_t n = c->media.n_bodies;

		if (!*f->filename)
			continue;
		type = gate_media_type(f->filename, f->data, f->len);
		if (!type || n == FILES_MAX) {
			gate_reply(c->g, type ? 400 : 415,
				   type ? "Too many files"
					: "The bytes are not of the file's type");
			return false;
		}
		c->ids[c->media.n_media_ids++] = 0;
		c->types[c->media.n_media_types++] = (char *)(uintptr_t)type;
		c->bodies[c->media.n_bodies++] = &c->body[n];
		social_blob_set(&c->body[n], f->data, f->len);
	}
	return true;
}

static bool read_creator(struct composing *c)
{
	const char *name = c->g->login.username;

	c->creator.user_id = c->g->login.user_id;
	if (!c->g->by_token && (!gate_text(c->g, "username", &name) ||
				!gate_number(c->g, "user_id", 0, INT64_MAX, &c->creator.user_id)))
		return false;
	c->creator.username = (char *)(uintptr_t)name;
	return true;
}

static void init_messages(struct composing *c)
{
	social__compose_req__init(&c->req);
	social__user__init(&c->creator);
	social__media_req__init(&c->media);
	social__blob__init(&c->text);
	c->req.creator = &c->creator;
	c->req.text = &c->text;
	c->req.media = &c->media;
	randombytes_buf(&c->req.req_id, sizeof(c->req.req_id));
	c->req.req_id &= (INT64_C(1) << REQ_ID_BITS) - 1;
}

void gate_compose(struct gate *g)
{
	struct composing *c = social_state(g->request, sizeof(*c));
	const char *text;
	int64_t type;

	c->g = g;
	init_messages(c);
	if (!read_creator(c) || !gate_text(g, "text", &text) ||
	    !gate_number(g, "post_type", 0, POST_TYPES - 1, &type))
		return;
	c->req.post_type = (Social__PostType)type;
	if (!lend_utf8_valid((const uint8_t *)text, strlen(text)) || !read_media_fields(c)) {
		gate_reply(g, 400, "No such text or media");
		return;
	}
	if (!read_files(c))
		return;
	social_blob_set(&c->text, text, strlen(text));
	social_on_fail(g->request, undo_puts, c);
	social_begin(g->request);
	social_blob_send(g->request, &c->text, call_compose, c);
	for (size_t i = 0; i < c->media.n_bodies; i++)
		social_blob_send(g->request, &c->body[i], call_compose, c);
	if (social_ended_with(g->request, LEND_OK, ""))
		call_compose(c);
}
