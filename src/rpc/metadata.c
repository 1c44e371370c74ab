/* metadata - pairs of keys and values that the application sends: a head that grows.
 * Layer: rpc. Threads: one at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/heads.h"
#include "sys/last_error.h"

enum { FIRST = 256 }; /* bytes allocated at first */

struct lend_metadata *lend_metadata_new(void)
{
	struct lend_metadata *m = malloc(sizeof(*m));
	void *bytes = malloc(FIRST);

	if (!m || !bytes) {
		free(m);
		free(bytes);
		(void)lend_fail(ENOMEM, "no memory for metadata");
		return NULL;
	}
	m->w = lend_head_begin(bytes, FIRST);
	m->secret = false;
	(void)lend_head_end(&m->w);
	return m;
}

void lend_metadata_free(struct lend_metadata *metadata)
{
	if (!metadata)
		return;
	free(metadata->w.at);
	free(metadata);
}

/* Makes room for a pair, if a head can have it. Returns 0 or -ENOMEM. */
static int make_room(struct lend_head_writer *w, size_t len)
{
	uint32_t cap = w->cap;
	uint8_t *bytes;

	while (cap < LEND_HEAD_MAX && cap < w->len + len)
		cap *= 2;
	if (cap == w->cap)
		return 0;
	bytes = realloc(w->at, cap);
	if (!bytes)
		return lend_fail(ENOMEM, "no memory for metadata");
	w->at = bytes;
	w->cap = cap;
	return 0;
}

int lend_metadata_add(struct lend_metadata *metadata, const char *key, const void *value,
		      size_t len)
{
	struct lend_head_writer *w = &metadata->w;
	size_t key_len = strlen(key);
	int rc = len <= LEND_HEAD_MAX ? make_room(w, key_len + len + 12) : 0;

	if (rc < 0)
		return rc;
	lend_head_add(w, LEND_HEAD_INITIAL, key, value, len);
	if (!w->failed) {
		(void)lend_head_end(w);
		metadata->secret |= strcmp(key, "authorization") == 0;
		return 0;
	}
	w->failed = false;
	if (key_len <= UINT8_MAX &&
	    (len > LEND_HEAD_MAX || w->len + key_len + len + 6 > LEND_HEAD_MAX))
		return lend_fail(E2BIG, "metadata of more than %d bytes", LEND_HEAD_MAX);
	return lend_fail(
	    EINVAL,
	    "metadata \"%.40s\": keys have 1 to 255 of a-z 0-9 _ . -, values printable "
	    "ASCII unless the key ends in -bin",
	    key);
}

bool lend_metadata_pair(const uint8_t *head, enum lend_head_kind kind, uint32_t *at,
			struct lend_pair *pair)
{
	struct lend_head_entry e;

	while (lend_head_next(head, at, &e)) {
		*pair = (struct lend_pair){.key = e.key, .value = e.value, .len = e.len};
		if (e.kind == kind)
			return true;
	}
	return false;
}

bool lend_metadata_next(const struct lend_metadata *metadata, uint32_t *at, struct lend_pair *pair)
{
	return lend_metadata_pair(metadata->w.at, LEND_HEAD_INITIAL, at, pair);
}

void lend_metadata_put(struct lend_head_writer *w, enum lend_head_kind kind,
		       const struct lend_metadata *metadata)
{
	struct lend_pair pair;

	if (metadata && kind == LEND_HEAD_INITIAL) {
		lend_head_append(w, &metadata->w);
		return;
	}
	for (uint32_t at = 0; metadata && lend_metadata_next(metadata, &at, &pair);)
		lend_head_add(w, kind, pair.key, pair.value, pair.len);
}

int lend_head_refused(const struct lend_ep *ep, uint32_t room)
{
	if (room > ep->config.head_max)
		return lend_fail(E2BIG, "texts and metadata of more than config.head_max, %u bytes",
				 ep->config.head_max);
	return lend_fail(EINVAL, "a name, message, authority or encoding is not UTF-8");
}

uint32_t lend_head_text_room(const char *text)
{
	return text ? (uint32_t)strnlen(text, LEND_HEAD_MAX) + 12 : 0;
}
