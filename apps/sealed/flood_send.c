/* flood_send - the thread that forges and sends CONNECTs, from many addresses of the loopback.
 *
 * A batch is one send() (UDP_SEGMENT). Each batch has all kinds in turn. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/sealed/flood.h"
#include "rpc/keys.h"
#include "seal/suite.h"
#include "util/crc32c.h"
#include "util/rng.h"
#include "util/siphash.h"
#include "wire/pkt.h"

enum {
	SOCKETS = 32,
	BATCH = 40,
	TURN_NS = 1000000,
	CONNECT = sizeof(struct lend_pkt) + sizeof(struct lend_pkt_connect) +
		  sizeof(struct lend_pkt_connect_end),
	DATAGRAM = CONNECT + sizeof(struct lend_pkt_trailer),
	BODY_AT = sizeof(struct lend_pkt),
};

struct flood_sender {
	struct flood *flood;
	pthread_t thread;
	atomic_bool stop;
	int fd[SOCKETS];
	struct lend_kex_keys keys;
	uint8_t valid[CONNECT]; /* sealed, with its mac1 */
	struct lend_rng rng;
	uint8_t kinds[FLOOD_KINDS]; /* those that are sent */
	uint32_t n_kinds, at_kind, at_fd;
	_Alignas(8) uint8_t batch[BATCH][DATAGRAM];
};

const char *const flood_kind_names[FLOOD_KINDS] = {"noise",    "no_mac1",   "wrong_mac1",
						   "replayed", "no_cookie", "bad_cookie"};

void flood_take_address(const char *text, union flood_address *to)
{
	static const char why[] = "a flood is for servers on this machine: give "
				  "udp:127.0.0.1:PORT or udp:[::1]:PORT";
	char host[64];
	unsigned port;

	memset(to, 0, sizeof(*to));
	if (sscanf(text, "udp:[%63[0-9a-fA-F:.]]:%u", host, &port) == 2 && port <= UINT16_MAX &&
	    inet_pton(AF_INET6, host, &to->v6.sin6_addr) == 1 &&
	    IN6_IS_ADDR_LOOPBACK(&to->v6.sin6_addr)) {
		to->v6.sin6_family = AF_INET6;
		to->v6.sin6_port = htons((uint16_t)port);
		return;
	}
	if (sscanf(text, "udp:%63[0-9.]:%u", host, &port) == 2 && port <= UINT16_MAX &&
	    inet_pton(AF_INET, host, &to->v4.sin_addr) == 1 &&
	    ntohl(to->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET) {
		to->v4.sin_family = AF_INET;
		to->v4.sin_port = htons((uint16_t)port);
		return;
	}
	app_bad("%s: %s", text, why);
}

/* Seals a CONNECT as a client of this key would. */
static void make_valid(struct flood_sender *s, const struct lend_seal_ops *ops)
{
	struct lend_pkt head = {.magic = LEND_PKT_MAGIC,
				.version = LEND_PKT_VERSION,
				.kind = LEND_PKT_CONNECT,
				.number = 1};
	struct lend_pkt_connect b = {
	    .connect = lend_rng_next(&s->rng),
	    .session = lend_rng_next(&s->rng) | 1,
	    .pattern = LEND_PATTERN_NN,
	    .suite = lend_suite_best(ops),
	    .level = LEND_LEVEL_ENCRYPT,
	    .least = LEND_LEVEL_ENCRYPT,
	    .key_id = s->keys.id,
	    .params = {
		.payload = 1344, .unscheduled = 65536, .message_max = 1 << 20, .calls = 128}};
	void *memory = calloc(1, lend_kex_size(1));
	struct lend_kex *kex;

	if (!memory)
		app_die("no memory for a handshake");
	kex = lend_kex_init(memory, ops, 1, 1000000000);
	memcpy(s->valid, &head, sizeof(head));
	memcpy(s->valid + BODY_AT, &b, sizeof(b));
	lend_kex_connect(kex, 0, &s->keys, s->valid, CONNECT);
	lend_kex_close(kex);
	free(memory);
}

static void fill_random(struct lend_rng *rng, uint8_t *to, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = lend_rng_next(rng);

		memcpy(to + i, &v, 8);
	}
}

static void forge_connect(struct flood_sender *s, enum flood_kind kind, uint8_t *to)
{
	struct lend_pkt_connect *b = (void *)(to + BODY_AT); /* packed by layout, aligned to 8 */
	uint8_t *mac = to + CONNECT - LEND_TAG;
	struct lend_pkt_trailer trailer = {0};

	memcpy(to, s->valid, CONNECT);
	if (kind != FLOOD_REPLAYED) {
		fill_random(&s->rng, to + BODY_AT, 8);
		fill_random(&s->rng, b->e, sizeof(b->e));
	}
	if (kind == FLOOD_BAD_COOKIE) {
		b->cookie.time = (uint64_t)app_now();
		fill_random(&s->rng, b->cookie.mac, sizeof(b->cookie.mac));
	}
	if (kind == FLOOD_NO_MAC)
		memset(mac, 0, LEND_TAG);
	else if (kind == FLOOD_WRONG_MAC)
		fill_random(&s->rng, mac, LEND_TAG);
	else if (kind != FLOOD_REPLAYED)
		lend_siphash128(s->keys.mac_key, to, CONNECT - LEND_TAG, mac);
	trailer.crc = lend_crc32c(0, to, CONNECT);
	memcpy(to + CONNECT, &trailer, sizeof(trailer));
	if (kind == FLOOD_NOISE)
		to[0] = (uint8_t)~LEND_PKT_MAGIC;
}

static void send_batch(struct flood_sender *s, uint32_t n)
{
	struct flood *f = s->flood;
	enum flood_kind kind[BATCH];

	for (uint32_t i = 0; i < n; i++) {
		kind[i] = s->kinds[s->at_kind++ % s->n_kinds];
		forge_connect(s, kind[i], s->batch[i]);
	}
	if (send(s->fd[s->at_fd++ % SOCKETS], s->batch, (size_t)n * DATAGRAM, MSG_DONTWAIT) < 0) {
		f->refused += n;
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		f->sent[kind[i]]++;
}

/* Counts what the server has answered. */
static void count_answers(struct flood_sender *s)
{
	uint8_t bytes[2048];
	ssize_t len;

	for (uint32_t i = 0; i < SOCKETS; i++)
		while ((len = recv(s->fd[i], bytes, sizeof(bytes), MSG_DONTWAIT | MSG_TRUNC)) >=
		       0) {
			s->flood->answers++;
			s->flood->answer_bytes += (uint64_t)len;
		}
}

static lend_ns cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (lend_ns)t.tv_sec * 1000000000u + (lend_ns)t.tv_nsec;
}

static void *run_sender(void *arg)
{
	struct flood_sender *s = arg;
	struct flood *f = s->flood;
	lend_ns began = app_now(), next = began, cpu = cpu_time();
	uint64_t sent = 0;

	while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
		lend_ns now = app_now();
		uint64_t due = (uint64_t)((double)(now - began) * 1e-9 * (double)f->rate);
		struct timespec rest;

		/* After a pause it does not send what it has missed. */
		if (due > sent + f->rate / 50)
			sent = due - f->rate / 50;
		for (; sent + BATCH <= due; sent += BATCH)
			send_batch(s, BATCH);
		count_answers(s);
		next = now + TURN_NS;
		rest = (struct timespec){(time_t)(next / 1000000000), (long)(next % 1000000000)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &rest, NULL);
	}
	count_answers(s);
	f->time = app_now() - began;
	f->cpu = cpu_time() - cpu;
	return NULL;
}

/* A socket from an address of its own, where the loopback has many. */
static int open_socket(const union flood_address *to, uint32_t i)
{
	bool v6 = to->any.sa_family == AF_INET6;
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_addr = {htonl(INADDR_LOOPBACK + 256 * (i + 1))}};
	int fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = DATAGRAM,
	    room = 1 << 22;

	if (fd < 0 || (!v6 && bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0) ||
	    connect(fd, &to->any, v6 ? sizeof(to->v6) : sizeof(to->v4)) < 0 ||
	    setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)) < 0)
		app_die("a socket for the flood: %s", strerror(errno));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	return fd;
}

/* Without a key only datagrams that a scanner could send are forged. */
static void choose_kinds(struct flood_sender *s)
{
	const struct lend_seal_ops *ops = NULL;
	uint64_t id = 0;
	bool keyed;

	if (lend_keys_first(NULL, true, &id) < 0 || lend_keys_seal(&ops) < 0)
		app_die("%s", lend_why());
	keyed = lend_keys_exchange(id, &s->keys);
	if (!keyed)
		app_note("no key: only kinds that need none are sent; see lend keygen");
	make_valid(s, ops);
	for (uint32_t i = 0; i < FLOOD_KINDS; i++)
		if (s->flood->kind[i] && (keyed || i <= FLOOD_WRONG_MAC))
			s->kinds[s->n_kinds++] = (uint8_t)i;
	if (!s->n_kinds)
		app_bad("no kind is left to send; give a key with --keys, or other --kinds");
}

void flood_start(struct flood *f)
{
	struct flood_sender *s = aligned_alloc(64, (sizeof(*s) + 63) / 64 * 64);

	if (!s)
		app_die("no memory for a flood");
	memset(s, 0, sizeof(*s));
	s->flood = f;
	f->sender = s;
	f->datagram_len = DATAGRAM;
	lend_rng_seed(&s->rng, f->seed);
	choose_kinds(s);
	for (uint32_t i = 0; i < SOCKETS; i++)
		s->fd[i] = open_socket(&f->to, i);
	if (pthread_create(&s->thread, NULL, run_sender, s) != 0)
		app_die("no thread for the flood");
}

void flood_stop(struct flood *f)
{
	struct flood_sender *s = f->sender;

	atomic_store(&s->stop, true);
	pthread_join(s->thread, NULL);
	for (uint32_t i = 0; i < SOCKETS; i++)
		close(s->fd[i]);
	explicit_bzero(&s->keys, sizeof(s->keys));
	free(s);
	f->sender = NULL;
}
