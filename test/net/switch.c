/* switch - an Ethernet switch between TAP devices, for tests of congestion over real kernels. It
 * has ports of a given rate and delay, one buffer that they share, ECN marks, random loss, and
 * optionally a trunk between two halves of the ports.
 *
 * A frame to 02:00:00:00:00:NN leaves by port NN, counted from 1; a frame to a group leaves by all
 * other ports. Departures are computed from arrivals and the rate: a late wake-up of this process
 * delays frames, but takes no capacity away. SIGUSR1 takes all links down, SIGUSR2 up again; at
 * SIGTERM it prints its counters. Layer: test. Threads: one. */
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/option_table.h"
#include "util/dgram.h"
#include "util/hist.h"
#include "util/rng.h"
#include "util/traffic_class.h"

enum { PORTS = 16, TRUNKS = 2, FRAME = 2048, READS = 32, FOREVER_NS = 100000000 };
enum { GAP_BYTES = 24 }; /* preamble, checksum and gap around a frame */
enum { AT_TYPE = 12, AT_TOS = 15, AT_SUM = 24, HEADERS = 34 };

struct frame {
	struct frame *next;
	lend_ns at; /* of its arrival in the queue, then of its arrival behind the link */
	uint32_t len;
	uint32_t from, to; /* ports */
	uint8_t bytes[FRAME];
};
struct queue {
	struct frame *head, *tail;
	uint64_t bytes;
};
/* One direction of a link. */
struct line {
	struct queue waiting, flying;
	lend_ns free_at;
	uint64_t mbps, frames, bytes, drops, lost, marks, queue_max;
	struct lend_hist wait; /* ns in the queue */
};
struct box {
	uint64_t ports, mbps, trunk_mbps, delay_us, buffer_kb, mark_kb, loss_ppm, seed;
	struct lend_rng rng;
	struct line line[PORTS + TRUNKS]; /* behind the ports: the trunk in both directions */
	struct frame *unused;
	uint64_t held; /* bytes in all queues */
	int fd[PORTS];
};
static volatile sig_atomic_t ended, links_down;

static lend_ns now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (lend_ns)t.tv_sec * 1000000000 + (lend_ns)t.tv_nsec;
}

static struct frame *take_frame(struct box *b)
{
	struct frame *f = b->unused ? b->unused : malloc(sizeof(*f));

	LEND_CHECK(f);
	if (f == b->unused)
		b->unused = f->next;
	return f;
}

static void drop_frame(struct box *b, struct frame *f)
{
	f->next = b->unused;
	b->unused = f;
}

static void push_frame(struct queue *q, struct frame *f)
{
	f->next = NULL;
	if (q->head)
		q->tail->next = f;
	else
		q->head = f;
	q->tail = f;
	q->bytes += f->len;
}

static struct frame *pop_frame(struct queue *q)
{
	struct frame *f = q->head;

	q->head = f->next;
	q->bytes -= f->len;
	return f;
}

static bool is_ipv4(const struct frame *f)
{
	return f->len >= HEADERS && f->bytes[AT_TYPE] == 8 && f->bytes[AT_TYPE + 1] == 0;
}

/* Sets the congestion mark and corrects the header's checksum (RFC 1624) for it. */
static bool mark_frame(struct frame *f)
{
	uint8_t *tos = &f->bytes[AT_TOS], *sum = &f->bytes[AT_SUM], old = *tos;
	uint32_t s;

	if (!is_ipv4(f) || (old & LEND_ECN_MARKED) == 0)
		return false;
	*tos |= LEND_ECN_MARKED;
	s = (~(uint32_t)(sum[0] << 8 | sum[1]) & 0xffff) + (~(uint32_t)old & 0xffff) + *tos;
	s = (s & 0xffff) + (s >> 16);
	s = ~((s & 0xffff) + (s >> 16)) & 0xffff;
	sum[0] = (uint8_t)(s >> 8);
	sum[1] = (uint8_t)s;
	return true;
}

/* Queues a frame at a line. A line may hold as much of the buffer as is free. */
static void enqueue_frame(struct box *b, uint32_t l, struct frame *f, lend_ns at)
{
	struct line *line = &b->line[l];
	uint64_t buffer = b->buffer_kb << 10;

	if (b->held + f->len > buffer || line->waiting.bytes + f->len > buffer - b->held) {
		line->drops++;
		drop_frame(b, f);
		return;
	}
	if (b->mark_kb && line->waiting.bytes > b->mark_kb << 10)
		line->marks += mark_frame(f);
	f->at = at;
	push_frame(&line->waiting, f);
	b->held += f->len;
	if (line->waiting.bytes > line->queue_max)
		line->queue_max = line->waiting.bytes;
}

/* Moves frames whose transmission has begun from the queue to the link. */
static void transmit_frames(struct box *b, struct line *line, lend_ns now)
{
	while (line->waiting.head && line->free_at <= now) {
		struct frame *f = pop_frame(&line->waiting);
		lend_ns begin = line->free_at > f->at ? line->free_at : f->at;

		b->held -= f->len;
		line->frames++;
		line->bytes += f->len + GAP_BYTES;
		lend_hist_add(&line->wait, begin - f->at);
		line->free_at = begin + (f->len + GAP_BYTES) * UINT64_C(8000) / line->mbps;
		f->at = line->free_at + b->delay_us * 1000;
		push_frame(&line->flying, f);
	}
}

static void deliver_frames(struct box *b, uint32_t l, lend_ns now)
{
	struct line *line = &b->line[l];

	transmit_frames(b, line, now);
	while (line->flying.head && line->flying.head->at <= now) {
		struct frame *f = pop_frame(&line->flying);

		if (l >= b->ports) {
			enqueue_frame(b, f->to, f, f->at);
			continue;
		}
		if (write(b->fd[l], f->bytes, f->len) < 0) /* its kernel has no room */
			line->lost++;
		drop_frame(b, f);
	}
}

/* Returns the line that a frame takes first. */
static uint32_t first_line(const struct box *b, uint32_t from, uint32_t to)
{
	bool left = from < b->ports / 2;

	if (b->trunk_mbps == 0 || left == (to < b->ports / 2))
		return to;
	return (uint32_t)b->ports + !left;
}

static void flood_frame(struct box *b, const struct frame *f, lend_ns now)
{
	for (uint32_t to = 0; to < b->ports; to++) {
		struct frame *copy;

		if (to == f->from)
			continue;
		copy = take_frame(b);
		copy->len = f->len;
		copy->from = f->from;
		copy->to = to;
		memcpy(copy->bytes, f->bytes, f->len);
		enqueue_frame(b, first_line(b, f->from, to), copy, now);
	}
}

static void route_frame(struct box *b, struct frame *f, lend_ns now)
{
	bool group = f->bytes[0] & 1;

	f->to = f->bytes[5] - 1u;
	if (group && !links_down)
		flood_frame(b, f, now);
	if (group || links_down || f->to >= b->ports) {
		drop_frame(b, f);
	} else if (is_ipv4(f) && lend_rng_below(&b->rng, 1000000) < b->loss_ppm) {
		b->line[f->to].lost++;
		drop_frame(b, f);
	} else {
		enqueue_frame(b, first_line(b, f->from, f->to), f, now);
	}
}

/* Returns whether there may be more. */
static bool read_port(struct box *b, uint32_t port)
{
	for (int i = 0; i < READS; i++) {
		struct frame *f = take_frame(b);
		ssize_t n = read(b->fd[port], f->bytes, FRAME);

		if (n < HEADERS) {
			drop_frame(b, f);
			return false;
		}
		f->len = (uint32_t)n;
		f->from = port;
		route_frame(b, f, now_ns());
	}
	return true;
}

static lend_ns next_event(const struct box *b)
{
	lend_ns at = LEND_NEVER;

	for (uint32_t l = 0; l < b->ports + TRUNKS; l++) {
		const struct line *line = &b->line[l];

		if (line->waiting.head && line->free_at < at)
			at = line->free_at;
		if (line->flying.head && line->flying.head->at < at)
			at = line->flying.head->at;
	}
	return at;
}

static void sleep_until(const struct box *b, lend_ns at)
{
	struct pollfd fds[PORTS];
	lend_ns now = now_ns(), wait = at < now ? 0 : at - now;
	struct timespec t = {0, wait < FOREVER_NS ? (long)wait : FOREVER_NS};

	for (uint32_t i = 0; i < b->ports; i++)
		fds[i] = (struct pollfd){.fd = b->fd[i], .events = POLLIN};
	(void)ppoll(fds, (nfds_t)b->ports, &t, NULL);
}

static void run_switch(struct box *b)
{
	while (!ended) {
		bool more = false;

		for (uint32_t i = 0; i < b->ports; i++)
			more |= read_port(b, i);
		for (uint32_t l = 0; l < b->ports + TRUNKS; l++)
			deliver_frames(b, l, now_ns());
		if (!more)
			sleep_until(b, next_event(b));
	}
}

static int open_tap(uint32_t port)
{
	struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	(void)snprintf(r.ifr_name, sizeof(r.ifr_name), "port%u", port + 1);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &r) < 0) {
		perror("/dev/net/tun");
		exit(1);
	}
	return fd;
}

static void open_lines(struct box *b)
{
	for (uint32_t l = 0; l < b->ports + TRUNKS; l++) {
		b->line[l].mbps = l < b->ports || !b->trunk_mbps ? b->mbps : b->trunk_mbps;
		lend_hist_init(&b->line[l].wait);
		if (l < b->ports)
			b->fd[l] = open_tap(l);
	}
}

static void print_counters(const struct box *b)
{
	for (uint32_t l = 0; l < b->ports + TRUNKS; l++) {
		const struct line *line = &b->line[l];

		printf("%s{\"frames\": %llu, \"bytes\": %llu, \"drops\": %llu, \"lost\": %llu, "
		       "\"marks\": %llu, "
		       "\"queue_max_kb\": %llu, \"wait_p50_us\": %.0f, \"wait_p99_us\": %.0f}",
		       l ? ", " : "[", (unsigned long long)line->frames,
		       (unsigned long long)line->bytes, (unsigned long long)line->drops,
		       (unsigned long long)line->lost, (unsigned long long)line->marks,
		       (unsigned long long)line->queue_max >> 10,
		       (double)lend_hist_quantile(&line->wait, 0.5) / 1e3,
		       (double)lend_hist_quantile(&line->wait, 0.99) / 1e3);
	}
	puts("]");
}

static void on_signal(int number)
{
	if (number == SIGTERM)
		ended = 1;
	else
		links_down = number == SIGUSR1;
}

/* Wakes up on time although other processes compute, as far as the user may ask for that. */
static void raise_priority(void)
{
	struct sched_param first = {.sched_priority = 1};

	(void)prctl(PR_SET_TIMERSLACK, 1);
	(void)sched_setscheduler(0, SCHED_FIFO, &first);
}

static const struct lend_option options[] = {
    OPT_NUMBER(struct box, ports, "ports", 2, PORTS, "TAP devices port1, port2 and so on (2)"),
    OPT_NUMBER(struct box, mbps, "mbps", 1, 100000, "Rate of a port (100)"),
    OPT_NUMBER(struct box, trunk_mbps, "trunk-mbps", 1, 100000,
	       "Rate of a trunk between the first and the last half of the ports (none)"),
    OPT_NUMBER(struct box, delay_us, "delay-us", 0, 1000000, "Of each line, one way (0)"),
    OPT_NUMBER(struct box, buffer_kb, "buffer-kb", 2, 1 << 20, "That all lines share (1024)"),
    OPT_NUMBER(struct box, mark_kb, "mark-kb", 0, 1 << 20,
	       "Queue from which frames are marked; 0: none are (0)"),
    OPT_NUMBER(struct box, loss_ppm, "loss-ppm", 0, 1000000, "Frames lost at random (0)"),
    OPT_NUMBER(struct box, seed, "seed", 1, UINT64_MAX, "Of the losses (1)"),
    {.name = NULL}};
static const struct lend_syntax syntax = {
    .option = options, .doc = "An Ethernet switch between TAP devices, for netbench."};

int main(int argc, char **argv)
{
	static struct box b = {.ports = 2, .mbps = 100, .buffer_kb = 1024, .seed = 1};

	lend_options_read(&syntax, NULL, argc, argv, &b);
	lend_rng_seed(&b.rng, b.seed);
	(void)signal(SIGTERM, on_signal);
	(void)signal(SIGUSR1, on_signal);
	(void)signal(SIGUSR2, on_signal);
	open_lines(&b);
	raise_priority();
	puts("ready");
	(void)fflush(stdout);
	run_switch(&b);
	print_counters(&b);
	return 0;
}
