/* Goal: knowledge that a server gains about a process gives it no access at a memory node. Method:
 * a second endpoint of the victim's own process, which thus shows the same incarnation to the node,
 * knows the victim's life, client number and operation ids, and has everything but the life's key;
 * it tries each operation, before and after the victim. Bare sockets act as servers that never
 * answer, to get the bytes of CONNECT; a copied CONNECT is replayed, with the server's proof
 * reflected to it. Covers: mn/peers.c, mn/node_server.c, mn/store/lease.c, cn/life.c,
 * src/rpc/session_proof.c */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cn/client.h"
#include "e2e/mem_node.h"
#include "e2e/thief.h"
#include "util/crc32c.h"
#include "wire/memop.h"
#include "wire/pkt.h"

enum { LEN = 3 };

/* Sends each operation of the victim with the victim's numbers. */
static void try_all(struct thief *t, const struct lend_memop *as, const char *when)
{
	static const uint8_t kind[] = {LEND_MEMOP_PUT,   LEND_MEMOP_ALLOC, LEND_MEMOP_FORGET,
				       LEND_MEMOP_RENEW, LEND_MEMOP_STAT,  LEND_MEMOP_BYE_CLIENT};

	for (size_t i = 0; i < sizeof(kind); i++)
		for (uint64_t id = 1; id < 4; id++) {
			struct lend_memop op = {.kind = kind[i],
						.client = as->client,
						.life = as->life,
						.id = id,
						.low = 1,
						.target = id,
						.len = LEN};

			cr_expect_eq(thief_say(t, &op), LEND_ABORTED, "%s: operation %u", when,
				     kind[i]);
		}
}

static void rob_node(struct mem_node *node)
{
	const struct cn_node *at;
	struct lend_memop as = {.kind = LEND_MEMOP_HELLO}, own = {.kind = LEND_MEMOP_HELLO};
	struct thief t;
	struct lend_ref ref = mem_put(node->mem, "abc", LEN, NULL);
	lend_space space = mem_alloc(node->mem, 5000);
	struct lend_memhello hello;
	char got[LEN];

	at = node->mem->node[0];
	as.client = own.client = node->mem->client;
	as.life = (uint64_t)at->life;
	thief_open(&t, at->address);
	try_all(&t, &as, "before HELLO");
	cr_expect_eq(thief_say(&t, &as), LEND_ABORTED, "joined without a proof");
	cr_assert_eq(thief_say(&t, &own), LEND_OK);
	cr_assert(lend_memhello_decode(t.reply, t.len, &hello));
	cr_expect_neq((uint64_t)hello.life, as.life, "the victim's life was given away");
	try_all(&t, &as, "in a life of its own");
	cr_expect_eq(mem_get(node->mem, &ref, 0, got, LEN), LEND_OK, "the victim is locked out");
	cr_expect_eq(memcmp(got, "abc", LEN), 0);
	cr_expect_eq(mem_release(node->mem, &ref), LEND_OK);
	mem_free_space(node->mem, space);
	lend_close(t.ep);
}

Test(impersonate, incarnation__known__is_no_credential_udp)
{
	struct mem_node node;

	mem_node_start(&node, "udp", "4M", "");
	rob_node(&node);
	mem_node_stop(&node);
}

Test(impersonate, incarnation__known__is_no_credential_shm)
{
	struct mem_node node;

	mem_node_start(&node, "shm", "4M", "");
	rob_node(&node);
	mem_node_stop(&node);
}

Test(impersonate, squatter__first_with_the_incarnation__others_join)
{
	struct lend_memop hello = {.kind = LEND_MEMOP_HELLO};
	struct lend_mem *mem;
	struct mem_node node;
	struct lend_ep *ep;
	struct lend_ref ref;
	struct thief t[4];
	char got[LEN];

	mem_node_start(&node, "udp", "4M", "--clients 64");
	for (uint32_t i = 0; i < 4; i++) {
		thief_open(&t[i], node.address);
		for (hello.client = 1; hello.client < 8; hello.client++)
			cr_assert_eq(thief_say(&t[i], &hello), LEND_OK);
	}
	mem_client_open(&node, &ep, &mem);
	ref = mem_put(mem, "abc", LEN, NULL);
	for (uint32_t i = 0; i < 4; i++) {
		struct lend_memop bye = {.kind = LEND_MEMOP_BYE_CLIENT,
					 .client = mem->client,
					 .life = mem->node[0]->life};

		cr_expect_eq(thief_say(&t[i], &bye), LEND_ABORTED);
		lend_close(t[i].ep);
	}
	cr_expect_eq(mem_get(mem, &ref, 0, got, LEN), LEND_OK);
	cr_expect_eq(mem_release(mem, &ref), LEND_OK);
	mem_client_close(ep, mem);
	mem_node_kill(&node);
}

/* The client does not know whether its HELLO ran: it sends it again in that session, and in another
 * one. */
Test(impersonate, hello__reply_lost__neither_locked_out_nor_doubled)
{
	struct lend_memop hello = {.kind = LEND_MEMOP_HELLO, .client = 900};
	struct lend_memhello first, again, other;
	struct mem_node node;
	struct thief t, next;

	mem_node_start(&node, "udp", "4M", "");
	thief_open(&t, node.address);
	cr_assert_eq(thief_say(&t, &hello), LEND_OK);
	cr_assert(lend_memhello_decode(t.reply, t.len, &first));
	cr_assert_eq(thief_say(&t, &hello), LEND_OK);
	cr_assert(lend_memhello_decode(t.reply, t.len, &again));
	cr_expect_eq(again.life, first.life);
	thief_open(&next, node.address);
	cr_assert_eq(thief_say(&next, &hello), LEND_OK);
	cr_assert(lend_memhello_decode(next.reply, next.len, &other));
	cr_expect_neq(other.life, first.life);
	lend_close(t.ep);
	lend_close(next.ep);
	mem_node_kill(&node);
}

static void *put_in_a_thread(void *arg)
{
	const char *address = arg;
	struct lend_op op = {.timeout = 5 * SECOND};
	struct lend_mem *mem;
	struct lend_ep *ep;
	uint64_t life = 0;

	if (lend_open(NULL, &ep) < 0 || lend_mem_open(ep, address, &mem) < 0)
		return NULL;
	if (!lend_put_sync(mem, &(struct iovec){(void *)(uintptr_t) "abc", LEN}, 1, NULL, &op))
		life = mem->node[0]->life;
	lend_mem_close(mem);
	lend_close(ep);
	return (void *)(uintptr_t)life;
}

/* Threads and endpoints that start at once, over two carriers of one node. */
Test(impersonate, life__threads_and_addresses_of_a_process__one)
{
	char list[256], *second;
	struct mem_node node;
	struct lend_ref ref;
	pthread_t thread[6];
	void *life[6];
	uint64_t mine;

	mem_node_start(&node, "udp:127.0.0.1:0,shm", "4M", "");
	(void)snprintf(list, sizeof(list), "%s", node.address);
	second = strchr(list, ',');
	cr_assert(second);
	*second++ = 0;
	for (int i = 0; i < 6; i++)
		cr_assert_eq(
		    pthread_create(&thread[i], NULL, put_in_a_thread, i % 2 ? second : list), 0);
	ref = mem_put(node.mem, "abc", LEN, NULL);
	for (int i = 0; i < 6; i++)
		pthread_join(thread[i], &life[i]);
	cr_assert_eq(pthread_create(&thread[0], NULL, put_in_a_thread, second), 0);
	pthread_join(thread[0], &life[0]);
	mine = node.mem->node[0]->life ? node.mem->node[0]->life : node.mem->node[1]->life;
	cr_expect_eq((uint64_t)(uintptr_t)life[0], mine);
	for (int i = 1; i < 6; i++)
		cr_expect_neq((uintptr_t)life[i], 0);
	cr_expect_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_kill(&node);
}

static int listen_at(uint16_t *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	struct timeval wait = {.tv_sec = 5};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

/* This process's first datagram to a server that never answers. */
static size_t connect_of(struct lend_ep *ep, int fd, uint16_t port, uint8_t bytes[2048])
{
	lend_session session;
	char address[64];
	ssize_t n;

	(void)snprintf(address, sizeof(address), "udp:127.0.0.1:%u", port);
	if (lend_connect(ep, address, &session) < 0)
		return 0;
	(void)lend_wait(ep, 0);
	n = recv(fd, bytes, 2048, 0);
	return n > 0 ? (size_t)n : 0;
}

static bool holds_bytes(const uint8_t *bytes, size_t len, const uint8_t *window)
{
	return memmem(bytes, len, window, 16) != NULL;
}

/* True: the window has 8 non-zero bytes; with fewer it may equal another one by chance. */
static bool tells_much(const uint8_t *window)
{
	int n = 0;

	for (int i = 0; i < 16; i++)
		n += window[i] != 0;
	return n >= 8;
}

/* Bytes that are also in the CONNECT of another process identify no process. */
Test(impersonate, connect__to_two_servers__shares_nothing_of_its_own)
{
	static uint8_t a[2048], b[2048], other[2048];
	uint16_t port_a, port_b;
	int fd_a = listen_at(&port_a), fd_b = listen_at(&port_b), status;
	size_t len_a, len_b, len_other;
	struct lend_ep *ep;
	ssize_t n;
	pid_t pid;

	cr_assert_eq(lend_open(NULL, &ep), 0);
	len_a = connect_of(ep, fd_a, port_a, a);
	len_b = connect_of(ep, fd_b, port_b, b);
	lend_close(ep);
	cr_assert(len_a > 100 && len_b > 100);
	while (recv(fd_a, other, sizeof(other), MSG_DONTWAIT) > 0)
		continue; /* retransmissions, and the end of that session */
	pid = mem_fork();
	if (pid == 0) {
		struct lend_ep *own;

		_exit(lend_open(NULL, &own) < 0 || !connect_of(own, fd_b, port_a, a));
	}
	n = recv(fd_a, other, sizeof(other), 0);
	cr_assert_gt(n, 0);
	len_other = (size_t)n;
	kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);
	for (size_t i = 0; i + 16 <= len_a; i++)
		cr_expect(!tells_much(a + i) || !holds_bytes(b, len_b, a + i) ||
			      holds_bytes(other, len_other, a + i),
			  "bytes %zu to %zu are in both", i, i + 16);
	close(fd_a);
	close(fd_b);
}

static void count_up(lend_session session, const uint8_t incarnation[16], bool up, void *arg)
{
	(void)session;
	(void)incarnation;
	*(int *)arg += up;
}

/* Makes a PROOF with the tag of this ACCEPT as its proof; 0: no ACCEPT, or one without a key. */
static size_t reflect_proof(const uint8_t *accept, size_t len, uint8_t bytes[128])
{
	struct lend_pkt_trailer trailer = {.crc = 0};
	struct lend_pkt head = {.magic = LEND_PKT_MAGIC,
				.version = LEND_PKT_VERSION,
				.kind = LEND_PKT_PROOF,
				.number = 2};
	struct lend_pkt_view v;

	if (len < sizeof(trailer) ||
	    lend_pkt_decode(&v, accept, (uint32_t)(len - sizeof(trailer))) != LEND_PKT_OK ||
	    v.head.kind != LEND_PKT_ACCEPT || v.accept.pattern != LEND_PATTERN_PROOF)
		return 0;
	head.session = v.accept.session;
	memcpy(bytes, &head, sizeof(head));
	memcpy(bytes + sizeof(head), v.accept.tag, sizeof(struct lend_pkt_proof));
	len = sizeof(head) + sizeof(struct lend_pkt_proof);
	trailer.crc = lend_crc32c(0, bytes, len);
	memcpy(bytes + len, &trailer, sizeof(trailer));
	return len + sizeof(trailer);
}

/* A server replays a client's CONNECT to another server with the same secret, and returns that
 * server's own proof as the client's. */
Test(impersonate, connect__of_another_with_a_secret__copied__no_session)
{
	struct lend_config config = LEND_CONFIG_INIT;
	static uint8_t bytes[2048], proof[128];
	uint16_t port, any;
	int fd = listen_at(&port), thief = listen_at(&any), ups = 0, reflected = 0;
	struct lend_ep *client, *server;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char address[128];
	size_t len;

	cr_assert_eq(setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1), 0);
	config.secret = "tulip";
	config.level = "none";
	cr_assert_eq(lend_open(&config, &client), 0, "%s", lend_why());
	config.listen = "udp:127.0.0.1:0";
	cr_assert_eq(lend_open(&config, &server), 0, "%s", lend_why());
	cr_assert_eq(lend_watch_sessions(server, count_up, &ups), 0);
	cr_assert_eq(lend_address(server, address, sizeof(address)), 0);
	to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	len = connect_of(client, fd, port, bytes);
	cr_assert_gt(len, 0);
	for (int i = 0; i < 20; i++) {
		size_t made;
		ssize_t n;

		cr_assert_eq(sendto(thief, bytes, len, 0, (struct sockaddr *)&to, sizeof(to)),
			     (ssize_t)len);
		(void)lend_wait(server, lend_now(server) + 2000000);
		n = recv(thief, bytes + 1024, 1024, MSG_DONTWAIT); /* its ACCEPT, sent back */
		if (n > 0)
			(void)sendto(thief, bytes + 1024, (size_t)n, 0, (struct sockaddr *)&to,
				     sizeof(to));
		made = n > 0 ? reflect_proof(bytes + 1024, (size_t)n, proof) : 0;
		if (made)
			(void)sendto(thief, proof, made, 0, (struct sockaddr *)&to, sizeof(to));
		reflected += made > 0;
	}
	cr_expect_gt(reflected, 1, "the server sent no proof to reflect");
	cr_expect_eq(ups, 0, "a copied CONNECT made a session");
	lend_close(client);
	lend_close(server);
	close(fd);
	close(thief);
}
