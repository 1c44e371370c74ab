#include "apps/load/http_client.h"

#include <errno.h>
#include <http_parser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/common/closed_loop.h"

enum {
	READ_MAX = 256 << 10, /* bytes of one read */
	BODY_MAX = 256 << 20, /* bytes of a reply's body */
	EVENTS = 64,
	EXPIRE_EVERY_NS = 10000000,
};

struct connection {
	int fd; /* -1: closed */
	bool busy, complete;
	unsigned events; /* EPOLL*, to be reported */
	struct iovec part[HTTP_PARTS];
	unsigned parts; /* not yet sent */
	uint64_t bytes;
	lend_ns until;
	http_parser parser;
	char *body;
	size_t len, cap;
};

struct http_client {
	int epoll;
	unsigned n;
	lend_ns timeout, expire_at;
	http_ended_fn *ended;
	void *arg;
	struct sockaddr_storage address;
	socklen_t address_len;
	char host[300];
	char *read; /* READ_MAX bytes */
	struct connection connection[];
};

static int append_body(http_parser *parser, const char *bytes, size_t len)
{
	struct connection *c = parser->data;
	size_t cap = c->cap ? c->cap : 16384;
	char *more;

	if (len > BODY_MAX - c->len)
		return -1;
	while (cap <= c->len + len)
		cap *= 2;
	if (cap != c->cap) {
		more = realloc(c->body, cap);
		if (!more)
			return -1;
		c->body = more;
		c->cap = cap;
	}
	memcpy(c->body + c->len, bytes, len);
	c->len += len;
	c->body[c->len] = '\0';
	return 0;
}

static int note_complete(http_parser *parser)
{
	struct connection *c = parser->data;

	c->complete = true;
	return 0;
}

static const http_parser_settings settings = {.on_body = append_body,
					      .on_message_complete = note_complete};

static void close_connection(struct connection *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->events = 0;
}

/* Ends the request of a connection. */
static void end_request(struct http_client *client, struct connection *c, unsigned status)
{
	struct http_reply reply = {
	    .status = status, .body = c->len ? c->body : "", .len = c->len, .bytes = c->bytes};

	c->busy = false;
	c->parts = 0;
	client->ended(client->arg, (unsigned)(c - client->connection), &reply);
}

static void fail_connection(struct http_client *client, struct connection *c, unsigned status)
{
	close_connection(c);
	if (c->busy)
		end_request(client, c, status);
}

/* Sets which events epoll reports. Returns 0 or -errno. */
static int watch_events(struct http_client *client, struct connection *c, unsigned events)
{
	struct epoll_event event = {.events = events, .data = {.ptr = c}};

	if (c->events == events)
		return 0;
	if (epoll_ctl(client->epoll, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &event) < 0)
		return -errno;
	c->events = events;
	return 0;
}

/* Begins to connect. Returns 0 or -errno. */
static int connect_connection(struct http_client *client, struct connection *c)
{
	int on = 1;

	c->fd = socket(client->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return -errno;
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(c->fd, (const void *)&client->address, client->address_len) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	return 0;
}

/* Removes n sent bytes from the parts. */
static void skip_sent(struct connection *c, size_t n)
{
	unsigned done = 0;

	c->bytes += n;
	while (done < c->parts && n >= c->part[done].iov_len)
		n -= c->part[done++].iov_len;
	c->parts -= done;
	memmove(c->part, c->part + done, c->parts * sizeof(c->part[0]));
	if (c->parts) {
		c->part[0].iov_base = (char *)c->part[0].iov_base + n;
		c->part[0].iov_len -= n;
	}
}

static void send_parts(struct http_client *client, struct connection *c)
{
	struct msghdr message = {.msg_iov = c->part};
	ssize_t n;

	while (c->parts) {
		message.msg_iovlen = c->parts;
		n = sendmsg(c->fd, &message, MSG_NOSIGNAL);
		if (n < 0)
			break;
		skip_sent(c, (size_t)n);
	}
	if (c->parts && errno != EAGAIN && errno != ENOTCONN && errno != EINTR) {
		fail_connection(client, c, HTTP_LOST);
		return;
	}
	if (watch_events(client, c, c->parts ? EPOLLIN | EPOLLOUT : EPOLLIN) < 0)
		fail_connection(client, c, HTTP_LOST);
}

/* Parses n received bytes; 0: the peer has closed. */
static void parse_reply(struct http_client *client, struct connection *c, size_t n)
{
	size_t parsed;
	bool keep;

	if (!c->busy) { /* closed by the peer while it was idle, or bytes that no request asked for
			 */
		close_connection(c);
		return;
	}
	c->bytes += n;
	parsed = http_parser_execute(&c->parser, &settings, client->read, n);
	keep = n > 0 && http_should_keep_alive(&c->parser);
	if (!c->complete && (n == 0 || parsed != n)) {
		fail_connection(client, c, n == 0 ? HTTP_LOST : HTTP_MALFORMED);
		return;
	}
	if (!c->complete)
		return;
	if (!keep || parsed != n || c->parts)
		close_connection(c);
	end_request(client, c, c->parser.status_code);
}

static void receive_bytes(struct http_client *client, struct connection *c)
{
	ssize_t n = recv(c->fd, client->read, READ_MAX, 0);

	if (n >= 0)
		parse_reply(client, c, (size_t)n);
	else if (errno != EAGAIN && errno != EINTR)
		fail_connection(client, c, HTTP_LOST);
}

/* Ends the requests that have waited too long, at most every EXPIRE_EVERY_NS. */
static void expire_requests(struct http_client *client)
{
	lend_ns now = app_now();

	if (now < client->expire_at)
		return;
	client->expire_at = now + EXPIRE_EVERY_NS;
	for (unsigned i = 0; i < client->n; i++)
		if (client->connection[i].busy && client->connection[i].until <= now)
			fail_connection(client, &client->connection[i], HTTP_LATE);
}

int http_client_poll(struct http_client *client, lend_ns wait)
{
	struct timespec limit;
	struct epoll_event event[EVENTS];
	int n;

	wait = wait < EXPIRE_EVERY_NS ? wait : EXPIRE_EVERY_NS;
	limit = (struct timespec){.tv_nsec = (long)wait};
	n = epoll_pwait2(client->epoll, event, EVENTS, &limit, NULL);
	if (n < 0 && errno != EINTR)
		return -errno;
	for (int i = 0; i < n; i++) {
		struct connection *c = event[i].data.ptr;

		if (event[i].events & EPOLLOUT && c->fd >= 0)
			send_parts(client, c);
		if (event[i].events & ~(uint32_t)EPOLLOUT && c->fd >= 0)
			receive_bytes(client, c);
	}
	expire_requests(client);
	return 0;
}

int http_client_start(struct http_client *client, unsigned connection, const struct iovec *part,
		      unsigned parts)
{
	struct connection *c = &client->connection[connection];
	int rc = c->fd < 0 ? connect_connection(client, c) : 0;

	if (rc < 0) {
		close_connection(c);
		return rc;
	}
	c->busy = true;
	c->complete = false;
	c->len = 0;
	c->bytes = 0;
	c->until = app_now() + client->timeout;
	c->parts = parts;
	memcpy(c->part, part, parts * sizeof(*part));
	http_parser_init(&c->parser, HTTP_RESPONSE);
	c->parser.data = c;
	send_parts(client, c);
	return 0;
}

/* Finds the address of http://HOST:PORT. Returns NULL, or the reason why not. */
static const char *resolve_host(struct http_client *client, const char *url)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct http_parser_url u;
	struct addrinfo *found;
	char host[256], port[8];
	int rc;

	http_parser_url_init(&u);
	if (strncmp(url, "http://", 7) != 0 || http_parser_parse_url(url, strlen(url), 0, &u) ||
	    u.field_data[UF_HOST].len >= sizeof(host))
		return "give http://HOST:PORT";
	(void)snprintf(host, sizeof(host), "%.*s", u.field_data[UF_HOST].len,
		       url + u.field_data[UF_HOST].off);
	(void)snprintf(port, sizeof(port), "%u", u.port ? u.port : 80);
	(void)snprintf(client->host, sizeof(client->host), "%s:%s", host, port);
	rc = getaddrinfo(host, port, &hints, &found);
	if (rc)
		return gai_strerror(rc);
	memcpy(&client->address, found->ai_addr, found->ai_addrlen);
	client->address_len = found->ai_addrlen;
	freeaddrinfo(found);
	return NULL;
}

/* Returns NULL if something listens at the address, or the reason why not. */
static const char *probe_server(const struct http_client *client)
{
	int fd = socket(client->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const char *why = NULL;

	if (fd < 0 || connect(fd, (const void *)&client->address, client->address_len) < 0)
		why = strerror(errno);
	if (fd >= 0)
		close(fd);
	return why;
}

int http_client_open(const char *url, unsigned connections, lend_ns timeout, http_ended_fn *ended,
		     void *arg, struct http_client **out, const char **why)
{
	struct http_client *client =
	    calloc(1, sizeof(*client) + connections * sizeof(client->connection[0]));

	*why = "no memory";
	if (!client)
		return -ENOMEM;
	for (client->n = 0; client->n < connections; client->n++)
		client->connection[client->n].fd = -1;
	client->timeout = timeout;
	client->ended = ended;
	client->arg = arg;
	client->read = malloc(READ_MAX);
	client->epoll = epoll_create1(EPOLL_CLOEXEC);
	*why = client->epoll < 0 ? strerror(errno)
	       : client->read    ? resolve_host(client, url)
				 : *why;
	if (!*why)
		*why = probe_server(client);
	if (!*why) {
		*out = client;
		return 0;
	}
	http_client_close(client);
	return -EINVAL;
}

void http_client_close(struct http_client *client)
{
	for (unsigned i = 0; i < client->n; i++) {
		close_connection(&client->connection[i]);
		free(client->connection[i].body);
	}
	if (client->epoll >= 0)
		close(client->epoll);
	free(client->read);
	free(client);
}

const char *http_client_host(const struct http_client *client)
{
	return client->host;
}
