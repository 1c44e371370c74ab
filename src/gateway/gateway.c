/* gateway - listens for stock gRPC clients. See gateway.h. */
#include "gateway/gateway.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/address.h"
#include "gateway/exchange.h"
#include "gateway/remote.h"
#include "util/bits.h"

enum {
	CLIENTS_MAX = 1024,
	ACCEPTS_MAX = 8,       /* in one turn; as many sessions are kept free */
	STREAMS_MAX = 128,     /* open at once in one connection */
	HEADERS_MAX = 16 << 10 /* bytes of the headers of a request */
};
static const lend_ns header_time = 10000000000;
static const lend_ns sweep_time = 1000000000;
static const lend_ns idle_time = 7200000000000; /* before a PING */

const struct lend_gateway_host *host;

static void set_host(const struct lend_gateway_host *functions)
{
	host = functions;
}

static void client_ended(struct h2_connection *connection)
{
	struct h2_client *client = (struct h2_client *)connection;
	struct lend_gateway *g = client->gateway;

	while (client->peer.first)
		exchange_drop(client->peer.first);
	*(client->prev ? &client->prev->next : &g->clients) = client->next;
	if (client->next)
		client->next->prev = client->prev;
	g->n_clients--;
	header_list_give(client->headers);
	host->disconnect(g->ep, client->peer.to);
	free(client);
}

/* Makes the session of a connection. Returns 0 or -ENOMEM. */
static int start_session(struct h2_client *client)
{
	static const nghttp2_settings_entry settings[] = {
	    {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, STREAMS_MAX},
	    {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW},
	    {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX}};
	struct lend_gateway *g = client->gateway;
	struct h2_connection *c = &client->peer.connection;

	if (nghttp2_session_server_new3(&c->session, g->callbacks, client, g->option, h2_memory()) <
	    0)
		return -ENOMEM;
	return h2_connection_settings(c, settings, sizeof(settings) / sizeof(settings[0]));
}

static const uint8_t leaving[8] = "draining";

/* Announces the last GOAWAY. Requests on their way are still accepted. */
static void begin_leaving(struct h2_client *client)
{
	nghttp2_session *session = client->peer.connection.session;

	if (client->asked || client->peer.connection.failed || client->peer.connection.draining)
		return;
	client->asked = true;
	if (nghttp2_submit_shutdown_notice(session) < 0 ||
	    nghttp2_submit_ping(session, NGHTTP2_FLAG_NONE, leaving) < 0)
		client->peer.connection.over = true;
}

void exchange_pong(struct h2_client *client, const nghttp2_ping *ping)
{
	nghttp2_session *session = client->peer.connection.session;

	if (!client->asked || client->leaving ||
	    memcmp(ping->opaque_data, leaving, sizeof(leaving)) != 0)
		return;
	client->leaving = true;
	if (nghttp2_submit_goaway(session, 0, nghttp2_session_get_last_proc_stream_id(session),
				  NGHTTP2_NO_ERROR, NULL, 0) < 0)
		client->peer.connection.over = true;
}

/* Returns the time some ns from now. */
static lend_ns time_after(const struct lend_gateway *g, lend_ns ns)
{
	lend_ns now = host->now(g->ep);

	return ns < LEND_NEVER - now ? now + ns : LEND_NEVER;
}

static void start_lifetime(struct lend_gateway *g, struct h2_client *client)
{
	lend_ns age = g->lifetime.age;

	client->idle_since = host->now(g->ep);
	client->end_at = client->pong_by = LEND_NEVER;
	if (age != LEND_NEVER) /* connections that began together do not end together */
		age += age / 10 * (client->idle_since % 64) / 32 - age / 10;
	client->age_at = time_after(g, age);
}

/* Asks a client to leave that was idle, or whose age has passed. Returns whether its time to do so
 * is over, too. */
static bool check_lifetime(struct lend_gateway *g, struct h2_client *client)
{
	struct h2_connection *c = &client->peer.connection;
	int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);
	lend_ns now = host->now(g->ep);

	if (c->open || last != client->last_stream) {
		client->last_stream = last;
		client->idle_since = now;
	}
	if (now >= client->age_at) {
		client->age_at = LEND_NEVER;
		client->end_at = time_after(g, g->lifetime.grace);
		client->pong_by = time_after(g, g->keepalive.timeout);
		begin_leaving(client);
	} else if (!client->asked && now - client->idle_since >= g->lifetime.idle) {
		client->pong_by = time_after(g, g->keepalive.timeout);
		begin_leaving(client);
	}
	return now >= client->end_at || (now >= client->pong_by && !client->leaving && !c->open);
}

static void start_client(struct lend_gateway *g, int fd)
{
	struct h2_client *client =
	    g->n_clients < g->clients_max ? calloc(1, sizeof(*client)) : NULL;

	g->counters.connections++;
	h2_socket_options(fd);
	if (client) {
		client->gateway = g;
		client->peer.connection.ep = g->ep;
		client->peer.connection.ended = client_ended;
		client->peer.connection.waits = true;
	}
	if (!client || host->connect(g->ep, g->address, &client->peer.to) < 0 ||
	    start_session(client) < 0) {
		g->counters.refused++;
		if (client)
			host->disconnect(g->ep, client->peer.to);
		free(client);
		close(fd);
		return;
	}
	if (h2_connection_start(&client->peer.connection, fd, g->tls, NULL) < 0) {
		g->counters.refused++;
		nghttp2_session_del(client->peer.connection.session);
		host->disconnect(g->ep, client->peer.to);
		free(client);
		return;
	}
	start_lifetime(g, client);
	client->next = g->clients;
	if (client->next)
		client->next->prev = client;
	g->clients = client;
	g->n_clients++;
	h2_connection_send(&client->peer.connection);
}

/* Returns whether nothing runs for a client, and no answer waits for it. */
static bool client_is_idle(const struct h2_client *client)
{
	for (const struct exchange *x = client->peer.first; x; x = x->next)
		if (x->running || x->answered)
			return false;
	return true;
}

/* Ends the connections that have been idle longest, until a few more fit. */
static void make_room(struct lend_gateway *g)
{
	while (g->n_clients + ACCEPTS_MAX > g->clients_max) {
		struct h2_client *oldest = NULL;

		for (struct h2_client *client = g->clients; client; client = client->next)
			if (client_is_idle(client) &&
			    (!oldest ||
			     client->peer.connection.since < oldest->peer.connection.since))
				oldest = client;
		if (!oldest)
			return;
		g->counters.refused++;
		h2_connection_close(&oldest->peer.connection);
	}
}

/* Returns whether there may be more. */
static bool accept_some(struct lend_gateway *g)
{
	int fd = 0;

	make_room(g);
	for (unsigned i = 0; i < ACCEPTS_MAX && fd >= 0; i++) {
		fd = accept4(g->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			start_client(g, fd);
	}
	return fd >= 0;
}

static void accept_clients(struct lend_fd_watch *watch, unsigned events)
{
	struct lend_gateway *g = (void *)((char *)watch - offsetof(struct lend_gateway, listener));

	(void)events;
	if (accept_some(g))
		return;
	if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
		(void)host->watch_fd(g->ep, watch, 0); /* the sweep goes on accepting */
}

static void start_sweep(struct lend_gateway *g)
{
	lend_ns wait = lend_min_u64(sweep_time, g->header_time);

	wait = lend_min_u64(wait, lend_min_u64(g->keepalive.every, g->keepalive.timeout));
	wait = lend_min_u64(wait, lend_min_u64(g->lifetime.idle, g->lifetime.grace));
	wait = lend_min_u64(wait, g->lifetime.age);
	host->alarm_set(g->ep, &g->sweep, host->now(g->ep) + wait);
}

/* Returns whether a client is late: with its headers, the answer to a PING, or its end. */
static bool check_client(struct lend_gateway *g, struct h2_client *client)
{
	struct h2_connection *c = &client->peer.connection;

	if (c->waits)
		return host->now(g->ep) - c->since >= g->header_time;
	return h2_keepalive_next(c, &g->keepalive) == 0 || check_lifetime(g, client);
}

/* Ends connections that send nothing, or a header block that does not end, and accepts again after
 * descriptors were used up. */
static void sweep_clients(struct lend_alarm *alarm)
{
	struct lend_gateway *g = (void *)((char *)alarm - offsetof(struct lend_gateway, sweep));
	struct h2_client *next;

	for (struct h2_client *client = g->clients; client; client = next) {
		next = client->next;
		if (!check_client(g, client)) {
			h2_connection_send(&client->peer.connection);
			continue;
		}
		g->counters.refused++;
		h2_connection_end(&client->peer.connection);
	}
	if (!g->listener.events && !g->draining)
		(void)host->watch_fd(g->ep, &g->listener, LEND_FD_READ);
	start_sweep(g);
}

/* Binds a listening socket. shared: others of this user may listen there, too. Returns it or
 * -errno. */
static int bind_listener(const char *listen_at, bool shared)
{
	struct addrinfo *found;
	int fd, on = 1, rc = h2_address_listen(listen_at, &found);

	if (rc < 0)
		return rc;
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0) ||
	    bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
		rc = -errno;
	freeaddrinfo(found);
	if (rc < 0 && fd >= 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

/* Returns 0 or -ENOMEM. */
static int make_options(struct lend_gateway *g)
{
	if (nghttp2_session_callbacks_new(&g->callbacks) < 0 || nghttp2_option_new(&g->option) < 0)
		return -ENOMEM;
	exchange_callbacks(g->callbacks);
	nghttp2_option_set_no_auto_window_update(g->option, 1);
	nghttp2_option_set_no_http_messaging(g->option, 1); /* exchange_headers.c checks */
	nghttp2_option_set_max_settings(g->option, 32);
	/* exchange_limits.c counts the server's resets, too. */
	nghttp2_option_set_stream_reset_rate_limit(g->option, 1 << 20, 1 << 20);
	return 0;
}

static void free_gateway(struct lend_gateway *g)
{
	nghttp2_session_callbacks_del(g->callbacks);
	nghttp2_option_del(g->option);
	SSL_CTX_free(g->tls);
	free(g);
}

/* Reads "cert=FILE&key=FILE&slow=MS" and those of keepalive, which it changes. Returns 0 or -errno.
 */
static int read_parameters(struct lend_gateway *g, char *text)
{
	char *save, *chain = NULL, *key = NULL;

	for (char *at = strtok_r(text, "&", &save); at; at = strtok_r(NULL, "&", &save)) {
		if (strncmp(at, "cert=", 5) == 0)
			chain = at + 5;
		else if (strncmp(at, "key=", 4) == 0)
			key = at + 4;
		else if (strncmp(at, "slow=", 5) == 0 && strtoul(at + 5, NULL, 10))
			g->header_time = strtoul(at + 5, NULL, 10) * 1000000;
		else if (strcmp(at, "reuseport") == 0)
			g->reuse_port = true;
		else if (!h2_keepalive_read(&g->keepalive, at) &&
			 !h2_lifetime_read(&g->lifetime, at) &&
			 !h2_seconds_read(at, "ping_min", &g->keepalive.min))
			return -EINVAL;
	}
	return chain && key ? tls_server(chain, key, &g->tls) : chain || key ? -EINVAL : 0;
}

/* Listens at "HOST:PORT" or "HOST:PORT?PARAMETERS". Returns the socket or -errno. */
static int open_listener(struct lend_gateway *g, const char *listen_at)
{
	char *text = strdup(listen_at), *parameters = text ? strchr(text, '?') : NULL;
	int rc = text ? 0 : -ENOMEM;

	if (parameters) {
		*parameters = '\0';
		rc = read_parameters(g, parameters + 1);
	}
	if (rc == 0)
		rc = bind_listener(text, g->reuse_port);
	free(text);
	return rc;
}

/* Leaves native clients a quarter of the sessions, of which a connection has both ends, and half of
 * the memory. */
static void read_limits(struct lend_gateway *g)
{
	uint32_t sessions;

	host->limits(g->ep, &g->held_max, &sessions);
	g->held_max /= 2;
	g->clients_max = (unsigned)lend_min_u64(CLIENTS_MAX, sessions * 3 / 8);
}

static int open_gateway(struct lend_ep *ep, const char *listen_at, const char *to,
			struct lend_gateway **gateway)
{
	struct lend_gateway *g = calloc(1, sizeof(*g));
	int rc = g ? make_options(g) : -ENOMEM;

	if (rc < 0)
		goto fail;
	g->ep = ep;
	g->header_time = header_time;
	h2_keepalive_init(&g->keepalive, idle_time);
	g->lifetime = (struct h2_lifetime){LEND_NEVER, LEND_NEVER, LEND_NEVER};
	read_limits(g);
	rc = snprintf(g->address, sizeof(g->address), "%s", to) < (int)sizeof(g->address) ? 0
											  : -EINVAL;
	if (!rc)
		rc = open_listener(g, listen_at);
	if (rc < 0)
		goto fail;
	g->listener = (struct lend_fd_watch){.ready = accept_clients, .fd = rc};
	g->sweep = (struct lend_alarm){.ring = sweep_clients, .at = LEND_NEVER};
	rc = host->watch_fd(ep, &g->listener, LEND_FD_READ);
	if (rc < 0) {
		close(g->listener.fd);
		goto fail;
	}
	start_sweep(g);
	*gateway = g;
	return 0;
fail:
	if (g)
		free_gateway(g);
	return rc;
}

static void stop_listening(struct lend_gateway *g)
{
	if (g->listener.fd < 0)
		return;
	(void)host->watch_fd(g->ep, &g->listener, 0);
	close(g->listener.fd);
	g->listener.fd = -1;
}

static void drain_gateway(struct lend_gateway *g)
{
	struct h2_client *next;

	while (accept_some(g))
		continue;
	stop_listening(g);
	g->draining = true;
	for (struct h2_client *client = g->clients; client; client = next) {
		next = client->next;
		begin_leaving(client);
		h2_connection_send(&client->peer.connection);
	}
}

static bool gateway_drained(const struct lend_gateway *g)
{
	return !g->clients;
}

static void close_gateway(struct lend_gateway *g)
{
	host->alarm_set(g->ep, &g->sweep, LEND_NEVER);
	stop_listening(g);
	while (g->clients) {
		struct h2_connection *c = &g->clients->peer.connection;

		(void)nghttp2_submit_goaway(c->session, 0,
					    nghttp2_session_get_last_proc_stream_id(c->session),
					    NGHTTP2_NO_ERROR, NULL, 0);
		h2_connection_last(c);
	}
	free_gateway(g);
}

static int gateway_address(const struct lend_gateway *g, char *text, size_t cap)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);
	char name[64], port[16];
	int n;

	if (getsockname(g->listener.fd, (struct sockaddr *)&at, &len) < 0)
		return -errno;
	if (getnameinfo((struct sockaddr *)&at, len, name, sizeof(name), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return -EINVAL;
	n = snprintf(text, cap, at.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", name, port);
	return n >= 0 && (size_t)n < cap ? 0 : -ERANGE;
}

static const struct lend_gateway_counters *gateway_counters(const struct lend_gateway *g)
{
	return &g->counters;
}

const struct lend_gateway_ops lend_gateway_ops
    __attribute__((visibility("default"))) = {.sizes = LEND_GATEWAY_SIZES,
					      .start = set_host,
					      .open = open_gateway,
					      .drain = drain_gateway,
					      .drained = gateway_drained,
					      .close = close_gateway,
					      .address = gateway_address,
					      .counters = gateway_counters,
					      .dial = remote_dial,
					      .hang_up = remote_hang_up,
					      .call = forward_call,
					      .stream = forward_stream,
					      .remote_counters = remote_counters};
