/* Goal: a flood of CONNECTs takes bounded memory and no accepted session, and a client that answers
 * at its address gets in. Method: two cores, trace text; datagrams that the test copies, changes
 * and sends from other addresses. Covers: src/core/handshake.c, src/core/cookie.c */
#include <criterion/criterion.h>
#include <string.h>

#include "core/arena.h"
#include "scen/core_pair.h"

#define MS UINT64_C(1000000)
enum { HEAD = sizeof(struct lend_pkt), EXHAUSTED = 8, FLOOD = 5000 };

/* Takes the newest CONNECT of side 0 off its wire. */
static struct pair_dgram take_connect(struct core_pair *d)
{
	struct pair_dgram g;

	pair_output(d, 0);
	cr_assert_gt(d->side[0].n, 0);
	g = d->side[0].wire[--d->side[0].n];
	cr_assert_eq(g.data[2], LEND_PKT_CONNECT);
	return g;
}

static struct lend_pkt_connect *connect_block(struct pair_dgram *g)
{
	return (struct lend_pkt_connect *)(void *)(g->data + HEAD);
}

/* Delivers it to side 1 from this address. */
static void deliver_from(struct core_pair *d, struct pair_dgram *g, uint32_t address)
{
	struct lend_in in = {.data = g->data,
			     .len = g->len,
			     .peer = LEND_PEER(0, address),
			     .addr = &address,
			     .addr_len = sizeof(address)};

	lend_core_input(d->side[1].core, d->now, &d->side[1].bufs, &in, 1);
}

/* Returns the only datagram that side 1 sends, which must be of this kind. */
static struct pair_dgram only_answer(struct core_pair *d, uint8_t kind)
{
	struct pair_dgram g;

	d->side[1].n = 0;
	pair_output(d, 1);
	cr_assert_eq(d->side[1].n, 1);
	g = d->side[1].wire[0];
	d->side[1].n = 0;
	cr_assert_eq(g.data[2], kind, "kind %u", g.data[2]);
	return g;
}

static uint32_t free_sessions(const struct core_pair *d)
{
	return d->side[1].core->free_sess.free;
}

/* A server of four sessions with one half open: the next client needs a cookie. */
static void open_busy(struct core_pair *d)
{
	struct pair_dgram other;

	pair_open(d, false);
	d->quiet = true;
	pair_connect(d);
	other = take_connect(d);
	deliver_from(d, &other, 7);
	pair_output(d, 1);
	d->side[1].n = 0;
	lend_core_disconnect(d->side[0].core, lend_sess_at(d->side[0].core, 0)->id);
	pair_output(d, 0);
	d->quiet = false;
	pair_forget(d);
}

Test(retry, a_cookie_is_returned_and_the_session_opens)
{
	struct core_pair d;

	open_busy(&d);
	d.side[0].session = pair_connect(&d);
	pair_settle(&d);
	pair_expect(&d,
		    "0> CONNECT\n1> RETRY\n0> CONNECT\n1> ACCEPT\n0 up\n0> PING\n1 up\n1> ACK\n");
	cr_assert_eq(lend_core_stats(d.side[1].core)->retries, 1);
	pair_close(&d);
}

/* RETRY, the second CONNECT and its answer are lost: the same bytes are sent again. */
static bool lose_three(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)from, (void)v;
	return nth == 1 || nth == 3 || nth == 5;
}

Test(retry, retry__any_datagram_lost__is_resent)
{
	struct core_pair d;

	open_busy(&d);
	d.side[0].session = pair_connect(&d);
	d.nth = 0;
	d.lose = lose_three;
	pair_pass(&d, 1000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP], 1);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 1);
	pair_close(&d);
}

Test(retry, a_cookie_opens_for_its_address_its_attempt_and_ten_seconds)
{
	static const struct {
		const char *what;
		uint32_t address;
		lend_ns later;
		uint8_t flip; /* byte of the cookie; 0xff: of the attempt's number */
		bool opens;
	} row[] = {
	    {"unchanged", 1, 0, 0xfe, true},
	    {"after nine seconds", 1, 9000 * MS, 0xfe, true},
	    {"after ten seconds", 1, 10001 * MS, 0xfe, false},
	    {"from elsewhere", 2, 0, 0xfe, false},
	    {"with another time", 1, 0, 0, false},
	    {"with another mac", 1, 0, 8, false},
	    {"with the last byte changed", 1, 0, 23, false},
	    {"of another attempt", 1, 0, 0xff, false},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct pair_dgram g, retry, other;
		struct core_pair d;

		open_busy(&d);
		d.quiet = true;
		pair_connect(&d);
		g = take_connect(&d);
		deliver_from(&d, &g, 1);
		retry = only_answer(&d, LEND_PKT_RETRY);
		memcpy(&connect_block(&g)->cookie,
		       retry.data + HEAD + offsetof(struct lend_pkt_retry, cookie),
		       sizeof(struct lend_pkt_cookie));
		if (row[i].flip < sizeof(struct lend_pkt_cookie))
			((uint8_t *)&connect_block(&g)->cookie)[row[i].flip] ^= 1;
		connect_block(&g)->connect ^= row[i].flip == 0xff;
		d.now += row[i].later;
		lend_core_tick(d.side[1].core, d.now);
		pair_connect(&d); /* half open again, if the first has timed out */
		other = take_connect(&d);
		deliver_from(&d, &other, 8);
		pair_output(&d, 1);
		deliver_from(&d, &g, row[i].address);
		(void)only_answer(&d, row[i].opens ? LEND_PKT_ACCEPT : LEND_PKT_RETRY);
		pair_close(&d);
	}
}

/* All are forged, so none is ever proven. The accepted session and the earlier half-open one
 * continue. */
Test(retry, a_flood_takes_no_session_from_another)
{
	struct pair_dgram g, accept;
	struct core_pair d;

	pair_open(&d, false);
	d.on_end = pair_give_at_end;
	d.on_request = pair_answer;
	pair_up(&d);
	d.quiet = true;
	pair_connect(&d);
	g = take_connect(&d);
	deliver_from(&d, &g, 1);
	accept = only_answer(&d, LEND_PKT_ACCEPT);
	for (uint32_t i = 0; i < FLOOD; i++) {
		connect_block(&g)->connect += 2;
		connect_block(&g)->session += 1 << 24;
		deliver_from(&d, &g, 2 + i);
		pair_output(&d, 1);
		d.side[1].n = 0;
		cr_assert_geq(free_sessions(&d), 2, "after %u", i);
	}
	cr_assert_eq(lend_core_stats(d.side[1].core)->retries, FLOOD);
	pair_inject(&d, 0, accept.data, accept.len);
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 0);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 2, "the one that was half open");
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 0);
	pair_pass(&d, 100 * MS);
	pair_close(&d);
}

/* Of 1,024 sessions 512 may be half open, and a quarter of these need no cookie. */
static void many_sessions(struct lend_core_config *c)
{
	c->sessions = 1024;
}

Test(retry, many_half_open_sessions_need_cookies)
{
	struct pair_dgram g;
	struct core_pair d;

	pair_open_with(&d, false, many_sessions);
	d.quiet = true;
	pair_connect(&d);
	g = take_connect(&d);
	for (uint32_t i = 0; i < 200; i++) {
		connect_block(&g)->connect += 2;
		deliver_from(&d, &g, 2 + i);
		(void)only_answer(&d, i < 128 ? LEND_PKT_ACCEPT : LEND_PKT_RETRY);
		d.now += MS / 2;
	}
	pair_pass(&d, 6000 * MS); /* all half-open sessions end */
	connect_block(&g)->connect += 2;
	deliver_from(&d, &g, 200);
	(void)only_answer(&d, LEND_PKT_ACCEPT);
	pair_close(&d);
}

static bool small_server;
static void a_small_server(struct lend_core_config *c)
{
	c->sessions = small_server ? 2 : 4;
	small_server = !small_server;
}

/* Sessions that were accepted before stay. */
Test(retry, a_server_without_a_session_refuses)
{
	struct core_pair d;

	small_server = false;
	pair_open_with(&d, true, a_small_server);
	d.quiet = true;
	for (int i = 0; i < 4; i++)
		pair_connect(&d);
	pair_settle(&d);
	cr_assert_eq(lend_core_stats(d.side[1].core)->refused, 2);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP], 2);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 2);
	cr_assert_eq(d.side[0].ev[LEND_EV_SESSION_DOWN].status, EXHAUSTED);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 0);
	pair_close(&d);
}

/* One peer has all sessions, without any calls. A datagram without a proven address ends none of
 * them. */
Test(retry, an_idle_session_ends_for_a_proven_address_only)
{
	struct pair_dgram g, retry;
	struct core_pair d;

	small_server = false;
	pair_open_with(&d, false, a_small_server);
	d.quiet = true;
	pair_connect(&d);
	pair_connect(&d);
	pair_settle(&d);
	cr_assert_eq(free_sessions(&d), 0);
	pair_connect(&d);
	g = take_connect(&d);
	for (uint32_t i = 0; i < FLOOD; i++) {
		connect_block(&g)->connect += 2;
		deliver_from(&d, &g, 2 + i);
		retry = only_answer(&d, LEND_PKT_RETRY);
	}
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 0);
	memcpy(&connect_block(&g)->cookie,
	       retry.data + HEAD + offsetof(struct lend_pkt_retry, cookie),
	       sizeof(struct lend_pkt_cookie));
	deliver_from(&d, &g, 1 + FLOOD);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 1);
	cr_assert_eq(lend_core_stats(d.side[1].core)->idle_evicted, 1);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 1, "its client is notified");
	pair_close(&d);
}

/* A refusal ends the session that it names and its calls, which did not run; a forged refusal ends
 * nothing. */
Test(retry, a_refusal_ends_the_calls)
{
	struct {
		struct lend_pkt head;
		struct lend_pkt_retry retry;
	} g = {
	    .head = {.magic = LEND_PKT_MAGIC, .version = LEND_PKT_VERSION, .kind = LEND_PKT_RETRY},
	    .retry = {.reason = LEND_RETRY_FULL}};
	const struct lend_event *e;
	struct pair_dgram connect;
	struct core_pair d;

	pair_open(&d, true);
	d.on_end = pair_give_at_end;
	d.side[0].session = pair_connect(&d);
	pair_call(&d, 0, 0, LEND_NEVER);
	connect = take_connect(&d);
	g.head.session = connect_block(&connect)->session;
	g.retry.connect = connect_block(&connect)->connect ^ 1;
	pair_inject(&d, 0, &g, sizeof(g));
	g.retry.connect ^= 1;
	g.retry.reason = LEND_RETRY_LEVEL + 1;
	pair_inject(&d, 0, &g, sizeof(g));
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 0);
	cr_assert_eq(lend_core_stats(d.side[0].core)->rx_state, 2);
	g.retry.reason = LEND_RETRY_FULL;
	pair_forget(&d);
	pair_inject(&d, 0, &g, sizeof(g));
	pair_expect(&d, "0 call_end status 8 ran 0 len 0\n0 down 8\n");
	e = &d.side[0].ev[LEND_EV_CALL_END];
	cr_assert_eq(e->status, EXHAUSTED);
	pair_close(&d);
}

/* A client obeys three at most, so that a forger cannot keep it busy. */
Test(retry, a_client_comes_again_three_times_at_once)
{
	struct pair_dgram g, retry;
	struct core_pair d;

	open_busy(&d);
	d.quiet = true;
	d.side[0].session = pair_connect(&d);
	g = take_connect(&d);
	deliver_from(&d, &g, 1);
	retry = only_answer(&d, LEND_PKT_RETRY);
	for (int i = 0; i < 5; i++) {
		uint32_t before = d.side[0].n;

		pair_inject(&d, 0, retry.data, retry.len);
		lend_core_tick(d.side[0].core, d.now);
		pair_output(&d, 0);
		cr_assert_eq(d.side[0].n - before, i < 3 ? 1 : 0, "RETRY %d", i);
	}
	pair_close(&d);
}

Test(retry, connect__with_cookie__same_bytes_otherwise)
{
	struct pair_dgram first, second, retry;
	struct core_pair d;

	open_busy(&d);
	d.quiet = true;
	d.side[0].session = pair_connect(&d);
	first = take_connect(&d);
	deliver_from(&d, &first, 1);
	retry = only_answer(&d, LEND_PKT_RETRY);
	pair_inject(&d, 0, retry.data, retry.len);
	lend_core_tick(d.side[0].core, d.now);
	second = take_connect(&d);
	cr_assert_neq(connect_block(&second)->cookie.time, 0);
	connect_block(&second)->cookie = connect_block(&first)->cookie;
	cr_assert_eq(first.len, second.len);
	cr_assert_eq(
	    memcmp(connect_block(&first), connect_block(&second), sizeof(struct lend_pkt_connect)),
	    0);
	pair_close(&d);
}
