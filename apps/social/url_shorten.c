/* url_shorten - the service of short URLs.
 * Layer: apps. Threads: the endpoint's. */
#include <stdio.h>
#include <string.h>

#include "apps/social/social.h"
#include "apps/social/social_store.h"

static const char prefix[] = "http://short-url/";
enum { RANDOM_LEN = 10, SHORT_LEN = sizeof(prefix) - 1 + RANDOM_LEN };

static struct store *store;

struct shortening {
	void *request;
	Social__Urls reply;
};

static void end_put(const struct store_result *result, void *state)
{
	struct shortening *s = state;

	if (social_ended_with(s->request, result->status, "URLs cannot be stored"))
		social_answer(s->request, &s->reply.base);
}

static char *make_short(void *request)
{
	char *text = social_memory(request, SHORT_LEN + 1);

	strcpy(text, prefix);
	social_random_text(text + sizeof(prefix) - 1, RANDOM_LEN);
	return text;
}

static void url_shorten_compose_urls(Social__UrlShortenService_Service *service,
				     const Social__Names *in, Social__Urls_Closure closure,
				     void *request)
{
	struct shortening *s = social_state(request, sizeof(*s));

	(void)service, (void)closure;
	s->request = request;
	social__urls__init(&s->reply);
	s->reply.urls = social_memory(request, in->n_names * sizeof(*s->reply.urls));
	social_begin(request);
	for (size_t i = 0; i < in->n_names; i++) {
		Social__Url *url = social_memory(request, sizeof(*url));
		size_t len = strlen(in->names[i]);
		char key[STORE_KEY_MAX];

		social__url__init(url);
		url->expanded_url = social_text_copy(request, in->names[i], len);
		url->shortened_url = make_short(request);
		s->reply.urls[s->reply.n_urls++] = url;
		(void)snprintf(key, sizeof(key), "l:%s", url->shortened_url);
		social_begin(request);
		store_put(store, key, (struct store_bytes){in->names[i], len}, true, end_put, s);
	}
	if (social_ended_with(request, LEND_OK, ""))
		social_answer(request, &s->reply.base);
}

static void got_urls(const struct store_result *result, void *request)
{
	Social__Names reply = SOCIAL__NAMES__INIT;

	reply.names = social_memory(request, result->n * sizeof(*reply.names));
	for (size_t i = 0; i < result->n; i++) {
		const struct store_bytes *url = &result->value[i];

		if (!url->data) {
			social_fail(request, LEND_NOT_FOUND, "no such short URL");
			return;
		}
		reply.names[reply.n_names++] = social_text_copy(request, url->data, url->len);
	}
	if (result->status == LEND_OK)
		social_answer(request, &reply.base);
	else
		social_fail(request, result->status, "URLs cannot be read");
}

static void url_shorten_get_extended_urls(Social__UrlShortenService_Service *service,
					  const Social__Names *in, Social__Names_Closure closure,
					  void *request)
{
	const char **keys = social_memory(request, in->n_names * sizeof(*keys));

	(void)service, (void)closure;
	for (size_t i = 0; i < in->n_names; i++)
		keys[i] = social_key(request, "l:%.100s", in->names[i]);
	store_get(store, keys, in->n_names, got_urls, request);
}

ProtobufCService *social_url_shorten(void)
{
	static Social__UrlShortenService_Service service =
	    SOCIAL__URL_SHORTEN_SERVICE__INIT(url_shorten_);

	store = store_open("url-shorten");
	return &service.base;
}
