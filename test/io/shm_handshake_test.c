/* Goal: a server on shared memory refuses each invalid message of the handshake with a reason, does
 * not block and keeps serving other clients; a client refuses each invalid server.
 * Method: each mistake once, made with the handshake's own functions. Covers:
 * src/io/shm/handshake.c, src/io/shm/rendezvous.c */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/conform.h"
#include "io/shm/peers.h"
#include "io/shm/rendezvous.h"
#include "sys/last_error.h"

static const struct conform_row shm = {.name = "shm", .address = conform_shm_address};

static int unsealed(void)
{
	int fd = memfd_create("attacker", MFD_CLOEXEC);

	cr_assert_eq(ftruncate(fd, LEND_BELL_LEN), 0);
	return fd;
}

static int too_short(void)
{
	void *base;
	int fd;

	cr_assert_eq(lend_rendezvous_memory(LEND_BELL_LEN / 2, &fd, &base), 0);
	return fd;
}

static int proper(void)
{
	void *base;
	int fd;

	cr_assert_eq(lend_rendezvous_memory(LEND_BELL_LEN, &fd, &base), 0);
	return fd;
}

static int no_memory(void)
{
	return dup(2);
}

static int sealed(size_t len, int seals)
{
	int fd = memfd_create("attacker", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, (off_t)len), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* Memory without a seal can be truncated by its owner; access beyond its end would raise SIGBUS. */
static int may_shrink(void)
{
	return sealed(LEND_BELL_LEN, F_SEAL_GROW);
}

Test(shm_handshake, unsealed_client__is_refused)
{
	static const struct {
		int seals;
		size_t len;
		int want;
	} row[] = {
	    {0, LEND_BELL_LEN, -EPROTO},
	    {F_SEAL_GROW, LEND_BELL_LEN, -EPROTO},
	    {F_SEAL_GROW | F_SEAL_SEAL, LEND_BELL_LEN, -EPROTO},
	    {F_SEAL_SHRINK, LEND_BELL_LEN, -EPROTO},
	    {F_SEAL_SHRINK | F_SEAL_GROW, LEND_BELL_LEN - 4096, -EPROTO},
	    {F_SEAL_SHRINK | F_SEAL_GROW, LEND_BELL_LEN + 4096, -EPROTO},
	    {F_SEAL_SHRINK | F_SEAL_GROW, LEND_BELL_LEN, 0},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		int fd = sealed(row[i].len, row[i].seals);
		const void *read = NULL;
		void *base = NULL;

		cr_assert_eq(lend_rendezvous_map(fd, LEND_BELL_LEN, &base), row[i].want, "row %zu",
			     i);
		cr_assert_eq(lend_rendezvous_map_to_read(fd, LEND_BELL_LEN, &read), row[i].want);
		if (row[i].want == 0) {
			(void)munmap(base, LEND_BELL_LEN);
			(void)munmap((void *)(uintptr_t)read, LEND_BELL_LEN);
		}
		(void)close(fd);
	}
}

/* Each client makes one mistake. The server refuses it or closes the connection, and keeps
 * serving. */
Test(shm_handshake, invalid_handshakes__are_refused, .timeout = 60)
{
	static int (*const bell[])(void) = {unsealed, too_short, no_memory, may_shrink};
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *client = conform_client(at);

	for (unsigned kind = 0; kind < 10; kind++) {
		struct lend_rendezvous_msg msg;
		int sock, fds[LEND_RENDEZVOUS_FDS] = {-1, -1}, err = -EAGAIN;
		uint64_t end = conform_ms() + 5000;

		cr_assert_eq(lend_rendezvous_connect(at + 4, &sock), 0);
		lend_rendezvous_fill(&msg, 0, 0, LEND_SHM_LINK_LEN);
		fds[0] = kind < 3 || kind == 9 ? bell[kind % 6]() : proper();
		fds[1] = no_memory();
		msg.version += kind == 3;
		msg.magic[0] = kind == 4 ? 'X' : 'L';
		msg.bit = kind == 5 ? LEND_SHM_PEERS : 0;
		msg.pair += kind == 6;
		if (kind == 7)
			cr_assert_eq(send(sock, "hello", 5, MSG_NOSIGNAL), 5);
		else
			cr_assert_eq(lend_rendezvous_send(sock, &msg, fds, kind == 8 ? 2 : 1), 0);
		(void)close(fds[0]);
		(void)close(fds[1]);
		while (err == -EAGAIN && conform_ms() < end) {
			(void)conform_take(server, NULL, NULL);
			err = lend_rendezvous_recv(sock, &msg, fds, 0);
		}
		cr_assert_eq(err, -EPROTO, "kind %u: refused with a reason, not %d", kind, err);
		cr_assert_eq(msg.version, LEND_RENDEZVOUS_VERSION);
		cr_assert_eq(msg.status, EPROTO);
		(void)close(sock);
	}
	cr_assert_eq(server->stats.peers_refused, 10);
	(void)conform_resolve(client, at, server);
	client->ops->close(client);
	server->ops->close(server);
}

static unsigned count_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* More descriptors than the message may have: the receiver closes all of them. */
Test(shm_handshake, too_many_descriptors__stay_not_open)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 6)] = {0};
	struct lend_rendezvous_msg msg;
	struct iovec iov = {&msg, sizeof(msg)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int pair[2], fds[LEND_RENDEZVOUS_FDS], six[6] = {2, 2, 2, 2, 2, 2};
	unsigned before;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	lend_rendezvous_fill(&msg, 0, 0, LEND_SHM_LINK_LEN);
	*c = (struct cmsghdr){
	    .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(six))};
	memcpy(CMSG_DATA(c), six, sizeof(six));
	before = count_descriptors();
	cr_assert_eq(sendmsg(pair[0], &m, 0), (ssize_t)sizeof(msg));
	cr_expect_eq(lend_rendezvous_recv(pair[1], &msg, fds, 1), -EPROTO);
	cr_expect_eq(count_descriptors(), before);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

/* More clients that send nothing than the server waits for at once; then one that sends a HELLO. */
Test(shm_handshake, silent_clients__block_no_other, .timeout = 60)
{
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *client = conform_client(at);
	int sock[100], ended = 0;
	uint64_t began;
	char byte;

	for (int i = 0; i < 100; i++)
		while (lend_rendezvous_connect(at + 4, &sock[i]) == -EAGAIN)
			(void)conform_take(server, NULL, NULL);
	began = conform_ms();
	(void)conform_resolve(client, at, server);
	cr_assert_lt(conform_ms() - began, 900, "before any of them expired");
	/* The oldest are dropped first. */
	while (ended < 100 - LEND_SHM_HALF_OPEN_MAX && conform_ms() - began < 900) {
		(void)conform_take(server, NULL, NULL);
		ended += recv(sock[ended], &byte, 1, MSG_DONTWAIT) == 0;
	}
	cr_assert_eq(ended, 100 - LEND_SHM_HALF_OPEN_MAX, "only so many are kept");
	for (int i = 0; i < 100; i++)
		(void)close(sock[i]);
	client->ops->close(client);
	server->ops->close(server);
}

/* Sleeps until the server has rings ahead. Returns them. */
static const void *await_rings(struct lend_io *server)
{
	const struct lend_shm *s = (const struct lend_shm *)(const void *)server;
	uint64_t end = conform_ms() + 5000;

	while (s->made == NULL && conform_ms() < end) {
		(void)conform_take(server, NULL, NULL);
		(void)server->ops->arm(server);
	}
	cr_assert_not_null(s->made, "a server that sleeps makes no rings");
	return s->made;
}

/* Once it has had a client, a server makes the rings of the next one before it sleeps. */
Test(shm_handshake, next_client__gets_rings_made_ahead)
{
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *client[3];
	const struct lend_shm *s = (const struct lend_shm *)(const void *)server;
	const void *ahead = NULL;

	cr_assert(server->ops->arm(server));
	cr_assert_null(s->made, "a server that nobody called has rings");
	for (uint32_t i = 0; i < 3; i++) {
		client[i] = conform_client(at);
		(void)conform_resolve(client[i], at, server);
		cr_assert(i == 0 || (const void *)s->peer[i].pair == ahead);
		cr_assert_null(s->made);
		ahead = await_rings(server);
	}
	for (int i = 0; i < 3; i++)
		client[i]->ops->close(client[i]);
	server->ops->close(server);
}

static int resolve_until(struct lend_io *client, const char *at)
{
	uint64_t end = conform_ms() + 8000;
	uint32_t peer;
	int err;

	while ((err = client->ops->resolve(client, at, &peer)) == -EINPROGRESS &&
	       conform_ms() < end)
		;
	return err;
}

Test(shm_handshake, invalid_servers__are_refused, .timeout = 60)
{
	struct lend_unix_listener listener;
	struct lend_rendezvous_msg msg;
	struct lend_io *client;
	char name[64], at[104];
	uint32_t peer;
	int sock;

	(void)snprintf(name, sizeof(name), "hostile-%d", (int)getpid());
	(void)snprintf(at, sizeof(at), "shm:%s", name);
	cr_assert_eq(lend_rendezvous_open(&listener, name), 0);
	client = conform_client(at);

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS,
		     "accepts and sends nothing");
	sock = lend_rendezvous_accept(&listener);
	lend_rendezvous_fill(&msg, EPROTO, 0, 0);
	msg.version = 77;
	cr_assert_eq(lend_rendezvous_send(sock, &msg, NULL, 0), 0);
	cr_assert_eq(resolve_until(client, at), -EPROTO);
	cr_assert_not_null(strstr(lend_why_text(), "version 77"), "%s", lend_why_text());
	(void)close(sock);

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS);
	sock = lend_rendezvous_accept(&listener);
	(void)close(sock);
	cr_assert_eq(resolve_until(client, at), -ECONNREFUSED, "closes the connection");

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS);
	sock = lend_rendezvous_accept(&listener);
	lend_rendezvous_fill(&msg, 0, 0, LEND_SHM_LINK_LEN);
	int fds[2] = {unsealed(), unsealed()};

	cr_assert_eq(lend_rendezvous_send(sock, &msg, fds, 2), 0);
	cr_assert_eq(resolve_until(client, at), -EPROTO, "memory without a seal");
	(void)close(sock);
	(void)close(fds[0]);
	(void)close(fds[1]);

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS);
	sock = lend_rendezvous_accept(&listener);
	lend_rendezvous_fill(&msg, 0, LEND_SHM_PEERS, LEND_SHM_LINK_LEN);
	fds[0] = sealed(LEND_SHM_LINK_LEN, F_SEAL_SHRINK | F_SEAL_GROW);
	fds[1] = proper();
	cr_assert_eq(lend_rendezvous_send(sock, &msg, fds, 2), 0);
	cr_assert_eq(resolve_until(client, at), -EPROTO, "a bit that its bell does not have");
	(void)close(sock);
	(void)close(fds[0]);
	(void)close(fds[1]);

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS);
	cr_assert_eq(resolve_until(client, at), -ETIMEDOUT, "never answers");
	lend_unix_listener_close(&listener);
	cr_assert_eq(client->ops->resolve(client, at, &peer), -ENOENT, "no listener");
	cr_assert_gt(strlen(lend_why_text()), 10);
	client->ops->close(client);
}
