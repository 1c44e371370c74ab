/* timeline - see timeline.h. */
#include "apps/social/timeline.h"

#include <string.h>

#include "apps/social/social.h"

enum { READ_POSTS = 2, COUNT_MAX = 1000 }; /* index of ReadPosts in its service */

static void got_members(const struct store_result *result, void *request)
{
	Social__Posts none = SOCIAL__POSTS__INIT;
	Social__Ids ids = SOCIAL__IDS__INIT;

	if (result->status != LEND_OK) {
		social_fail(request, result->status, "the timeline cannot be read");
		return;
	}
	ids.n_ids = result->n;
	ids.ids = (int64_t *)(uintptr_t)result->member;
	if (result->n)
		social_forward(request, SOCIAL_POST_STORAGE, READ_POSTS, &ids.base);
	else
		social_answer(request, &none.base);
}

void timeline_read(void *request, struct store *store, char kind, const Social__Range *in)
{
	Social__Posts none = SOCIAL__POSTS__INIT;
	int64_t count = (int64_t)in->stop - in->start;

	if (in->start < 0 || count <= 0) {
		social_answer(request, &none.base);
		return;
	}
	if (count > COUNT_MAX) {
		social_fail(request, LEND_INVALID_ARGUMENT, "more than 1000 posts");
		return;
	}
	store_range(store, social_key(request, "%c:%lld", kind, (long long)in->user_id),
		    (size_t)in->start, (size_t)count, STORE_NEWEST, got_members, request);
}
