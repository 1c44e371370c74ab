#include "kill/survivor.h"

#include <errno.h>
#include <string.h>

#include "cn/client.h"
#include "cn/pool/pool_client.h"

enum { FOREVER = 86400 /* seconds: longer than any run */, LONG = 9 << 20 };

int survivor_open(struct survivor *s, struct kill_page *page, uint64_t seed)
{
	struct lend_config config = LEND_CONFIG_INIT;
	int rc;

	memset(s, 0, sizeof(*s));
	s->page = page;
	lend_rng_seed(&s->rng, seed);
	config.sessions = 16;
	config.probe = 20 * MS;
	config.dead = 100 * MS;
	rc = lend_open(&config, &s->ep);
	return rc < 0 ? rc : lend_mem_open(s->ep, page->node, &s->mem);
}

void survivor_close(struct survivor *s)
{
	lend_mem_close(s->mem);
	lend_close(s->ep);
}

/* Did a worker end this client's life on its own? Updates the model if so. */
static bool follow_life(struct survivor *s, const struct cn_node *node)
{
	uint64_t was = s->life[node->worker];

	if (node->life == was)
		return true;
	s->life[node->worker] = node->life;
	if (!was)
		return true;
	s->page->fenced++;
	for (int i = 0; i < THINGS; i++) { /* the handles are still open */
		struct thing *t = &s->model.thing[i];
		struct lend_op op = {.timeout = SECOND};

		if (t->kind == THING_SPACE && t->worker == node->worker)
			(void)lend_space_free_sync(s->mem, t->space, &op);
	}
	model_fence(&s->model, node->worker);
	return false;
}

bool survivor_follow(struct survivor *s)
{
	bool same = true;

	for (uint32_t i = 0; i < s->mem->nodes; i++)
		same &= follow_life(s, s->mem->node[i]);
	return same;
}

static void add_snapshot(struct survivor *s, uint32_t len, const struct lend_ref *ref,
			 struct thing **out)
{
	struct lend_memref fields;

	cn_ref_in(&fields, ref);
	*out = model_add(&s->model, THING_SNAPSHOT, len);
	(*out)->ref = *ref;
	(*out)->worker = lend_memref_worker(&fields);
}

/* Waits for an operation that was started with rc. True: it ran, and the model must follow. */
static bool end_well(struct survivor *s, struct lend_op *op, int rc, const char *what)
{
	bool same;

	s->page->ops++;
	if (rc == 0)
		rc = lend_op_wait(s->mem, op);
	same = survivor_follow(s);
	if (rc < 0 && (same || rc != -ESTALE))
		kill_bad(s->page, "%s: %d, %s", what, rc, lend_why());
	if (rc < 0)
		return false;
	switch (op->status) {
	case LEND_OK:
		return true;
	case LEND_RESOURCE_EXHAUSTED: /* a victim filled it */
	case LEND_ABORTED: /* the lease had ended: the next operation begins another life */
		return false;
	case LEND_UNAVAILABLE:
	case LEND_DEADLINE_EXCEEDED:
		s->page->stalls++;
		if (s->page->udp)
			return false;
		break;
	default:
		break;
	}
	if (same)
		kill_bad(s->page, "%s ended with %d, ran %d", what, op->status, op->ran);
	return false;
}

static void put_thing(struct survivor *s, const struct lend_terms *terms, uint64_t seed,
		      uint32_t len, struct thing **out)
{
	static uint8_t bytes[THING_LEN];
	struct lend_op op = {.timeout = 2 * SECOND};
	struct iovec iov = {bytes, len};
	struct thing *t;

	kill_fill(bytes, len, seed);
	if (!end_well(s, &op, lend_put(s->mem, &iov, 1, terms, &op), "put"))
		return;
	add_snapshot(s, len, &op.ref, &t);
	model_put(&s->model, t, bytes);
	if (out)
		*out = t;
}

static void adopt_thing(struct survivor *s, struct thing *t)
{
	struct lend_op op = {.timeout = 2 * SECOND};

	if (end_well(s, &op, lend_adopt(s->mem, &t->ref, &op), "adopt"))
		t->held++;
}

void survivor_publish(struct survivor *s)
{
	const struct lend_terms shared = {sizeof(shared), LEND_SHARED, 1u << 30, FOREVER * SECOND,
					  0};

	for (uint32_t i = 0; i < PUBLIC; i++) {
		if (!s->open[i]) {
			put_thing(s, &shared, i, PUBLIC_LEN, &s->open[i]);
			if (!s->open[i])
				continue;
			s->open[i]->granted = true;
			s->page->public[i] = s->open[i]->ref;
		} else if (!s->open[i]->held) {
			adopt_thing(s, s->open[i]);
		}
	}
}

static void make_space(struct survivor *s, struct thing *of)
{
	struct lend_op op = {.timeout = 2 * SECOND};
	uint32_t len = of ? of->len : 1 + kill_below(&s->rng, THING_LEN);
	struct thing *t;
	lend_space space;
	uint32_t index;
	int rc;

	rc = of ? lend_space_map(s->mem, &of->ref, &space, &op)
		: lend_space_alloc(s->mem, len, &space, &op);
	if (!end_well(s, &op, rc, of ? "map" : "alloc"))
		return;
	t = model_add(&s->model, THING_SPACE, len);
	t->space = space;
	t->worker = s->mem->node[cn_space_get(s->mem, space, &index)->node]->worker;
	if (of)
		model_copy(t, of, 0, len);
	if (of && s->page->pool)
		model_pinned_map(t);
}

/* Maps the space, if the node offers it: from then on writes are stores to it. */
static char *check_pointer(struct survivor *s, struct thing *t)
{
	char *p = lend_space_pointer(s->mem, t->space);

	if (!p && survivor_follow(s))
		kill_bad(s->page, "no pointer: %s", lend_why());
	if (p && !t->pointer && t->written)
		model_pinned_map(t);
	t->pointer |= p != NULL;
	t->marked = s->mem->node[0]->pool && s->mem->node[0]->pool->marks >= 0;
	return p;
}

static void store_pages(struct survivor *s, struct thing *t)
{
	uint8_t bytes[THING_LEN];
	uint32_t at = kill_below(&s->rng, t->len), len = 1 + kill_below(&s->rng, t->len - at);
	char *p = check_pointer(s, t);

	if (!p)
		return;
	if (memcmp(p, t->bytes, t->len))
		kill_bad(s->page, "a pointer shows wrong bytes");
	kill_fill(bytes, len, lend_rng_next(&s->rng));
	memcpy(p + at, bytes, len);
	memcpy(t->bytes + at, bytes, len);
	for (uint32_t i = at / 4096; i <= (at + len - 1) / 4096; i++)
		t->stored[i] = true;
}

static void free_space(struct survivor *s, struct thing *t)
{
	struct lend_op op = {.timeout = 2 * SECOND};

	if (end_well(s, &op, lend_space_free(s->mem, t->space, &op), "free") ||
	    op.ran != LEND_RAN_NO) /* otherwise the operation is retried until the node has it */
		t->kind = THING_NONE;
}

static void write_space(struct survivor *s, struct thing *t)
{
	uint8_t bytes[THING_LEN];
	uint32_t at = kill_below(&s->rng, t->len), len = 1 + kill_below(&s->rng, t->len - at);
	struct lend_op op = {.timeout = 2 * SECOND};
	struct iovec iov = {bytes, len};

	kill_fill(bytes, len, lend_rng_next(&s->rng));
	if (t->pointer) {
		store_pages(s, t);
		return;
	}
	t->written = true;
	if (end_well(s, &op, lend_space_write(s->mem, t->space, at, &iov, 1, &op), "write"))
		model_write(&s->model, t, at, bytes, len);
	else /* unknown whether it took effect */
		for (int i = 0; i < 50 && t->kind == THING_SPACE && op.ran == LEND_RAN_MAYBE; i++)
			free_space(s, t);
}

static void seal_thing(struct survivor *s, struct thing *t)
{
	uint32_t pages = (t->len + 4095) / 4096, first = kill_below(&s->rng, pages), len;
	struct lend_op op = {.timeout = 2 * SECOND};
	struct thing *to;

	len = 1 + kill_below(&s->rng, t->len - first * 4096);
	model_send(&s->model, t, first * 4096, len); /* also when the seal itself fails */
	if (!end_well(s, &op, lend_space_seal(s->mem, t->space, first * 4096, len, NULL, &op),
		      "seal"))
		return;
	add_snapshot(s, len, &op.ref, &to);
	model_copy(to, t, first, len);
}

static void check_thing(struct survivor *s, struct thing *t)
{
	static uint8_t bytes[THING_LEN];
	uint32_t at = kill_below(&s->rng, t->len), len = 1 + kill_below(&s->rng, t->len - at);
	struct lend_op op = {.timeout = 2 * SECOND};
	struct iovec iov = {bytes, len};
	int rc;

	rc = t->kind == THING_SPACE ? lend_space_read(s->mem, t->space, at, &iov, 1, &op)
				    : lend_get(s->mem, &t->ref, at, &iov, 1, &op);
	if (end_well(s, &op, rc, t->kind == THING_SPACE ? "read" : "get") &&
	    memcmp(bytes, t->bytes + at, len))
		kill_bad(s->page, "%s of %u bytes from %u: wrong bytes",
			 t->kind == THING_SPACE ? "read" : "get", len, at);
}

static void release_thing(struct survivor *s, struct thing *t)
{
	struct lend_op op = {.timeout = 2 * SECOND};

	if (t->granted || !t->held)
		return;
	if (end_well(s, &op, lend_release(s->mem, &t->ref, 1, &op), "release") ||
	    op.ran != LEND_RAN_NO) {
		if (t->kind == THING_SNAPSHOT && t->held)
			model_release(t);
	}
}

/* Cancels an operation in progress: it was done, or no trace of it stays. */
static void give_up(struct survivor *s)
{
	static uint8_t bytes[LONG];
	uint32_t what = kill_below(&s->rng, 4), len = 1 + kill_below(&s->rng, THING_LEN);
	struct lend_op op = {.timeout = 2 * SECOND}, out = op;
	struct iovec iov = {bytes, what ? len : LONG};
	lend_space space;
	int rc;

	rc = what < 3 ? lend_put(s->mem, &iov, 1, NULL, &op)
		      : lend_space_map(s->mem, &s->page->public[0], &space, &op);
	for (uint32_t n = kill_below(&s->rng, what ? 6 : 60); n; n--)
		(void)lend_poll(s->ep);
	lend_op_cancel(s->mem, &op);
	if (rc == 0)
		rc = lend_op_wait(s->mem, &op);
	if (!survivor_follow(s) || rc < 0 || op.status != LEND_OK)
		return;
	if (what < 3)
		(void)end_well(s, &out, lend_release(s->mem, &op.ref, 1, &out), "release");
	else
		(void)end_well(s, &out, lend_space_free(s->mem, space, &out), "free");
}

void survivor_step(struct survivor *s)
{
	uint32_t what = kill_below(&s->rng, 14);
	struct thing *snapshot = model_pick(&s->model, &s->rng, THING_SNAPSHOT);
	struct thing *space = model_pick(&s->model, &s->rng, THING_SPACE);
	uint32_t room = 0;

	for (int i = 0; i < THINGS; i++)
		room += s->model.thing[i].kind == THING_NONE;
	if (room < PUBLIC + 2 && snapshot && what < 6) {
		release_thing(s, snapshot);
		return;
	}
	if (room < PUBLIC + 2) {
		if (space)
			free_space(s, space);
		return;
	}
	if (what > 11)
		give_up(s);
	else if (what < 3)
		put_thing(s, NULL, lend_rng_next(&s->rng), 1 + kill_below(&s->rng, THING_LEN),
			  NULL);
	else if (what == 3)
		make_space(s, NULL);
	else if (what == 4 && snapshot)
		make_space(s, snapshot);
	else if (what == 5 && space)
		seal_thing(s, space);
	else if (what == 7 && space && s->page->pool)
		store_pages(s, space);
	else if (what < 8 && space)
		write_space(s, space);
	else if (what == 8 && snapshot && snapshot->held)
		adopt_thing(s, snapshot);
	else if (what == 9 && snapshot)
		release_thing(s, snapshot);
	else if (what == 10 && space)
		free_space(s, space);
	else if (snapshot)
		check_thing(s, what & 1 && space ? space : snapshot);
}

void survivor_outlive_node(struct survivor *s, void (*stop)(void *), void *arg)
{
	static uint8_t bytes[8][THING_LEN];
	struct lend_op op[8];
	int rc[8];

	for (int i = 0; i < 8; i++) {
		struct iovec iov = {bytes[i], PUBLIC_LEN};

		op[i] = (struct lend_op){.timeout = 2 * SECOND};
		rc[i] = i % 2 && s->open[0] ? lend_get(s->mem, &s->open[0]->ref, 0, &iov, 1, &op[i])
					    : lend_put(s->mem, &iov, 1, NULL, &op[i]);
		(void)lend_poll(s->ep);
	}
	stop(arg);
	for (int i = 0; i < 8; i++) {
		if (rc[i] == 0)
			rc[i] = lend_op_wait(s->mem, &op[i]);
		s->page->ops++;
		if (rc[i] < 0)
			kill_bad(s->page, "an operation at the node's death: %d, %s", rc[i],
				 lend_why());
		else if (op[i].status != LEND_OK && op[i].status != LEND_UNAVAILABLE &&
			 op[i].status != LEND_ABORTED && op[i].status != LEND_RESOURCE_EXHAUSTED &&
			 !(s->page->udp && op[i].status == LEND_DEADLINE_EXCEEDED))
			kill_bad(s->page, "an operation at the node's death: status %d",
				 op[i].status);
	}
}
