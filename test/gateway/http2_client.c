/* http2_client - see http2_client.h. */
#include "gateway/http2_client.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
	struct answer *a = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	char *to = frame->headers.cat == NGHTTP2_HCAT_RESPONSE ? a->initial : a->trailing;

	(void)flags;
	(void)arg;
	if (name_len == 7 && !memcmp(name, ":status", 7))
		(void)snprintf(a->http, sizeof(a->http), "%.*s", (int)len, (const char *)value);
	else
		(void)snprintf(to + strlen(to), sizeof(a->initial) - strlen(to), "%.*s: %.*s\n",
			       (int)name_len, (const char *)name, (int)len, (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
		   size_t len, void *arg)
{
	struct answer *a = nghttp2_session_get_stream_user_data(session, stream);
	struct http2_client *client = arg;

	(void)flags;
	if (!a->bytes)
		a->bytes = malloc(ANSWER_MAX);
	cr_assert(a->n + len <= ANSWER_MAX);
	memcpy(a->bytes + a->n, data, len);
	a->n += len;
	if (!client->slow)
		(void)nghttp2_session_consume(session, stream, len);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
	struct answer *a = nghttp2_session_get_stream_user_data(session, stream);

	(void)arg;
	a->over = true;
	a->error = error;
	return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *out, size_t cap,
			 uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct answer *a = source->ptr;
	size_t n = a->len - a->sent < cap ? a->len - a->sent : cap;

	(void)session;
	(void)stream;
	(void)arg;
	memcpy(out, (const uint8_t *)a->body + a->sent, n);
	a->sent += n;
	if (a->sent == a->len && a->open)
		return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
	*flags |= a->sent == a->len ? NGHTTP2_DATA_FLAG_EOF : 0;
	return (ssize_t)n;
}

void http2_client_open(struct http2_client *client, const char *address)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	int on = 1;

	*client = (struct http2_client){.fd = socket(AF_INET, SOCK_STREAM, 0)};
	(void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	cr_assert_eq(connect(client->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	nghttp2_option_new(&option);
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_session_client_new2(&client->session, callbacks, client, option);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_option_del(option);
	nghttp2_submit_settings(client->session, 0, NULL, 0);
}

void http2_client_close(struct http2_client *client)
{
	nghttp2_session_del(client->session);
	close(client->fd);
}

/* Appends the headers of lines "name: value\n", pseudo headers or the others, without those that
 * are also in instead. Returns the new length of the list. */
static size_t add_lines(nghttp2_nv *list, size_t n, char *lines, bool pseudo, const char *instead)
{
	char *save, name[64];

	for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *colon = strchr(line + 1, ':');

		(void)snprintf(name, sizeof(name), "%.*s: ", (int)(colon - line), line);
		if ((*line == ':') != pseudo || strstr(instead, name))
			continue;
		list[n++] = (nghttp2_nv){.name = (uint8_t *)line,
					 .namelen = (size_t)(colon - line),
					 .value = (uint8_t *)colon + 2,
					 .valuelen = strlen(colon + 2)};
	}
	return n;
}

void http2_client_ask(struct http2_client *client, struct answer *a)
{
	nghttp2_data_provider source = {.source.ptr = a, .read_callback = read_body};
	const char *more = a->headers ? a->headers : "";
	static char lines[4][16384];
	nghttp2_nv list[64];
	size_t n = 0;

	for (int i = 0; i < 4; i += 2) { /* pseudo headers, then the others */
		(void)snprintf(lines[i], sizeof(lines[0]),
			       ":method: POST\n:scheme: http\n:authority: test\n:path: %s\n"
			       "content-type: application/grpc\nte: trailers\n",
			       a->path);
		(void)snprintf(lines[i + 1], sizeof(lines[0]), "%s", more);
		n = add_lines(list, n, lines[i], i == 0, more);
		n = add_lines(list, n, lines[i + 1], i == 0, "");
	}
	a->stream = nghttp2_submit_request(client->session, NULL, list, n,
					   a->body || a->open ? &source : NULL, a);
	cr_assert(a->stream > 0);
}

void http2_client_turn(struct http2_client *client, struct lend_ep *ep)
{
	uint8_t in[65536];
	ssize_t n = 1;

	while (n > 0) {
		if (!client->left) {
			n = nghttp2_session_mem_send(client->session, &client->out);
			client->left = n > 0 ? (size_t)n : 0;
			continue;
		}
		n = send(client->fd, client->out, client->left, MSG_NOSIGNAL | MSG_DONTWAIT);
		client->out += n > 0 ? n : 0;
		client->left -= n > 0 ? (size_t)n : 0;
	}
	while ((n = recv(client->fd, in, sizeof(in), MSG_DONTWAIT)) > 0)
		(void)nghttp2_session_mem_recv(client->session, in, (size_t)n);
	client->lost |= n == 0 || (n < 0 && errno != EAGAIN);
	(void)lend_poll(ep);
}

void http2_client_until(struct http2_client *client, struct lend_ep *ep, const bool *done)
{
	lend_ns end = lend_now(ep) + 10000000000;

	while (!*done && !client->lost && lend_now(ep) < end)
		http2_client_turn(client, ep);
	cr_assert(*done || client->lost);
}

const char *answer_header(const char *headers, const char *name)
{
	static char value[4096];
	const char *at = headers;
	size_t len = strlen(name);

	for (; at && *at; at = strchr(at, '\n') + 1)
		if (!strncmp(at, name, len) && at[len] == ':') {
			(void)snprintf(value, sizeof(value), "%.*s",
				       (int)(strchr(at, '\n') - at - (long)len - 2), at + len + 2);
			return value;
		}
	return NULL;
}
