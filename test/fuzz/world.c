#include "fuzz/world.h"

#include <stdlib.h>

#include "fuzz/finding.h"
#include "scen/proof.h"

struct world world;
/* Arenas as lend_core_init() leaves them: by kind, then side. */
static struct lend_core *fresh[WORLD_KINDS][2];

static const struct lend_core_config rich = {
    .sessions = 5,
    .calls = 4,
    .inflight = 8,
    .reassemblies = 3,
    .message_max = WORLD_BUF_MAX,
    .receive_budget = 12 << 10,
    .unscheduled = 4096,
    .probe = 500 * LEND_MS,
    .dead = 5000 * LEND_MS,
    .ticket_ns = 30000 * LEND_MS,
    .attempts = 4,
    .path = {{.mtu = WORLD_MTU}, {.mtu = WORLD_MTU, .lossless = true, .proven = true}},
};

uint32_t world_peer(uint32_t index)
{
	return LEND_PEER(world.carrier, index);
}

/* Poor: memory for one message in each direction at a time, small budget. Lopsided: side 1's path
 * has a smaller MTU. */
static void make_fresh(int kind, int side)
{
	struct lend_core_config c = rich;
	size_t size;

	if (kind & WORLD_POOR) {
		c.reassemblies = 1;
		c.receive_budget = 1000;
		c.inflight = 5;
	}
	if (kind & WORLD_LOPSIDED && side == 1)
		c.path[0].mtu = c.path[1].mtu = 400;
	size = lend_core_size(&c);
	memset(c.incarnation, side + 1, sizeof(c.incarnation));
	memset(c.seed, side + 7, sizeof(c.seed));
	fresh[kind][side] = aligned_alloc(64, size);
	memset(fresh[kind][side], 0, size);
	lend_core_init(fresh[kind][side], &c, LEND_MS);
}

void world_open(uint8_t kind)
{
	static const uint8_t fast[] = {LEND_FAST_COIN, LEND_FAST_NEVER, LEND_FAST_ALWAYS,
				       LEND_FAST_COIN};
	struct lend_core *core[2] = {world.side[0].core, world.side[1].core};
	const uint8_t mode = fast[kind >> 4 & 3];

	memset(&world, 0, sizeof(world));
	world.carrier = kind % 4 == 3;
	kind = kind >> 2 & (WORLD_KINDS - 1);
	world.now = LEND_MS;
	for (int i = 0; i < 2; i++) {
		struct world_side *s = &world.side[i];

		if (!fresh[0][i]) {
			for (int k = 0; k < WORLD_KINDS; k++)
				make_fresh(k, i);
			core[i] = aligned_alloc(64, fresh[0][i]->size);
		}
		s->core = core[i];
		memcpy(s->core, fresh[kind][i], fresh[kind][i]->size);
		s->core->cfg.fast = s->core->fast = mode;
		s->bufs = (struct lend_bufs){s->seg, WORLD_BUFS};
		world_poll(i);
	}
}

static uint32_t free_buf(struct world_side *s)
{
	for (uint32_t b = 1; b < WORLD_BUFS; b++)
		if (!s->taken[b])
			return b;
	return 0;
}

/* Every message is a prefix of this text, so that a misplaced byte shows. */
static const uint8_t *message_byte(void)
{
	static uint8_t bytes[2 * WORLD_BUF_MAX];

	for (uint32_t i = 0; bytes[1] == 0 && i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(1 + i * 31 + (i >> 8) * 7);
	return bytes;
}

/* The first segments take 1 + 3 i bytes, the last one the rest: short segments are the hard
 * case. */
uint32_t world_buf(int side, uint32_t cap, uint32_t n)
{
	struct world_side *s = &world.side[side];
	uint32_t first = 0, *link = &first;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t b = free_buf(s), here = i + 1 == n ? cap : lend_min_u32(cap, i * 3);

		if (!b)
			break;
		s->taken[b] = true;
		s->seg[b] = (struct lend_seg){malloc(here ? here : 1), here, here, 0, 0};
		memset(s->seg[b].data, 0, here);
		*link = b;
		link = &s->seg[b].next;
		cap -= here;
	}
	return first;
}

uint32_t world_message(int side, uint32_t len, uint32_t n)
{
	struct world_side *s = &world.side[side];
	uint32_t first = world_buf(side, len, n), at = 0;

	for (uint32_t b = first; b; b = s->seg[b].next) {
		memcpy(s->seg[b].data, message_byte() + at, s->seg[b].len);
		at += s->seg[b].len;
	}
	return first;
}

/* The received bytes, in place or in memory of their own, are those sent; unless they could be
 * forged. */
static void expect_text(int side, const struct lend_event *e, uint32_t buf)
{
	const struct world_side *s = &world.side[side];
	uint64_t at = 0, here;

	if (world.forged)
		return;
	if (e->data)
		FUZZ_CHECK(e->data_len == e->len &&
			       memcmp(e->data, message_byte(), e->data_len) == 0,
			   "not the bytes that were sent");
	for (uint32_t b = e->data ? 0 : buf; b && at < e->len; b = s->seg[b].next) {
		here = lend_min_u64(s->seg[b].cap, e->len - at);
		FUZZ_CHECK(memcmp(s->seg[b].data, message_byte() + at, here) == 0,
			   "not the bytes that were sent");
		at += here;
	}
	FUZZ_CHECK(e->data || at == e->len, "more than its memory holds");
}

void world_give(int side, uint32_t buf)
{
	struct world_side *s = &world.side[side];

	while (buf) {
		uint32_t next = s->seg[buf].next;

		FUZZ_CHECK(buf < WORLD_BUFS && s->taken[buf], "a buffer came back twice");
		s->taken[buf] = false;
		free(s->seg[buf].data);
		buf = next;
	}
}

static void note_handle(struct world_seen *seen, uint64_t handle)
{
	seen->handle[seen->n++ % WORLD_MANY] = handle;
}

static bool take_out(uint64_t *list, uint32_t *n, uint64_t handle)
{
	for (uint32_t i = 0; i < *n; i++)
		if (list[i] == handle) {
			list[i] = list[--*n];
			return true;
		}
	return false;
}

bool world_is_running(int side, uint64_t request)
{
	const struct world_side *s = &world.side[side];

	for (uint32_t i = 0; i < s->running_n; i++)
		if (s->running[i] == request)
			return true;
	return false;
}

void world_attach(int side, uint64_t call, uint64_t len)
{
	struct world_side *s = &world.side[side];
	uint32_t b = len <= WORLD_BUF_MAX && len % 5 ? world_buf(side, (uint32_t)len, 2) : 0;

	if (lend_core_attach(s->core, call, &s->bufs, b) < 0)
		world_give(side, b);
}

static void on_need(int side, const struct lend_event *e)
{
	struct world_side *s = &world.side[side];

	note_handle(&s->needs, e->call);
	if (world.put_off && s->need_n < WORLD_MANY)
		s->need[s->need_n++] = e->call;
	else
		world_attach(side, e->call, e->len);
}

static void on_request(int side, const struct lend_event *e)
{
	struct world_side *s = &world.side[side];

	FUZZ_CHECK(!world_is_running(side, e->call), "one handle for two requests");
	FUZZ_CHECK(!e->buf || lend_min_u64(e->len, WORLD_BUF_MAX) == e->len, "too long");
	expect_text(side, e, e->buf);
	world_give(side, e->buf);
	note_handle(&s->requests, e->call);
	FUZZ_CHECK(s->running_n < WORLD_MANY, "more requests than records");
	s->running[s->running_n++] = e->call;
}

static void on_call_end(int side, const struct lend_event *e)
{
	struct world_side *s = &world.side[side];

	FUZZ_CHECK(e->tag < WORLD_CALLS && s->call_state[e->tag] == 1, "a call ended twice");
	FUZZ_CHECK(e->status <= STATUS_MAX && e->ran <= RAN_MAYBE, "an unknown outcome");
	if (e->status != RESOURCE_EXHAUSTED)
		expect_text(side, e, e->reply);
	s->call_state[e->tag] = 2;
	s->open--;
	world_give(side, e->buf);
	world_give(side, e->reply);
}

static void on_session(int side, const struct lend_event *e)
{
	struct world_side *s = &world.side[side];

	if (e->kind == LEND_EV_SESSION_DOWN) {
		FUZZ_CHECK(take_out(s->session, &s->session_n, e->session),
			   "a session ended twice");
		return;
	}
	if (e->tag)
		return; /* this side requested it */
	note_handle(&s->sessions, e->session);
	FUZZ_CHECK(s->session_n < WORLD_MANY, "more sessions than the table holds");
	s->session[s->session_n++] = e->session;
}

static void on_event(int side, const struct lend_event *e)
{
	struct world_side *s = &world.side[side];

	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_SESSION_UP:
	case LEND_EV_SESSION_DOWN:
		on_session(side, e);
		return;
	case LEND_EV_NEED:
		on_need(side, e);
		return;
	case LEND_EV_REQUEST:
		on_request(side, e);
		return;
	case LEND_EV_CALL_END:
		on_call_end(side, e);
		return;
	case LEND_EV_REPLY_END:
		FUZZ_CHECK(s->replying > 0, "a reply ended twice");
		s->replying--;
		world_give(side, e->buf);
		return;
	case LEND_EV_BUF_BACK:
		world_give(side, e->buf);
		return;
	case LEND_EV_PEER_KEEP:
		s->kept[LEND_PEER_INDEX(e->peer) % WORLD_PEERS]++;
		return;
	case LEND_EV_PROVE:
		proof_answer(s->core, world.now, e, 3);
		return;
	case LEND_EV_PEER_DROP:
		FUZZ_CHECK(s->kept[LEND_PEER_INDEX(e->peer) % WORLD_PEERS]-- > 0, "let go twice");
		return;
	case LEND_EV_CANCELLED:
		return;
	}
}

void world_poll(int side)
{
	struct world_side *s = &world.side[side];
	const struct lend_event *ev;
	uint32_t b;

	while ((ev = lend_core_next(s->core)))
		on_event(side, ev);
	while (lend_core_supply_wanted(s->core) && (b = world_buf(side, rich.unscheduled, 1)))
		lend_core_supply(s->core, b);
}

void world_tick(lend_ns later)
{
	world.now += later;
	for (int i = 0; i < 2; i++) {
		lend_core_tick(world.side[i].core, world.now);
		world_poll(i);
	}
}

int world_call(int side, uint64_t session, const struct lend_core_call *call)
{
	struct world_side *s = &world.side[side];
	struct lend_core_call c = *call;
	uint64_t handle;
	int err;

	c.tag = s->call_n;
	err = s->call_n < WORLD_CALLS
		  ? lend_core_call(s->core, world.now, session, &s->bufs, &c, &handle)
		  : E_AGAIN;
	if (err) {
		world_give(side, c.request);
		world_give(side, c.reply);
		return err;
	}
	s->call_state[s->call_n++] = 1;
	s->open++;
	note_handle(&s->calls, handle);
	return 0;
}

int world_connect(int side, uint32_t index)
{
	struct world_side *s = &world.side[side];
	uint64_t session;
	int err = lend_core_connect(s->core, world.now, world_peer(index), 1, NULL, &session);

	if (err)
		return err;
	lend_core_set_server(s->core, session, index + 1);
	/* A CONNECT to an address that this side chose is not an answer, so it is not limited. */
	s->bytes_in[index % WORLD_PEERS] += 1 << 20;
	note_handle(&s->sessions, session);
	FUZZ_CHECK(s->session_n < WORLD_MANY, "more sessions than the table holds");
	s->session[s->session_n++] = session;
	return 0;
}

/* Answers with bytes that the core copies, as most handlers do. False: the general way is to be
 * used; odd lengths always take it. */
static bool reply_short(struct world_side *s, uint64_t request, uint8_t status, uint32_t buf)
{
	const struct lend_seg *seg = &s->bufs.seg[buf];
	uint32_t len = buf ? seg->len : 0;

	return len <= LEND_KEPT_MAX && len % 2 == 0 && !(buf && seg->next) &&
	       !(status & (LEND_REPLY_HEAD | LEND_REPLY_MAYBE)) &&
	       lend_core_reply_short(s->core, world.now, request, status, seg->data, len) == 0;
}

int world_reply(int side, uint64_t request, uint8_t status, uint32_t buf)
{
	struct world_side *s = &world.side[side];
	bool runs = world_is_running(side, request);
	int err;

	if (reply_short(s, request, status, buf)) {
		FUZZ_CHECK(runs, "answered without running");
		(void)take_out(s->running, &s->running_n, request);
		world_give(side, buf);
		return 0;
	}
	err = lend_core_reply(s->core, world.now, request, &s->bufs, status, buf);
	FUZZ_CHECK(runs == (err != E_STALE), "stale without having been answered");
	if (err) {
		world_give(side, buf);
		return err;
	}
	(void)take_out(s->running, &s->running_n, request);
	s->replying++;
	return 0;
}

int world_history(const uint8_t *data, size_t len, void (*warm_up)(void),
		  world_step *const step[WORLD_STEPS])
{
	struct choice c = {.at = data, .end = data + len};
	uint8_t op;

	if (len == 0 || len > 4096)
		return -1;
	fuzz_begin();
	world_open(choice_u8(&c));
	warm_up();
	while (choice_left(&c)) {
		op = choice_u8(&c);
		step[op >> 1 & (WORLD_STEPS - 1)](&c, op & 1);
	}
	world_heal();
	return 0;
}
