/* Goal: a peer that fills one table of a server, and answers PINGs, does not delay the calls of
 * other peers. Method: a default server in a thread, over udp and shm. A raw peer fills call
 * records, reassemblies, memory or sessions. Two honest clients, one connected before the attack
 * and one after, make short and long calls. Without fair shares these wait for their deadline of 5
 * s, or are refused. Covers: src/core/table_share.c, src/core/heavy_hitters.c */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "e2e/raw_peer.h"
#include "e2e/rpc_server.h"

/* BOUND: ms that an honest call may take. The others: limits of a default server. */
enum { BOUND = 2000, BURST = 32, RECORDS = 2048, CALLS_MAX = 128, SESSIONS = 512 };

/* The raw peer has no keys. */
static void speak_in_clear(void)
{
	setenv("LEND_LEVEL", "none", 1);
}

TestSuite(rpc_hoard_raw, .init = speak_in_clear);

/* Begins a request of len bytes in each of these slots of each session. */
static void begin_requests(struct raw_peer *p, uint32_t first, uint32_t slots, uint32_t len)
{
	uint32_t sent = 0;

	for (uint32_t session = 0; session < p->n; session++)
		for (uint32_t slot = first; slot < first + slots; slot++) {
			raw_request(p, session, slot, ECHO, len);
			if (++sent % BURST == 0) /* fits into a socket's buffer */
				raw_sync(p);
		}
	raw_sync(p);
	cr_log_info("%llu ACKs, %llu replies, %llu of them RESOURCE_EXHAUSTED",
		    (unsigned long long)p->acks, (unsigned long long)p->replies,
		    (unsigned long long)p->exhausted);
}

/* Each reply holds a record until it is acknowledged. */
static void fill_records(struct raw_peer *p)
{
	cr_assert_eq(raw_connect(p, 17), 17);
	begin_requests(p, 0, CALLS_MAX, 8);
	cr_assert_geq(p->replies, RECORDS);
}

/* First datagrams of requests that lack more of them, or a reassembly. */
static void fill_records_halfway(struct raw_peer *p)
{
	cr_assert_eq(raw_connect(p, 17), 17);
	begin_requests(p, 0, CALLS_MAX, 3 * RAW_PAYLOAD);
	cr_assert_geq(p->acks, RECORDS / 4);
}

/* The same, of more requests than there are reassemblies (1,024) and fewer than records. */
static void fill_reassemblies(struct raw_peer *p)
{
	cr_assert_eq(raw_connect(p, 13), 13);
	begin_requests(p, 0, CALLS_MAX, 3 * RAW_PAYLOAD);
	cr_assert_eq(p->exhausted, 0, "the records are full");
}

/* The pool of message memory is 704 MiB. Requests of 16 MiB take half of it, those of 512 KiB as
 * much of the rest as is not for others. */
static void fill_memory(struct raw_peer *p)
{
	cr_assert_eq(raw_connect(p, 8), 8);
	begin_requests(p, 0, 5, 16 << 20);
	cr_assert_eq(p->exhausted, 0, "starts take memory");
	begin_requests(p, 5, 100, 1 << 19);
	cr_assert_geq(p->exhausted, 20, "there is memory left");
}

static void fill_sessions(struct raw_peer *p)
{
	uint32_t n = raw_connect(p, SESSIONS);

	cr_assert(n >= SESSIONS / 9 * 8 && n < SESSIONS - 2, "%u sessions", n);
}

static void check_honest(struct lend_ep *ep, lend_session to, const char *which)
{
	static const struct {
		uint32_t rounds, calls, len;
	} row[] = {{50, 16, 100}, {10, 4, 200000}, {4, 2, 1 << 20}};

	for (int i = 0; i < 3; i++) {
		lend_ns took = slowest_echo(ep, to, row[i].rounds, row[i].calls, row[i].len);

		cr_log_info("%s, %u bytes: %llu us", which, row[i].len,
			    (unsigned long long)took / 1000);
		cr_assert_lt(took, (lend_ns)BOUND * MS, "%s, %u bytes: %llu ms", which, row[i].len,
			     (unsigned long long)took / MS);
	}
}

static void run_hoard(const char *scheme, void (*fill)(struct raw_peer *))
{
	static struct raw_peer peer;
	struct lend_ep *before, *after;
	struct server server;
	lend_session first, second;

	server_start(&server, scheme);
	before = client_of(server.address, &first);
	sync_echo(before, first, ECHO, 100);
	raw_open(&peer, server.address);
	fill(&peer);
	raw_idle(&peer);
	check_honest(before, first, "connected before");
	after = client_of(server.address, &second);
	check_honest(after, second, "connected after");
	raw_idle_end(&peer);
	lend_close(after);
	lend_close(before);
	raw_close(&peer);
	server_stop(&server);
}

/* A server with 32 MiB for all messages: each start claims half of it, and is made just before the
 * honest call, so that it is not yet stalled. */
Test(rpc_hoard_raw, starts_in_little_memory, .timeout = 60)
{
	static struct raw_peer peer;
	struct lend_config config = LEND_CONFIG_INIT;
	struct server server;
	lend_session session;
	struct lend_ep *ep;

	config.memory_max = 32 << 20;
	server_start_with(&server, "udp", &config);
	ep = client_of(server.address, &session);
	sync_echo(ep, session, ECHO, 100);
	raw_open(&peer, server.address);
	cr_assert_eq(raw_connect(&peer, 1), 1);
	for (uint32_t slot = 0; slot < 40; slot++) {
		raw_request(&peer, 0, slot, ECHO, 16 << 20);
		sync_echo(ep, session, ECHO, 16 << 20);
	}
	lend_close(ep);
	raw_close(&peer);
	server_stop(&server);
}

/* A table of eight sessions, all of which have a reply that is never acknowledged, or a request
 * that is never continued. Once these are stalled, one is evicted for a newcomer. */
static void check_stalled(uint32_t len)
{
	static struct raw_peer peer;
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_call call = {.method = ECHO};
	struct server server;
	lend_session session;
	struct lend_ep *ep;

	config.sessions = 8;
	server_start_with(&server, "udp", &config);
	raw_open(&peer, server.address);
	cr_assert_eq(raw_connect(&peer, 8), 8);
	begin_requests(&peer, 0, 1, len);
	raw_idle(&peer);
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	for (lend_ns end = lend_now(ep) + (lend_ns)BOUND * MS;;) {
		cr_assert_eq(lend_connect(ep, server.address, &session), 0, "%s", lend_why());
		cr_assert_eq(lend_call_sync(ep, session, &call), 0, "%s", lend_why());
		lend_buf_give(ep, call.reply);
		if (call.status == LEND_OK)
			break;
		cr_assert_eq(call.status, LEND_RESOURCE_EXHAUSTED);
		cr_assert_lt(lend_now(ep), end, "no session was evicted");
		call = (struct lend_call){.method = ECHO};
	}
	raw_idle_end(&peer);
	lend_close(ep);
	raw_close(&peer);
	server_stop(&server);
}

Test(rpc_hoard_raw, stalled_sessions__make_room_for_others, .timeout = 60)
{
	check_stalled(8);
	check_stalled(3 * RAW_PAYLOAD);
}

#define HOARD(what, scheme)                                                                        \
	Test(rpc_hoard_raw, what##__##scheme, .timeout = 60)                                       \
	{                                                                                          \
		run_hoard(#scheme, fill_##what);                                                   \
	}

HOARD(records, udp)
HOARD(records, shm)
HOARD(records_halfway, udp)
HOARD(records_halfway, shm)
HOARD(reassemblies, udp) /* over shm the honest clients' long messages need none */
HOARD(memory, udp)
HOARD(memory, shm)
HOARD(sessions, udp)
HOARD(sessions, shm)
