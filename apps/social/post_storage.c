/* post_storage - the service of posts. Its store has each post with all its bytes. By reference it
 * also keeps a cache of posts as readers get them: with references in place of long texts and
 * media, which it has adopted from the composer, or put after a restart. Layer: apps. Threads: the
 * endpoint's. */
#include <stdlib.h>
#include <string.h>

#include "apps/social/held.h"
#include "apps/social/post_refs.h"
#include "apps/social/posts.h"
#include "apps/social/social.h"
#include "apps/social/social_store.h"
#include "lend/alloc.h"

static struct store *store;
static struct held_map cached;

static const char *key_of(void *request, int64_t id)
{
	return social_key(request, "p:%lld", (long long)id);
}

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
	store_put(store, key_of(s->request, taken->post->post_id), (struct store_bytes){bytes, len},
		  true, end_store, s);
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

/* Posts that are being read. */
struct reading {
	void *request;
	size_t n;
	int64_t *id;
	struct post_bytes *post;   /* data NULL: in the store */
	struct post_taken **taken; /* posts that are put on the memory node first */
	size_t n_taken;
};

static void answer_posts(struct reading *r)
{
	size_t len;
	void *bytes = posts_join(r->post, r->n, &len);

	if (bytes)
		social_answer_bytes(r->request, bytes, len);
	else
		social_fail(r->request, LEND_RESOURCE_EXHAUSTED, "no memory for the posts");
}

/* Answers when the bytes of all posts that were put are on the node, or were refused by it. */
static void end_puts(struct post_taken *taken, void *state)
{
	struct reading *r = state;
	(void)taken;
	for (size_t i = 0; i < r->n_taken; i++)
		r->post[r->taken[i]->index] = post_refs_bytes(r->taken[i], &cached);
	answer_posts(r);
}

/* Puts the long texts and media of the post at index on the node. */
static void put_post(struct reading *r, size_t index)
{
	Social__Post *post = social__post__unpack(NULL, r->post[index].len, r->post[index].data);

	if (!post)
		return;
	r->taken[r->n_taken] = post_refs_make(r->request, social_copy(r->request, post));
	r->taken[r->n_taken++]->index = index;
	social__post__free_unpacked(post, NULL);
}

/* Takes the posts out of the store. Those that have to be put need more time than the store lends
 * its values for. */
static void got_posts(const struct store_result *result, void *state)
{
	struct reading *r = state;
	bool missing = false;

	for (size_t i = 0, at = 0; i < r->n && result->status == LEND_OK; i++) {
		if (r->post[i].data)
			continue;
		r->post[i] = (struct post_bytes){result->value[at].data, result->value[at].len};
		missing |= !r->post[i].data;
		at++;
		if (r->post[i].data && social_by_ref(r->post[i].len))
			put_post(r, i);
	}
	if (result->status != LEND_OK || missing) {
		social_fail(r->request, missing ? LEND_NOT_FOUND : result->status,
			    missing ? "no such post" : "posts cannot be read");
		return;
	}
	for (size_t i = 0; i < r->n && r->n_taken; i++)
		r->post[i].data = social_text_copy(r->request, r->post[i].data, r->post[i].len);
	if (r->n_taken)
		post_refs_put(r->taken, r->n_taken, end_puts, r);
	else
		answer_posts(r);
}

static bool has_twice(const int64_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if (id[i] == id[j])
				return true;
	return false;
}

static void post_storage_read_posts(Social__PostStorageService_Service *service,
				    const Social__Ids *in, Social__Posts_Closure closure,
				    void *request)
{
	struct reading *r = social_state(request, sizeof(*r));
	const char **key = social_memory(request, in->n_ids * sizeof(*key));
	size_t n = 0;

	(void)service, (void)closure;
	if (in->n_ids > 1000 || has_twice(in->ids, in->n_ids)) {
		social_fail(request, LEND_INVALID_ARGUMENT, "the same post twice, or over 1000");
		return;
	}
	r->request = request;
	r->n = in->n_ids;
	r->post = social_state(request, r->n * sizeof(*r->post));
	r->taken = social_memory(request, r->n * sizeof(*r->taken));
	for (size_t i = 0; i < r->n; i++) {
		const struct held *h = held_find(&cached, in->ids[i]);

		if (h)
			r->post[i] = (struct post_bytes){
			    social_text_copy(request, (char *)h->bytes, h->bytes_len),
			    h->bytes_len};
		else
			key[n++] = key_of(request, in->ids[i]);
	}
	store_get(store, key, n, got_posts, r);
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
	const char *key = key_of(request, in->id);

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
