/* Goal: shared memory keeps the promises of a carrier, and idle clients cost a busy server nothing.
 * Method: the conformance suite; one client that sends for each poll of the server, with others
 * that sent only once; a receiver that makes room in the middle of a burst.
 * Covers: src/io/shm/carrier.c, src/io/shm/poll.c, src/io/shm/peers.c, src/io/shm/send.c */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "io/conform.h"
#include "io/shm/peers.h"
#include "sys/last_error.h"

static const struct conform_row shm = {.name = "shm",
				       .address = conform_shm_address,
				       .rebinds = true,
				       .threads = true,
				       .clients = 40,
				       .both = true};

CONFORM_SUITE(shm, &shm)

enum { IDLE = 30, LOOKS = 8192 };

Test(shm_idle, clients_leave_the_poll_of_a_busy_server)
{
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *client[IDLE + 1];
	uint32_t peer[IDLE + 1];

	for (uint32_t i = 0; i <= IDLE; i++) {
		client[i] = conform_client(at);
		peer[i] = conform_resolve(client[i], at, server);
		cr_assert_eq(conform_send(client[i], peer[i], i, 0, 64), LEND_SENT);
	}
	while (conform_take(server, NULL, NULL) > 0)
		;
	for (uint32_t seq = 1; seq < LOOKS; seq++) {
		cr_assert_eq(conform_send(client[0], peer[0], 0, seq, 64), LEND_SENT);
		cr_assert_eq(conform_take(server, NULL, NULL), 1);
	}
	cr_assert_leq(((struct lend_shm *)(void *)server)->hot_n, 5, "idle rings are still polled");
	for (uint32_t i = 0; i <= IDLE; i++) { /* and are received all the same */
		cr_assert_eq(conform_send(client[i], peer[i], i, LOOKS, 64), LEND_SENT);
		cr_assert_eq(conform_take(server, NULL, NULL), 1, "client %u", i);
	}
	for (uint32_t i = 0; i <= IDLE; i++)
		client[i]->ops->close(client[i]);
	server->ops->close(server);
}

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static int try_resolve(struct lend_io *client, const char *at, struct lend_io *server)
{
	uint32_t peer;
	int err;

	do {
		(void)conform_take(server, NULL, NULL);
		err = client->ops->resolve(client, at, &peer);
	} while (err == -EINPROGRESS);
	return err;
}

/* A server that cannot allocate the rings of a client refuses it and continues. */
Test(shm_limit, rings_beyond_ulimit_f__are_refused)
{
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *old = conform_client(at), *new;
	uint32_t peer = conform_resolve(old, at, server);

	limit_files(LEND_SHM_LINK_LEN - 1);
	new = conform_client(at);
	cr_assert_eq(try_resolve(new, at, server), -EFBIG);
	cr_assert_not_null(strstr(lend_why_text(), "ulimit -f"), "%s", lend_why_text());
	cr_assert_eq(server->stats.peers_refused, 1);
	cr_assert_eq(conform_send(old, peer, 0, 0, 64), LEND_SENT);
	cr_assert_eq(conform_take(server, NULL, NULL), 1);
	limit_files(LEND_SHM_LINK_LEN);
	cr_assert_eq(try_resolve(new, at, server), 0);
	new->ops->close(new);
	old->ops->close(old);
	server->ops->close(server);
}

Test(shm_limit, listener_beyond_ulimit_f__does_not_open)
{
	char at[104];
	struct lend_io_config config = {.listen = at};
	struct lend_io *io;

	conform_shm_address(at, sizeof(at));
	limit_files(LEND_SHM_LINK_LEN - 1);
	cr_assert_eq(lend_io_open(&config, &io), -EFBIG);
	cr_assert_not_null(strstr(lend_why_text(), "ulimit -f"), "%s", lend_why_text());
	limit_files(LEND_BELL_LEN - 1);
	config = (struct lend_io_config){.peer = at};
	cr_assert_eq(lend_io_open(&config, &io), -EFBIG);
	cr_assert_not_null(strstr(lend_why_text(), "ulimit -f"), "%s", lend_why_text());
}

static struct lend_io *receiver;

static void make_room(int signal)
{
	(void)signal;
	while (conform_take(receiver, NULL, NULL) > 0)
		;
}

/* No datagram of a burst overtakes a refused one: room that comes meanwhile is for the next
 * burst. */
Test(shm_room, that_comes_within_a_burst_is_for_the_next)
{
	const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	struct conform_pair p;
	uint32_t len[CONFORM_BURST], seq = 0;

	for (uint32_t i = 0; i < CONFORM_BURST; i++)
		len[i] = 64;
	conform_open(&p, &shm);
	receiver = p.server;
	(void)signal(SIGALRM, make_room);
	cr_assert_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (uint64_t end = conform_ms() + 300; conform_ms() < end;)
		seq += conform_burst(p.client, p.peer, seq, len, CONFORM_BURST);
	cr_assert_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
	cr_assert_gt(p.client->stats.tx_full, 0, "the ring was never full");
	conform_close(&p);
}
