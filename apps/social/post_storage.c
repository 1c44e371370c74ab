/* post_storage - the service of posts. Its store has each post with all its bytes. By reference it
 * also keeps a cache of posts as readers get them: with references in place of long texts and
 * media, which it has adopted from the composer, or put after a restart. Layer: apps. Threads: the
 * endpoint's. */
#include <string.h>

#include "apps/social/held.h"
#include "apps/social/post_refs.h"
#include "apps/social/posts_read.h"
#include "apps/social/social.h"
#include "apps/social/social_store.h"
#include "lend/alloc.h"

static struct store *store;
static struct held_map cached;

/* A post that is being stored. */
struct storing {
	void *request;
	struct post_taken *taken;
};

static void end_store(const struct store_result *result, void *state)
{
	struct storing *s = state;

	if (!social_ended_with(s->request, result->status, "the post cannot be stored"))
		return;
	post_refs_cache(s->taken, &cached);
	social_answer_empty(s->request);
}

static void undo_store(void *state)
{
	post_refs_undo(((struct storing *)state)->taken);
}

/* Stores a post whose bytes are all here. */
static void store_taken(struct post_taken *taken, void *state)
{
	struct storing *s = state;
	size_t len = social__post__get_packed_size(taken->post);
	uint8_t *bytes = social_memory(s->request, len);

	social__post__pack(taken->post, bytes);
	social_begin(s->request);
	store_put(store, post_key(s->request, taken->post->post_id),
		  (struct store_bytes){bytes, len}, true, end_store, s);
}

static void post_storage_store_post(Social__PostStorageService_Service *service,
				    const Social__Post *in, Social__Empty_Closure closure,
				    void *request)
{
	struct storing *s = social_state(request, sizeof(*s));

	(void)service, (void)closure;
	s->request = request;
	s->taken = post_refs_make(request, social_copy(request, in));
	social_on_fail(request, undo_store, s);
	post_refs_take(s->taken, store_taken, s);
}

static void post_storage_read_posts(Social__PostStorageService_Service *service,
				    const Social__Ids *in, Social__Posts_Closure closure,
				    void *request)
{
	(void)service, (void)closure;
	posts_read(request, store, &cached, in);
}

static void got_post(const struct store_result *result, void *request)
{
	const struct store_bytes *post = result->n ? &result->value[0] : NULL;
	void *bytes = post && post->data ? lend_malloc_shared(post->len + 1) : NULL;

	if (bytes)
		social_answer_bytes(request, memcpy(bytes, post->data, post->len), post->len);
	else
		social_fail(request, post ? LEND_NOT_FOUND : result->status, "no such post");
}

/* Reads a post with all its bytes. A reader calls this if the memory node has lost some: references
 * are made again for the next reader. */
static void post_storage_read_post(Social__PostStorageService_Service *service,
				   const Social__Id *in, Social__Post_Closure closure,
				   void *request)
{
	struct held *h = held_find(&cached, in->id);
	const char *key = post_key(request, in->id);

	(void)service, (void)closure;
	if (h)
		held_drop(&cached, social.mem, h);
	store_get(store, &key, 1, got_post, request);
}

ProtobufCService *social_post_storage(void)
{
	static Social__PostStorageService_Service service =
	    SOCIAL__POST_STORAGE_SERVICE__INIT(post_storage_);

	store = store_open("post-storage");
	return &service.base;
}
