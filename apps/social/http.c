/* http - see http.h. */
#include "apps/social/http.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/social/social.h"
#include "lend/alloc.h"

enum {
	CONNECTION_MEMORY = 32 << 10,
	FORM_MEMORY = 64 << 10,
	CONNECTIONS_MAX = 4096,
	SILENCE_MAX = 10, /* seconds */
	FIELD_FIRST = 256,
	HEADERS_MAX = 2,
	DROP_MAX = 64 << 20,
};

struct http_request {
	struct MHD_Connection *connection; /* NULL: it has ended */
	struct MHD_PostProcessor *form;
	char method[8], path[HTTP_PATH_MAX];
	struct http_field field[HTTP_FIELDS_MAX];
	size_t n, received, expected;
	bool owed; /* the handler has not replied yet */
	bool suspended, replied, too_long, bad_form;
	unsigned status;
	struct MHD_Response *reply;
	struct {
		const char *name;
		char value[1200];
	} header[HEADERS_MAX];
	size_t headers;
	struct http_request *next, **link; /* suspended ones */
};

static struct {
	struct MHD_Daemon *daemon;
	http_handler_fn *handler;
	size_t body_max;
	struct lend_fd_watch watch;
	struct lend_alarm run; /* when the daemon has work */
	struct http_request *suspended;
} http;

/* Runs the daemon, and again when it has more work. */
static void run_daemon(void)
{
	MHD_UNSIGNED_LONG_LONG ms;

	(void)MHD_run(http.daemon);
	if (MHD_get_timeout(http.daemon, &ms) == MHD_YES)
		lend_alarm_set(social.ep, &http.run, lend_now(social.ep) + ms * 1000000);
}

static void ring_run(struct lend_alarm *alarm)
{
	(void)alarm;
	run_daemon();
}

static void watch_ready(struct lend_fd_watch *watch, unsigned events)
{
	(void)watch, (void)events;
	run_daemon();
}

static void free_request(struct http_request *r)
{
	for (size_t i = 0; i < r->n; i++)
		lend_free(r->field[i].data);
	if (r->form)
		MHD_destroy_post_processor(r->form);
	if (r->reply)
		MHD_destroy_response(r->reply);
	free(r);
}

/* Copies the path of a target, which may be absolute: "http://host:port/path". */
static void copy_path(struct http_request *r, const char *url)
{
	const char *authority = strstr(url, "://");

	if (*url != '/' && authority) {
		url = strchr(authority + 3, '/');
		url = url ? url : "/";
	}
	(void)snprintf(r->path, sizeof(r->path), "%s", url);
}

static struct http_field *add_field(struct http_request *r, const char *name, const char *filename)
{
	struct http_field *f = r->n < HTTP_FIELDS_MAX ? &r->field[r->n] : NULL;

	if (!f)
		return NULL;
	(void)snprintf(f->name, sizeof(f->name), "%s", name);
	(void)snprintf(f->filename, sizeof(f->filename), "%s", filename ? filename : "");
	f->cap = filename ? r->expected + 1 : FIELD_FIRST;
	f->data = lend_malloc_shared(f->cap);
	r->n += f->data != NULL;
	return f->data ? f : NULL;
}

static bool append_field(struct http_field *f, const char *data, size_t len)
{
	while (f->cap - f->len <= len) {
		char *more = lend_malloc_shared(2 * f->cap);

		if (!more)
			return false;
		memcpy(more, f->data, f->len);
		lend_free(f->data);
		f->data = more;
		f->cap *= 2;
	}
	memcpy(f->data + f->len, data, len);
	f->len += len;
	f->data[f->len] = 0;
	return true;
}

/* Gets a piece of a form's field. */
static enum MHD_Result read_field(void *arg, enum MHD_ValueKind kind, const char *name,
				  const char *filename, const char *type, const char *encoding,
				  const char *data, uint64_t off, size_t len)
{
	struct http_request *r = arg;
	struct http_field *f = off && r->n ? &r->field[r->n - 1] : add_field(r, name, filename);

	(void)kind, (void)type, (void)encoding;
	return f && append_field(f, data, len) ? MHD_YES : MHD_NO;
}

static struct http_request *begin_request(struct MHD_Connection *connection, const char *url,
					  const char *method)
{
	struct http_request *r = calloc(1, sizeof(*r));
	const char *len;

	if (!r)
		return NULL;
	r->connection = connection;
	(void)snprintf(r->method, sizeof(r->method), "%s", method);
	copy_path(r, url);
	len = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
	r->expected = len ? strtoull(len, NULL, 10) : 0;
	r->too_long = r->expected > http.body_max;
	if (!r->too_long && !strcmp(method, "POST"))
		r->form = MHD_create_post_processor(connection, FORM_MEMORY, read_field, r);
	return r;
}

/* Takes a piece of the body. Bytes that cannot be used are dropped: a reply follows the end. */
static void read_body(struct http_request *r, const char *data, size_t len)
{
	r->received += len;
	r->too_long |= r->received > http.body_max;
	if (!r->too_long && !r->bad_form)
		r->bad_form = !r->form || MHD_post_process(r->form, data, len) != MHD_YES;
}

static enum MHD_Result queue_reply(struct http_request *r)
{
	enum MHD_Result result;

	for (size_t i = 0; i < r->headers; i++)
		(void)MHD_add_response_header(r->reply, r->header[i].name, r->header[i].value);
	result = MHD_queue_response(r->connection, r->status, r->reply);
	MHD_destroy_response(r->reply);
	r->reply = NULL;
	return result;
}

/* Runs the handler of a complete request. */
static enum MHD_Result handle_request(struct http_request *r)
{
	if (r->form && MHD_destroy_post_processor(r->form) != MHD_YES)
		r->bad_form = true;
	r->form = NULL;
	if (r->too_long)
		http_reply_text(r, MHD_HTTP_CONTENT_TOO_LARGE, "The request is too long");
	else if (r->bad_form)
		http_reply_text(r, MHD_HTTP_BAD_REQUEST, "The form cannot be read");
	else
		r->owed = true;
	if (r->owed)
		http.handler(r);
	if (r->replied)
		return queue_reply(r);
	MHD_suspend_connection(r->connection);
	r->suspended = true;
	r->link = &http.suspended;
	r->next = http.suspended;
	if (r->next)
		r->next->link = &r->next;
	http.suspended = r;
	return MHD_YES;
}

/* libmicrohttpd's only entry: at the head of a request, for each piece of its body, at its end, and
 * after it was resumed. */
static enum MHD_Result access_request(void *arg, struct MHD_Connection *connection, const char *url,
				      const char *method, const char *version, const char *data,
				      size_t *len, void **request)
{
	struct http_request *r = *request;

	(void)arg, (void)version;
	if (!r) {
		*request = r = begin_request(connection, url, method);
		/* A body that is much too long is not read. */
		return !r ? MHD_NO : r->expected > DROP_MAX ? handle_request(r) : MHD_YES;
	}
	if (*len) {
		read_body(r, data, *len);
		*len = 0;
		return MHD_YES;
	}
	return r->replied ? queue_reply(r) : handle_request(r);
}

static void end_request(void *arg, struct MHD_Connection *connection, void **request,
			enum MHD_RequestTerminationCode code)
{
	struct http_request *r = *request;

	(void)arg, (void)connection, (void)code;
	if (!r)
		return;
	r->connection = NULL;
	if (!r->owed)
		free_request(r);
}

static int resolve_address(const char *listen, struct addrinfo **list, char host[128])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	const char *colon = strrchr(listen, ':');

	(void)snprintf(host, 128, "%.*s", (int)(colon ? colon - listen : 0), listen);
	return colon ? getaddrinfo(host, colon + 1, &hints, list) : EAI_SERVICE;
}

void http_open(const char *listen, size_t body_max, http_handler_fn *handler, char *address,
	       size_t cap)
{
	const union MHD_DaemonInfo *info;
	struct addrinfo *list;
	char host[128];

	if (resolve_address(listen, &list, host) != 0)
		app_bad("--http %s: give HOST:PORT", listen);
	http.handler = handler;
	http.body_max = body_max;
	http.daemon = MHD_start_daemon(
	    MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, access_request, NULL,
	    MHD_OPTION_SOCK_ADDR, list->ai_addr, MHD_OPTION_NOTIFY_COMPLETED, end_request, NULL,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
	    (unsigned)SILENCE_MAX, MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_END);
	freeaddrinfo(list);
	if (!http.daemon)
		app_die("cannot listen on %s; give another --http HOST:PORT", listen);
	info = MHD_get_daemon_info(http.daemon, MHD_DAEMON_INFO_BIND_PORT);
	(void)snprintf(address, cap, "http://%s:%u", host, (unsigned)info->port);
	info = MHD_get_daemon_info(http.daemon, MHD_DAEMON_INFO_EPOLL_FD);
	http.watch = (struct lend_fd_watch){.ready = watch_ready, .fd = info->epoll_fd};
	http.run = (struct lend_alarm){.ring = ring_run, .at = LEND_NEVER};
	if (lend_watch_fd(social.ep, &http.watch, LEND_FD_READ) < 0)
		app_die("%s", lend_why());
}

/* Continues a suspended request, whose reply is there. */
static void resume_request(struct http_request *r)
{
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	r->suspended = false;
	MHD_resume_connection(r->connection);
	lend_alarm_set(social.ep, &http.run, lend_now(social.ep));
}

static void set_reply(struct http_request *r, unsigned status, const char *type,
		      struct MHD_Response *reply)
{
	if (r->replied || !reply) {
		if (reply)
			MHD_destroy_response(reply);
		return;
	}
	r->replied = true;
	r->status = status;
	r->reply = reply;
	if (type)
		(void)MHD_add_response_header(reply, "Content-Type", type);
	if (r->suspended)
		resume_request(r);
}

void http_close(void)
{
	if (!http.daemon)
		return;
	while (http.suspended)
		set_reply(http.suspended, MHD_HTTP_SERVICE_UNAVAILABLE, NULL,
			  MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
	(void)MHD_run(http.daemon);
	(void)lend_watch_fd(social.ep, &http.watch, 0);
	lend_alarm_set(social.ep, &http.run, LEND_NEVER);
	MHD_stop_daemon(http.daemon);
	http.daemon = NULL;
}

const char *http_method(const struct http_request *r)
{
	return r->method;
}

const char *http_path(const struct http_request *r)
{
	return r->path;
}

struct http_field *http_form(struct http_request *r, size_t i)
{
	return i < r->n ? &r->field[i] : NULL;
}

const char *http_field(struct http_request *r, const char *name)
{
	const char *value = MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);

	for (size_t i = 0; !value && i < r->n; i++)
		if (!strcmp(r->field[i].name, name) && r->field[i].len)
			value = r->field[i].data;
	return value && *value ? value : NULL;
}

const char *http_cookie(struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_COOKIE_KIND, name);
}

void http_header(struct http_request *r, const char *name, const char *value)
{
	if (r->headers == HEADERS_MAX)
		return;
	r->header[r->headers].name = name;
	(void)snprintf(r->header[r->headers++].value, sizeof(r->header[0].value), "%s", value);
}

void http_reply(struct http_request *r, unsigned status, const char *type, char *body, size_t len,
		bool is_static)
{
	struct MHD_Response *reply =
	    is_static ? MHD_create_response_from_buffer(len, body, MHD_RESPMEM_PERSISTENT)
		      : MHD_create_response_from_buffer_with_free_callback(len, body, lend_free);

	set_reply(r, status, type, reply);
	r->owed = false;
	if (!r->connection)
		free_request(r);
}

void http_reply_text(struct http_request *r, unsigned status, const char *text)
{
	size_t len = strlen(text);
	char *body = lend_malloc(len + 1);

	if (!body)
		app_die("no memory for a reply; end some processes");
	memcpy(body, text, len);
	body[len] = '\n';
	http_reply(r, status, "text/plain", body, len + 1, false);
}
