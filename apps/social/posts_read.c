#include "apps/social/posts_read.h"

#include <string.h>

#include "apps/social/post_refs.h"
#include "apps/social/social.h"

const char *post_key(void *request, int64_t id)
{
	return social_key(request, "p:%lld", (long long)id);
}

/* Posts that are being read. */
struct reading {
	void *request;
	struct held_map *cache;
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
		r->post[r->taken[i]->index] = post_refs_bytes(r->taken[i], r->cache);
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

void posts_read(void *request, struct store *store, struct held_map *cache, const Social__Ids *in)
{
	struct reading *r = social_state(request, sizeof(*r));
	const char **key = social_memory(request, in->n_ids * sizeof(*key));
	size_t n = 0;

	if (in->n_ids > 1000 || has_twice(in->ids, in->n_ids)) {
		social_fail(request, LEND_INVALID_ARGUMENT, "the same post twice, or over 1000");
		return;
	}
	r->request = request;
	r->cache = cache;
	r->n = in->n_ids;
	r->post = social_state(request, r->n * sizeof(*r->post));
	r->taken = social_memory(request, r->n * sizeof(*r->taken));
	for (size_t i = 0; i < r->n; i++) {
		const struct held *h = held_find(cache, in->ids[i]);

		if (h)
			r->post[i] = (struct post_bytes){
			    social_text_copy(request, (char *)h->bytes, h->bytes_len),
			    h->bytes_len};
		else
			key[n++] = post_key(request, in->ids[i]);
	}
	store_get(store, key, n, got_posts, r);
}
