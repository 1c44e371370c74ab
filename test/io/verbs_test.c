/* Goal: properties of UD queue pairs alone. Each failure to open names its fix; registered memory
 * is sent without a copy. The carrier survives a used-up ring, a queue pair in error, and the loss
 * of a port, an address or a device, and counts or reports each.
 * Method: soft-RoCE in a guest (test/guest/verbs.sh), where interfaces are taken down. Errors of a
 * queue pair are made through the verbs call itself; this file's ibv_create_qp() records the queue
 * pair. Skipped where there is no device.
 * Covers: src/io/verbs/open.c, src/io/verbs/async_events.c, src/io/verbs/recv_queue.c,
 * src/io/verbs/send.c, src/io/verbs/region.c, src/io/verbs/carrier.c */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/conform.h"
#include "sys/last_error.h"

static void *qp_made; /* the newest one */

void *ibv_create_qp(void *pd, void *init);

static void *real_function(const char *name)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *at = lib ? dlsym(lib, name) : NULL;

	cr_assert_not_null(at, "%s", name);
	return at;
}

__attribute__((visibility("default"))) void *ibv_create_qp(void *pd, void *init)
{
	void *(*make)(void *, void *);

	*(void **)&make = real_function("ibv_create_qp");
	return qp_made = make(pd, init);
}

/* Puts a queue pair into the error state. The state is the first member of the attributes, and the
 * first bit of the mask. */
static void break_qp(void *qp)
{
	int (*modify)(void *, void *, int);
	int attr[64] = {6};

	*(void **)&modify = real_function("ibv_modify_qp");
	cr_assert_eq(modify(qp, attr, 1), 0);
}

static const char *why_absent(void)
{
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	if (access(LEND_BUILD_DIR "/lend_io_verbs.so", F_OK) != 0)
		return "lend_io_verbs.so was not built (libibverbs-dev, librdmacm-dev)";
	return access("/sys/class/infiniband/rxe1", F_OK) == 0
		   ? NULL
		   : "no soft-RoCE: scripts/guest.sh has it";
}

static char at[104] = "verbs:rxe1@10.77.0.2:0";

static void make_address(char *text, size_t cap)
{
	(void)snprintf(text, cap, "%s", at);
}

static const struct conform_row row = {
    .name = "verbs", .absent = why_absent, .address = make_address};

/* Opens a server on rxe1 and a client on rxe0. */
static void open_across(struct conform_pair *p, const char *options)
{
	char to[208];

	conform_need(&row);
	(void)snprintf(at, sizeof(at), "verbs:rxe1@10.77.0.2:0%s", options);
	*p = (struct conform_pair){.row = &row};
	p->server = conform_listen(&row, p->address);
	(void)snprintf(to, sizeof(to), "verbs:rxe0%s", strchr(p->address, '@'));
	memcpy(p->address, to, sizeof(p->address));
	p->client = conform_client(p->address);
	p->peer = conform_resolve(p->client, p->address, p->server);
}

struct count {
	uint32_t n, gone, peer;
};

static void count_one(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct count *c = arg;

	(void)id;
	(void)seq;
	c->n += !in->gone;
	c->gone += in->gone;
	c->peer = in->peer;
}

/* Sends until one datagram arrives; false: none did. */
static bool one_arrives(struct conform_pair *p)
{
	struct count c = {0};
	uint64_t end = conform_ms() + 10000;

	while (c.n == 0 && conform_ms() < end) {
		(void)conform_send(p->client, p->peer, 1, 0, 600);
		for (int i = 0; i < 200 && c.n == 0; i++) {
			(void)conform_take(p->client, NULL, NULL);
			(void)conform_take(p->server, count_one, &c);
		}
	}
	return c.n > 0;
}

Test(verbs, failed_open__names_its_fix, .timeout = 60)
{
	static const struct {
		const char *address;
		int err;
		const char *line;
	} wrong[] = {
	    {"verbs:rxe0@10.77.0.1:0?gid=77", -EADDRNOTAVAIL, "no GID index 77"},
	    {"verbs:rxe0@10.77.0.1:0?gid=0", -EADDRNOTAVAIL, "not that of 10.77.0.1"},
	    {"verbs:rxe0@10.77.0.1:0?pkey=0x1234", -EINVAL, "P_Key 0x1234"},
	    {"verbs:rxe0@10.77.0.1:0?mtu=4096", 0, ""},
	    {"verbs:rxe0@10.77.0.2:0", -ENODEV, "belongs to rxe1"},
	    {"verbs:rxe7@10.77.0.1:0", -ENODEV, "belongs to rxe0"},
	    {"verbs:any@10.1.2.3:0", -EADDRNOTAVAIL, "ip address"},
	};

	conform_need(&row);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct lend_io_config config = {.listen = wrong[i].address};
		struct lend_io *io = NULL;
		int rc = lend_io_open(&config, &io);

		cr_expect_eq(rc, wrong[i].err, "%s: %d %s", wrong[i].address, rc, lend_why_text());
		cr_expect(rc == 0 || strstr(lend_why_text(), wrong[i].line) != NULL, "%s: %s",
			  wrong[i].address, lend_why_text());
		if (rc == 0)
			io->ops->close(io);
	}
}

Test(verbs, port_in_use_or_no_listener__is_reported, .timeout = 60)
{
	struct lend_io_config config = {0};
	struct lend_io *io = NULL;
	struct conform_pair p;
	uint32_t peer;
	char taken[104];
	int rc;

	open_across(&p, "");
	cr_assert_eq(p.server->ops->name(p.server, taken, sizeof(taken)), 0);
	config.listen = taken;
	cr_assert_eq(lend_io_open(&config, &io), -EADDRINUSE);
	cr_assert_not_null(strstr(lend_why_text(), "is taken"));
	p.server->ops->close(p.server);
	while ((rc = p.client->ops->resolve(p.client, p.address, &peer)) == -EINPROGRESS)
		sched_yield();
	cr_assert_eq(rc, -EHOSTUNREACH);
	cr_assert_not_null(strstr(lend_why_text(), "is its process running"), "%s",
			   lend_why_text());
	p.client->ops->close(p.client);
}

static void memory_fill(uint8_t *memory, uint32_t from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		memory[i] = (uint8_t)((from + i) ^ (from + i) >> 8);
}

Test(verbs, registered_memory__is_not_copied, .timeout = 60)
{
	enum { LEN = 1 << 20, PART = 1000 };
	uint8_t *memory = aligned_alloc(4096, LEN);
	struct lend_seg seg[2] = {{0}, {.data = memory, .len = LEN, .cap = LEN}};
	struct lend_bufs bufs = {seg, 2};
	struct conform_pair p;

	open_across(&p, "");
	cr_assert_eq(p.client->ops->reg(p.client, memory, LEN / 2), 0);
	memory_fill(memory, 0, LEN);
	/* Pieces inside the registered memory, across its end, and behind it. */
	for (uint32_t from = 0; from <= LEN - 4 * PART; from += LEN / 2 - 2 * PART) {
		struct lend_out out = {
		    .head = "head",
		    .head_len = 4,
		    .tail = "tail",
		    .tail_len = 4,
		    .peer = p.peer,
		    .n = 3,
		    .piece = {{1, from, PART}, {1, from + PART, PART}, {1, from + 2 * PART, PART}}};
		struct lend_in in;
		uint64_t end = conform_ms() + 5000;

		p.client->ops->tx(p.client, &bufs, &out, 1);
		cr_assert_eq(out.sent, LEND_SENT);
		while (!p.client->ops->flush(p.client, 1))
			cr_assert_lt(conform_ms(), end);
		memset(memory + from, 0, 3 * PART); /* the piece was released */
		while (p.server->ops->rx(p.server, &in, 1) == 0)
			cr_assert_lt(conform_ms(), end);
		cr_assert_eq(in.len, 8 + 3 * PART);
		cr_assert_eq(memcmp(in.data, "head", 4), 0);
		cr_assert_eq(memcmp((const uint8_t *)in.data + 4 + 3 * PART, "tail", 4), 0);
		memory_fill(memory + from, from, 3 * PART);
		cr_assert_eq(memcmp((const uint8_t *)in.data + 4, memory + from, 3 * PART), 0);
		p.server->ops->rx_done(p.server);
	}
	cr_assert_eq(p.client->stats.tx_in_place, 1);
	conform_close(&p);
	free(memory);
}

Test(verbs, a_used_up_ring_is_counted, .timeout = 60)
{
	struct conform_pair p;
	struct count c = {0};

	open_across(&p, "?ring=16");
	for (uint32_t i = 0; i < 100; i++)
		(void)conform_send(p.client, p.peer, 1, i, 100);
	for (uint64_t end = conform_ms() + 300; conform_ms() < end;)
		(void)conform_take(p.server, count_one, &c);
	cr_assert(c.n >= 16 && c.n < 100, "%u came", c.n);
	cr_assert_geq(p.server->stats.rx_missed, 1);
	cr_assert(one_arrives(&p));
	conform_close(&p);
}

Test(verbs, a_queue_pair_in_error_comes_back, .timeout = 60)
{
	struct conform_pair p;
	void *server;

	open_across(&p, "");
	server = qp_made; /* the client's was created last */
	for (int round = 0; round < 3; round++) {
		cr_assert(one_arrives(&p));
		break_qp(server);
		cr_assert(one_arrives(&p));
	}
	cr_assert_geq(p.client->stats.resets, 3);
	cr_assert_eq(p.server->stats.resets, 0);
	conform_close(&p);
	/* The receiver's queue pair: datagrams to it are lost until it notices the error. */
	open_across(&p, "");
	p.client->ops->close(p.client);
	p.server->ops->close(p.server);
	conform_need(&row);
	p.server = conform_listen(&row, p.address);
	server = qp_made;
	p.client = conform_client(p.address);
	p.peer = conform_resolve(p.client, p.address, p.server);
	break_qp(server);
	cr_assert(one_arrives(&p));
	cr_assert_geq(p.server->stats.resets, 1);
	conform_close(&p);
}

Test(verbs, endpoints_that_share_a_ring, .timeout = 60)
{
	struct conform_pair p, q;

	open_across(&p, "?srq=1&ring=64");
	open_across(&q, "?srq=1&ring=64");
	for (int round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 10; i++) {
			cr_assert(one_arrives(&p));
			cr_assert(one_arrives(&q));
		}
	}
	/* Buffers that a closed endpoint still had go back to the ring. */
	for (uint32_t i = 0; i < 200; i++)
		(void)conform_send(q.client, q.peer, 1, i, 100);
	conform_close(&q);
	cr_assert(one_arrives(&p));
	for (uint32_t i = 0; i < 300; i++)
		cr_assert(one_arrives(&p));
	conform_close(&p);
}

static void run_shell(const char *command)
{
	cr_assert_eq(system(command), 0, "%s", command);
}

static void need_guest(void)
{
	if (getenv("LEND_IN_GUEST") == NULL)
		cr_skip_test("takes interfaces down: only in scripts/guest.sh");
}

Test(verbs, a_port_goes_down_and_comes_back, .timeout = 60)
{
	struct conform_pair p;
	uint64_t end;

	need_guest();
	open_across(&p, "");
	cr_assert(one_arrives(&p));
	run_shell("ip link set veth0 down");
	end = conform_ms() + 5000;
	while (p.client->stats.port_events == 0 && conform_ms() < end)
		(void)conform_take(p.client, NULL, NULL);
	cr_assert_not_null(strstr(lend_why_text(), "is down: check its link"), "%s",
			   lend_why_text());
	run_shell(
	    "ip link set veth0 up; ip route replace 10.77.0.2 dev veth0 src 10.77.0.1 table 100");
	run_shell("ip neigh replace 10.77.0.2 dev veth0 lladdr 02:00:00:4d:00:02 nud permanent");
	run_shell("ip neigh replace 10.77.0.1 dev veth1 lladdr 02:00:00:4d:00:01 nud permanent");
	cr_assert(one_arrives(&p), "no peer was lost");
	conform_close(&p);
}

Test(verbs, an_address_goes_and_comes_back, .timeout = 60)
{
	struct conform_pair p;
	struct count c = {0};
	struct pollfd sleeper;
	uint64_t end;

	need_guest();
	open_across(&p, "");
	cr_assert(one_arrives(&p));
	/* Sleeps, as an event loop would. */
	sleeper = (struct pollfd){.fd = p.server->ops->fd(p.server), .events = POLLIN};
	while (!p.server->ops->arm(p.server))
		(void)conform_take(p.server, NULL, NULL);
	run_shell("ip addr del 10.77.0.2/24 dev veth1");
	end = conform_ms() + 10000;
	while (c.gone == 0 && conform_ms() < end) {
		(void)poll(&sleeper, 1, 1000);
		(void)conform_take(p.server, count_one, &c);
		(void)p.server->ops->arm(p.server);
	}
	cr_assert_geq(c.gone, 1);
	cr_assert_not_null(strstr(lend_why_text(), "no address of rxe1 any more"), "%s",
			   lend_why_text());
	cr_assert_eq(conform_send(p.server, c.peer, 1, 0, 100), LEND_SENT_DEAD);
	run_shell("ip addr add 10.77.0.2/24 dev veth1");
	run_shell("ip route replace 10.77.0.1 dev veth1 src 10.77.0.2 table 101");
	run_shell("ip neigh replace 10.77.0.1 dev veth1 lladdr 02:00:00:4d:00:01 nud permanent");
	conform_close(&p);
}

/* The last test: rxe1 does not come back. */
Test(verbs, z_a_device_is_removed, .timeout = 60)
{
	struct conform_pair p;
	struct count c = {0};
	uint64_t end = conform_ms() + 20000;

	need_guest();
	open_across(&p, "");
	cr_assert(one_arrives(&p));
	run_shell(
	    "rdma link delete rxe1 & sleep 0.1"); /* returns when no process uses it any more */
	while (c.gone == 0 && conform_ms() < end)
		(void)conform_take(p.server, count_one, &c);
	cr_assert_geq(c.gone, 1);
	cr_assert_not_null(strstr(lend_why_text(), "rxe1 was removed"), "%s", lend_why_text());
	cr_assert_eq(conform_send(p.server, c.peer, 1, 0, 100), LEND_SENT_DEAD);
	cr_assert(p.server->ops->arm(p.server), "no more datagrams: may sleep");
	conform_close(&p);
}
