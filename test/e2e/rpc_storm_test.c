/* Goal: sessions that begin together all come up, or are refused in one way; limits that only one
 * end has lose no call; and a server learns nothing of a client that is useful elsewhere. Method:
 * two endpoints of one thread over shm and udp; sockets that only listen. Covers:
 * src/rpc/session.c, src/rpc/session_proof.c */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/rpc_pair.h"

enum { STORM = 400, MANY = 129, DATAGRAM = 2048, WINDOW = 16 };

static uint32_t ended, bad;

static void count_done(struct lend_call *call)
{
	ended++;
	bad += call->status != LEND_OK;
}

static void await_calls(struct pair *p, uint32_t n)
{
	lend_ns end = lend_now(p->client) + UINT64_C(8000000000);

	while (ended < n && lend_now(p->client) < end)
		pair_turns(p, 1);
	cr_assert_eq(ended, n, "%u of %u ended", ended, n);
}

/* The server has the default limits. */
Test(rpc_storm, a_default_server_loses_none_of_400)
{
	for (int s = 0; s < SCHEMES; s++) {
		static struct lend_call call[STORM];
		struct pair p;
		lend_session session;

		ended = bad = 0;
		pair_open(&p, pair_schemes[s]);
		for (uint32_t i = 0; i < STORM; i++) {
			call[i] = (struct lend_call){.method = SINK, .done = count_done};
			cr_assert_eq(lend_connect(p.client, p.address, &session), 0);
			cr_assert_eq(lend_call_start(p.client, session, &call[i]), 0);
		}
		await_calls(&p, STORM);
		cr_assert_eq(bad, 0, "%s: %u failed", pair_schemes[s], bad);
		for (uint32_t i = 0; i < STORM; i++)
			lend_buf_give(p.client, call[i].reply);
		pair_close(&p);
	}
}

/* Its earlier sessions continue. */
Test(rpc_storm, a_full_server_refuses_in_time)
{
	struct lend_config few = LEND_CONFIG_INIT, some = LEND_CONFIG_INIT;

	few.sessions = 4;
	for (int s = 0; s < SCHEMES; s++) {
		static struct lend_call call[12];
		struct pair p;
		lend_session session;
		uint32_t refused = 0;

		ended = bad = 0;
		pair_open_with(&p, pair_schemes[s], &few, &some);
		for (uint32_t i = 0; i < 12; i++) {
			call[i] = (struct lend_call){.method = SINK, .done = count_done};
			cr_assert_eq(lend_connect(p.client, p.address, &session), 0);
			cr_assert_eq(lend_call_start(p.client, session, &call[i]), 0);
		}
		await_calls(&p, 12);
		for (uint32_t i = 0; i < 12; i++) {
			refused += call[i].status == LEND_RESOURCE_EXHAUSTED;
			cr_assert(call[i].status == LEND_OK ||
				      call[i].status == LEND_RESOURCE_EXHAUSTED,
				  "%s: status %d", pair_schemes[s], call[i].status);
			lend_buf_give(p.client, call[i].reply);
		}
		cr_assert_geq(refused, 8);
		cr_assert_leq(refused, 9);
		pair_close(&p);
	}
}

/* 129 calls at once to a server with 128 slots. */
Test(rpc_storm, calls_above_the_servers_limit_are_not_lost)
{
	struct lend_config more = LEND_CONFIG_INIT, some = LEND_CONFIG_INIT;

	more.calls = 256;
	for (int s = 0; s < SCHEMES; s++) {
		static struct lend_call call[MANY];
		struct pair p;
		lend_session session;

		ended = bad = 0;
		pair_open_with(&p, pair_schemes[s], &some, &more);
		cr_assert_eq(lend_connect(p.client, p.address, &session), 0);
		for (uint32_t i = 0; i < MANY; i++) {
			call[i] = (struct lend_call){.method = SINK, .done = count_done};
			cr_assert_eq(lend_call_start(p.client, session, &call[i]), 0);
		}
		await_calls(&p, MANY);
		cr_assert_eq(bad, 0, "%s: %u failed", pair_schemes[s], bad);
		for (uint32_t i = 0; i < MANY; i++)
			lend_buf_give(p.client, call[i].reply);
		pair_close(&p);
	}
}

/* A socket that a client connects to and that never answers. */
static int deaf_server(char *address, size_t cap)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	snprintf(address, cap, "udp:127.0.0.1:%u", ntohs(at.sin_port));
	return fd;
}

/* Returns the first datagram of a new process to this server. */
static size_t first_datagram(struct lend_ep *ep, const char *address, const char *name, int fd,
			     uint8_t *to)
{
	lend_session session;
	ssize_t n = -1;

	cr_assert_eq(lend_connect_as(ep, address, name, &session), 0);
	for (int i = 0; i < 100000 && n < 0; i++) {
		lend_poll(ep);
		n = recv(fd, to, DATAGRAM, MSG_DONTWAIT);
	}
	cr_assert_gt(n, 200);
	return (size_t)n;
}

/* The same of another process. */
static size_t of_another_process(const char *address, int fd, uint8_t *to)
{
	uint8_t repeated[DATAGRAM];
	pid_t pid = fork();
	struct lend_ep *ep;
	lend_session session;
	ssize_t n;

	if (pid == 0) {
		if (lend_open(NULL, &ep) < 0 || lend_connect(ep, address, &session) < 0)
			_exit(1);
		for (int i = 0; i < 100; i++)
			lend_poll(ep);
		_exit(0);
	}
	n = recv(fd, to, DATAGRAM, 0);
	waitpid(pid, NULL, 0);
	while (recv(fd, repeated, sizeof(repeated), MSG_DONTWAIT) >= 0)
		; /* a slow machine: it sent its CONNECT again */
	cr_assert_gt(n, 200);
	return (size_t)n;
}

static bool has_window(const uint8_t *bytes, size_t len, const uint8_t *window)
{
	for (size_t i = 0; i + WINDOW <= len; i++)
		if (memcmp(bytes + i, window, WINDOW) == 0)
			return true;
	return false;
}

static int count_differing(const uint8_t *a, const uint8_t *b)
{
	int n = 0;

	for (int i = 0; i < WINDOW; i++)
		n += a[i] != b[i];
	return n;
}

/* Counts the 16-byte windows that both CONNECTs share and another process's lacks. More than two of
 * their bytes must differ, because next to constant fields one or two random bytes are equal by
 * chance. */
static size_t count_shared(const uint8_t *a, const uint8_t *b, const uint8_t *stranger, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i + WINDOW <= len; i++)
		n += has_window(b, len, a + i) && count_differing(a + i, stranger + i) > 2;
	return n;
}

Test(rpc_storm, two_servers_see_no_16_bytes_in_common)
{
	uint8_t a[DATAGRAM], b[DATAGRAM], c[DATAGRAM];
	char at_a[64], at_b[64], at_d[64];
	int fd_a = deaf_server(at_a, sizeof(at_a)), fd_b = deaf_server(at_b, sizeof(at_b));
	int fd_d = deaf_server(at_d, sizeof(at_d));
	size_t len;
	struct lend_ep *ep;

	setenv("LEND_SECRET", "", 1);
	setenv("LEND_LEVEL", "none", 1); /* encrypted, nothing can be compared */
	len = of_another_process(at_a, fd_a, c);
	cr_assert_eq(lend_open(NULL, &ep), 0);
	cr_assert_eq(first_datagram(ep, at_a, NULL, fd_a, a), len);
	cr_assert_eq(first_datagram(ep, at_b, NULL, fd_b, b), len);
	cr_assert_eq(count_shared(a, b, c, len), 0);
	/* With one name, both servers see one process. */
	cr_assert_eq(first_datagram(ep, at_d, at_a, fd_d, b), len);
	cr_assert_gt(count_shared(a, b, c, len), 0, "the incarnation");
	lend_close(ep);
	close(fd_a);
	close(fd_b);
	close(fd_d);
}

/* Both ends compute the same 32 bytes, and each session other ones. */
Test(rpc_storm, the_channel_binding_is_of_one_session)
{
	struct lend_config secret = LEND_CONFIG_INIT;

	for (int s = 0; s < SCHEMES; s++) {
		uint8_t ours[2][32], theirs[32];
		lend_session session;
		struct pair p;

		secret.secret = s ? "tulip" : NULL;
		pair_open_with(&p, pair_schemes[s], &secret, &secret);
		for (int i = 0; i < 2; i++) {
			struct ask ask;

			cr_assert_eq(lend_connect(p.client, p.address, &session), 0);
			p.session = session;
			p.n_held = 0;
			ask_start(&p, &ask, HOLD, 0);
			pair_until_held(&p, 1);
			cr_assert_eq(lend_session_context(p.client, session, ours[i]), 0);
			session = lend_request_session(p.server, p.held[0]);
			cr_assert_eq(lend_session_context(p.server, session, theirs), 0);
			cr_assert_eq(memcmp(ours[i], theirs, 32), 0);
			cr_assert_eq(lend_session_knows(p.server, session, "tulip"), s > 0);
			cr_assert_not(lend_session_knows(p.server, session, "rose"));
			cr_assert_eq(lend_reply(p.server, p.held[0], LEND_OK, NULL), 0);
			cr_assert(pair_until(&p, &ask.done));
			ask_give(p.client, &ask);
		}
		cr_assert_neq(memcmp(ours[0], ours[1], 32), 0);
		pair_close(&p);
	}
}
