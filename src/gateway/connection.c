/* connection - HTTP/2 over a socket. See connection.h. */
#include "gateway/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/check.h"

enum {
	OUT_MAX = 256 << 10, /* bytes collected before they are sent */
	IN_MAX = 64 << 10,   /* bytes of one read */
	READS_MAX = 8        /* reads of a turn */
};

void *h2_allocate(size_t len)
{
	void *p = host->malloc(len);

	return p ? memset(p, 0, len) : NULL;
}

static void *allocate_some(size_t len, void *arg)
{
	(void)arg;
	return host->malloc(len);
}

static void *allocate_many(size_t n, size_t len, void *arg)
{
	size_t all;

	(void)arg;
	return __builtin_mul_overflow(n, len, &all) ? NULL : h2_allocate(all);
}

static void *allocate_again(void *p, size_t len, void *arg)
{
	size_t had = p ? host->usable(p) : 0;
	void *more;

	(void)arg;
	if (p && len <= had)
		return p;
	more = host->malloc(len);
	if (!more || !p)
		return more;
	memcpy(more, p, had);
	host->free(p);
	return more;
}

static void free_some(void *p, void *arg)
{
	(void)arg;
	host->free(p);
}

nghttp2_mem *h2_memory(void)
{
	static nghttp2_mem memory = {NULL, allocate_some, free_some, allocate_many, allocate_again};

	return &memory;
}

int h2_connection_settings(struct h2_connection *c, const nghttp2_settings_entry *settings,
			   size_t n)
{
	if (nghttp2_submit_settings(c->session, 0, settings, n) == 0 &&
	    nghttp2_session_set_local_window_size(c->session, 0, 0, H2_WINDOW) == 0)
		return 0;
	nghttp2_session_del(c->session);
	return -ENOMEM;
}

void h2_connection_end(struct h2_connection *c)
{
	c->over = true;
	if (c->busy)
		return;
	host->alarm_set(c->ep, &c->flush, LEND_NEVER);
	host->alarm_set(c->ep, &c->again, LEND_NEVER);
	(void)host->watch_fd(c->ep, &c->watch, 0);
	if (c->tls && !c->draining)
		tls_shutdown(c->tls, c->watch.fd);
	c->why = c->tls ? tls_why(c->tls) : NULL;
	SSL_free(c->tls);
	close(c->watch.fd);
	nghttp2_session_del(c->session);
	free(c->out);
	c->ended(c);
}

/* Collects what the session has to send. Returns false if it fails. */
static bool collect_output(struct h2_connection *c)
{
	const uint8_t *bytes;
	ssize_t n = 1;

	if (c->out_at == c->out_len)
		c->out_at = c->out_len = 0;
	/* A piece is a frame, of at most 16 KiB and a head. */
	while (c->out_len + IN_MAX <= OUT_MAX) {
		n = nghttp2_session_mem_send(c->session, &bytes);
		if (n <= 0)
			break;
		if ((size_t)n > OUT_MAX - c->out_len)
			return false;
		memcpy(c->out + c->out_len, bytes, (size_t)n);
		c->out_len += (size_t)n;
	}
	return n >= 0;
}

/* Returns false if the connection is over. */
static bool send_output(struct h2_connection *c)
{
	while (collect_output(c)) {
		ssize_t n;

		if (c->out_at == c->out_len)
			return true;
		n = tls_write(c->tls, c->watch.fd, c->out + c->out_at, c->out_len - c->out_at,
			      &c->wants_write);
		if (n == -EAGAIN)
			return true;
		if (n <= 0)
			return false;
		c->out_at += (size_t)n;
	}
	return false;
}

/* Ends the direction to the peer after its last bytes. Drops what a client still sends: a close now
 * could reset the connection before it has read the end. A server's answers are not awaited. */
static void end_output(struct h2_connection *c)
{
	if (!nghttp2_session_check_server_session(c->session)) {
		c->over = true;
		return;
	}
	c->draining = true;
	c->waits = true;
	c->since = host->now(c->ep);
	tls_shutdown(c->tls, c->watch.fd);
}

/* Sends, and waits for what is needed next. May end the connection. */
static void flush_output(struct h2_connection *c)
{
	unsigned events = LEND_FD_READ;

	LEND_CHECK(!c->busy);
	host->alarm_set(c->ep, &c->flush, LEND_NEVER);
	c->busy = true;
	if (!send_output(c))
		c->over = true;
	c->busy = false;
	if (c->out_at < c->out_len)
		events |= c->wants_write ? LEND_FD_WRITE : 0;
	else if (!c->draining && (c->failed || (!nghttp2_session_want_read(c->session) &&
						!nghttp2_session_want_write(c->session))))
		end_output(c);
	if (c->over || (c->watch.events != events && host->watch_fd(c->ep, &c->watch, events) < 0))
		h2_connection_end(c);
}

void h2_connection_close(struct h2_connection *c)
{
	if (nghttp2_session_terminate_session(c->session, NGHTTP2_NO_ERROR) == 0) {
		c->busy = true;
		(void)send_output(c);
		c->busy = false;
	}
	h2_connection_end(c);
}

void h2_connection_last(struct h2_connection *c)
{
	(void)send_output(c);
	h2_connection_end(c);
}

static void flush_rings(struct lend_alarm *alarm)
{
	flush_output((void *)((char *)alarm - offsetof(struct h2_connection, flush)));
}

void h2_connection_send(struct h2_connection *c)
{
	if (c->busy)
		return;
	if (c->over)
		h2_connection_end(c);
	else if (c->open > 1)
		host->alarm_set(c->ep, &c->flush, host->now(c->ep));
	else
		flush_output(c);
}

static void drop_input(struct h2_connection *c)
{
	c->failed = true;
	c->waits = true;
	c->since = host->now(c->ep);
}

void h2_connection_goaway(struct h2_connection *c, uint32_t code, const char *debug)
{
	int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);

	drop_input(c);
	if (nghttp2_submit_goaway(c->session, 0, last, code, (const uint8_t *)debug,
				  strlen(debug)) < 0)
		c->over = true;
}

/* Begins to end a connection because of its input: an error of nghttp2. */
static void begin_goaway(struct h2_connection *c, int error)
{
	uint32_t code = error == NGHTTP2_ERR_BAD_CLIENT_MAGIC ? NGHTTP2_PROTOCOL_ERROR
							      : NGHTTP2_ENHANCE_YOUR_CALM;

	drop_input(c);
	if (error == NGHTTP2_ERR_NOMEM || nghttp2_session_terminate_session(c->session, code) < 0)
		c->over = true;
}

/* Reads what has arrived. Returns false if there may be more. */
static bool read_input(struct h2_connection *c)
{
	uint8_t in[IN_MAX];
	ssize_t got;

	for (unsigned i = 0; i < READS_MAX && !c->over; i++) {
		ssize_t n = tls_read(c->tls, c->watch.fd, in, sizeof(in));

		if (n == -EAGAIN)
			return true;
		if (n > 0 && (c->draining || c->failed))
			continue;
		if (n <= 0) {
			c->over = true;
			break;
		}
		got = nghttp2_session_mem_recv(c->session, in, (size_t)n);
		if (got < 0)
			begin_goaway(c, (int)got);
		else if (!c->tls && n < (ssize_t)sizeof(in))
			return true;
	}
	return c->over;
}

static void receive_input(struct h2_connection *c)
{
	bool all;

	if (!c->waits)
		c->since = host->now(c->ep);
	c->busy = true;
	all = read_input(c);
	c->busy = false;
	if (!all) /* TLS may have decrypted more than the socket shows */
		host->alarm_set(c->ep, &c->again, host->now(c->ep));
	flush_output(c);
}

static void again_rings(struct lend_alarm *alarm)
{
	receive_input((void *)((char *)alarm - offsetof(struct h2_connection, again)));
}

static void socket_ready(struct lend_fd_watch *watch, unsigned events)
{
	struct h2_connection *c = (void *)((char *)watch - offsetof(struct h2_connection, watch));

	(void)events;
	receive_input(c);
}

int h2_connection_start(struct h2_connection *c, int fd, SSL_CTX *tls, const char *server)
{
	int rc;

	c->watch = (struct lend_fd_watch){.ready = socket_ready, .fd = fd};
	c->flush = (struct lend_alarm){.ring = flush_rings, .at = LEND_NEVER};
	c->again = (struct lend_alarm){.ring = again_rings, .at = LEND_NEVER};
	c->since = host->now(c->ep);
	c->out = malloc(OUT_MAX);
	c->tls = tls ? tls_begin(tls, fd, server) : NULL;
	rc = c->out && (c->tls || !tls) ? host->watch_fd(c->ep, &c->watch, LEND_FD_READ) : -ENOMEM;
	if (rc < 0) {
		SSL_free(c->tls);
		free(c->out);
		close(fd);
	}
	return rc;
}
