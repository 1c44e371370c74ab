/* Goal: a killed process leaves its name free at once; its peers receive all that it sent, then a
 * gone notice. Of many processes that want one name, one gets it.
 * Method: fork and SIGKILL; pipes report the progress of a child.
 * Covers: src/io/shm/rendezvous.c, src/io/shm/handshake.c, src/io/shm/peers.c */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/conform.h"
#include "sys/rundir.h"
#include "sys/last_error.h"

enum { SENT = 40 };

struct heard {
	uint32_t n, gone;
};

static void note_datagram(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct heard *h = arg;

	(void)id;
	if (in->gone) {
		h->gone++;
		return;
	}
	cr_assert_eq(h->gone, 0, "no datagram after gone");
	cr_assert_eq(seq, h->n, "in order");
	h->n++;
}

static void listen_to(struct lend_io *io, uint32_t n, uint32_t gone, struct heard *h)
{
	uint64_t end = conform_ms() + 10000;

	while ((h->n < n || h->gone < gone) && conform_ms() < end)
		(void)conform_take(io, note_datagram, h);
	cr_assert_eq(h->n, n);
	cr_assert_eq(h->gone, gone);
}

static void answer_all(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	(void)id;
	if (seq == 0) {
		for (uint32_t i = 0; i < SENT; i++)
			(void)conform_send(arg, in->peer, 2, i, 100 + i * 100);
		(void)raise(SIGKILL);
	}
}

static pid_t start_server(const char *at)
{
	struct lend_io_config config = {.listen = at};
	struct lend_io *io;
	int pipe_fd[2];
	char ready = 0;
	pid_t pid;

	cr_assert_eq(pipe(pipe_fd), 0);
	pid = fork();
	if (pid == 0) {
		if (lend_io_open(&config, &io) != 0)
			_exit(1);
		(void)!write(pipe_fd[1], "r", 1);
		for (;;)
			(void)conform_take(io, answer_all, io);
	}
	(void)close(pipe_fd[1]);
	cr_assert_eq(read(pipe_fd[0], &ready, 1), 1, "the server opened its name");
	(void)close(pipe_fd[0]);
	return pid;
}

Test(death, of_a_server, .timeout = 60)
{
	char at[104];
	struct lend_io *client;
	struct lend_io_config config = {.listen = at};
	struct lend_io *next;

	conform_shm_address(at, sizeof(at));
	client = conform_client(at);
	for (int round = 0; round < 20; round++) {
		pid_t pid = start_server(at);
		uint32_t peer = conform_resolve(client, at, NULL);
		struct heard h = {0};

		cr_assert_eq(conform_send(client, peer, 1, 0, 64), LEND_SENT);
		cr_assert_eq(waitpid(pid, NULL, 0), pid);
		listen_to(client, SENT, 1, &h);
		cr_assert_eq(conform_send(client, peer, 1, 1, 64), LEND_SENT_DEAD);
	}
	/* The killed server left a socket file without a listener. Its name is free all the
	 * same. */
	cr_assert_eq(lend_io_open(&config, &next), 0, "%s", lend_why_text());
	next->ops->close(next);
	client->ops->close(client);
}

static void run_client(const char *at)
{
	struct lend_io_config config = {.peer = at};
	struct lend_io *io;
	uint32_t peer;

	if (lend_io_open(&config, &io) != 0)
		_exit(1);
	while (io->ops->resolve(io, at, &peer) == -EINPROGRESS)
		;
	for (uint32_t i = 0; i < SENT; i++)
		(void)conform_send(io, peer, 1, i, 100 + i * 100);
	(void)raise(SIGKILL);
}

Test(death, of_a_client, .timeout = 60)
{
	static const struct conform_row shm = {.name = "shm", .address = conform_shm_address};
	char at[104];
	struct lend_io *server = conform_listen(&shm, at);

	for (int round = 0; round < 20; round++) {
		struct heard h = {0};
		pid_t pid = fork();

		if (pid == 0)
			run_client(at);
		listen_to(server, SENT, 1, &h);
		cr_assert_eq(waitpid(pid, NULL, 0), pid);
	}
	server->ops->close(server);
}

/* Many processes compete for a stale name. */
Test(death, stale_name__one_of_many_gets_it, .timeout = 60)
{
	char at[104];

	conform_shm_address(at, sizeof(at));
	for (int round = 0; round < 10; round++) {
		int winners = 0, go[2], hold[2];
		pid_t stale = start_server(at), heir[6];

		(void)kill(stale, SIGKILL);
		(void)waitpid(stale, NULL, 0);
		cr_assert_eq(pipe(go), 0);
		cr_assert_eq(pipe(hold), 0);
		for (int i = 0; i < 6; i++) {
			struct lend_io_config config = {.listen = at};
			struct lend_io *io;
			char byte;

			heir[i] = fork();
			if (heir[i] != 0)
				continue;
			(void)close(go[1]);
			(void)!read(
			    go[0], &byte,
			    1); /* returns in all children when the parent closes the pipe */
			byte = lend_io_open(&config, &io) == 0 ? 'w' : 'l';
			(void)!write(hold[1], &byte, 1);
			(void)pause(); /* keeps the name until all have tried */
		}
		(void)close(go[0]);
		(void)close(go[1]);
		for (int i = 0; i < 6; i++) {
			char byte = 0;

			cr_assert_eq(read(hold[0], &byte, 1), 1);
			winners += byte == 'w';
		}
		for (int i = 0; i < 6; i++) {
			(void)kill(heir[i], SIGKILL);
			(void)waitpid(heir[i], NULL, 0);
		}
		(void)close(hold[0]);
		(void)close(hold[1]);
		cr_assert_eq(winners, 1);
	}
}

/* Only the owner can connect to the socket, and close removes it. */
Test(death, close__removes_the_socket)
{
	static const struct conform_row shm = {.name = "shm", .address = conform_shm_address};
	char at[104], path[256];
	struct lend_io *server = conform_listen(&shm, at);
	struct stat st;
	size_t used;

	cr_assert_eq(lend_rundir(path, 128), 0);
	used = strlen(path);
	(void)snprintf(path + used, sizeof(path) - used, "/%s", at + 4);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600);
	server->ops->close(server);
	cr_assert_eq(stat(path, &st), -1);
}
