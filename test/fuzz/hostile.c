#include "fuzz/hostile.h"

#include <stdio.h>

#include "fuzz/finding.h"

static uint64_t some_session(struct choice *c, const struct world_side *s)
{
	uint32_t b = choice_of(c, 8);

	if (b < 5 && s->session_n)
		return s->session[b % s->session_n];
	if (b < 7 && s->sessions.n) /* an earlier one, or of another generation */
		return s->sessions.handle[choice_of(c, lend_min_u32(s->sessions.n, WORLD_MANY))] ^
		       UINT64_C(1) << (24 + choice_of(c, 40));
	return choice_edge(c);
}

static uint64_t some_number(struct choice *c, const struct world_side *s)
{
	uint32_t b = choice_u8(c);

	return b < 200 ? s->number + b % 80 : choice_edge(c);
}

static uint32_t some_offset(struct choice *c)
{
	static const uint32_t edge[] = {0, 1, 415, 416, 832, 4096, 4160, 12480, UINT32_MAX};

	return choice_rare(c, 4) ? (uint32_t)choice_edge(c) : edge[choice_of(c, 9)];
}

static void flip_bits(struct choice *c, struct world_dgram *d)
{
	if (d->len > sizeof(struct lend_pkt))
		d->data[sizeof(struct lend_pkt) +
			choice_u16(c) % (d->len - sizeof(struct lend_pkt))] ^=
		    1 + choice_of(c, 255);
}

static void cut_datagram(struct choice *c, struct world_dgram *d)
{
	d->len = choice_u16(c) % (d->len + 1);
}

/* Overwrites a number of the block behind the header. */
static void set_block(struct choice *c, struct world_dgram *d)
{
	uint32_t at = sizeof(struct lend_pkt) + 4 * choice_of(c, 14);
	uint64_t v = choice_edge(c);

	if (at + 8 <= d->len)
		memcpy(d->data + at, &v, choice_rare(c, 2) ? 8 : 4);
}

static void mutate_once(struct choice *c, const struct world_side *s, struct world_dgram *d)
{
	struct lend_pkt head;

	memcpy(&head, d->data, sizeof(head));
	switch (choice_of(c, 12)) {
	case 0:
		head.kind = (uint8_t)choice_of(c, LEND_PKT_KINDS + 1);
		break;
	case 1:
		head.flags ^= (uint8_t)(1u << choice_of(c, choice_rare(c, 8) ? 8 : 5));
		break;
	case 2:
		head.call ^= 1u << choice_of(c, 12);
		break;
	case 3:
		head.call = lend_pkt_call(choice_of(c, 6), choice_of(c, 8));
		break;
	case 4:
		head.number = some_number(c, s);
		break;
	case 5:
		head.offset = some_offset(c);
		break;
	case 6:
		head.length = some_offset(c);
		break;
	case 7:
		head.session = some_session(c, s);
		break;
	case 8:
		flip_bits(c, d);
		return;
	case 9:
		cut_datagram(c, d);
		return;
	default:
		set_block(c, d);
		return;
	}
	memcpy(d->data, &head, sizeof(head));
}

void hostile_mutate(struct choice *c, int to, struct world_dgram *d)
{
	const struct world_side *s = &world.side[to];
	struct lend_pkt head;

	if (!s->tape_n) {
		hostile_invent(c, to, d);
		return;
	}
	*d = s->tape[(s->tape_n - 1 - choice_of(c, lend_min_u32(s->tape_n, WORLD_TAPE))) %
		     WORLD_TAPE];
	memcpy(&head, d->data, sizeof(head));
	/* Rarely the old number: the core mostly drops a retransmission early. */
	if (!choice_rare(c, 4))
		head.number = some_number(c, s);
	memcpy(d->data, &head, sizeof(head));
	for (uint32_t n = 1 + choice_of(c, 4); n > 0; n--)
		mutate_once(c, s, d);
	(void)choice_u8(c); /* decides nothing; the corpus has a byte for it */
}

static uint32_t block_of(uint8_t kind, uint8_t flags)
{
	bool seen = flags & LEND_PKT_ACKED || kind == LEND_PKT_ACK || kind == LEND_PKT_PROBE;

	if (kind == 0 || kind >= LEND_PKT_KINDS)
		return 0;
	return (uint32_t)lend_pkt_block_len(kind) + (seen ? sizeof(struct lend_pkt_seen) : 0) +
	       (kind == LEND_PKT_CONNECT ? sizeof(struct lend_pkt_connect_end) : 0);
}

static struct lend_pkt_params some_params(struct choice *c)
{
	return (struct lend_pkt_params){
	    .incarnation = {9},
	    .payload = choice_rare(c, 8) ? choice_of(c, 256) : 64 + 16 * choice_of(c, 23),
	    .unscheduled = choice_rare(c, 4) ? (uint32_t)choice_edge(c) : 4096,
	    .message_max = choice_rare(c, 4) ? (uint32_t)choice_edge(c) : WORLD_BUF_MAX,
	    .calls = choice_rare(c, 4) ? choice_of(c, 9) : 4};
}

static void some_connect(struct choice *c, struct lend_pkt_connect *b)
{
	b->params = some_params(c);
	b->connect = choice_of(c, 6);
	b->session = (uint64_t)1 << 30 | choice_of(c, 4);
	b->pattern = choice_rare(c, 4) ? choice_of(c, 3) : 0;
	b->key_id = choice_of(c, 3);
}

static void some_accept(struct choice *c, struct lend_pkt_accept *b)
{
	b->params = some_params(c);
	b->connect = choice_of(c, 6);
	b->session = (uint64_t)1 << 30 | choice_of(c, 4);
	b->pattern = choice_rare(c, 4) ? choice_of(c, 3) : 0;
	b->zero_rtt = choice_of(c, 4);
}

/* A report that a peer could send at this moment: it knows what was sent to it. */
static void some_seen(struct choice *c, int to, struct lend_pkt_seen *seen)
{
	seen->acked = world.side[!to].number - choice_of(c, 8);
	seen->map = choice_rare(c, 2) ? UINT64_MAX : choice_edge(c);
	seen->delay_ns = (uint32_t)choice_edge(c);
	seen->ecn = choice_u8(c);
}

/* Valid blocks for a header of this kind; set_block() spoils them. */
static void fill_blocks(struct choice *c, int to, const struct lend_pkt *head, uint8_t *at)
{
	union {
		struct lend_pkt_connect connect;
		struct lend_pkt_accept accept;
		struct lend_pkt_retry retry;
		struct lend_pkt_request request;
		struct lend_pkt_reply reply;
		struct lend_pkt_ack ack;
	} block = {0};
	struct lend_pkt_seen seen;
	size_t len = block_of(head->kind, 0);

	if (head->kind == LEND_PKT_CONNECT)
		some_connect(c, &block.connect);
	else if (head->kind == LEND_PKT_ACCEPT)
		some_accept(c, &block.accept);
	else if (head->kind == LEND_PKT_RETRY)
		block.retry = (struct lend_pkt_retry){
		    .connect = choice_of(c, 6), .reason = choice_of(c, 4), .wait_ms = choice_u8(c)};
	else if (head->kind == LEND_PKT_REQUEST)
		block.request = (struct lend_pkt_request){1, choice_u8(c) * 1000u, some_offset(c)};
	else if (head->kind == LEND_PKT_REPLY)
		block.reply = (struct lend_pkt_reply){
		    .status = choice_u8(c), .ran = choice_u8(c), .delay_ns = UINT32_MAX};
	else if (head->kind == LEND_PKT_ACK || head->kind == LEND_PKT_PROBE)
		block.ack = (struct lend_pkt_ack){some_offset(c), some_offset(c)};
	if (head->kind == LEND_PKT_ACK || head->kind == LEND_PKT_PROBE)
		len -= sizeof(seen);
	if (head->kind == LEND_PKT_CONNECT)
		len -= sizeof(struct lend_pkt_connect_end);
	memcpy(at, &block, len);
	if (block_of(head->kind, head->flags) > len) {
		some_seen(c, to, &seen);
		memcpy(at + len, &seen, sizeof(seen));
	}
}

/* Fills the payload of a CALLS datagram with frames, some of them faulty. Returns its length. */
static uint32_t invent_frames(struct choice *c, uint8_t *to, uint32_t most)
{
	uint32_t at = 0;

	for (uint32_t n = 1 + choice_of(c, 4); n > 0; n--) {
		struct lend_pkt_frame f = {
		    .call =
			choice_rare(c, 8) ? 0 : lend_pkt_call(choice_of(c, 5), choice_of(c, 16)),
		    .length =
			(uint16_t)(choice_rare(c, 8) ? choice_u8(c) * 256u : choice_of(c, 80)),
		    .flags = (uint8_t)choice_of(c, choice_rare(c, 8) ? 256 : 16),
		    .zero = (uint8_t)choice_rare(c, 32)};

		if (f.flags & LEND_PKT_SERVED)
			f.reply = (struct lend_pkt_reply){.status = choice_of(c, 20),
							  .ran = choice_u8(c),
							  .patience_ms = LEND_PATIENCE_KEPT,
							  .delay_ns = UINT32_MAX};
		else
			f.request = (struct lend_pkt_request){1, choice_u8(c) * 1000u, 416};
		if (at + lend_pkt_frame_len(f.length) > most)
			break;
		memcpy(to + at, &f, sizeof(f));
		at += lend_pkt_frame_len(f.length);
	}
	return at;
}

void hostile_invent(struct choice *c, int to, struct world_dgram *d)
{
	const struct world_side *s = &world.side[to];
	struct lend_pkt head = {.magic = LEND_PKT_MAGIC, .version = LEND_PKT_VERSION};
	uint32_t payload = choice_rare(c, 2) ? 416 : choice_of(c, 80);

	head.kind = (uint8_t)choice_of(c, LEND_PKT_KINDS + 1);
	head.flags = (uint8_t)choice_of(c, choice_rare(c, 8) ? 256 : 32);
	head.call = lend_pkt_call(choice_of(c, 5), choice_of(c, 16));
	head.session = some_session(c, s);
	head.number = some_number(c, s);
	head.offset = choice_rare(c, 4) ? some_offset(c) : 416 * choice_of(c, 12);
	head.length = choice_rare(c, 2) ? payload : some_offset(c);
	if (head.kind == LEND_PKT_ACK || head.kind == LEND_PKT_PROBE) {
		head.offset = choice_of(c, 4);
		head.length = choice_of(c, 4);
	} else if (head.kind == LEND_PKT_CONNECT && !choice_rare(c, 4)) {
		head.call = 0; /* no 0-RTT request follows */
	}
	if (head.kind != LEND_PKT_REQUEST && head.kind != LEND_PKT_REPLY && !choice_rare(c, 16))
		payload = 0;
	memset(d->data, 0, sizeof(d->data));
	if (head.kind == LEND_PKT_CALLS && !choice_rare(c, 16)) {
		size_t at = sizeof(head) + block_of(head.kind, head.flags);

		payload = invent_frames(c, d->data + at, (uint32_t)(sizeof(d->data) - at) - 16);
		head.call = 0;
		head.offset = 0;
		head.length = payload;
	}
	memcpy(d->data, &head, sizeof(head));
	fill_blocks(c, to, &head, d->data + sizeof(head));
	d->len = (uint32_t)sizeof(head) + block_of(head.kind, head.flags) + payload;
	for (uint32_t n = choice_rare(c, 3) ? choice_of(c, 4) : 0; n > 0; n--)
		set_block(c, d);
	(void)choice_u8(c); /* decides nothing; the corpus has a byte for it */
}

void hostile_raw(struct choice *c, struct world_dgram *d)
{
	d->len = choice_of(c, 81);
	for (uint32_t i = 0; i < d->len; i++)
		d->data[i] = choice_u8(c);
}

enum owed { ANYTHING, NOTHING, A_RESET, NOTHING_BUT_RESETS };

static bool is_nonsense(const struct lend_pkt_connect *b)
{
	return b->params.payload < 64 || b->params.payload % 16 || !b->params.calls ||
	       !b->session || b->pattern >= LEND_PATTERN_NN || b->least;
}

/* Permitted effects of such a datagram, judged without the core except for its API. */
static enum owed judge_datagram(int to, const struct world_dgram *d, uint32_t index)
{
	struct world_side *s = &world.side[to];
	struct lend_pkt_view v;
	uint8_t incarnation[16];
	uint32_t peer;

	if (d->len > s->core->cfg.path[world.carrier].mtu || lend_pkt_decode(&v, d->data, d->len))
		return NOTHING;
	if (v.head.kind == LEND_PKT_CONNECT)
		return is_nonsense(&v.connect) ? NOTHING : ANYTHING;
	if (v.head.kind == LEND_PKT_RESET)
		return NOTHING_BUT_RESETS;
	if (lend_core_session_peer(s->core, v.head.session, &peer, incarnation))
		return v.head.session && v.head.kind != LEND_PKT_RETRY ? A_RESET : NOTHING;
	return peer == world_peer(index) ? ANYTHING : NOTHING;
}

static void queue_reset(struct lend_core *c, const struct world_dgram *d, uint32_t index)
{
	struct lend_ctl e = {.sess = LEND_NONE, .peer = world_peer(index), .kind = LEND_PKT_RESET};
	struct lend_pkt head;

	memcpy(&head, d->data, sizeof(head));
	e.id = head.session;
	if (c->ctl_n < LEND_CTL)
		LEND_AT(c, at_ctl, struct lend_ctl)[(c->ctl_head + c->ctl_n++) % LEND_CTL] = e;
}

static uint64_t waiting_events(const struct lend_core *core)
{
	return lend_unhashed((struct lend_core *)(uintptr_t)core)->ev_n;
}

/* Names the field, since a dump of the arena does not help. */
static void compare_cores(const struct lend_core *was, const struct lend_core *is,
			  const struct world_dgram *d)
{
	const uint8_t *a = (const void *)was, *b = (const void *)is;

	if (memcmp(was, is, was->hashed) == 0)
		return;
	for (size_t i = 0; i < was->hashed; i++)
		if (a[i] != b[i])
			fprintf(stderr, "arena byte %zu: %02x, now %02x\n", i, a[i], b[i]);
	fprintf(stderr, "sessions at %zu, calls %zu, slots %zu and %zu, control %zu; kind %u\n",
		is->at_sess, is->at_calls, is->at_cslot, is->at_sslot, is->at_ctl, d->data[2]);
	FUZZ_CHECK(false, "a datagram without a session changed the state");
}

void hostile_feed(int to, const struct world_dgram *d, uint32_t index)
{
	static _Alignas(64) uint8_t before[1 << 18];
	struct lend_core *core = world.side[to].core, *was = (void *)before;
	enum owed owed = judge_datagram(to, d, index);
	const struct lend_core_stats *stats = lend_core_stats(core);
	uint64_t full = stats->rx_full, resets = stats->rx_reset, events;

	FUZZ_CHECK(core->hashed <= sizeof(before), "the arena grew: make room");
	fuzz_hostile++;
	if (owed == ANYTHING) {
		world.forged = true;
		world_input(to, d->data, d->len, index);
		return;
	}
	if (!world.deaf)
		world_poll(to); /* supplying later events is not the datagram's effect */
	events = waiting_events(core);
	memcpy(before, core, core->hashed);
	was->now = world.now;
	world_input(to, d->data, d->len, index);
	if (owed == NOTHING_BUT_RESETS && stats->rx_reset != resets)
		return;
	if (owed == A_RESET && stats->rx_full == full)
		queue_reset(was, d, index);
	FUZZ_CHECK(waiting_events(core) <= events, "an event for a datagram without a session");
	compare_cores(was, core, d);
}
