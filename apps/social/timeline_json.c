/* timeline_json - see timeline_json.h. */
#include "apps/social/timeline_json.h"

#include <stdbool.h>
#include <string.h>

#include "lend/alloc.h"

enum { BLOCK = 32 }; /* bytes of a text that are looked at together */

/* A text that grows. */
struct json {
	char *data; /* NULL: no memory */
	size_t len, cap;
};

/* Makes room for more bytes. Returns false: there is no memory. */
static bool reserve_bytes(struct json *j, size_t more)
{
	size_t cap = j->cap;
	char *data;

	if (!j->data || j->cap - j->len >= more)
		return j->data;
	while (cap - j->len < more)
		cap *= 2;
	data = lend_malloc(cap);
	if (data)
		memcpy(data, j->data, j->len);
	lend_free(j->data);
	j->data = data;
	j->cap = cap;
	return data;
}

static void add_bytes(struct json *j, const char *bytes, size_t len)
{
	if (!reserve_bytes(j, len))
		return;
	memcpy(j->data + j->len, bytes, len);
	j->len += len;
}

static void add_text(struct json *j, const char *text)
{
	add_bytes(j, text, strlen(text));
}

static void add_escape(struct json *j, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	const char *short_form = c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : NULL;
	const char code[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], 0};

	add_text(j, short_form ? short_form : code);
}

/* Returns whether JSON has all bytes of a block as they are: none is a control character, a quote
 * or a backslash. The compiler makes vectors of the loop. */
static bool is_plain(const unsigned char block[BLOCK])
{
	unsigned char escapes = 0;

	for (size_t i = 0; i < BLOCK; i++)
		escapes |= (block[i] < ' ') | (block[i] == '"') | (block[i] == '\\');
	return !escapes;
}

static void add_quoted(struct json *j, const char *text, size_t len)
{
	size_t from = 0;

	add_text(j, "\"");
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (len - i >= BLOCK && is_plain((const unsigned char *)text + i)) {
			i += BLOCK - 1;
			continue;
		}
		if (c >= ' ' && c != '"' && c != '\\')
			continue;
		add_bytes(j, text + from, i - from);
		add_escape(j, c);
		from = i + 1;
	}
	add_bytes(j, text + from, len - from);
	add_text(j, "\"");
}

/* Adds a member: prefix is what comes before its value, such as ",\"name\":". */
static void add_string(struct json *j, const char *prefix, const char *text)
{
	add_text(j, prefix);
	add_quoted(j, text, strlen(text));
}

static void add_number(struct json *j, const char *prefix, int64_t value)
{
	uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	char text[24], *at = text + sizeof(text) - 1;

	*at = 0;
	*--at = '"';
	do
		*--at = (char)('0' + left % 10);
	while (left /= 10);
	if (value < 0)
		*--at = '-';
	*--at = '"';
	add_text(j, prefix);
	add_text(j, at);
}

static void add_user(struct json *j, const Social__User *user)
{
	add_number(j, "{\"user_id\":", user->user_id);
	add_string(j, ",\"username\":", user->username);
	add_text(j, "}");
}

static void add_lists(struct json *j, const Social__Post *post)
{
	add_text(j, ",\"user_mentions\":[");
	for (size_t i = 0; i < post->n_user_mentions; i++) {
		add_text(j, i ? "," : "");
		add_user(j, post->user_mentions[i]);
	}
	add_text(j, "],\"media\":[");
	for (size_t i = 0; i < post->n_media; i++) {
		add_number(j, i ? ",{\"media_id\":" : "{\"media_id\":", post->media[i]->media_id);
		add_string(j, ",\"media_type\":", post->media[i]->media_type);
		add_text(j, "}");
	}
	add_text(j, "],\"urls\":[");
	for (size_t i = 0; i < post->n_urls; i++) {
		add_string(j, i ? ",{\"shortened_url\":" : "{\"shortened_url\":",
			   post->urls[i]->shortened_url);
		add_string(j, ",\"expanded_url\":", post->urls[i]->expanded_url);
		add_text(j, "}");
	}
	add_text(j, "]");
}

static void add_post(struct json *j, const Social__Post *post)
{
	const Social__User none = SOCIAL__USER__INIT;
	const ProtobufCBinaryData *text = post->text ? &post->text->data : NULL;

	add_number(j, "{\"post_id\":", post->post_id);
	add_text(j, ",\"creator\":");
	add_user(j, post->creator ? post->creator : &none);
	add_number(j, ",\"req_id\":", post->req_id);
	add_text(j, ",\"text\":");
	if (text && text->data)
		add_quoted(j, (char *)text->data, text->len);
	else
		add_text(j, "null");
	add_lists(j, post);
	add_number(j, ",\"timestamp\":", post->timestamp);
	add_text(j, ",\"post_type\":");
	add_bytes(j, &"0123"[post->post_type & 3], 1);
	add_text(j, "}");
}

char *timeline_json(const Social__Posts *posts, size_t *len)
{
	struct json j = {.cap = 1024};

	for (size_t i = 0; i < posts->n_posts; i++)
		j.cap += 2048 + (posts->posts[i]->text ? posts->posts[i]->text->data.len : 0);
	j.data = lend_malloc(j.cap);
	add_text(&j, "[");
	for (size_t i = 0; i < posts->n_posts; i++) {
		add_text(&j, i ? "," : "");
		add_post(&j, posts->posts[i]);
	}
	add_text(&j, "]\n");
	*len = j.len;
	return j.data;
}
