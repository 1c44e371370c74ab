/* remote - connections to a stock gRPC server. See remote.h. */
#include "gateway/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* As gRPC's connection backoff, but a first retry sooner. */
static const lend_ns backoff_min = 100000000, backoff_max = 120000000000;
static const lend_ns attempt_time = 20000000000; /* to connect to one address, with its handshake */
enum { HEADERS_MAX = 16 << 10 };                 /* bytes of the headers of a response */

static void try_next(struct lend_remote *r);

void remote_forget(struct lend_remote *r, struct forward *f)
{
	struct forward **at = &r->first, *before = NULL;

	for (; *at != f; at = &before->next)
		before = *at;
	*at = f->next;
	if (r->last == f)
		r->last = before;
	f->waits = false;
}

/* Takes the first request that waits; NULL: there is none. */
static struct forward *next_waiting(struct lend_remote *r)
{
	struct forward *f = r->first;

	if (f)
		remote_forget(r, f);
	return f;
}

/* No address could be connected to. */
static void attempt_failed(struct lend_remote *r)
{
	lend_ns now = host->now(r->ep);

	r->counters.failed++;
	r->not_before = now + r->backoff - r->backoff / 5 * (now % 64) / 64; /* jitter */
	r->backoff += r->backoff * 3 / 5;
	if (r->backoff > backoff_max)
		r->backoff = backoff_max;
	for (struct forward *f; (f = next_waiting(r));)
		forward_fail(f, LEND_UNAVAILABLE, r->why, false);
}

static void address_failed(struct lend_remote *r, const char *why)
{
	(void)snprintf(r->why, sizeof(r->why), "http2:%.90s: %s", r->server, why);
	host->alarm_set(r->ep, &r->give_up, LEND_NEVER);
	r->trying = r->trying->ai_next;
	try_next(r);
}

static void stop_connecting(struct lend_remote *r)
{
	(void)host->watch_fd(r->ep, &r->connecting, 0);
	close(r->connecting.fd);
	r->connecting.fd = -1;
}

/* Tries the addresses of a lookup. If it failed, those of an earlier one may still be right. */
static void try_found(struct lend_remote *r, struct addrinfo *found, const char *why)
{
	host->alarm_set(r->ep, &r->give_up, LEND_NEVER);
	r->lookup = NULL;
	if (found) {
		if (r->addresses)
			freeaddrinfo(r->addresses);
		r->addresses = found;
	}
	(void)snprintf(r->why, sizeof(r->why), "http2:%.90s: %s", r->server, why);
	r->trying = r->addresses;
	try_next(r);
}

static void lookup_ended(struct lend_fd_watch *watch, unsigned events)
{
	struct lend_remote *r = (void *)((char *)watch - offsetof(struct lend_remote, looking));
	struct addrinfo *found;
	int error;

	(void)events;
	(void)host->watch_fd(r->ep, watch, 0);
	found = lookup_take(r->lookup, &error);
	try_found(r, found, found ? "no address" : gai_strerror(error));
}

static void stop_lookup(struct lend_remote *r)
{
	(void)host->watch_fd(r->ep, &r->looking, 0);
	lookup_drop(r->lookup);
	r->lookup = NULL;
}

/* Begins an attempt to connect, for a name with a lookup: its addresses may have changed. */
static void start_attempt(struct lend_remote *r)
{
	int rc = r->named ? lookup_start(r->server, &r->lookup) : 0;

	if (rc == 0 && r->named) {
		r->looking =
		    (struct lend_fd_watch){.ready = lookup_ended, .fd = lookup_fd(r->lookup)};
		rc = host->watch_fd(r->ep, &r->looking, LEND_FD_READ);
		if (rc == 0) {
			host->alarm_set(r->ep, &r->give_up, host->now(r->ep) + attempt_time);
			return;
		}
		lookup_drop(r->lookup);
	}
	try_found(r, NULL, strerror(-rc));
}

static void attempt_rings(struct lend_alarm *alarm)
{
	struct lend_remote *r = (void *)((char *)alarm - offsetof(struct lend_remote, give_up));

	if (r->lookup) {
		stop_lookup(r);
		try_found(r, NULL, "no answer of a name server");
		return;
	}
	if (r->connecting.fd >= 0) {
		stop_connecting(r);
		address_failed(r, "no answer to a connection");
		return;
	}
	for (struct remote_link *link = r->links; link; link = link->next)
		if (!link->ready) {
			h2_connection_end(&link->peer.connection);
			return;
		}
}

/* Sends the PINGs of a connection, while there are calls. */
static void check_silence(struct lend_alarm *alarm)
{
	struct remote_link *link = (void *)((char *)alarm - offsetof(struct remote_link, keep));
	struct h2_connection *c = &link->peer.connection;
	const struct h2_keepalive *k = &link->remote->keepalive;
	lend_ns at = LEND_NEVER;

	if (k->every != LEND_NEVER)
		at = c->open || c->pinged > c->since ? h2_keepalive_next(c, k)
						     : host->now(c->ep) + k->every;
	host->alarm_set(c->ep, alarm, at ? at : LEND_NEVER);
	if (at)
		h2_connection_send(c);
	else
		h2_connection_end(c);
}

void remote_calm(struct lend_remote *r)
{
	if (r->keepalive.every < LEND_NEVER / 2)
		r->keepalive.every *= 2;
}

void remote_ready(struct remote_link *link)
{
	struct lend_remote *r = link->remote;

	if (link->ready)
		return;
	link->ready = true;
	host->alarm_set(r->ep, &r->give_up, LEND_NEVER);
	r->trying = NULL;
	r->backoff = backoff_min;
	r->not_before = 0;
	r->current = link;
	r->counters.connections++;
	check_silence(&link->keep);
	for (struct forward *f; (f = next_waiting(r));)
		forward_submit(f, link);
}

/* Begins to connect, if there is a reason to and no attempt yet. */
static void want_connection(struct lend_remote *r)
{
	if (!r->first || r->lookup || r->trying || r->current)
		return;
	if (host->now(r->ep) < r->not_before) {
		for (struct forward *f; (f = next_waiting(r));)
			forward_fail(f, LEND_UNAVAILABLE, r->why, false);
		return;
	}
	start_attempt(r);
}

void remote_launch(struct lend_remote *r, struct forward *f)
{
	if (r->current) {
		struct remote_link *link = r->current;

		forward_submit(f, link);
		h2_connection_send(&link->peer.connection);
		return;
	}
	f->waits = true;
	f->next = NULL;
	*(r->last ? &r->last->next : &r->first) = f;
	r->last = f;
	want_connection(r);
}

void remote_leave(struct remote_link *link)
{
	struct lend_remote *r = link->remote;
	struct forward *next;

	link->leaving = true;
	if (r->current == link)
		r->current = NULL;
	for (struct forward *f = (struct forward *)link->peer.first; f; f = next) {
		next = (struct forward *)f->x.next;
		if (f->sent)
			continue;
		forward_leave(f, NGHTTP2_CANCEL);
		remote_launch(r, f);
	}
	link->peer.connection.over |= !link->peer.first;
}

/* Ends what a connection carries. Requests that the server has not got go to the next one. */
static void link_ended(struct h2_connection *connection)
{
	struct remote_link *link = (struct remote_link *)connection, **at;
	struct lend_remote *r = link->remote;
	bool failed = !link->ready;

	host->alarm_set(r->ep, &link->keep, LEND_NEVER);
	for (at = &r->links; *at != link; at = &(*at)->next)
		continue;
	*at = link->next;
	if (r->current == link)
		r->current = NULL;
	connection->session = NULL;
	while (link->peer.first) {
		struct forward *f = (struct forward *)link->peer.first;

		forward_leave(f, NGHTTP2_NO_ERROR);
		if (f->sent)
			forward_fail(f, LEND_UNAVAILABLE, "the connection to the server was lost",
				     true);
		else
			remote_launch(r, f);
	}
	if (failed && r->trying)
		address_failed(r, connection->why ? connection->why
						  : "the connection ended before HTTP/2 began");
	free(link);
}

/* Makes the session of a connection. Returns 0 or -ENOMEM. */
static int start_session(struct remote_link *link)
{
	static const nghttp2_settings_entry settings[] = {
	    {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
	    {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW},
	    {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX}};
	struct lend_remote *r = link->remote;
	struct h2_connection *c = &link->peer.connection;

	if (nghttp2_session_client_new3(&c->session, r->callbacks, link, r->option, h2_memory()) <
	    0)
		return -ENOMEM;
	return h2_connection_settings(c, settings, sizeof(settings) / sizeof(settings[0]));
}

/* Begins HTTP/2 on a connected socket, which it takes. Returns 0 or -errno. */
static int start_link(struct lend_remote *r, int fd)
{
	struct remote_link *link = calloc(1, sizeof(*link));

	if (!link) {
		close(fd);
		return -ENOMEM;
	}
	link->remote = r;
	link->keep = (struct lend_alarm){.ring = check_silence, .at = LEND_NEVER};
	link->peer.connection.ep = r->ep;
	link->peer.connection.ended = link_ended;
	h2_socket_options(fd);
	if (start_session(link) < 0) {
		close(fd);
		free(link);
		return -ENOMEM;
	}
	if (h2_connection_start(&link->peer.connection, fd, r->tls, r->name) < 0) {
		nghttp2_session_del(link->peer.connection.session);
		free(link);
		return -ENOMEM;
	}
	link->next = r->links;
	r->links = link;
	h2_connection_send(&link->peer.connection);
	return 0;
}

static void socket_connected(struct lend_fd_watch *watch, unsigned events)
{
	struct lend_remote *r = (void *)((char *)watch - offsetof(struct lend_remote, connecting));
	int fd = watch->fd, error = 0;
	socklen_t len = sizeof(error);

	(void)events;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error) {
		stop_connecting(r);
		address_failed(r, strerror(error));
		return;
	}
	(void)host->watch_fd(r->ep, watch, 0);
	watch->fd = -1;
	if (start_link(r, fd) < 0)
		address_failed(r, "no memory for a connection");
}

/* Begins a connection to an address. Returns 0 or -errno. */
static int start_connecting(struct lend_remote *r, const struct addrinfo *to)
{
	int rc, fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	rc = connect(fd, to->ai_addr, to->ai_addrlen) == 0 || errno == EINPROGRESS ? 0 : -errno;
	r->connecting = (struct lend_fd_watch){.ready = socket_connected, .fd = fd};
	if (rc == 0)
		rc = host->watch_fd(r->ep, &r->connecting, LEND_FD_WRITE);
	if (rc < 0) {
		close(fd);
		r->connecting.fd = -1;
	}
	return rc;
}

/* Tries the addresses from r->trying on. */
static void try_next(struct lend_remote *r)
{
	int rc;

	for (; r->trying; r->trying = r->trying->ai_next) {
		rc = start_connecting(r, r->trying);
		if (rc == 0) {
			host->alarm_set(r->ep, &r->give_up, host->now(r->ep) + attempt_time);
			return;
		}
		(void)snprintf(r->why, sizeof(r->why), "http2:%.90s: %s", r->server, strerror(-rc));
	}
	attempt_failed(r);
}

/* Reads "tls", "ca=FILE", "name=NAME" and those of keepalive, joined by '&', which it changes.
 * Returns 0 or -errno. */
static int read_parameters(struct lend_remote *r, char *text)
{
	char *save, *ca = NULL;
	bool tls = false;

	for (char *at = strtok_r(text, "&", &save); at; at = strtok_r(NULL, "&", &save)) {
		if (strncmp(at, "ca=", 3) == 0)
			ca = at + 3;
		else if (strncmp(at, "name=", 5) == 0 && strlen(at + 5) < sizeof(r->name))
			strcpy(r->name, at + 5);
		else if (h2_keepalive_read(&r->keepalive, at))
			continue;
		else if (strcmp(at, "tls") != 0)
			return -EINVAL;
		tls = true;
	}
	return tls ? tls_client(ca, &r->tls) : 0;
}

/* Returns 0 or -errno. */
static int read_server(struct lend_remote *r, const char *server)
{
	char *text = strdup(server), *parameters = text ? strchr(text, '?') : NULL;
	int rc = text ? 0 : -ENOMEM;

	if (parameters)
		*parameters++ = '\0';
	if (rc == 0 && strlen(text) >= sizeof(r->server))
		rc = -EINVAL;
	if (rc == 0)
		rc = h2_address_numeric(text, &r->addresses, r->name);
	r->named = !r->addresses;
	if (rc == 0)
		strcpy(r->server, text);
	if (rc == 0 && parameters)
		rc = read_parameters(r, parameters);
	free(text);
	return rc;
}

static void free_remote(struct lend_remote *r)
{
	nghttp2_session_callbacks_del(r->callbacks);
	nghttp2_option_del(r->option);
	SSL_CTX_free(r->tls);
	if (r->addresses)
		freeaddrinfo(r->addresses);
	free(r);
}

/* Returns 0 or -ENOMEM. */
static int make_options(struct lend_remote *r)
{
	if (nghttp2_session_callbacks_new(&r->callbacks) < 0 || nghttp2_option_new(&r->option) < 0)
		return -ENOMEM;
	forward_callbacks(r->callbacks);
	nghttp2_option_set_no_auto_window_update(r->option, 1);
	nghttp2_option_set_max_settings(r->option, 32);
	return 0;
}

int remote_dial(struct lend_ep *ep, const char *server, struct lend_remote **remote)
{
	struct lend_remote *r = calloc(1, sizeof(*r));
	int rc = r ? make_options(r) : -ENOMEM;

	if (rc == 0) {
		h2_keepalive_init(&r->keepalive, LEND_NEVER);
		rc = read_server(r, server);
	}
	if (rc < 0) {
		if (r)
			free_remote(r);
		return rc;
	}
	r->ep = ep;
	r->backoff = backoff_min;
	r->connecting.fd = -1;
	r->give_up = (struct lend_alarm){.ring = attempt_rings, .at = LEND_NEVER};
	*remote = r;
	return 0;
}

void remote_hang_up(struct lend_remote *r, struct lend_remote_counters *sum)
{
	host->alarm_set(r->ep, &r->give_up, LEND_NEVER);
	if (r->connecting.fd >= 0)
		stop_connecting(r);
	if (r->lookup)
		stop_lookup(r);
	r->trying = NULL;
	r->not_before = LEND_NEVER;
	(void)snprintf(r->why, sizeof(r->why), "the session has ended");
	while (r->links)
		h2_connection_end(&r->links->peer.connection);
	for (struct forward *f; (f = next_waiting(r));)
		forward_fail(f, LEND_UNAVAILABLE, r->why, false);
	sum->connections += r->counters.connections;
	sum->failed += r->counters.failed;
	sum->calls += r->counters.calls;
	sum->errors += r->counters.errors;
	free_remote(r);
}

const struct lend_remote_counters *remote_counters(const struct lend_remote *r)
{
	return &r->counters;
}
