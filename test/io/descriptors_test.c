/* Goal: a process without a free file descriptor leaves connections in the backlog without busy
 * polling, and accepts them once one is free. Each end's error text names the process that has
 * none.
 * Method: both ends in one process, which uses up all but a few descriptors with dup().
 * Covers: src/sys/unix_listener.c, src/io/shm/rendezvous.c, src/io/shm/handshake.c */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/conform.h"
#include "sys/clock.h"
#include "sys/last_error.h"

enum { LIMIT = 128 };

static const struct conform_row shm = {.name = "shm", .address = conform_shm_address};
static int taken[LIMIT], n_taken;

/* Opens descriptors until n are free. */
static void leave_free(int n)
{
	const struct rlimit limit = {LIMIT, LIMIT};

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while ((taken[n_taken] = dup(0)) >= 0)
		n_taken++;
	cr_assert_eq(errno, EMFILE);
	while (n-- > 0)
		(void)close(taken[--n_taken]);
}

static void free_all(void)
{
	while (n_taken > 0)
		(void)close(taken[--n_taken]);
}

static bool is_readable(struct lend_io *io)
{
	struct pollfd fd = {.fd = io->ops->fd(io), .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

/* Opens a client that has sent its HELLO. */
static struct lend_io *open_caller(const char *at)
{
	struct lend_io *client = conform_client(at);
	uint32_t peer;

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS);
	return client;
}

/* Polls both ends until the handshake ends. Returns the client's error. */
static int await_both(struct lend_io *server, struct lend_io *client, const char *at)
{
	uint64_t end = conform_ms() + 5000;
	uint32_t peer;
	int err = -EINPROGRESS;

	while (err == -EINPROGRESS && conform_ms() < end) {
		(void)conform_take(server, NULL, NULL);
		err = client->ops->resolve(client, at, &peer);
	}
	return err;
}

Test(descriptors, none_is_free_then_the_listener_rests)
{
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *client = open_caller(at);
	uint64_t end = conform_ms() + 5000;

	leave_free(0);
	while (server->stats.accepts_deferred == 0 && conform_ms() < end)
		(void)conform_take(server, NULL, NULL);
	cr_assert_eq(server->stats.accepts_deferred, 1);
	cr_assert_not(is_readable(server), "the listener still wakes it");
	cr_assert_gt(server->due, lend_clock_now(), "but it is polled again");
	while (lend_clock_now() < server->due)
		(void)conform_take(server, NULL, NULL);
	while (server->stats.accepts_deferred == 1 && conform_ms() < end)
		(void)conform_take(server, NULL, NULL);
	cr_assert_eq(server->stats.accepts_deferred, 2);
	free_all();
	cr_assert_eq(await_both(server, client, at), 0);
	cr_assert_eq(server->due, 0);
	client->ops->close(client);
	server->ops->close(server);
}

Test(descriptors, one_of_its_own_is_closed_then_it_accepts_at_once)
{
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *first = open_caller(at), *second;
	uint64_t end = conform_ms() + 5000;

	cr_assert_eq(await_both(server, first, at), 0);
	second = open_caller(at);
	leave_free(0);
	while (server->stats.accepts_deferred == 0 && conform_ms() < end)
		(void)conform_take(server, NULL, NULL);
	first->ops->close(first);
	while (server->due > 1 && conform_ms() < end)
		(void)conform_take(server, NULL, NULL);
	cr_assert_leq(server->due, 1);
	free_all();
	cr_assert_eq(await_both(server, second, at), 0);
	cr_assert_eq(server->stats.accepts_deferred, 1, "without another failed attempt");
	second->ops->close(second);
	server->ops->close(server);
}

Test(descriptors, too_few_at_the_server__the_client_gets_an_error)
{
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *client = open_caller(at);

	leave_free(1); /* one for the connection, none for the descriptors in its message */
	cr_assert_eq(await_both(server, client, at), -EMFILE);
	cr_assert(strstr(lend_why_text(), "of its process"), "%s", lend_why_text());
	free_all();
	client->ops->close(client);
	server->ops->close(server);
}

Test(descriptors, too_few_here_then_this_process_is_named)
{
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *client = open_caller(at);
	uint32_t peer;
	int err = -EINPROGRESS;
	uint64_t end = conform_ms() + 5000;

	while (!is_readable(client) && conform_ms() < end)
		(void)conform_take(server, NULL, NULL);
	leave_free(0);
	while (err == -EINPROGRESS && conform_ms() < end)
		err = client->ops->resolve(client, at, &peer);
	cr_assert_eq(err, -EMFILE);
	cr_assert(strstr(lend_why_text(), "of this process"), "%s", lend_why_text());
	free_all();
	client->ops->close(client);
	server->ops->close(server);
}
