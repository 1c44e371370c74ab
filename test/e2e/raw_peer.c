#include "e2e/raw_peer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "lend/rpc.h"
#include "sys/clock.h"
#include "sys/last_error.h"
#include "util/bits.h"
#include "util/crc32c.h"

enum { BURST = 64, REPEAT_NS = 50000000 };
#define PATIENCE UINT64_C(20000000000) /* ns until a missing answer fails the test */
#define OWN_ID   (UINT64_C(1) << 30)   /* the ids of this peer's sessions count from here */

static uint8_t zeros[RAW_PAYLOAD];

void raw_open(struct raw_peer *p, const char *address)
{
	struct lend_io_config config = {.peer = address};
	lend_ns end = lend_clock_now() + PATIENCE;
	struct lend_in in[BURST];
	int rc;

	memset(p, 0, sizeof(*p));
	cr_assert_eq(lend_io_open(&config, &p->io), 0, "%s", lend_why_text());
	while ((rc = p->io->ops->resolve(p->io, address, &p->server)) == -EINPROGRESS) {
		(void)p->io->ops->rx(p->io, in, BURST);
		p->io->ops->rx_done(p->io);
		cr_assert_lt(lend_clock_now(), end);
	}
	cr_assert_eq(rc, 0, "%s", lend_why_text());
}

void raw_close(struct raw_peer *p)
{
	p->io->ops->close(p->io);
}

/* Sends head_len bytes of this header, then payload_len zero bytes. */
static void send_datagram(struct raw_peer *p, struct lend_pkt *head, uint32_t head_len,
			  uint32_t payload_len)
{
	struct lend_seg seg[2] = {{0}, {.data = zeros, .len = RAW_PAYLOAD, .cap = RAW_PAYLOAD}};
	struct lend_bufs bufs = {.seg = seg, .n = 2};
	struct lend_pkt_trailer trailer = {0};
	struct lend_out out = {.head = head,
			       .head_len = (uint8_t)head_len,
			       .tail = &trailer,
			       .tail_len = p->io->path.checked ? 0 : sizeof(trailer),
			       .peer = p->server,
			       .n = payload_len > 0,
			       .piece = {{.buf = 1, .len = payload_len}}};

	head->magic = LEND_PKT_MAGIC;
	head->version = LEND_PKT_VERSION;
	trailer.crc = lend_crc32c(lend_crc32c(0, head, head_len), zeros, payload_len);
	do
		p->io->ops->tx(p->io, &bufs, &out, 1);
	while (out.sent == LEND_SENT_FULL && !atomic_load(&p->stop));
}

static void send_connect(struct raw_peer *p, uint32_t session)
{
	struct {
		struct lend_pkt head;
		struct lend_pkt_connect connect;
		struct lend_pkt_connect_end end;
	} d = {.head = {.kind = LEND_PKT_CONNECT}};

	d.connect = (struct lend_pkt_connect){.connect = session + 1,
					      .session = OWN_ID + session,
					      .cookie = p->cookie,
					      .params = {.incarnation = "a raw peer",
							 .payload = RAW_PAYLOAD,
							 .unscheduled = RAW_PAYLOAD,
							 .message_max = 1 << 24,
							 .calls = LEND_CALLS_MAX}};
	send_datagram(p, &d.head, sizeof(d), 0);
}

static void send_ping(struct raw_peer *p, uint32_t session)
{
	struct raw_session *s = &p->session[session];
	struct lend_pkt head = {.kind = LEND_PKT_PING, .session = s->id, .number = ++s->number};

	send_datagram(p, &head, sizeof(head), 0);
}

/* Answers a PING: reports only this datagram as received. */
static void send_pong(struct raw_peer *p, uint32_t session, uint64_t seen)
{
	struct raw_session *s = &p->session[session];
	struct {
		struct lend_pkt head;
		struct lend_pkt_ack ack;
		struct lend_pkt_seen seen;
	} d = {.head = {.kind = LEND_PKT_ACK, .session = s->id, .number = ++s->number},
	       .seen = {.acked = seen, .delay_ns = UINT32_MAX}};

	send_datagram(p, &d.head, sizeof(d), 0);
}

void raw_request(struct raw_peer *p, uint32_t session, uint32_t slot, uint32_t method, uint32_t len)
{
	struct raw_session *s = &p->session[session];
	struct {
		struct lend_pkt head;
		struct lend_pkt_request request;
	} d = {.head = {.kind = LEND_PKT_REQUEST,
			.flags = LEND_NORMAL,
			.call = lend_pkt_call(slot, 1),
			.session = s->id,
			.number = ++s->number,
			.length = len},
	       .request = {.method = method, .left_us = UINT32_MAX}};

	send_datagram(p, &d.head, sizeof(d.head) + sizeof(d.request),
		      lend_min_u32(len, RAW_PAYLOAD));
}

static void on_retry(struct raw_peer *p, const struct lend_pkt_retry *retry)
{
	p->answers++;
	p->cookie = retry->cookie;
	p->refused += retry->reason == LEND_RETRY_FULL;
}

static void count_reply(struct raw_peer *p, const struct lend_pkt_view *v)
{
	p->replies++;
	p->exhausted += v->reply.status == LEND_RESOURCE_EXHAUSTED;
}

static void take_frames(struct raw_peer *p, const struct lend_pkt_view *v)
{
	struct lend_pkt_view f;
	uint32_t at = 0;

	while (at < v->payload_len && lend_pkt_decode_frame(&f, v->payload, v->payload_len, &at))
		if (f.head.flags & LEND_PKT_SERVED)
			count_reply(p, &f);
}

static void take_datagram(struct raw_peer *p, const struct lend_in *in)
{
	struct lend_pkt_view v;
	struct raw_session *s;
	uint32_t session;
	uint32_t trailer = p->io->path.checked ? 0 : sizeof(struct lend_pkt_trailer);

	if (in->gone || in->len < trailer ||
	    lend_pkt_decode(&v, in->data, in->len - trailer) != LEND_PKT_OK)
		return;
	p->resets += v.head.kind == LEND_PKT_RESET;
	session = (uint32_t)(v.head.session - OWN_ID);
	if (session >= RAW_SESSIONS)
		return;
	s = &p->session[session];
	if (v.head.kind == LEND_PKT_ACCEPT) {
		p->answers++;
		s->id = v.accept.session;
	} else if (v.head.kind == LEND_PKT_RETRY) {
		on_retry(p, &v.retry);
	} else if (v.head.kind == LEND_PKT_PING) {
		send_pong(p, session, v.head.number);
	} else if (v.head.kind == LEND_PKT_REPLY) {
		count_reply(p, &v);
	} else if (v.head.kind == LEND_PKT_CALLS) {
		take_frames(p, &v);
	} else if (v.head.kind == LEND_PKT_ACK && v.head.call == 0) {
		p->answers++;
		s->seen = v.seen.acked;
	} else if (v.head.kind == LEND_PKT_ACK) {
		p->acks++;
	}
}

/* Takes the datagrams that have arrived, without waiting; returns their number. */
static uint32_t receive_all(struct raw_peer *p)
{
	struct lend_in in[BURST];
	uint32_t n = p->io->ops->rx(p->io, in, BURST);

	for (uint32_t i = 0; i < n; i++)
		take_datagram(p, &in[i]);
	p->io->ops->rx_done(p->io);
	return n;
}

/* Sends a datagram repeatedly until the server answers with ACCEPT, RETRY or the ACK of a PING. */
static void send_until_answered(struct raw_peer *p, void (*send)(struct raw_peer *, uint32_t),
				uint32_t session)
{
	lend_ns now = lend_clock_now(), end = now + PATIENCE, next = now;
	uint64_t answers = p->answers;

	while (p->answers == answers) {
		if (now >= next) {
			send(p, session);
			next = now + REPEAT_NS;
		}
		(void)receive_all(p);
		now = lend_clock_now();
		cr_assert_lt(now, end, "session %u: no answer", session);
	}
}

static bool connect_one(struct raw_peer *p)
{
	const struct raw_session *s = &p->session[p->n];
	uint64_t refused = p->refused;

	do
		send_until_answered(p, send_connect, p->n);
	while (!s->id && p->refused == refused);
	if (s->id)
		send_until_answered(p, send_ping, p->n++);
	return s->id;
}

uint32_t raw_connect(struct raw_peer *p, uint32_t n)
{
	uint32_t up = 0;

	for (uint32_t i = 0; i < n && p->n < RAW_SESSIONS; i++)
		up += connect_one(p);
	return up;
}

void raw_sync(struct raw_peer *p)
{
	const struct raw_session *s = &p->session[0];
	uint64_t sent = s->number;

	while (s->seen <= sent)
		send_until_answered(p, send_ping, 0);
}

static void *run_idle(void *arg)
{
	struct raw_peer *p = arg;

	while (!atomic_load(&p->stop)) {
		struct pollfd fd = {.fd = p->io->ops->fd(p->io), .events = POLLIN};

		if (receive_all(p) == 0 && p->io->ops->arm(p->io))
			(void)poll(&fd, 1, 10);
	}
	return NULL;
}

void raw_idle(struct raw_peer *p)
{
	cr_assert_eq(pthread_create(&p->thread, NULL, run_idle, p), 0);
}

void raw_idle_end(struct raw_peer *p)
{
	atomic_store(&p->stop, true);
	pthread_join(p->thread, NULL);
}
