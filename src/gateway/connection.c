/* connection - HTTP/2 over a socket. See connection.h. */
#include "gateway/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/check.h"

enum {
	OUT_MAX = 256 << 10, /* bytes collected before they are sent */
	IN_MAX = 64 << 10,   /* bytes of one read */
	READS_MAX = 8        /* reads in one turn */
};

void h2_connection_end(struct h2_connection *c)
{
	c->over = true;
	if (c->busy)
		return;
	host->alarm_set(c->ep, &c->flush, LEND_NEVER);
	(void)host->watch_fd(c->ep, &c->watch, 0);
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
		n = send(c->watch.fd, c->out + c->out_at, c->out_len - c->out_at,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0)
			c->out_at += (size_t)n;
		else if (errno == EAGAIN)
			return true;
		else if (errno != EINTR)
			return false;
	}
	return false;
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
		events |= LEND_FD_WRITE;
	else if (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session))
		c->over = true;
	if (c->over || (c->watch.events != events && host->watch_fd(c->ep, &c->watch, events) < 0))
		h2_connection_end(c);
}

static void flush_rings(struct lend_alarm *alarm)
{
	flush_output((void *)((char *)alarm - offsetof(struct h2_connection, flush)));
}

void h2_connection_send(struct h2_connection *c)
{
	if (c->busy || c->over)
		return;
	if (c->open > 1)
		host->alarm_set(c->ep, &c->flush, host->now(c->ep));
	else
		flush_output(c);
}

static void socket_ready(struct lend_fd_watch *watch, unsigned events)
{
	struct h2_connection *c = (void *)((char *)watch - offsetof(struct h2_connection, watch));
	uint8_t in[IN_MAX];

	c->busy = true;
	for (unsigned i = 0; i < READS_MAX && (events & LEND_FD_READ) && !c->over; i++) {
		ssize_t n = recv(watch->fd, in, sizeof(in), MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0 || nghttp2_session_mem_recv(c->session, in, (size_t)n) != n)
			c->over = true;
		if (n < (ssize_t)sizeof(in))
			break;
	}
	c->busy = false;
	flush_output(c);
}

int h2_connection_start(struct h2_connection *c, int fd)
{
	int rc;

	c->watch = (struct lend_fd_watch){.ready = socket_ready, .fd = fd};
	c->flush = (struct lend_alarm){.ring = flush_rings, .at = LEND_NEVER};
	c->out = malloc(OUT_MAX);
	rc = c->out ? host->watch_fd(c->ep, &c->watch, LEND_FD_READ) : -ENOMEM;
	if (rc < 0) {
		free(c->out);
		close(fd);
	}
	return rc;
}
