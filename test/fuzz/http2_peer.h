/* http2_peer - the bytes of a hostile end of HTTP/2, as steps. Layer: test. One per process. */
#ifndef TEST_FUZZ_HTTP2_PEER_H
#define TEST_FUZZ_HTTP2_PEER_H

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/choice.h"
#include "lend/rpc.h"

static int fd;             /* its socket */
static struct lend_ep *ep; /* the other end */
static uint64_t received;  /* bytes that the hostile end read */

static void send_bytes(const void *bytes, size_t len)
{
	(void)!send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_frame(uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
		       uint32_t len)
{
	uint8_t frame[9 + 4096] = {
	    (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags, 0, 0, 0,
	    (uint8_t)stream};

	memcpy(frame + 9, payload, len);
	send_bytes(frame, 9 + len);
}

/* Sends bytes with gRPC's prefix, mostly of their length. */
static void send_message(struct choice *c, uint32_t stream)
{
	uint8_t message[5 + 256] = {choice_rare(c, 8), 0, 0, 0, choice_u8(c)};
	uint32_t len = choice_rare(c, 4) ? choice_u8(c) : message[4];

	if (choice_rare(c, 8))
		message[2] = choice_u8(c);
	send_frame(0, choice_rare(c, 4), stream, message, 5 + len);
}

static void send_any_frame(struct choice *c, uint32_t stream)
{
	uint8_t payload[64], type = choice_u8(c) % 12, flags = choice_u8(c);
	uint32_t len = choice_of(c, sizeof(payload));

	for (uint32_t i = 0; i < len; i++)
		payload[i] = choice_u8(c);
	send_frame(type, flags, choice_rare(c, 4) ? 0 : stream, payload, len);
}

/* Runs turns of the endpoint, and reads what it sends. */
static void run_turns(unsigned n)
{
	uint8_t in[4096];
	ssize_t got;

	while (n--) {
		(void)lend_poll(ep);
		while ((got = recv(fd, in, sizeof(in), MSG_DONTWAIT)) > 0)
			received += (uint64_t)got;
	}
}

/* A linger of 0 s: no port is left behind. */
static void close_peer(void)
{
	struct linger now = {.l_onoff = 1};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

#endif
