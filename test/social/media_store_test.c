/* Goal: media are kept as long as their map has them, and a medium that cannot be kept leaves
 * nothing on the memory node. Method: the node is replaced by counters of puts and releases, and
 * the map refuses an entry. Covers: apps/social/media_store.c, apps/social/held.c */
#include <criterion/criterion.h>
#include <string.h>

#include "apps/social/held.h"
#include "apps/social/media_store.h"
#include "apps/social/social.h"

static struct {
	unsigned puts, drops, stored;
	bool is_full; /* the map */
	enum lend_status status;
} seen;

struct held *__real_held_add(struct held_map *map, struct held *held);
struct held *__wrap_held_add(struct held_map *map, struct held *held);
void __wrap_social_blob_put(struct lend_mem *mem, struct social_blob_op *op, const void *data,
			    size_t len, enum lend_hold hold);
void __wrap_social_blob_drop(struct lend_mem *mem, const struct lend_ref *ref);

struct held *__wrap_held_add(struct held_map *map, struct held *held)
{
	return seen.is_full ? NULL : __real_held_add(map, held);
}

void __wrap_social_blob_put(struct lend_mem *mem, struct social_blob_op *op, const void *data,
			    size_t len, enum lend_hold hold)
{
	(void)mem, (void)data, (void)len, (void)hold;
	seen.puts++;
	memset(op->text, 0, sizeof(op->text));
	op->blob->ref = (ProtobufCBinaryData){sizeof(op->text), op->text};
	op->op.status = LEND_OK;
	op->done(op);
}

void __wrap_social_blob_drop(struct lend_mem *mem, const struct lend_ref *ref)
{
	(void)mem, (void)ref;
	seen.drops++;
}

static void fail_request(void *arg, enum lend_status status, const char *why)
{
	(void)arg, (void)why;
	seen.status = status;
}

static void note_stored(void *request)
{
	seen.stored++;
	social_end(request);
}

/* Stores a medium of four bytes. */
static void store_medium(int64_t id)
{
	void *request = social_root(SOCIAL_MEDIA, fail_request, NULL);
	Social__Blob *bytes = social_state(request, sizeof(*bytes));

	social_blob_set(bytes, "jpeg", 4);
	media_store_add(request, id, bytes, note_stored, request);
}

/* Returns the status of a read by reference. */
static enum lend_status read_status(int64_t id)
{
	void *request = social_root(SOCIAL_MEDIA, fail_request, NULL);
	Social__Media media = SOCIAL__MEDIA__INIT;

	seen.status = LEND_OK;
	social.by = SOCIAL_BY_REF;
	social.mem = (struct lend_mem *)&seen; /* there is a node; nothing looks at it */
	media.media_id = id;
	media_store_read(request, &media, social_end, request);
	return seen.status;
}

Test(media_store, add__has_room__kept_until_drop)
{
	store_medium(1);
	cr_assert_eq(seen.stored, 1);
	cr_assert_eq(read_status(1), LEND_OK);
	cr_assert_eq(seen.drops, 0);
	media_store_drop(1);
	media_store_drop(1);
	cr_assert_eq(seen.drops, 1);
	cr_assert_eq(read_status(1), LEND_NOT_FOUND);
}

Test(media_store, add__map_is_full__bytes_are_released)
{
	seen.is_full = true;
	store_medium(1);
	cr_assert_eq(seen.status, LEND_RESOURCE_EXHAUSTED);
	cr_assert_eq(seen.stored, 0);
	cr_assert_eq(seen.puts, 1);
	cr_assert_eq(seen.drops, 1);
	cr_assert_eq(read_status(1), LEND_NOT_FOUND);
}

Test(media_store, add__id_is_taken__first_one_is_kept)
{
	store_medium(1);
	store_medium(1);
	cr_assert_eq(seen.status, LEND_RESOURCE_EXHAUSTED);
	cr_assert_eq(seen.puts, 2);
	cr_assert_eq(seen.drops, 1);
	cr_assert_eq(read_status(1), LEND_OK);
}
