/* verbs_bench - bare datagrams over a carrier, for a comparison with perftest: datagrams per second
 * in both directions at once, the round trip of one, and how often both ends slept until one
 * arrived (COUNT times the first of them).
 * usage: verbs_bench rate|lat|sleep HERE THERE BYTES COUNT
 * addresses to listen at: verbs:rxe0@10.77.0.1:0
 * Two processes, like perftest's. Every datagram's bytes are checked; lost ones are reported. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/io.h"
#include "sys/clock.h"
#include "sys/last_error.h"

#define STOP UINT32_MAX

enum { BURST = 32, WINDOW = 900, HEAD = 16, QUIET_NS = 500000000 };

struct end {
	struct lend_io *io;
	uint32_t peer;
	uint32_t len;
	uint32_t count;
	struct lend_seg seg[2];
	struct lend_bufs bufs;
	uint8_t *body;
};

static void fail_with(const char *what)
{
	fprintf(stderr, "verbs_bench: %s: %s\n", what, lend_why_text());
	exit(1);
}

static uint8_t byte_of(uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8));
}

static void send_some(struct end *e, uint32_t first, uint32_t n, uint32_t *sent)
{
	uint32_t head[BURST][HEAD / 4];
	struct lend_out out[BURST];

	for (uint32_t i = 0; i < n; i++) {
		head[i][0] = first + i;
		head[i][1] = e->len;
		head[i][2] = head[i][3] = 0;
		out[i] = (struct lend_out){.head = head[i],
					   .head_len = HEAD,
					   .peer = e->peer,
					   .n = e->len > HEAD,
					   .piece = {{1, 0, e->len - HEAD}}};
	}
	e->io->ops->tx(e->io, &e->bufs, out, n);
	for (*sent = 0; *sent < n && out[*sent].sent == LEND_SENT;)
		++*sent;
}

/* Returns the number of datagrams that arrived; *last is the number of the last one. */
static uint32_t take_datagrams(struct end *e, uint32_t *last)
{
	struct lend_in in[BURST];
	uint32_t n = e->io->ops->rx(e->io, in, BURST), good = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (in[i].len != e->len ||
		    memcmp((const uint8_t *)in[i].data + HEAD, e->body, e->len - HEAD) != 0) {
			fprintf(stderr, "verbs_bench: a datagram changed on the way\n");
			exit(1);
		}
		memcpy(last, in[i].data, 4);
		good++;
	}
	if (n > 0)
		e->io->ops->rx_done(e->io);
	return good;
}

/* Both ends send as much as they can; the number received from the other end opens the window.
 * Returns datagrams per second that arrived. */
static double run_rate(struct end *e)
{
	uint32_t sent = 0, got = 0, last = 0;
	lend_ns start = 0, now = lend_clock_now(), heard = now, again = 0;

	while ((sent < e->count || last + 1 < e->count) && (got == 0 || now - heard < QUIET_NS)) {
		uint32_t room = got ? last + WINDOW - sent : WINDOW - sent, n, more;

		n = e->count - sent < BURST ? e->count - sent : BURST;
		n = room < n ? room : n;
		if (n > 0 && n <= BURST) {
			send_some(e, sent, n, &more);
			sent += more;
		}
		more = take_datagrams(e, &last);
		now = lend_clock_now();
		if (more > 0) {
			start = start ? start : now;
			heard = now;
			again = now + QUIET_NS / 10;
		} else if (got > 0 && now > again && sent < e->count) {
			last = sent; /* a whole window was lost: continue */
			again = now + QUIET_NS / 10;
		}
		got += more;
	}
	if (got < e->count)
		fprintf(stderr, "lost %u of %u\n", e->count - got, e->count);
	return (double)got * 1e9 / (double)(heard - start);
}

static int by_time(const void *a, const void *b)
{
	lend_ns x = *(const lend_ns *)a, y = *(const lend_ns *)b;

	return x < y ? -1 : x > y;
}

/* Median round trip in microseconds; the other end answers. */
static double run_latency(struct end *e, bool first)
{
	lend_ns *took = calloc(e->count, sizeof(*took));
	uint32_t sent, last = 0;
	double p50;

	for (uint32_t i = 0; took && i < e->count; i++) {
		lend_ns start = lend_clock_now();

		if (first)
			send_some(e, i, 1, &sent);
		while (take_datagrams(e, &last) == 0) {
			if (lend_clock_now() - start > 20 * (lend_ns)QUIET_NS)
				fail_with("no answer");
		}
		if (!first)
			send_some(e, i, 1, &sent);
		took[i] = lend_clock_now() - start;
	}
	qsort(took, e->count, sizeof(*took), by_time);
	p50 = (double)took[e->count / 2] / 1000;
	free(took);
	return p50;
}

/* Sleeps until a datagram is there; false: it arrived without a wake-up. */
static bool sleep_until_ready(struct end *e, uint64_t *slept, uint32_t *last)
{
	struct pollfd p = {.fd = e->io->ops->fd(e->io), .events = POLLIN};

	if (!e->io->ops->arm(e->io))
		return true;
	++*slept;
	return poll(&p, 1, 2000) != 0 || take_datagrams(e, last) == 0;
}

/* Both ends sleep before each datagram that they wait for; a lost one is sent again. Returns how
 * often the two slept. */
static double run_sleeps(struct end *e, bool first)
{
	uint32_t sent, last = 0, seed = (uint32_t)getpid();
	uint64_t slept = 0, lost = 0;

	while (last != STOP && (!first || slept < e->count)) {
		lend_ns start = lend_clock_now();

		if (first)
			send_some(e, 0, 1, &sent);
		while (take_datagrams(e, &last) == 0) {
			/* Now and then exactly when it arrives. */
			seed = seed * 1664525 + 1013904223;
			for (volatile uint32_t i = seed >> 20; i > 0;)
				i--;
			if (!sleep_until_ready(e, &slept, &last))
				fail_with("slept through a datagram");
			if (lend_clock_now() - start > 4 * (lend_ns)QUIET_NS) {
				lost++;
				break;
			}
		}
		if (!first)
			send_some(e, 0, 1, &sent);
	}
	for (int i = 0; first && i < 10; i++)
		send_some(e, STOP, 1, &sent);
	fprintf(stderr, "%lu sleeps, %lu waits without a datagram, %lu resets, %lu overruns\n",
		(unsigned long)slept, (unsigned long)lost, (unsigned long)e->io->stats.resets,
		(unsigned long)e->io->stats.rx_missed);
	return (double)slept;
}

/* Opens this end, writes its address to out, reads the other's from in. */
static void exchange_addresses(struct end *e, const char *listen, int in, int out)
{
	struct lend_io_config config = {.listen = listen};
	char mine[104] = "", other[104] = "";
	struct lend_in none;
	int rc;

	if (lend_io_open(&config, &e->io) < 0)
		fail_with(listen);
	e->body = aligned_alloc(4096, 8192);
	for (uint32_t i = 0; i < 8192; i++)
		e->body[i] = byte_of(i);
	e->seg[1] = (struct lend_seg){.data = e->body, .len = 8192, .cap = 8192};
	e->bufs = (struct lend_bufs){e->seg, 2};
	if (e->io->ops->reg(e->io, e->body, 8192) < 0)
		fail_with("reg");
	e->io->ops->name(e->io, mine, sizeof(mine));
	if (write(out, mine, sizeof(mine)) != sizeof(mine) ||
	    read(in, other, sizeof(other)) != sizeof(other))
		fail_with("the other end is gone");
	while ((rc = e->io->ops->resolve(e->io, other, &e->peer)) == -EINPROGRESS)
		(void)e->io->ops->rx(e->io, &none, 0);
	if (rc < 0)
		fail_with(other);
	e->io->ops->pin(e->io, e->peer, true);
	/* An end must be polled to be reached; so neither continues before both know each other. */
	if (write(out, "k", 1) != 1 || fcntl(in, F_SETFL, O_NONBLOCK) != 0)
		fail_with("the other end is gone");
	while (read(in, other, 1) != 1)
		(void)e->io->ops->rx(e->io, &none, 0);
}

int main(int argc, char **argv)
{
	int there[2], back[2], status = 0;
	struct end e = {0};
	bool first, is_rate, is_sleep;
	double figure;

	if (argc != 6 || pipe(there) < 0 || pipe(back) < 0) {
		fprintf(stderr, "usage: verbs_bench rate|lat|sleep HERE THERE BYTES COUNT\n");
		return 2;
	}
	is_rate = strcmp(argv[1], "rate") == 0;
	is_sleep = strcmp(argv[1], "sleep") == 0;
	e.len = (uint32_t)atoi(argv[4]);
	e.count = (uint32_t)atoi(argv[5]);
	first = fork() != 0;
	exchange_addresses(&e, argv[first ? 2 : 3], first ? back[0] : there[0],
			   first ? there[1] : back[1]);
	figure = is_rate ? run_rate(&e) : is_sleep ? run_sleeps(&e, first) : run_latency(&e, first);
	e.io->ops->close(e.io);
	if (!first)
		return write(back[1], &figure, sizeof(figure)) != sizeof(figure);
	wait(&status);
	if (is_rate || is_sleep) {
		double other = 0;

		if (read(back[0], &other, sizeof(other)) == sizeof(other))
			figure += other;
	}
	printf("%.1f\n", figure);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
