/* text - the service of texts: finds mentions and URLs, and shortens the URLs.
 * Layer: apps. Threads: the endpoint's. */
#include <string.h>

#include "apps/social/blob.h"
#include "apps/social/social.h"
#include "apps/social/text_scan.h"

enum { TOKENS_MAX = 1024, TEXT_MAX = 16 << 20 };

struct text {
	void *request;
	const char *bytes;
	size_t len;
	Social__Blob *in;
	Social__Names mentions, urls;
	Social__TextReply reply;
	Social__Blob out;
	struct social_blob_op op;
};

/* Answers, and gives the reference of the original text back if another one replaces it. */
static void answer_text(struct text *t)
{
	struct lend_ref ref = {{0}};
	bool replaced = social_blob_is_ref(t->in) && t->reply.text != t->in;

	if (replaced)
		ref = social_blob_ref(t->in);
	social_answer(t->request, &t->reply.base);
	if (replaced)
		social_blob_drop(social.mem, &ref);
}

static void end_put(struct social_blob_op *op)
{
	struct text *t = op->arg;

	if (social_ended_with(t->request, op->op.status, "text cannot be put on the memory node"))
		answer_text(t);
}

/* Returns the text with its URLs shortened. */
static const char *shorten_urls(struct text *t, size_t *len)
{
	const char **urls = social_memory(t->request, t->reply.n_urls * sizeof(*urls));
	size_t cap = t->len;
	char *out;

	for (size_t i = 0; i < t->reply.n_urls; i++) {
		urls[i] = t->reply.urls[i]->shortened_url;
		cap += strlen(urls[i]);
	}
	out = social_memory(t->request, cap);
	*len = social_text_replace(t->bytes, t->len, urls, t->reply.n_urls, out);
	return out;
}

/* Makes the reply when both services have answered. */
static void finish_text(struct text *t)
{
	size_t len = t->len;
	const char *out;

	t->reply.text = t->in;
	if (t->reply.n_urls) {
		out = shorten_urls(t, &len);
		t->reply.text = &t->out;
		social_blob_set(&t->out, out, len);
		if (social_blob_is_ref(t->in)) {
			social_begin(t->request);
			t->op = (struct social_blob_op){.blob = &t->out, .done = end_put, .arg = t};
			social_blob_put(social.mem, &t->op, out, len, LEND_TRANSFER);
			return;
		}
	}
	answer_text(t);
}

static void got_urls(const Social__Urls *reply, void *state)
{
	struct text *t = state;
	Social__Urls *urls = social_copy(t->request, reply);

	if (urls && urls->n_urls == t->urls.n_names) {
		t->reply.urls = urls->urls;
		t->reply.n_urls = urls->n_urls;
	}
	if (social_ended(t->request, SOCIAL_URL_SHORTEN, reply))
		finish_text(t);
}

static void got_mentions(const Social__Users *reply, void *state)
{
	struct text *t = state;
	Social__Users *users = social_copy(t->request, reply);

	if (users) {
		t->reply.user_mentions = users->users;
		t->reply.n_user_mentions = users->n_users;
	}
	if (social_ended(t->request, SOCIAL_USER_MENTION, reply))
		finish_text(t);
}

/* Adds a name to a list, which grows by powers of two. */
static void add_name(void *request, Social__Names *to, const char *name, size_t len)
{
	size_t n = to->n_names;

	if (!(n & (n - 1))) {
		char **more = social_memory(request, (n ? 2 * n : 1) * sizeof(*more));

		to->names = n ? memcpy(more, to->names, n * sizeof(*more)) : more;
	}
	to->names[to->n_names++] = social_text_copy(request, name, len);
}

/* Collects mentions and URLs, and passes them to their services. */
static void scan_text(struct text *t)
{
	struct social_token token = {.len = 0};

	while ((token = social_text_scan(t->bytes, t->len, token.at + token.len)).kind) {
		Social__Names *to = token.kind == SOCIAL_TOKEN_URL ? &t->urls : &t->mentions;

		if (to->n_names == TOKENS_MAX) {
			social_fail(t->request, LEND_INVALID_ARGUMENT,
				    "more than 1024 mentions or URLs");
			return;
		}
		add_name(t->request, to, t->bytes + token.at, token.len);
	}
	social_begin(t->request); /* until both calls are started */
	social__url_shorten_service__compose_urls(social_call(t->request, SOCIAL_URL_SHORTEN),
						  &t->urls, got_urls, t);
	social__user_mention_service__compose_user_mentions(
	    social_call(t->request, SOCIAL_USER_MENTION), &t->mentions, got_mentions, t);
	if (social_ended_with(t->request, LEND_OK, ""))
		finish_text(t);
}

static void end_get(struct social_blob_op *op)
{
	struct text *t = op->arg;

	if (social_ended_with(t->request, op->op.status, "the text is not on the memory node"))
		scan_text(t);
}

static void text_compose_text(Social__TextService_Service *service, const Social__TextReq *in,
			      Social__TextReply_Closure closure, void *request)
{
	struct text *t = social_state(request, sizeof(*t));
	char *bytes;

	(void)service, (void)closure;
	t->request = request;
	social__text_reply__init(&t->reply);
	social__names__init(&t->mentions);
	social__names__init(&t->urls);
	if (!in->text || social_blob_len(in->text) > TEXT_MAX) {
		social_fail(request, LEND_INVALID_ARGUMENT, "no text, or more than 16 MiB");
		return;
	}
	t->in = social_copy(request, in->text);
	t->len = social_blob_len(t->in);
	t->bytes = (char *)t->in->data.data;
	if (!social_blob_is_ref(t->in)) {
		scan_text(t);
		return;
	}
	t->bytes = bytes = social_memory(request, t->len);
	social_begin(request);
	t->op = (struct social_blob_op){.blob = t->in, .done = end_get, .arg = t};
	social_blob_get(social.mem, &t->op, bytes);
}

ProtobufCService *social_text(void)
{
	static Social__TextService_Service service = SOCIAL__TEXT_SERVICE__INIT(text_);

	return &service.base;
}
