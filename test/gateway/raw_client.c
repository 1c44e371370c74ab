/* raw_client - see raw_client.h. */
#include "gateway/raw_client.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lend/rpc.h"

void raw_open(struct raw_client *c, struct lend_ep *ep, const char *address)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int on = 1, small = 16384;

	memset(c, 0, sizeof(*c));
	c->ep = ep;
	c->goaway = c->reset = c->http = c->grpc = -1;
	c->fd = socket(AF_INET, SOCK_STREAM, 0);
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	cr_assert_eq(connect(c->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(nghttp2_hd_inflate_new(&c->inflater), 0);
	raw_send(c, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
	raw_frame(c, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

void raw_close(struct raw_client *c)
{
	nghttp2_hd_inflate_del(c->inflater);
	close(c->fd);
}

void raw_send(struct raw_client *c, const void *bytes, size_t len)
{
	lend_ns end = lend_now(c->ep) + 10000000000;
	const uint8_t *at = bytes;

	while (len && !c->lost) {
		ssize_t n = send(c->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			c->lost = true;
		at += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
		c->sent += n > 0 ? (uint64_t)n : 0;
		if (n < 0)
			raw_turn(c);
		cr_assert(!len || lend_now(c->ep) < end, "the server takes no more bytes");
	}
}

/* Writes a frame. Returns its length. */
static size_t write_frame(uint8_t *to, uint8_t type, uint8_t flags, uint32_t stream,
			  const void *payload, size_t len)
{
	cr_assert(len <= 16384);
	for (unsigned i = 0; i < 3; i++)
		to[i] = (uint8_t)(len >> (16 - 8 * i));
	to[3] = type;
	to[4] = flags;
	for (unsigned i = 0; i < 4; i++)
		to[5 + i] = (uint8_t)(stream >> (24 - 8 * i));
	if (len)
		memcpy(to + 9, payload, len);
	return 9 + len;
}

void raw_frame(struct raw_client *c, uint8_t type, uint8_t flags, uint32_t stream,
	       const void *payload, size_t len)
{
	uint8_t frame[9 + 16384];

	raw_send(c, frame, write_frame(frame, type, flags, stream, payload, len));
}

void raw_frames(struct raw_client *c, unsigned n, uint8_t type, uint32_t stream,
		const void *payload, size_t len)
{
	uint8_t frames[16384];
	size_t used = 0;

	for (; n; n--) {
		used += write_frame(frames + used, type, 0, stream, payload, len);
		if (n > 1 && used + 9 + len <= sizeof(frames))
			continue;
		raw_send(c, frames, used);
		used = 0;
	}
}

/* Appends a literal header without indexing. Returns the new length of the block. */
static size_t add_literal(uint8_t *block, size_t at, const char *name, size_t name_len,
			  const char *value, size_t len)
{
	cr_assert(name_len < 127 && len < 127);
	block[at++] = 0;
	block[at++] = (uint8_t)name_len;
	memcpy(block + at, name, name_len);
	at += name_len;
	block[at++] = (uint8_t)len;
	memcpy(block + at, value, len);
	return at + len;
}

void raw_request(struct raw_client *c, uint32_t stream, const char *path, const char *more,
		 uint8_t flags)
{
	uint8_t block[2048];
	char lines[1024], *save;
	size_t n = 0;

	(void)snprintf(lines, sizeof(lines), ":method: POST\n:scheme: http\n:path: %s\n%s\n%s%s",
		       path, ":authority: test\nte: trailers",
		       strstr(more, "content-type") ? "" : "content-type: application/grpc\n",
		       more);
	for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *colon = strchr(line + 1, ':');

		n = add_literal(block, n, line, (size_t)(colon - line), colon + 2,
				strlen(colon + 2));
	}
	raw_frame(c, NGHTTP2_HEADERS, flags, stream, block, n);
}

static void read_headers(struct raw_client *c, const uint8_t *block, size_t len)
{
	int flags = 0;

	c->heads++;
	while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
		nghttp2_nv nv;
		ssize_t n = nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, block, len, 1);

		cr_assert(n >= 0);
		block += n;
		len -= (size_t)n;
		if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
			continue;
		if (nv.namelen == 7 && !memcmp(nv.name, ":status", 7))
			c->http = atoi((const char *)nv.value);
		else if (nv.namelen == 11 && !memcmp(nv.name, "grpc-status", 11))
			c->grpc = atoi((const char *)nv.value);
	}
	nghttp2_hd_inflate_end_headers(c->inflater);
}

static void read_frame(struct raw_client *c, uint8_t type, uint8_t flags, const uint8_t *payload,
		       size_t len)
{
	if (type == NGHTTP2_SETTINGS && !(flags & NGHTTP2_FLAG_ACK))
		raw_frame(c, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
	else if (type == NGHTTP2_HEADERS)
		read_headers(c, payload, len);
	else if (type == NGHTTP2_DATA)
		c->data += len;
	else if (type == NGHTTP2_RST_STREAM) {
		c->reset = payload[3];
		c->resets++;
	} else if (type == NGHTTP2_PING) {
		c->pings += !(flags & NGHTTP2_FLAG_ACK);
		memcpy(c->ping, payload, sizeof(c->ping));
	} else if (type == NGHTTP2_GOAWAY && len >= 8) {
		c->goaway = payload[7];
		c->last = (int32_t)((uint32_t)payload[0] << 24 | (uint32_t)payload[1] << 16 |
				    (uint32_t)payload[2] << 8 | payload[3]);
		(void)snprintf(c->debug, sizeof(c->debug), "%.*s", (int)len - 8, payload + 8);
	}
}

void raw_turn(struct raw_client *c)
{
	ssize_t n;

	(void)lend_poll(c->ep);
	if (c->mute)
		return;
	n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len, MSG_DONTWAIT);
	c->lost |= n == 0 || (n < 0 && errno != EAGAIN);
	c->in_len += n > 0 ? (size_t)n : 0;
	while (c->in_len >= 9) {
		size_t len = (size_t)c->in[0] << 16 | (size_t)c->in[1] << 8 | c->in[2];

		if (c->in_len < 9 + len)
			break;
		read_frame(c, c->in[3], c->in[4], c->in + 9, len);
		c->in_len -= 9 + len;
		memmove(c->in, c->in + 9 + len, c->in_len);
	}
}
