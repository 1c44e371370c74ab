/* Goal: whatever happens to the file of a capture, the carrier keeps working, the file stays
 * readable and lost packets are counted.
 * Method: a full disk, a FIFO without a reader, a file size limit, a killed process, a path in use,
 * an empty path, several endpoints.
 * Covers: src/io/capture/file.c, src/io/capture/capture.c */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/capture/file.h"
#include "io/captured.h"
#include "sys/last_error.h"

TestSuite(capture_file, .init = captured_begin, .fini = captured_end, .timeout = 600);

Test(capture_file, a_file_of_limited_size)
{
	struct captured e = captured_ends(&captured_udp, "a.pcapng", 0, LEND_CAPTURE_LIMIT_MIN);
	uint64_t first_of_new, last_of_old;
	struct blocks *b;

	for (uint32_t i = 0; i < 100; i++)
		captured_exchange(&e, i, 1400);
	captured_close(&e);
	b = captured_read("a.pcapng.1");
	cr_assert(b->len <= LEND_CAPTURE_LIMIT_MIN && b->len > LEND_CAPTURE_LIMIT_MIN - 2000);
	last_of_old = b->packet[b->n - 1].time;
	blocks_free(b);
	b = captured_read("a.pcapng");
	cr_assert_leq(b->len, LEND_CAPTURE_LIMIT_MIN);
	cr_assert(b->sections == 1 && b->interfaces == 2, "described again");
	first_of_new = b->packet[0].time;
	cr_assert_geq(first_of_new, last_of_old);
	blocks_free(b);
}

Test(capture_file, a_later_endpoint_adds_to_the_file)
{
	struct captured e;
	struct blocks *b;

	for (uint32_t i = 0; i < 3; i++) {
		e = captured_ends(&captured_udp, "a.pcapng", 0, 0);
		captured_exchange(&e, i, 100);
		captured_close(&e);
	}
	b = captured_read("a.pcapng");
	cr_assert(b->sections == 3 && b->interfaces == 6 && b->n == 6);
	blocks_free(b);
}

static uint64_t lost_packets(const struct captured *e)
{
	return e->client->stats.capture_lost + e->server->stats.capture_lost;
}

Test(capture_file, full_disk__ends_only_the_capture)
{
	struct captured e = captured_ends(&captured_udp, "/dev/full", 0, 0);
	uint64_t before;

	cr_assert_eq(lost_packets(&e), 0);
	captured_exchange(&e, 0, 100);
	e.client->ops->arm(e.client);
	before = lost_packets(&e);
	for (uint32_t i = 1; i < 50; i++)
		captured_exchange(&e, i, 1000);
	cr_assert_eq(lost_packets(&e) - before, 98, "each is counted");
	captured_close(&e);
}

/* Under ulimit -f. A block that was written in part is cut off. */
Test(capture_file, file_size_limit__file_stays_readable)
{
	struct rlimit limit = {.rlim_cur = 10001, .rlim_max = RLIM_INFINITY};
	struct captured e;
	struct blocks *b;

	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	e = captured_ends(&captured_udp, "a.pcapng", 0, 0);
	for (uint32_t i = 0; i < 50; i++)
		captured_exchange(&e, i, 1000);
	(void)e.client->ops->arm(e.client);
	captured_exchange(&e, 50, 1000);
	cr_assert_eq(lost_packets(&e), 2);
	captured_close(&e);
	b = captured_read("a.pcapng");
	cr_assert(b->len > 10001 - 1300 && b->len <= 10001, "%zu", b->len);
	blocks_free(b);
}

Test(capture_file, slow_reader__loses_packets_and_blocks_nothing)
{
	char path[160];
	struct captured e;
	struct blocks *b;
	char *bytes = malloc(4 << 20);
	size_t len = 0;
	uint64_t told = 0;
	ssize_t n;
	int fd;

	captured_path("pipe", path);
	cr_assert(mkfifo(path, 0600) == 0 && bytes);
	fd = open(path, O_RDONLY | O_NONBLOCK);
	e = captured_ends(&captured_udp, "pipe", 0, 0);
	for (uint32_t i = 0; i < 100; i++)
		captured_exchange(&e, i, 32000);
	cr_assert_gt(lost_packets(&e), 0);
	for (int again = 0; again < 2; again++) {
		while ((n = read(fd, bytes + len, (4 << 20) - len)) > 0)
			do
				len += (size_t)n;
			while (e.client->ops->arm(e.client),
			       (n = read(fd, bytes + len, 65536)) > 0);
		captured_exchange(&e, 200, 20);
	}
	e.client->ops->arm(e.client);
	while ((n = read(fd, bytes + len, (4 << 20) - len)) > 0)
		len += (size_t)n;
	b = blocks_parse(bytes, len);
	for (uint32_t i = 0; i < b->n; i++)
		told += b->packet[i].lost;
	cr_assert_eq(told, lost_packets(&e), "the file records the gap");
	captured_close(&e);
	blocks_free(b);
	close(fd);
	free(bytes);
}

static void fail_with(const char *capture, int err, const char *fix)
{
	struct lend_io_config config = {.listen = "udp:127.0.0.1:0", .capture = capture};
	struct lend_io *io;

	cr_assert_eq(lend_io_open(&config, &io), -err, "%s", capture ? capture : "");
	cr_assert_not_null(strstr(lend_why_text(), fix), "%s", lend_why_text());
}

Test(capture_file, unusable_path__is_reported)
{
	char path[2000];

	fail_with("/nowhere/at/all.pcapng", ENOENT, "give a path that can be written");
	fail_with("/", EISDIR, "give a path that can be written");
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = 0;
	fail_with(path, ENAMETOOLONG, "shorter");
	setenv("LEND_CAPTURE", "/dev/null", 1);
	setenv("LEND_CAPTURE_SNAP", "12x", 1);
	fail_with(NULL, EINVAL, "LEND_CAPTURE_SNAP=12x");
	setenv("LEND_CAPTURE_SNAP", "12K", 1);
	setenv("LEND_CAPTURE_LIMIT", "-1", 1);
	fail_with(NULL, EINVAL, "LEND_CAPTURE_LIMIT=-1");
}

Test(capture_file, empty_path__no_capture)
{
	struct lend_io_config config = {.listen = "udp:127.0.0.1:0", .capture = ""};
	struct lend_io *io, *plain;

	cr_assert_eq(lend_io_open(&config, &plain), 0);
	setenv("LEND_CAPTURE", "/nowhere/at/all.pcapng", 1);
	cr_assert_eq(lend_io_open(&config, &io), 0);
	cr_assert_eq(io->ops, plain->ops, "without a capture there is no wrapper");
	io->ops->close(io);
	plain->ops->close(plain);
}

/* The child captures to the same path and is killed while the parent has its own file open. */
Test(capture_file, killed_process__leaves_the_other_file)
{
	struct captured e = captured_ends(&captured_udp, "a.pcapng", 0, 0);
	char name[64];
	struct blocks *b;
	int status;
	pid_t pid;

	captured_exchange(&e, 0, 100);
	pid = fork();
	if (pid == 0) {
		struct captured mine = captured_ends(&captured_udp, "a.pcapng", 0, 0);

		for (uint32_t i = 0; i < 10; i++)
			captured_exchange(&mine, i, 100);
		(void)mine.client->ops->arm(mine.client);
		captured_exchange(&mine, 10, 100); /* still in the buffer */
		kill(getpid(), SIGKILL);
	}
	cr_assert(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	captured_close(&e);
	b = captured_read("a.pcapng");
	cr_assert(b->n == 2 && b->sections == 1);
	blocks_free(b);
	(void)snprintf(name, sizeof(name), "a-%d.pcapng", (int)pid);
	b = captured_read(name);
	cr_assert_geq(b->n, 20, "packets from before it slept");
	blocks_free(b);
}

Test(capture_file, buffered_blocks__are_written_after_a_while)
{
	struct captured e = captured_ends(&captured_udp, "%p.pcapng", 0, 0);
	uint64_t end = conform_ms() + 5000;
	char name[64];
	uint32_t n = 0;

	captured_exchange(&e, 0, 100);
	(void)snprintf(name, sizeof(name), "%d.pcapng", getpid());
	while (n == 0 && conform_ms() < end) {
		struct blocks *b;

		(void)conform_take(e.server, NULL, NULL);
		b = captured_read(name);
		n = b->n;
		blocks_free(b);
	}
	cr_assert_eq(n, 2, "polling alone writes them");
	captured_close(&e);
}

enum { THREADS = 3, EACH = 400 };

static void *run_busy(void *arg)
{
	struct captured e = captured_ends(&captured_udp, "a.pcapng", 0, 0);

	(void)arg;
	for (uint32_t i = 0; i < EACH; i++) {
		captured_exchange(&e, i, 16 + i);
		if (i % 64 == 0)
			(void)e.server->ops->arm(e.server);
	}
	captured_close(&e);
	return NULL;
}

Test(capture_file, endpoints_of_several_threads_share_a_file)
{
	uint32_t seen[2 * THREADS + 1] = {0};
	pthread_t thread[THREADS];
	struct blocks *b;

	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, run_busy, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_join(thread[i], NULL), 0);
	b = captured_read("a.pcapng");
	cr_assert_eq(b->n, 2 * THREADS * EACH);
	for (uint32_t i = 0; i < b->n; i++) {
		struct blocks_lead lead;

		blocks_lead(&b->packet[i], &lead);
		cr_assert(lead.carrier >= 1 && lead.carrier <= 2 * THREADS);
		cr_assert_eq(lead.len, 16 + seen[lead.carrier]++, "each thread's packets in order");
	}
	blocks_free(b);
}
