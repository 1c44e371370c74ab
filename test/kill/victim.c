#include "kill/victim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEPT = 12, SPACES = 4, LONG = 9 << 20, TTL_MS = 5 };

struct kept {
	struct lend_ref ref;
	uint64_t seed;
	uint32_t len; /* 0: none */
};
struct victim {
	struct kill_page *page;
	struct lend_rng rng;
	struct lend_ep *ep;
	struct lend_mem *mem;
	struct kept kept[KEPT];
	lend_space space[SPACES];
	bool mapped[SPACES];
	lend_session server;
	bool connected;
	uint8_t *bytes; /* LONG of them */
};

void victim_check(struct kill_page *page, const char *what, int rc, enum lend_status status)
{
	static const unsigned fair = 1u << LEND_OK | 1u << LEND_CANCELLED |
				     1u << LEND_DEADLINE_EXCEEDED | 1u << LEND_NOT_FOUND |
				     1u << LEND_RESOURCE_EXHAUSTED | 1u << LEND_ABORTED |
				     1u << LEND_FAILED_PRECONDITION | 1u << LEND_UNAVAILABLE;

	atomic_fetch_add_explicit(&page->victim_ops, 1, memory_order_relaxed);
	if (rc == -ESTALE || rc == -EAGAIN || (rc == -EHOSTUNREACH && page->node_dies))
		return;
	if (rc < 0)
		kill_bad(page, "a victim's %s: %d, %s", what, rc, lend_why());
	else if (!(fair >> status & 1))
		kill_bad(page, "a victim's %s ended with status %d", what, status);
	else
		return;
	_exit(1);
}

static bool end(struct victim *v, const char *what, struct lend_op *op, int rc)
{
	if (rc == 0)
		rc = lend_op_wait(v->mem, op);
	victim_check(v->page, what, rc, op->status);
	return rc == 0 && op->status == LEND_OK;
}

static uint32_t some_len(struct victim *v)
{
	static const uint32_t len[] = {1, 100, 4096, 5000, 8192, 9000, 70000, 300000, LONG};

	return len[kill_below(&v->rng, kill_below(&v->rng, 16) ? 8 : 9)];
}

static struct kept *some(struct victim *v)
{
	return &v->kept[kill_below(&v->rng, KEPT)];
}

static void put(struct victim *v)
{
	struct lend_terms terms = {sizeof(terms), kill_below(&v->rng, 3), 1, TTL_MS * MS};
	struct kept *k = some(v);
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {v->bytes, some_len(v)};
	uint64_t seed = lend_rng_next(&v->rng);

	kill_fill(v->bytes, iov.iov_len, seed);
	if (!end(v, "put", &op, lend_put(v->mem, &iov, 1, &terms, &op)))
		return;
	*k = (struct kept){op.ref, seed, (uint32_t)iov.iov_len};
}

/* Several under way at once, one of them cancelled perhaps. */
static void crowd(struct victim *v)
{
	struct lend_op op[6];
	int rc[6];

	for (int i = 0; i < 6; i++) {
		struct iovec iov = {v->bytes + (i << 17), 1 + kill_below(&v->rng, 100000)};

		op[i] = (struct lend_op){.timeout = SECOND};
		rc[i] = lend_put(v->mem, &iov, 1, NULL, &op[i]);
		if (kill_below(&v->rng, 2))
			(void)lend_poll(v->ep);
	}
	lend_op_cancel(v->mem, &op[kill_below(&v->rng, 6)]);
	for (int i = 0; i < 6; i++) {
		struct lend_op out = {.timeout = SECOND};

		if (end(v, "put", &op[i], rc[i]))
			end(v, "release", &out, lend_release(v->mem, &op[i].ref, 1, &out));
	}
}

static void get(struct victim *v, const struct lend_ref *ref, uint64_t seed, uint32_t len)
{
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {v->bytes, len};
	uint8_t *want;

	if (!end(v, "get", &op, lend_get(v->mem, ref, 0, &iov, 1, &op)))
		return;
	want = malloc(len);
	kill_fill(want, len, seed);
	if (memcmp(want, v->bytes, len)) {
		kill_bad(v->page, "a victim's get of %u bytes: others came", len);
		_exit(1);
	}
	free(want);
}

static void hold(struct victim *v, struct kept *k)
{
	struct lend_terms terms = {sizeof(terms), 1 + kill_below(&v->rng, 2), 1, TTL_MS * MS};
	uint32_t which = kill_below(&v->rng, PUBLIC);
	struct lend_op op = {.timeout = SECOND}, more = op, out = op;
	struct lend_ref *open = &v->page->public[which], narrow;

	if (end(v, "adopt", &op, lend_adopt(v->mem, open, &op))) {
		get(v, open, which, PUBLIC_LEN);
		if (lend_ref_slice(open, 4096, 8192, LEND_READ, &narrow) == 0)
			end(v, "narrow", &more,
			    lend_narrow(v->mem, &narrow, 5, 50, LEND_READ, &more));
	}
	op = (struct lend_op){.timeout = SECOND};
	if (k->len && kill_below(&v->rng, 2))
		end(v, "grant", &op, lend_grant(v->mem, &k->ref, &terms, &op));
	else if (kill_below(&v->rng, 2))
		end(v, "release", &out, lend_release(v->mem, open, 1, &out));
}

static void spaces(struct victim *v)
{
	uint32_t i = kill_below(&v->rng, SPACES), len = PUBLIC_LEN;
	struct lend_op op = {.timeout = SECOND}, more = op, out = op;
	uint32_t at = kill_below(&v->rng, len);
	struct iovec iov = {v->bytes, 1 + kill_below(&v->rng, len - at)};
	struct lend_terms terms = {sizeof(terms), kill_below(&v->rng, 3), 1, TTL_MS * MS};

	if (!v->mapped[i]) {
		int rc = kill_below(&v->rng, 2)
			     ? lend_space_alloc(v->mem, len, &v->space[i], &op)
			     : lend_space_map(v->mem, &v->page->public[0], &v -> space[i], &op);

		v->mapped[i] = end(v, "alloc or map", &op, rc);
		return;
	}
	end(v, "write", &op, lend_space_write(v->mem, v->space[i], at, &iov, 1, &op));
	if (kill_below(&v->rng, 2)) {
		end(v, "seal", &more,
		    lend_space_seal(v->mem, v->space[i], 4096, 5000, &terms, &more));
	} else if (kill_below(&v->rng, 2)) {
		end(v, "free", &out, lend_space_free(v->mem, v->space[i], &out));
		v->mapped[i] = false;
	} else {
		end(v, "read", &out, lend_space_read(v->mem, v->space[i], at, &iov, 1, &out));
	}
}

static void release(struct victim *v, struct kept *k)
{
	struct lend_op op = {.timeout = SECOND};
	struct lend_ref both[2] = {k->ref, k->ref};

	if (!k->len)
		return;
	end(v, "release", &op, lend_release(v->mem, both, 1 + (int)kill_below(&v->rng, 2), &op));
	k->len = 0;
}

static void pass_on(struct victim *v)
{
	struct lend_terms terms = {sizeof(terms), kill_below(&v->rng, 3), 1, TTL_MS * MS};
	struct take take = {.seed = lend_rng_next(&v->rng), .terms = terms.hold};
	struct lend_call call = {.method = TAKE_METHOD, .timeout = SECOND};
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {v->bytes, some_len(v)};
	int rc = 0;

	if (!atomic_load(&v->page->serving))
		return;
	kill_fill(v->bytes, iov.iov_len, take.seed);
	if (!end(v, "put", &op, lend_put(v->mem, &iov, 1, &terms, &op)))
		return;
	take.ref = op.ref;
	take.len = (uint32_t)iov.iov_len;
	if (!v->connected)
		rc = lend_connect(v->ep, v->page->server, &v->server);
	if (rc < 0) /* it is dead already: nobody listens */
		return;
	v->connected = true;
	call.request = lend_buf_take(v->ep, sizeof(take));
	memcpy(call.request->data, &take, sizeof(take));
	call.request->len = sizeof(take);
	rc = lend_call_sync(v->ep, v->server, &call);
	victim_check(v->page, "call", rc, call.status);
	lend_buf_give(v->ep, call.request);
	lend_buf_give(v->ep, call.reply);
	v->connected = rc == 0 && call.status != LEND_UNAVAILABLE;
	op = (struct lend_op){.timeout = SECOND};
	if (terms.hold != LEND_TRANSFER)
		end(v, "release", &op, lend_release(v->mem, &take.ref, 1, &op));
}

static void open_all(struct victim *v)
{
	struct lend_config config = LEND_CONFIG_INIT;
	int rc;

	config.sessions = 16;
	config.probe = 20 * MS;
	config.dead = 100 * MS;
	rc = lend_open(&config, &v->ep);
	if (rc == 0)
		rc = lend_mem_open(v->ep, v->page->node, &v->mem);
	victim_check(v->page, "open", rc, LEND_OK);
	memset(v->kept, 0, sizeof(v->kept));
	memset(v->mapped, 0, sizeof(v->mapped));
	v->connected = false;
}

static void step(struct victim *v)
{
	uint32_t what = kill_below(&v->rng, 32);
	struct kept *k = some(v);

	if (what < 8)
		put(v);
	else if (what < 10)
		crowd(v);
	else if (what < 14 && k->len)
		get(v, &k->ref, k->seed, k->len);
	else if (what < 18)
		hold(v, k);
	else if (what < 24)
		spaces(v);
	else if (what < 26)
		release(v, k);
	else if (what < 31)
		pass_on(v);
	else {
		lend_mem_close(v->mem);
		lend_close(v->ep);
		open_all(v);
	}
}

pid_t victim_client(struct kill_page *page, uint64_t seed)
{
	struct victim v = {.page = page};
	pid_t pid;

	(void)fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	kill_be_alone();
	fuse_light(&page->fuse[ROLE_CLIENT]);
	lend_rng_seed(&v.rng, seed);
	v.bytes = malloc(LONG);
	open_all(&v);
	for (;;)
		step(&v);
}
