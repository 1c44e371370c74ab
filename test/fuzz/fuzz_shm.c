/* Goal: whatever a client writes into the memory that it shares with a server, at any moment, the
 * server accesses nothing out of bounds, delivers exactly the ring's content, counts
 * contradictions, and serves others. Method: a server with an honest client, both real; for each
 * input another client is built from the parts of the rendezvous, and the bytes choose what it
 * writes: any byte of both rings and both bells, mostly marks, positions and locations in its
 * memory that are nearly right, also while datagrams are lent to the server; the server's steps in
 * between; and the socket. Then it leaves, and the honest client is served. Covers:
 * src/io/shm/ring_read.c, src/io/shm/poll.c, src/io/shm/peers.c, src/io/shm/rendezvous.c,
 * src/io/shm/handshake.c */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/choice.h"
#include "fuzz/finding.h"
#include "fuzz/ring_model.h"
#include "io/shm/peers.h"
#include "sys/clock.h"
#include "sys/shared_arena.h"

const char fuzz_name[] = "shm";

enum { BURST = 64 };
#define PATIENCE_NS UINT64_C(5000000000)

static struct lend_io *server, *client;
static uint32_t honest, to_server; /* the client's index at the server, and the other way round */
static uint64_t sent, received;    /* datagrams of the honest client */
static char folder[] = "/tmp/lend-fuzz-XXXXXX";
static char name[64];

static struct {
	int sock, bell_fd;
	struct lend_bell *own, *bell; /* its own, and the server's */
	struct lend_shm_pair *pair;
	struct lend_shm_peer *peer; /* the server's record of it */
} villain;

static struct lend_shm *shm_of(void)
{
	return (struct lend_shm *)(void *)server;
}

static void clean_up(void)
{
	char lock[64];

	client->ops->close(client);
	server->ops->close(server);
	(void)snprintf(lock, sizeof(lock), "%s/lend/.lock", folder);
	(void)unlink(lock);
	(void)snprintf(lock, sizeof(lock), "%s/lend", folder);
	(void)rmdir(lock);
	(void)rmdir(folder);
}

static uint8_t last_byte; /* keeps the compiler from removing the reads below */

static void read_last(const void *data, uint32_t len)
{
	if (len)
		last_byte = ((const volatile uint8_t *)data)[len - 1];
}

static void read_all(const struct lend_in *in, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		read_last(in[i].data, in[i].len);
		if (!in[i].parts)
			read_last(in[i].body, in[i].body_len);
		for (uint32_t k = 0; k < in[i].parts; k++)
			read_last(in[i].part[k].data, in[i].part[k].len);
	}
}

static uint32_t receive_burst(struct lend_in in[BURST])
{
	uint32_t next = villain.peer ? villain.peer->rx.next : 0, n;
	uint64_t bad = 0, counted = server->stats.rx_bad;

	n = server->ops->rx(server, in, BURST);
	FUZZ_CHECK(n <= BURST, "more than requested");
	for (uint32_t i = 0; i < n; i++) {
		if (in[i].peer == honest && !in[i].gone)
			received++;
		else if (in[i].gone)
			FUZZ_CHECK(in[i].peer != honest, "the honest client was dropped");
		else if (villain.peer)
			FUZZ_CHECK(ring_model_matches(villain.peer, &next, &in[i], &bad),
				   "not the ring's content");
	}
	FUZZ_CHECK(server->stats.rx_bad - counted >= bad, "bad datagrams that were not counted");
	FUZZ_CHECK(server->stats.rx_bad - counted <= LEND_RING_SLOTS + bad, "counted without end");
	read_all(in, n);
	return n;
}

static void run_turn(void)
{
	struct lend_in in[BURST];

	(void)receive_burst(in);
	server->ops->rx_done(server);
}

static void serve_honest(void)
{
	static uint8_t bytes[500];
	struct lend_out out = {
	    .head = bytes, .head_len = 200, .tail = bytes, .tail_len = 100, .peer = to_server};
	struct lend_bufs none = {0};
	lend_ns end = lend_clock_now() + PATIENCE_NS;

	client->ops->tx(client, &none, &out, 1);
	FUZZ_CHECK(out.sent == LEND_SENT, "the honest client was refused");
	sent++;
	while (received < sent && lend_clock_now() < end)
		run_turn();
	FUZZ_CHECK(received == sent, "the honest client was not served");
}

static void set_up(void)
{
	struct lend_io_config config = {0};
	char address[80];
	struct lend_in in[BURST];

	FUZZ_CHECK(mkdtemp(folder) && setenv("XDG_RUNTIME_DIR", folder, 1) == 0, "no folder");
	(void)snprintf(name, sizeof(name), "fuzz-%d", (int)getpid());
	(void)snprintf(address, sizeof(address), "shm:%s", name);
	config.listen = address;
	config.shares = true;
	FUZZ_CHECK(lend_io_open(&config, &server) == 0, "no server");
	config = (struct lend_io_config){.peer = address};
	FUZZ_CHECK(lend_io_open(&config, &client) == 0, "no client");
	honest = UINT32_MAX;
	while (client->ops->resolve(client, address, &to_server) != 0) {
		(void)server->ops->rx(server, in, BURST);
		server->ops->rx_done(server);
	}
	honest = 0;
	(void)atexit(clean_up);
	serve_honest();
}

static struct lend_shm_peer *find_villain(void)
{
	struct lend_shm *s = shm_of();

	for (uint32_t i = 0; i < s->top; i++)
		if (i != honest && s->peer[i].state == LEND_SHM_UP)
			return &s->peer[i];
	return NULL;
}

/* Sends a valid HELLO with memory of its own, so that it has memory to misuse. */
static void send_hello(void)
{
	struct lend_rendezvous_msg msg;
	void *pair, *bell, *own;
	int fds[LEND_RENDEZVOUS_FDS], err, given[2];

	if (!villain.own) {
		FUZZ_CHECK(lend_rendezvous_memory(LEND_BELL_LEN, &villain.bell_fd, &own) == 0,
			   "memory");
		villain.own = own;
	}
	memset((void *)villain.own, 0, LEND_BELL_LEN);
	while ((err = lend_rendezvous_connect(name, &villain.sock)) == -EAGAIN)
		run_turn();
	FUZZ_CHECK(err == 0, "the socket does not accept");
	lend_rendezvous_fill(&msg, 0, 3, LEND_SHM_LINK_LEN);
	msg.shares = 1;
	given[0] = villain.bell_fd;
	given[1] = lend_arena_fd();
	FUZZ_CHECK(lend_rendezvous_send(villain.sock, &msg, given, 2) == 0, "no HELLO");
	while ((err = lend_rendezvous_recv(villain.sock, &msg, fds, 2)) == -EAGAIN)
		run_turn();
	FUZZ_CHECK(err == 0 && lend_rendezvous_map(fds[0], LEND_SHM_LINK_LEN, &pair) == 0 &&
		       lend_rendezvous_map(fds[1], LEND_BELL_LEN, &bell) == 0,
		   "no WELCOME");
	FUZZ_CHECK(msg.shares, "the server shares no memory");
	for (int i = 0; i < 3; i++)
		(void)close(fds[i]);
	villain.pair = pair;
	villain.bell = bell;
	villain.peer = find_villain();
	FUZZ_CHECK(villain.peer, "accepted, but no peer exists");
}

static void leave_server(void)
{
	lend_ns end = lend_clock_now() + PATIENCE_NS;

	(void)munmap(villain.pair, LEND_SHM_LINK_LEN);
	(void)munmap(villain.bell, LEND_BELL_LEN);
	(void)close(villain.sock);
	while (villain.peer->state != LEND_SHM_FREE && lend_clock_now() < end)
		run_turn();
	FUZZ_CHECK(villain.peer->state == LEND_SHM_FREE, "the peer was not released");
	villain.peer = NULL;
}

static uint32_t some_len(struct choice *c)
{
	static const uint32_t len[] = {0,
				       1,
				       LEND_RING_SHORT - 1,
				       LEND_RING_SHORT,
				       LEND_RING_SHORT + 1,
				       4096,
				       LEND_RING_MTU - 1,
				       LEND_RING_MTU,
				       LEND_RING_MTU + 1,
				       UINT16_MAX,
				       INT32_MAX,
				       UINT32_MAX};

	return choice_rare(c, 4) ? (uint32_t)choice_edge(c) : len[choice_of(c, 12)];
}

/* Writes the mark that the server waits for, one of the next, or nearly that. */
static void step_mark(struct choice *c)
{
	uint32_t next = villain.peer->rx.next + choice_of(c, choice_rare(c, 4) ? 256 : 3);
	uint64_t number = (uint64_t)next + 1 + (choice_rare(c, 8) ? choice_edge(c) : 0);

	fuzz_hostile++; /* the other writes are not counted */
	atomic_store(&villain.pair->to_server.slot[next % LEND_RING_SLOTS].mark,
		     number << 32 | some_len(c));
}

/* Writes the datagram that the server waits for, with locations that are right or nearly that. */
static void step_locations(struct choice *c)
{
	struct lend_ring *ring = &villain.pair->to_server;
	uint32_t next = villain.peer->rx.next, n = 1 + choice_of(c, LEND_PLACES + 1), at = 0;
	uint32_t head = choice_of(c, 64), len = head + choice_u8(c) + 16 * n;
	uint8_t *data = len <= LEND_RING_SHORT ? ring->slot[next % LEND_RING_SLOTS].data
					       : ring->body[next % LEND_RING_BODIES];

	fuzz_hostile++;
	for (uint32_t i = 0; i < n; i++) {
		struct lend_ring_ref place = {.offset = choice_u8(c) * UINT64_C(4096)};

		place.len = choice_rare(c, 8) ? (uint32_t)choice_edge(c) : LEND_PLACE_MIN;
		place.at = choice_rare(c, 8) ? (uint32_t)choice_edge(c) : at + choice_of(c, 8);
		if (choice_rare(c, 8))
			place.offset = LEND_ARENA_LEN - choice_edge(c);
		at = place.at + place.len;
		memcpy(data + len - 16 * (n - i), &place, sizeof(place));
	}
	atomic_store(&ring->slot[next % LEND_RING_SLOTS].mark,
		     (uint64_t)(next + 1) << 32 |
			 lend_ring_mark_refs(choice_rare(c, 8) ? some_len(c) & UINT16_MAX : len,
					     (uint8_t)head, n));
}

static void step_position(struct choice *c)
{
	uint32_t next = villain.peer->tx.next;

	atomic_store(&villain.pair->to_client.taken,
		     choice_rare(c, 2) ? next - choice_u8(c) : (uint32_t)choice_edge(c));
	atomic_store(&villain.pair->to_client.polled, choice_of(c, 3));
	atomic_store(&villain.pair->to_server.wanted, choice_of(c, 3));
}

static void step_bells(struct choice *c)
{
	atomic_store(&villain.bell->word[choice_of(c, LEND_SHM_WORDS)], choice_edge(c));
	atomic_store(&villain.bell->asleep, choice_of(c, 3));
	atomic_store(&villain.own->word[choice_of(c, LEND_SHM_WORDS)], choice_edge(c));
	atomic_store(&villain.own->asleep, choice_of(c, 3));
}

/* Writes a run of any bytes of its writable memory. */
static void step_scribble(struct choice *c)
{
	size_t at = ((size_t)choice_u16(c) << 8 | choice_u8(c)) % LEND_SHM_LINK_LEN;
	size_t len = (size_t)1 << choice_of(c, 12);
	uint8_t value = choice_u8(c);

	if (len > LEND_SHM_LINK_LEN - at)
		len = LEND_SHM_LINK_LEN - at;
	memset((uint8_t *)villain.pair + at, value, len);
}

static void write_something(struct choice *c)
{
	switch (choice_of(c, 8)) {
	case 0:
		step_position(c);
		return;
	case 1:
		step_bells(c);
		return;
	case 2:
		step_scribble(c);
		return;
	case 3:
	case 4:
		step_locations(c);
		return;
	default:
		step_mark(c);
	}
}

static void step_burst(struct choice *c)
{
	uint32_t n = 1 + choice_u8(c);

	choice_dice(c);
	for (; n > 0; n--)
		write_something(c);
	choice_bytes(c);
}

/* A datagram that was lent stays readable, whatever is written to it meanwhile. */
static void change_what_is_lent(struct choice *c)
{
	struct lend_in in[BURST];
	uint32_t n = receive_burst(in);

	step_burst(c);
	read_all(in, n);
	server->ops->rx_done(server);
}

static void step_answer(struct choice *c)
{
	static uint8_t bytes[LEND_RING_MTU];
	static struct lend_out out[BURST];
	struct lend_seg seg = {.data = bytes, .len = sizeof(bytes), .cap = sizeof(bytes)};
	struct lend_bufs bufs = {&seg, 1};
	uint32_t n = 1 + choice_of(c, BURST);

	for (uint32_t i = 0; i < n; i++)
		out[i] = (struct lend_out){.head = bytes,
					   .peer = (uint32_t)(villain.peer - shm_of()->peer),
					   .n = 1,
					   .piece = {{.len = i % 16 ? i : LEND_RING_MTU}}};
	server->ops->tx(server, &bufs, out, n);
	for (uint32_t i = 0; i < n; i++)
		FUZZ_CHECK(out[i].sent != LEND_SENT_DEAD || villain.peer->state != LEND_SHM_UP,
			   "it lives");
	FUZZ_CHECK(villain.peer->tx.next - villain.peer->tx.taken <= LEND_RING_SLOTS ||
		       out[n - 1].sent != LEND_SENT,
		   "more in flight than the ring holds");
}

static void run_step(struct choice *c)
{
	switch (choice_of(c, 16)) {
	case 0:
	case 1:
	case 2:
		run_turn();
		return;
	case 3:
		change_what_is_lent(c);
		return;
	case 4:
		step_answer(c);
		return;
	case 5:
		(void)server->ops->arm(server);
		return;
	case 6:
		if (choice_rare(c, 4))
			serve_honest();
		return;
	case 7: /* an empty message counts as the end */
		(void)send(villain.sock, "garbage", choice_of(c, 8), MSG_DONTWAIT | MSG_NOSIGNAL);
		return;
	case 8:
	case 9:
		step_burst(c);
		return;
	default:
		write_something(c);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct choice c = {.at = data, .end = data + len};

	if (len > 4096)
		return -1;
	if (!server)
		set_up();
	fuzz_begin();
	send_hello();
	while (choice_left(&c))
		run_step(&c);
	leave_server();
	serve_honest();
	return 0;
}
