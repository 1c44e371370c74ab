/* http_gateway - see http_gateway.h. */
#include "apps/social/http_gateway.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/social/role_metrics.h"

/* Whether a route's user is that of the token in its cookie. */
enum identity { BY_FIELDS, BY_TOKEN };
static const struct route {
	const char *method, *path, *prefix; /* prefix: of the texts of failures */
	enum identity identity;
	void (*run)(struct gate *g);
} routes[] = {
    {"POST", "/wrk2-api/user/register", "User registration failure: ", BY_FIELDS,
     gate_register_with_id},
    {"POST", "/wrk2-api/user/follow", "Follow Failed: ", BY_FIELDS, gate_follow},
    {"POST", "/wrk2-api/user/unfollow", "Unfollow Failed: ", BY_FIELDS, gate_unfollow},
    {"POST", "/wrk2-api/post/compose", "compost_post failure: ", BY_FIELDS, gate_compose},
    {"GET", "/wrk2-api/home-timeline/read", "Get home-timeline failure: ", BY_FIELDS,
     gate_read_home},
    {"GET", "/wrk2-api/user-timeline/read", "Get user-timeline failure: ", BY_FIELDS,
     gate_read_user},
    {"POST", "/api/user/register", "User registration failure: ", BY_FIELDS, gate_register},
    {"POST", "/api/user/login", "User login failure: ", BY_FIELDS, gate_login},
    {"POST", "/api/user/follow", "Follow Failed: ", BY_FIELDS, gate_follow},
    {"POST", "/api/user/unfollow", "Unfollow Failed: ", BY_FIELDS, gate_unfollow},
    {"POST", "/api/post/compose", "compost_post failure: ", BY_TOKEN, gate_compose},
    {"GET", "/api/home-timeline/read", "Get home-timeline failure: ", BY_TOKEN, gate_read_home},
    {"GET", "/api/user-timeline/read", "Get user-timeline failure: ", BY_TOKEN, gate_read_user},
    {"GET", "/api/user/get_follower", "Get followers failure: ", BY_TOKEN, gate_followers},
    {"GET", "/api/user/get_followee", "Get followees failure: ", BY_TOKEN, gate_followees},
    {"POST", "/upload-media", "Upload media failure: ", BY_FIELDS, gate_upload_media},
    {"GET", "/get-media", "Get media failure: ", BY_FIELDS, gate_get_media},
};

/* Finds the route of a request; other: whether its path has one for another method. */
static const struct route *find_route(const struct http_request *http, bool *other)
{
	*other = false;
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		if (strcmp(routes[i].path, http_path(http)) != 0)
			continue;
		if (!strcmp(routes[i].method, http_method(http)))
			return &routes[i];
		*other = true;
	}
	return NULL;
}

static unsigned http_status_of(enum lend_status status)
{
	switch (status) {
	case LEND_INVALID_ARGUMENT:
		return 400;
	case LEND_UNAUTHENTICATED:
		return 401;
	case LEND_PERMISSION_DENIED:
		return 403;
	case LEND_NOT_FOUND:
		return 404;
	case LEND_ALREADY_EXISTS:
		return 409;
	case LEND_UNAVAILABLE:
	case LEND_RESOURCE_EXHAUSTED:
	case LEND_CANCELLED:
		return 503;
	case LEND_DEADLINE_EXCEEDED:
		return 504;
	default:
		return 500;
	}
}

static void fail_gate(void *http, enum lend_status status, const char *why)
{
	bool other;
	const struct route *route = find_route(http, &other);
	char text[512];

	(void)snprintf(text, sizeof(text), "%s%s", route->prefix, why);
	http_reply_text(http, http_status_of(status), text);
}

void gate_end(struct gate *g)
{
	social_end(g->request);
}

void gate_reply(struct gate *g, unsigned status, const char *text)
{
	http_reply_text(g->http, status, text);
	gate_end(g);
}

bool gate_text(struct gate *g, const char *name, const char **text)
{
	*text = http_field(g->http, name);
	if (!*text)
		gate_reply(g, 400, "Incomplete arguments");
	return *text;
}

bool gate_parse(const char *text, int64_t min, int64_t max, int64_t *number)
{
	uint64_t value = 0;

	if (!*text || strlen(text) > 19)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = 10 * value + (uint64_t)(*text - '0');
	}
	*number = (int64_t)value;
	return value <= (uint64_t)max && *number >= min;
}

bool gate_number(struct gate *g, const char *name, int64_t min, int64_t max, int64_t *number)
{
	const char *text;

	if (!gate_text(g, name, &text))
		return false;
	if (gate_parse(text, min, max, number))
		return true;
	gate_reply(g, 400, "No such number");
	return false;
}

const char *gate_media_type(const char *filename, const char *data, size_t len)
{
	static const struct {
		const char *name, *magic;
		size_t at, len;
	} types[] = {{"jpg", "\xff\xd8\xff", 0, 3}, {"jpeg", "\xff\xd8\xff", 0, 3},
		     {"png", "\x89PNG", 0, 4},      {"gif", "GIF8", 0, 4},
		     {"webp", "WEBP", 8, 4},        {"mp4", "ftyp", 4, 4}};
	const char *dot = strrchr(filename, '.');

	for (size_t i = 0; dot && i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(dot + 1, types[i].name) && len >= types[i].at + types[i].len &&
		    !memcmp(data + types[i].at, types[i].magic, types[i].len))
			return types[i].name;
	return NULL;
}

static void handle_request(struct http_request *http)
{
	bool other;
	const struct route *route = find_route(http, &other);
	const char *cookie;
	struct gate *g;
	void *request;

	if (!route && !strcmp(http_path(http), "/metrics")) {
		metrics_reply(http);
		return;
	}
	if (!route) {
		http_reply_text(http, other ? 405 : 404, other ? "No such method" : "No such path");
		return;
	}
	request = social_root(SOCIAL_GATEWAY, fail_gate, http);
	g = social_state(request, sizeof(*g));
	g->request = request;
	g->http = http;
	g->by_token = route->identity == BY_TOKEN;
	cookie = g->by_token ? http_cookie(http, "login_token") : NULL;
	if (g->by_token &&
	    (!cookie || !social_token_read(cookie, social_now_ms() / 1000, &g->login)))
		gate_reply(g, 401, "Not authorized");
	else
		route->run(g);
}

void gateway_open(const char *listen, size_t body_max, char *address, size_t cap)
{
	http_open(listen, body_max, handle_request, address, cap);
}
