/* Goal: a sealed session shows nothing on the wire, and accepts nothing but what its peer sealed.
 * Method: a client and a server over UDP, and between them a proxy that searches each datagram for
 * a marker, and changes, repeats and forwards those that it holds back. Covers: src/rpc/sealing.c,
 * src/seal/record_open.c, src/seal/record_seal.c */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lend/rpc.h"
#include "kit/counter.h"
#include "wire/pkt.h"

#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
enum { METHOD = 7, LONG = 300000, TURNS = 20000 };
static const char marker[] = "this marker is in each message";

static struct wire {
	struct lend_ep *client, *server;
	lend_session session;
	int near, far; /* the proxy's sockets: of the client, of the server */
	struct sockaddr_in of_client;
	uint64_t datagrams, marked, sealed;
	bool holds; /* the next sealed datagram of the client is held back */
	uint32_t held;
	uint8_t bytes[65536], copy[65536];
	uint32_t served;
} w;

static int socket_at(struct sockaddr_in *at, bool binds)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), size = 4 << 20;
	socklen_t len = sizeof(*at);

	cr_assert_geq(fd, 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	cr_assert_eq(binds ? bind(fd, (struct sockaddr *)at, len)
			   : connect(fd, (struct sockaddr *)at, len),
		     0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

static void note_datagram(const uint8_t *at, size_t len)
{
	w.datagrams++;
	w.marked += memmem(at, len, marker, strlen(marker)) != NULL;
	w.sealed += len > 3 && at[3] & LEND_PKT_ENCRYPTED;
}

/* Forwards what waits at both sockets. */
static void run_proxy(void)
{
	socklen_t size = sizeof(w.of_client);
	ssize_t len;

	while ((len = recvfrom(w.near, w.copy, sizeof(w.copy), 0, (struct sockaddr *)&w.of_client,
			       &size)) >= 0) {
		note_datagram(w.copy, (size_t)len);
		if (w.holds && w.copy[3] & LEND_PKT_ENCRYPTED) {
			w.holds = false;
			w.held = (uint32_t)len;
			memcpy(w.bytes, w.copy, w.held);
			continue;
		}
		(void)send(w.far, w.copy, (size_t)len, 0);
	}
	while ((len = recv(w.far, w.copy, sizeof(w.copy), 0)) >= 0) {
		note_datagram(w.copy, (size_t)len);
		(void)sendto(w.near, w.copy, (size_t)len, 0, (struct sockaddr *)&w.of_client, size);
	}
}

static void take_turns(int n)
{
	for (int i = 0; i < n; i++) {
		cr_assert_geq(lend_poll(w.client), 0);
		cr_assert_geq(lend_poll(w.server), 0);
		run_proxy();
	}
}

/* Replies with the request. */
static void send_back(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)bytes;
	(void)arg;
	w.served++;
	cr_assert_eq(lend_reply(w.server, request, LEND_OK, lend_request_take(w.server, request)),
		     0);
}

static void begin_wire(const char *level)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	char text[64];

	memset(&w, 0, sizeof(w));
	cr_assert_eq(setenv("LEND_SECRET", SECRET, 1), 0);
	cr_assert_eq(setenv("LEND_LEVEL", level, 1), 0);
	cr_assert_eq(lend_open(&config, &w.client), 0, "%s", lend_why());
	config.listen = "udp:127.0.0.1:0";
	cr_assert_eq(lend_open(&config, &w.server), 0, "%s", lend_why());
	cr_assert_eq(lend_serve(w.server, METHOD, send_back, NULL, 0), 0);
	cr_assert_eq(lend_address(w.server, text, sizeof(text)), 0);
	w.near = socket_at(&at, true);
	at.sin_port = htons((uint16_t)atoi(strrchr(text, ':') + 1));
	w.far = socket_at(&at, false);
	at = (struct sockaddr_in){0};
	cr_assert_eq(getsockname(w.near, (struct sockaddr *)&at, &(socklen_t){sizeof(at)}), 0);
	(void)snprintf(text, sizeof(text), "udp:127.0.0.1:%u", ntohs(at.sin_port));
	cr_assert_eq(lend_connect(w.client, text, &w.session), 0, "%s", lend_why());
}

static void finish_wire(void)
{
	lend_close(w.client);
	lend_close(w.server);
	close(w.near);
	close(w.far);
}

static void start_call(struct lend_call *call, uint32_t len)
{
	struct lend_buf *request = lend_buf_take(w.client, len);

	cr_assert(request);
	for (uint32_t i = 0; i < len; i++)
		((char *)request->data)[i] = marker[i % strlen(marker)];
	request->len = len;
	*call = (struct lend_call){.method = METHOD, .request = request};
	cr_assert_eq(lend_call_start(w.client, w.session, call), 0, "%s", lend_why());
}

static void end_call(struct lend_call *call, uint32_t len)
{
	for (int i = 0; call->status == LEND_UNKNOWN && i < TURNS; i++)
		take_turns(1);
	cr_assert_eq(call->status, LEND_OK, "status %d", call->status);
	cr_assert_eq(call->reply_len, len);
	cr_assert_eq(memcmp(call->reply->data, marker, strlen(marker)), 0);
	lend_buf_give(w.client, call->reply);
}

static void make_call(uint32_t len)
{
	struct lend_call call;

	start_call(&call, len);
	end_call(&call, len);
}

Test(sealed_wire, marker__by_level)
{
	static const struct {
		const char *level;
		bool sealed, marked;
	} row[] = {{"none", false, true}, {"authenticate", true, true}, {"encrypt", true, false}};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_session_stats look;

		begin_wire(row[i].level);
		for (int n = 0; n < 20; n++)
			make_call(64);
		make_call(1200);
		make_call(LONG);
		cr_expect_eq(w.marked > 0, row[i].marked, "%s: %lu of %lu", row[i].level, w.marked,
			     w.datagrams);
		cr_expect_eq(w.sealed > 20, row[i].sealed, "%s: %lu", row[i].level, w.sealed);
		cr_expect_eq(counter_of(w.server, "seal_opened") > 20, row[i].sealed);
		cr_assert_neq(lend_stats_session(w.server, 0, &look), 0);
		cr_expect_eq(look.level, i);
		cr_expect_eq(look.suite != 0, row[i].sealed);
		finish_wire();
	}
}

/* Returns how many datagrams the server has dropped. */
static uint64_t count_dropped(void)
{
	static const char *const names[] = {"seal_rx_forged",  "seal_rx_epoch",   "seal_rx_clear",
					    "seal_rx_corrupt", "core_rx_session", "core_rx_stale"};
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		sum += counter_of(w.server, names[i]);
	return sum;
}

Test(sealed_wire, held_back__each_byte_changed__dropped_and_counted)
{
	struct lend_call call;
	uint64_t before;

	begin_wire("encrypt");
	make_call(64);
	w.holds = true;
	start_call(&call, 64);
	for (int i = 0; !w.held && i < TURNS; i++)
		take_turns(1);
	cr_assert_gt(w.held, 64);
	before = count_dropped();
	for (uint32_t i = 0; i < w.held; i++) {
		w.bytes[i] ^= (uint8_t)(1u << i % 7);
		cr_assert_eq(send(w.far, w.bytes, w.held, 0), w.held);
		w.bytes[i] ^= (uint8_t)(1u << i % 7);
		while (count_dropped() - before < i + 1)
			take_turns(1);
	}
	cr_expect_eq(count_dropped() - before, w.held);
	end_call(&call, 64);
	cr_expect_eq(w.served, 2);
	/* A datagram that was held back arrives late, then again. */
	for (uint64_t i = 0; i < 2; i++) {
		cr_assert_eq(send(w.far, w.bytes, w.held, 0), w.held);
		take_turns(50);
		cr_expect_eq(counter_of(w.server, "seal_rx_replayed"), i);
	}
	cr_expect_eq(w.served, 2);
	finish_wire();
}

Test(sealed_wire, client_without_keys__gets_nothing)
{
	struct lend_call call;

	begin_wire("encrypt");
	lend_close(w.client);
	cr_assert_eq(unsetenv("LEND_SECRET"), 0);
	w.client = NULL;
	cr_assert_eq(setenv("LEND_LEVEL", "none", 1), 0);
	{
		struct lend_config config = LEND_CONFIG_INIT;
		char text[64];

		config.secret = "";
		cr_assert_eq(lend_open(&config, &w.client), 0, "%s", lend_why());
		cr_assert_eq(lend_address(w.server, text, sizeof(text)), 0);
		cr_assert_eq(lend_connect(w.client, text, &w.session), 0);
	}
	start_call(&call, 64);
	take_turns(2000);
	cr_expect_neq(call.status, LEND_OK);
	cr_expect_eq(w.served, 0);
	cr_expect_eq(call.status, LEND_UNAUTHENTICATED);
	finish_wire();
}
