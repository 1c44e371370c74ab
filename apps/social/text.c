/* text - the service of texts: finds mentions and URLs, and shortens the URLs.
 * Layer: apps. Threads: the endpoint's. */
#include <string.h>

#include "apps/social/request_blob.h"
#include "apps/social/social.h"
#include "apps/social/text_scan.h"

enum { TOKENS_MAX = 1024, TEXT_MAX = 16 << 20 };

struct text {
	void *request;
	Social__Blob *in, bytes, out; /* bytes: in, read */
	Social__Names mentions, urls;
	Social__TextReply reply;
};

/* Answers. A reference to the original text ends if another text replaces it. */
static void answer_text(void *state)
{
	struct text *t = state;

	if (t->reply.text != t->in)
		social_blob_give_back(t->in);
	social_answer(t->request, &t->reply.base);
}

/* Sets out to the text with its URLs shortened. */
static void shorten_urls(struct text *t)
{
	const char **urls = social_memory(t->request, t->reply.n_urls * sizeof(*urls));
	size_t cap = t->bytes.data.len;
	char *out;

	for (size_t i = 0; i < t->reply.n_urls; i++) {
		urls[i] = t->reply.urls[i]->shortened_url;
		cap += strlen(urls[i]);
	}
	out = social_memory(t->request, cap);
	social_blob_set(&t->out, out,
			social_text_replace((char *)t->bytes.data.data, t->bytes.data.len, urls,
					    t->reply.n_urls, out));
}

/* Makes the reply when both services have answered. */
static void finish_text(struct text *t)
{
	if (!t->reply.n_urls) {
		t->reply.text = t->in;
		answer_text(t);
		return;
	}
	shorten_urls(t);
	t->reply.text = &t->out;
	social_blob_send(t->request, &t->out, answer_text, t);
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
static void scan_text(void *state)
{
	struct text *t = state;
	const char *bytes = (char *)t->bytes.data.data;
	struct social_token token = {.len = 0};

	while ((token = social_text_scan(bytes, t->bytes.data.len, token.at + token.len)).kind) {
		Social__Names *to = token.kind == SOCIAL_TOKEN_URL ? &t->urls : &t->mentions;

		if (to->n_names == TOKENS_MAX) {
			social_fail(t->request, LEND_INVALID_ARGUMENT,
				    "more than 1024 mentions or URLs");
			return;
		}
		add_name(t->request, to, bytes + token.at, token.len);
	}
	social_begin(t->request); /* until both calls are started */
	social__url_shorten_service__compose_urls(social_call(t->request, SOCIAL_URL_SHORTEN),
						  &t->urls, got_urls, t);
	social__user_mention_service__compose_user_mentions(
	    social_call(t->request, SOCIAL_USER_MENTION), &t->mentions, got_mentions, t);
	if (social_ended_with(t->request, LEND_OK, ""))
		finish_text(t);
}

static void text_compose_text(Social__TextService_Service *service, const Social__TextReq *in,
			      Social__TextReply_Closure closure, void *request)
{
	struct text *t = social_state(request, sizeof(*t));

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
	t->bytes = *t->in;
	social_blob_fetch(request, &t->bytes, scan_text, t);
}

ProtobufCService *social_text(void)
{
	static Social__TextService_Service service = SOCIAL__TEXT_SERVICE__INIT(text_);

	return &service.base;
}
