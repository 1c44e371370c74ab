/* ethdev - the lower bound for dpdk: raw frames through a device and back; both ends poll for
 * bursts.
 *
 * memif: net_memif between two processes, one copy in each direction. ring: two net_ring ends in
 * one thread, which pass the frames themselves. Requests of one turn are sent in one burst. The
 * packed lanes put as many of them into a frame as fit, as Lend does. Layer: apps/peers. Threads:
 * one per process, and EAL's own. */
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/spawn.h"
#include "apps/peers/fifo.h"

enum {
	BURST = 32,
	BUFS = 8191,
	CACHE = 256,
	DESCRIPTORS = 1024,
	RING_SLOTS = 1024,
	FRAME_MAX = 2000
};
#define LINK_NS UINT64_C(10000000000)

struct end {
	const struct peer_job *job;
	struct rte_mempool *pool;
	uint16_t port;
	struct peer_fifo fifo; /* both devices preserve the order */
	uint16_t waiting;      /* frames to be sent, from 0 */
	struct rte_mbuf *frame[PEER_WINDOW_MAX + BURST];
};

static bool is_ring(const struct peer_job *job)
{
	return !strncmp(job->lane, "ring", 4);
}

static bool is_packed(const struct peer_job *job)
{
	return strchr(job->lane, '-') != NULL;
}

/* Returns the distance of two messages in a frame. */
static uint64_t step_of(uint64_t len)
{
	return (len + 7) & ~UINT64_C(7);
}

/* Returns how many messages of this length a frame has. */
static uint64_t messages_in(const struct rte_mbuf *frame, uint64_t len)
{
	return (frame->data_len + step_of(len) - len) / step_of(len);
}

static const char *const words[] = {"ethdev",      "--no-huge",      "-m", "128", "--no-pci",
				    "--no-shconf", "--no-telemetry", NULL};

/* Initialises EAL for this process, with a memif device in that role unless role is NULL. */
static void start_eal(const char *role, int id)
{
	static char text[3][128];
	static char *argv[12];
	int argc = 0;

	snprintf(text[0], sizeof(text[0]), "--file-prefix=peer-%d", (int)getpid());
	snprintf(text[1], sizeof(text[1]), "--lcores=0@(0-%u)", app_cpus() - 1);
	snprintf(text[2], sizeof(text[2]), "--vdev=net_memif0,role=%s,id=0,socket=peer-%d",
		 role ? role : "", id);
	for (const char *const *word = words; *word; word++)
		argv[argc++] = (char *)(uintptr_t)*word;
	for (int i = 0; i < (role ? 3 : 2); i++)
		argv[argc++] = text[i];
	rte_log_set_global_level(RTE_LOG_ERR);
	if (rte_eal_init(argc, argv) < 0)
		app_die("DPDK does not start: %s", rte_strerror(rte_errno));
}

static struct rte_mempool *make_pool(void)
{
	struct rte_mempool *pool = rte_pktmbuf_pool_create(
	    "peer", BUFS, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);

	if (!pool)
		app_die("no memory for frames: %s", rte_strerror(rte_errno));
	return pool;
}

static void start_port(uint16_t port, struct rte_mempool *pool)
{
	struct rte_eth_conf conf = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_NONE}};

	if (rte_eth_dev_configure(port, 1, 1, &conf) ||
	    rte_eth_rx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL, pool) ||
	    rte_eth_tx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL) ||
	    rte_eth_dev_start(port))
		app_die("the device does not start");
}

static struct end *make_end(const struct peer_job *job, uint16_t port)
{
	struct end *e = calloc(1, sizeof(*e));

	if (!e)
		app_die("no memory");
	e->job = job;
	e->port = port;
	e->pool = rte_mempool_lookup("peer");
	return e;
}

/* Waits for the link. memif connects its two sides in EAL's own threads. */
static void wait_for_link(uint16_t port)
{
	struct rte_eth_link link = {0};
	lend_ns until = app_now() + LINK_NS;

	while (rte_eth_link_get_nowait(port, &link) == 0 && !link.link_status)
		if (app_now() > until)
			app_die("the two devices do not find each other");
}

/* Makes a pair of rings. The server makes both ends; the client's is the second port. */
static void make_rings(void)
{
	struct rte_ring *ring[2];

	for (int i = 0; i < 2; i++) {
		ring[i] = rte_ring_create(i ? "ab" : "ba", RING_SLOTS, SOCKET_ID_ANY,
					  RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (!ring[i])
			app_die("no memory for rings");
	}
	for (int i = 0; i < 2; i++)
		if (rte_eth_from_rings(i ? "b" : "a", &ring[i], 1, &ring[1 - i], 1,
				       SOCKET_ID_ANY) != i)
			app_die("no ring device: %s", rte_strerror(rte_errno));
}

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	int id = (int)getpid();

	start_eal(is_ring(job) ? NULL : "server", id);
	make_pool();
	if (is_ring(job))
		make_rings();
	start_port(0, rte_mempool_lookup("peer"));
	peer_send_text(channel, &id, sizeof(id));
	return make_end(job, 0);
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	uint16_t port = is_ring(job);
	int id;

	peer_receive_text(channel, &id, sizeof(id));
	if (!is_ring(job)) {
		start_eal("client", id);
		make_pool();
	}
	start_port(port, rte_mempool_lookup("peer"));
	if (!is_ring(job))
		wait_for_link(port);
	return make_end(job, port);
}

/* Sends the waiting frames. Frames that the device does not accept are retried in the next turn. */
static void flush_frames(struct end *e)
{
	uint16_t sent = e->waiting ? rte_eth_tx_burst(e->port, 0, e->frame, e->waiting) : 0;

	e->waiting = (uint16_t)(e->waiting - sent);
	if (sent && e->waiting)
		memmove(e->frame, e->frame + sent, e->waiting * sizeof(e->frame[0]));
}

/* Answers the requests of a frame in place. An answer is not longer than its request. */
static void answer_frame(struct end *e, struct rte_mbuf *frame)
{
	char *bytes = rte_pktmbuf_mtod(frame, char *), sum[PEER_SUM_LEN];
	uint64_t len = e->job->request, n = messages_in(frame, len);
	bool echo = peer_is_echo(e->job);

	for (uint64_t i = 0; i < n; i++) {
		const struct iovec part = {.iov_base = bytes + i * step_of(len), .iov_len = len};

		peer_serve(e->job, &part, 1, echo ? NULL : sum);
		if (!echo)
			memcpy(bytes + i * sizeof(sum), sum, sizeof(sum));
	}
	if (!echo)
		frame->pkt_len = frame->data_len = (uint16_t)(n * sizeof(sum));
	e->frame[e->waiting++] = frame;
}

void peer_server_turn(void *server)
{
	struct end *e = server;
	struct rte_mbuf *frame[BURST];
	uint16_t n = e->waiting > PEER_WINDOW_MAX ? 0 : rte_eth_rx_burst(e->port, 0, frame, BURST);

	for (uint16_t i = 0; i < n; i++)
		answer_frame(e, frame[i]);
	flush_frames(e);
}

/* Returns the frame for the next request: the last one that waits, if it may have more and has
 * room, else a new one. */
static struct rte_mbuf *open_frame(struct end *e)
{
	struct rte_mbuf *frame = e->waiting ? e->frame[e->waiting - 1] : NULL;

	if (frame && is_packed(e->job) && step_of(frame->data_len) + e->job->request <= FRAME_MAX) {
		rte_pktmbuf_append(frame, (uint16_t)(step_of(frame->data_len) - frame->data_len));
		return frame;
	}
	frame = rte_pktmbuf_alloc(e->pool);
	if (!frame)
		app_die("no more frames");
	return e->frame[e->waiting++] = frame;
}

int peer_client_start(void *client, unsigned slot, const void *request)
{
	struct end *e = client;
	struct rte_mbuf *frame = open_frame(e);

	memcpy(rte_pktmbuf_append(frame, (uint16_t)e->job->request), request, e->job->request);
	peer_fifo_push(&e->fifo, slot);
	return 0;
}

/* Ends the requests that a frame has the answers of. */
static void take_answers(struct end *e, const struct rte_mbuf *frame)
{
	const char *bytes = rte_pktmbuf_mtod(frame, const char *);
	uint64_t len = e->job->reply, n = messages_in(frame, len);

	for (uint64_t i = 0; i < n; i++)
		peer_end_at(peer_fifo_pop(&e->fifo), bytes + i * step_of(len), len);
}

void peer_client_turn(void *client)
{
	struct end *e = client;
	struct rte_mbuf *frame[BURST];
	uint16_t n;

	flush_frames(e);
	n = rte_eth_rx_burst(e->port, 0, frame, BURST);
	for (uint16_t i = 0; i < n; i++) {
		take_answers(e, frame[i]);
		rte_pktmbuf_free(frame[i]);
	}
}

void peer_close(void *end)
{
	struct end *e = end;

	rte_eth_dev_stop(e->port);
	rte_eth_dev_close(e->port);
	(void)rmdir(rte_eal_get_runtime_dir()); /* EAL creates it and does not remove it */
	free(e);
}

const struct peer peer_this = {
    "ethdev",
    {{.name = "memif", .len_max = FRAME_MAX, .server_first = true},
     {.name = "memif-packed", .len_max = FRAME_MAX, .server_first = true},
     {.name = "ring", .len_max = FRAME_MAX, .one_thread = true},
     {.name = "ring-packed", .len_max = FRAME_MAX, .one_thread = true}},
    false};
