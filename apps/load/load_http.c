/* load_http - the target over HTTP: requests of load_form.c, and checks of their replies.
 * Layer: apps. Threads: one. Owns the client and the stored photos' ids. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/load/http_client.h"
#include "apps/load/load_form.h"

enum { STORED = 64 }; /* photos that are stored for get-media */

struct slot {
	struct load_form form;
	enum load_kind kind;
	unsigned stored; /* index of the photo that it gets or stores */
};

struct http_target {
	struct load_target base;
	struct http_client *client;
	const struct load_shape *shape;
	const char *url;
	struct load_photo photo, get_photo;
	struct lend_rng rng;
	bool storing;
	unsigned stored;
	char id[STORED][LOAD_ID_MAX];
	unsigned slots;
	struct slot slot[];
};

static unsigned count_posts(const char *body, size_t len)
{
	static const char key[] = "\"post_id\"";
	const char *end = body + len, *at = body;
	unsigned n = 0;

	while ((at = memmem(at, (size_t)(end - at), key, sizeof(key) - 1)) != NULL) {
		at += sizeof(key) - 1;
		n++;
	}
	return n;
}

/* Copies the text behind "KEY":" in a reply to at most cap bytes. False: there is none. */
static bool find_text(const char *body, const char *key, char *text, size_t cap)
{
	char quoted[32];
	const char *at;
	size_t n;

	(void)snprintf(quoted, sizeof(quoted), "\"%s\"", key);
	at = strstr(body, quoted);
	at = at ? strchr(at + strlen(quoted), '"') : NULL;
	n = at ? strcspn(at + 1, "\"") : 0;
	if (n == 0 || n >= cap)
		return false;
	memcpy(text, at + 1, n);
	text[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]))
			return false;
	return true;
}

/* Notes the id of a stored photo. */
static void note_stored(struct http_target *t, const struct http_reply *reply)
{
	char id[64], type[16];

	if (reply->status != HTTP_OK)
		app_die("%s/upload-media: status %u: %.80s", t->url, reply->status, reply->body);
	if (!find_text(reply->body, "media_id", id, sizeof(id)) ||
	    !find_text(reply->body, "media_type", type, sizeof(type)))
		app_die("%s/upload-media: no media_id and media_type in the reply: %.80s", t->url,
			reply->body);
	(void)snprintf(t->id[t->stored++], LOAD_ID_MAX, "%s.%s", id, type);
}

static void end_request(void *arg, unsigned connection, const struct http_reply *reply)
{
	struct http_target *t = arg;
	const struct slot *slot = &t->slot[connection];
	struct load_end end = {.ok = reply->status == HTTP_OK,
			       .late = reply->status == HTTP_LATE,
			       .code = reply->status,
			       .bytes = reply->bytes};

	if (t->storing) {
		note_stored(t, reply);
		return;
	}
	if (end.ok && (slot->kind == LOAD_HOME || slot->kind == LOAD_USER))
		end.posts = count_posts(reply->body, reply->len);
	if (end.ok && slot->kind == LOAD_GET_MEDIA)
		end.wrong_bytes =
		    load_photo_wrong(&t->get_photo, slot->stored, reply->body, reply->len);
	t->base.ended(t->base.arg, connection, &end);
}

static struct http_target *target_of(struct load_target *base)
{
	return APP_OF(base, struct http_target, base);
}

static int start_request(struct load_target *base, unsigned index,
			 const struct load_request *request)
{
	struct http_target *t = target_of(base);
	struct slot *slot = &t->slot[index];
	const char *host = http_client_host(t->client);

	slot->kind = request->kind;
	slot->stored = t->stored ? (unsigned)(request->number % t->stored) : 0;
	if (request->kind == LOAD_GET_MEDIA)
		load_form_get_media(&slot->form, host, t->id[slot->stored]);
	else if (request->kind == LOAD_COMPOSE)
		load_form_compose(&slot->form, host, request, t->shape, &t->photo, &t->rng);
	else
		load_form_read(&slot->form, host, request);
	return http_client_start(t->client, index, slot->form.part, slot->form.parts);
}

static int poll_target(struct load_target *base, lend_ns wait)
{
	return http_client_poll(target_of(base)->client, wait);
}

static const char *code_name(unsigned code, char *text)
{
	static const char *const own[] = {
	    [HTTP_LOST] = "lost", [HTTP_LATE] = "late", [HTTP_MALFORMED] = "malformed"};

	if (code < sizeof(own) / sizeof(own[0]))
		return own[code];
	(void)snprintf(text, 16, "%u", code);
	return text;
}

static void close_target(struct load_target *base)
{
	struct http_target *t = target_of(base);

	http_client_close(t->client);
	for (unsigned i = 0; i < t->slots; i++)
		free(t->slot[i].form.bytes);
	free(t->photo.bytes);
	free(t->get_photo.bytes);
	free(t);
}

static const struct load_target_ops ops = {
    .start = start_request, .poll = poll_target, .code_name = code_name, .close = close_target};

/* Stores the photos that get-media reads, one after the other. */
static void store_photos(struct http_target *t)
{
	struct load_form *form = &t->slot[0].form;

	t->storing = true;
	for (unsigned i = 0; i < STORED; i++) {
		load_form_upload(form, http_client_host(t->client), i, &t->get_photo);
		if (http_client_start(t->client, 0, form->part, form->parts) < 0)
			app_die("%s: no connection", t->url);
		while (t->stored == i)
			if (http_client_poll(t->client, LEND_NEVER) < 0)
				app_die("%s: cannot wait for a reply", t->url);
	}
	t->storing = false;
}

struct load_target *load_http_open(const char *url, unsigned connections, lend_ns timeout,
				   const struct load_shape *shape, uint64_t seed)
{
	struct http_target *t = calloc(1, sizeof(*t) + connections * sizeof(t->slot[0]));
	const char *why;

	if (!t)
		app_die("no memory for %u connections", connections);
	t->base.ops = &ops;
	t->shape = shape;
	t->url = url;
	lend_rng_seed(&t->rng, seed);
	for (; t->slots < connections; t->slots++)
		load_form_open(&t->slot[t->slots].form, shape);
	if (shape->photo)
		t->photo = load_photo_read(shape->photo);
	if (shape->get_photo)
		t->get_photo = load_photo_read(shape->get_photo);
	if (http_client_open(url, connections, timeout, end_request, t, &t->client, &why) < 0)
		app_die("--target %s: %s", url, why);
	if (shape->share[LOAD_GET_MEDIA])
		store_photos(t);
	return &t->base;
}
