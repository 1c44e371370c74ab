/* Goal: a host that dies, is stopped or corrupts the shared memory delays other hosts only until it
 * is detected as dead.
 * Method: children that are run_and_kill in the middle of an operation; ends and link words of
 * another host, written by the test; random bytes in all tables, under a seed. Covers:
 * src/io/shm/multihost.c, src/io/shm/multihost_link.c, src/io/shm/multihost_memory.c */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/addr.h"
#include "io/conform.h"
#include "io/shm/multihost_memory.h"
#include "sys/last_error.h"
#include "util/rng.h"

enum { MEMORY = 24 << 20 /* five links */, OTHER_HOST_PID = 1 };

static char path[64];
static struct lend_multihost raw; /* the shared memory, mapped for writing by the test */

static void map_memory(void)
{
	int fd;

	(void)snprintf(path, sizeof(path), "/dev/shm/lend-hostile-%d-XXXXXX", (int)getpid());
	fd = mkstemp(path);
	cr_assert(fd >= 0 && ftruncate(fd, MEMORY) == 0);
	(void)close(fd);
	cr_assert_eq(lend_multihost_map(&raw, path), 0, "%s", lend_why_text());
	cr_assert_eq(raw.links, 5);
}

static void unmap_memory(void)
{
	lend_multihost_unmap(&raw);
	(void)unlink(path);
}

TestSuite(pod, .init = map_memory, .fini = unmap_memory, .timeout = 60);

static const char *make_name(const char *name)
{
	static char text[104];

	(void)snprintf(text, sizeof(text), "shm:%s@%s", name, path);
	return text;
}

static struct lend_io *run_server(const char *name)
{
	struct lend_io_config config = {.listen = make_name(name)};
	struct lend_io *io = NULL;

	cr_assert_eq(lend_io_open(&config, &io), 0, "%s", lend_why_text());
	return io;
}

static int expect_failure(const char *listen)
{
	struct lend_io_config config = {.listen = listen};
	struct lend_io *io = NULL;

	return lend_io_open(&config, &io);
}

/* A new client reaches the server of that name: one datagram arrives in the end. */
static void reach_server(struct lend_io *from, const char *name, struct lend_io *to)
{
	uint64_t until = conform_ms() + 20000;
	uint32_t peer, seq = 0;

	while (conform_ms() < until) {
		(void)conform_take(from, NULL, NULL);
		if (from->ops->resolve(from, make_name(name), &peer) == 0)
			(void)conform_send(from, peer, 1, seq++, 100);
		if (conform_take(to, NULL, NULL) > 0 && seq > 0)
			return;
	}
	cr_assert_fail("%s is out of reach: %s", name, lend_why_text());
}

Test(pod, invalid_memory__is_refused)
{
	static const struct {
		uint64_t head;
		int err;
	} heads[] = {
	    {1, -EPROTO},
	    {UINT64_C(0x4c50) << 48 | (LEND_MULTIHOST_VERSION + UINT64_C(1)) << 32 | 12, -EPROTO},
	    {UINT64_C(0x4c50) << 48 | (uint64_t)LEND_MULTIHOST_VERSION << 32 | 13, -EPROTO},
	    {UINT64_C(0x4c50) << 48 | (uint64_t)LEND_MULTIHOST_VERSION << 32 | 1, -EPROTO},
	    {UINT64_C(0x4c50) << 48 | (uint64_t)LEND_MULTIHOST_VERSION << 32 | 12, 0}};
	struct lend_addr addr;
	struct lend_io *io;

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		atomic_store(&raw.at->head, heads[i].head);
		if (heads[i].err != 0)
			cr_assert_eq(expect_failure(make_name("a")), heads[i].err, "%zu", i);
	}
	io = run_server("a");
	io->ops->close(io);
	cr_assert_eq(expect_failure("shm:a@/nowhere"), -ENOENT);
	cr_assert_eq(expect_failure("shm:a@/proc/self/exe"), -ELOOP);
	cr_assert_eq(chmod(path, 0640), 0);
	cr_assert_eq(expect_failure(make_name("a")), -EPERM);
	cr_assert_eq(chmod(path, 0600), 0);
	cr_assert_eq(expect_failure("shm:a@/dev/null"), -EINVAL);
	cr_assert_eq(lend_addr_parse("shm:a@b", &addr), -EINVAL);
	cr_assert_eq(lend_addr_parse("shm:@/b", &addr), -EINVAL);
	cr_assert_eq(lend_addr_parse("shm:a@/b@c", &addr), 0);
	cr_assert_str_eq(addr.path, "/b@c");
	cr_assert(lend_io_same_carrier("shm:a@/b", "shm:c@/b"));
	cr_assert(!lend_io_same_carrier("shm:a@/b", "shm:a"));
	cr_assert(!lend_io_same_carrier("shm:a@/b", "shm:a@/c"));
}

/* Runs act in a child and kills it there. */
static void run_and_kill(void (*act)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		act();
		(void)raise(SIGKILL);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %#x", status);
}

static void give_up(void)
{
	(void)fprintf(stderr, "%s\n", lend_why_text());
	_exit(1);
}

static void take_all_links(void)
{
	struct lend_multihost pod;
	struct lend_multihost_link_id tie;
	uint64_t owner;

	if (lend_multihost_map(&pod, path) != 0 ||
	    lend_multihost_join(&pod, "dying", conform_patience_ms * UINT64_C(1000000)) != 0)
		give_up();
	for (uint32_t i = 0, to = lend_multihost_find(&pod, "alive", &owner); i < pod.links; i++) {
		if (lend_multihost_link_request(&pod, to, owner, i, &tie) != 0)
			give_up();
		/* Undoes the last store of the request in some rounds, as if the kill had come
		 * earlier. */
		if (i > 0)
			atomic_store(&pod.at->link[tie.link].word,
				     atomic_load(&pod.at->link[tie.link].word) &
					 ~(uint64_t)(i % 2 ? LEND_LINK_REQUESTED : 0));
	}
}

Test(pod, links_of_a_killed_client)
{
	struct lend_io *server = run_server("alive"), *client;

	for (int round = 0; round < 4; round++) {
		/* In odd rounds a new client takes over the dead one's end, and its links. */
		bool later = round % 2;

		client = later ? NULL : conform_client(make_name("alive"));
		run_and_kill(take_all_links);
		if (later)
			client = conform_client(make_name("alive"));
		reach_server(client, "alive", server);
		client->ops->close(client);
		/* A poll of the server, which also releases the links. */
		for (uint64_t until = conform_ms() + 20; conform_ms() < until;)
			(void)conform_take(server, NULL, NULL);
	}
	server->ops->close(server);
}

static void serve_and_die(void)
{
	struct lend_io *io = run_server("fleeting");

	(void)conform_take(io, NULL, NULL);
}

Test(pod, name_of_a_killed_server_is_free_at_once)
{
	struct lend_io *client = conform_client(make_name("fleeting")), *io;
	uint64_t began = conform_ms();
	uint32_t peer;

	run_and_kill(serve_and_die);
	cr_assert_eq(client->ops->resolve(client, make_name("fleeting"), &peer), -ECONNREFUSED);
	run_and_kill(serve_and_die);
	io = run_server("fleeting");
	cr_assert_lt(conform_ms() - began, LEND_MULTIHOST_STALE_NS / 2000000);
	cr_assert_eq(expect_failure(make_name("fleeting")), -EADDRINUSE);
	reach_server(client, "fleeting", io);
	io->ops->close(io);
	client->ops->close(client);
}

/* Writes an end of a host that lost power or is stopped; owner is the host's number. */
static void write_dead_host(uint32_t i, const char *name, uint64_t owner)
{
	struct lend_multihost_end *e = &raw.at->end[i];

	e->host = ~raw.host;
	e->pid = OTHER_HOST_PID;
	(void)snprintf(e->name, sizeof(e->name), "%s", name);
	atomic_store(&e->owner, owner);
	atomic_store(&e->claims, owner);
	atomic_store(&e->holds, owner);
}

Test(pod, name_of_dead_host__is_free_after_a_timeout)
{
	uint64_t began = conform_ms();
	struct lend_io *io;

	write_dead_host(9, "silent", 77);
	io = run_server("silent");
	cr_assert_geq(conform_ms() - began, LEND_MULTIHOST_STALE_NS / 1000000);
	cr_assert_neq(atomic_load(&raw.at->end[9].owner), 77);
	io->ops->close(io);
}

static void *await_beat(void *arg)
{
	while (atomic_load(&raw.at->end[9].owner) == 77) {
		atomic_fetch_add(&raw.at->end[9].beat, 1);
		(void)usleep(1000);
	}
	return arg;
}

Test(pod, name_of_a_live_host_is_not_taken)
{
	uint64_t began = conform_ms();
	pthread_t thread;

	write_dead_host(9, "beating", 77);
	cr_assert_eq(pthread_create(&thread, NULL, await_beat, NULL), 0);
	cr_assert_eq(expect_failure(make_name("beating")), -EADDRINUSE);
	cr_assert_lt(conform_ms() - began, LEND_MULTIHOST_STALE_NS / 2000000);
	atomic_store(&raw.at->end[9].owner, 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

static _Atomic int winners, ready;

static void *want_it(void *arg)
{
	struct lend_io_config config = {.listen = arg};
	struct lend_io *io;

	atomic_fetch_add(&ready, 1);
	while (atomic_load(&ready) < 4)
		;
	if (lend_io_open(&config, &io) != 0)
		return NULL;
	atomic_fetch_add(&winners, 1);
	return io;
}

Test(pod, many_servers__one_gets_the_name)
{
	for (int round = 0; round < 50; round++) {
		pthread_t thread[4];
		char address[104];
		void *io[4];

		(void)snprintf(address, sizeof(address), "shm:wanted%d@%s", round, path);
		winners = ready = 0;
		for (int i = 0; i < 4; i++)
			cr_assert_eq(pthread_create(&thread[i], NULL, want_it, address), 0);
		for (int i = 0; i < 4; i++)
			cr_assert_eq(pthread_join(thread[i], &io[i]), 0);
		cr_assert_eq(winners, 1, "%d in round %d", winners, round);
		for (int i = 0; i < 4; i++)
			if (io[i] != NULL)
				((struct lend_io *)io[i])->ops->close(io[i]);
	}
}

Test(pod, stopped_host__lost_its_end__starts_again)
{
	struct lend_io *server = run_server("back"), *client = conform_client(make_name("back"));
	uint64_t owner;
	uint32_t i;

	reach_server(client, "back", server);
	i = lend_multihost_find(&raw, "back", &owner);
	lend_multihost_evict(&raw, i, owner);
	cr_assert_eq(lend_multihost_find(&raw, "back", &owner), LEND_MULTIHOST_NONE);
	write_dead_host(i, "other", 77); /* a dead host that keeps that end */
	reach_server(client, "back", server);
	cr_assert_eq(atomic_load(&raw.at->end[i].owner), 77);
	client->ops->close(client);
	server->ops->close(server);
}

/* A stopped host resumes and copies into a ring that has a new owner. */
Test(pod, spoilt_ring__is_replaced)
{
	struct lend_io *server = run_server("s"), *client = conform_client(make_name("s"));
	uint32_t peer = conform_resolve(client, make_name("s"), server), again;

	client->ops->pin(client, peer, true);
	cr_assert_eq(conform_send(client, peer, 1, 0, 100), LEND_SENT);
	for (uint32_t l = 0; l < raw.links; l++)
		atomic_store(&lend_multihost_link_pair(&raw, l)->to_server.slot[0].mark, 0);
	cr_assert_eq(conform_send(client, peer, 1, 1, 100), LEND_SENT);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(conform_take(server, NULL, NULL), 0, "no reads beyond what is hidden");
	cr_assert_eq(client->ops->resolve(client, make_name("s"), &again), 0);
	cr_assert_eq(again, peer, "while a session uses it");
	client->ops->pin(client, peer, false);
	reach_server(client, "s", server);
	client->ops->close(client);
	server->ops->close(server);
}

Test(pod, invalid_bell__is_refused)
{
	struct lend_io *server = run_server("s");
	struct lend_multihost pod;
	struct lend_multihost_link_id tie;
	uint64_t owner;
	uint32_t to;

	cr_assert_eq(lend_multihost_map(&pod, path), 0);
	cr_assert_eq(lend_multihost_join(&pod, "", 0), 0);
	to = lend_multihost_find(&pod, "s", &owner);
	cr_assert_eq(lend_multihost_link_request(&pod, to, owner, LEND_SHM_PEERS, &tie), 0);
	for (uint64_t until = conform_ms() + 5000;
	     server->stats.peers_refused == 0 && conform_ms() < until;)
		(void)conform_take(server, NULL, NULL);
	cr_assert_eq(server->stats.peers_refused, 1);
	cr_assert_neq(lend_multihost_link_bits(&pod, &tie) & LEND_LINK_SERVER_LEFT, 0);
	lend_multihost_leave(&pod);
	lend_multihost_unmap(&pod);
	server->ops->close(server);
}

Test(pod, noise_in_all_tables)
{
	struct lend_io *server = run_server("s"), *client = conform_client(make_name("s"));
	uint64_t seed = conform_seed(), *words = (uint64_t *)(void *)raw.at;
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	for (int round = 0; round < 3000; round++) {
		struct lend_in in[32];
		uint32_t peer = (uint32_t)lend_rng_below(&rng, 8), n = 64;

		while (n-- > 0) {
			uint64_t bits = lend_rng_below(&rng, UINT64_MAX);
			uint32_t l = (uint32_t)lend_rng_below(&rng, raw.links);

			words[lend_rng_below(&rng, sizeof(*raw.at) / 8)] = bits;
			/* Almost valid ones, too: changed flags, changed ends. */
			atomic_fetch_xor(&raw.at->link[l].word, bits & 0x0010011f);
		}
		(void)client->ops->resolve(client, make_name("s"), &peer);
		if (client->ops->resolve(client, make_name("s"), &peer) == 0)
			(void)conform_send(client, peer, 1, 0, 100);
		(void)server->ops->rx(server, in, 32);
		server->ops->rx_done(server);
		(void)client->ops->rx(client, in, 32);
		client->ops->rx_done(client);
	}
	fprintf(stderr, "SEED=%lu\n", (unsigned long)seed);
	reach_server(client, "s", server);
	client->ops->close(client);
	server->ops->close(server);
}
