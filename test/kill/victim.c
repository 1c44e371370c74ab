#include "kill/victim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kill/kill_client.h"

enum { KEPT = 12, SPACES = 4 };

struct victim {
	struct client c;
	struct lend_rng rng;
	struct take kept[KEPT]; /* len 0: none */
	lend_space space[SPACES];
	bool mapped[SPACES];
	lend_session server;
	bool connected;
};

static uint32_t some_len(struct victim *v)
{
	static const uint32_t len[] = {1, 100, 4096, 5000, 8192, 9000, 70000, 300000, LONG};

	return len[kill_below(&v->rng, kill_below(&v->rng, 16) ? 8 : 9)];
}

static struct take *pick_kept(struct victim *v)
{
	return &v->kept[kill_below(&v->rng, KEPT)];
}

static void put_object(struct victim *v)
{
	struct take *k = pick_kept(v), take = {.seed = lend_rng_next(&v->rng)};

	take.terms = kill_below(&v->rng, 3);
	take.len = some_len(v);
	if (client_put(&v->c, &take))
		*k = take;
}

/* Several operations at once, one of them perhaps cancelled. */
static void put_several(struct victim *v)
{
	struct lend_op op[6];
	int rc[6];

	for (int i = 0; i < 6; i++) {
		struct iovec iov = {v->c.bytes + (i << 17), 1 + kill_below(&v->rng, 100000)};

		op[i] = (struct lend_op){.timeout = SECOND};
		rc[i] = lend_put(v->c.mem, &iov, 1, NULL, &op[i]);
		if (kill_below(&v->rng, 2))
			(void)lend_poll(v->c.ep);
	}
	lend_op_cancel(v->c.mem, &op[kill_below(&v->rng, 6)]);
	for (int i = 0; i < 6; i++) {
		struct lend_op out = {.timeout = SECOND};

		if (client_end(&v->c, "put", &op[i], rc[i]))
			client_end(&v->c, "release", &out,
				   lend_release(v->c.mem, &op[i].ref, 1, &out));
	}
}

static void get_object(struct victim *v, const struct lend_ref *ref, uint64_t seed, uint32_t len)
{
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {v->c.bytes, len};
	uint8_t *want;

	if (!client_end(&v->c, "get", &op, lend_get(v->c.mem, ref, 0, &iov, 1, &op)))
		return;
	want = malloc(len);
	kill_fill(want, len, seed);
	if (memcmp(want, v->c.bytes, len)) {
		kill_bad(v->c.page, "a victim's get of %u bytes: wrong bytes", len);
		_exit(1);
	}
	free(want);
}

static void hold_object(struct victim *v, struct take *k)
{
	struct lend_terms terms = {sizeof(terms), 1 + kill_below(&v->rng, 2), 1, TTL_MS * MS, 0};
	uint32_t which = kill_below(&v->rng, PUBLIC);
	struct lend_op op = {.timeout = SECOND}, more = op, out = op;
	struct lend_ref *open = &v->c.page->public[which], narrow;

	if (client_end(&v->c, "adopt", &op, lend_adopt(v->c.mem, open, &op))) {
		get_object(v, open, which, PUBLIC_LEN);
		if (lend_ref_slice(open, 4096, 8192, LEND_READ, &narrow) == 0)
			client_end(
			    &v->c, "narrow", &more,
			    lend_ref_slice_remote(v->c.mem, &narrow, 5, 50, LEND_READ, &more));
	}
	op = (struct lend_op){.timeout = SECOND};
	if (k->len && kill_below(&v->rng, 2))
		client_end(&v->c, "grant", &op, lend_grant(v->c.mem, &k->ref, &terms, &op));
	else if (kill_below(&v->rng, 2))
		client_end(&v->c, "release", &out, lend_release(v->c.mem, open, 1, &out));
}

static void use_spaces(struct victim *v)
{
	uint32_t i = kill_below(&v->rng, SPACES), len = PUBLIC_LEN;
	struct lend_op op = {.timeout = SECOND}, more = op, out = op;
	uint32_t at = kill_below(&v->rng, len);
	struct iovec iov = {v->c.bytes, 1 + kill_below(&v->rng, len - at)};
	struct lend_terms terms = {sizeof(terms), kill_below(&v->rng, 3), 1, TTL_MS * MS, 0};

	if (!v->mapped[i]) {
		int rc = kill_below(&v->rng, 2)
			     ? lend_space_alloc(v->c.mem, len, &v->space[i], &op)
			     : lend_space_map(v->c.mem, &v->c.page->public[0], &v -> space[i], &op);

		v->mapped[i] = client_end(&v->c, "alloc or map", &op, rc);
		return;
	}
	if (v->c.page->pool && kill_below(&v->rng, 2)) {
		char *p = lend_space_pointer(v->c.mem, v->space[i]);

		if (p) /* the process may be killed in this call; then no process may ever see the
			  object */
			memset(p + at, 0x5a, iov.iov_len);
	}
	client_end(&v->c, "write", &op, lend_space_write(v->c.mem, v->space[i], at, &iov, 1, &op));
	if (kill_below(&v->rng, 2)) {
		client_end(&v->c, "seal", &more,
			   lend_space_seal(v->c.mem, v->space[i], 4096, 5000, &terms, &more));
	} else if (kill_below(&v->rng, 2)) {
		client_end(&v->c, "free", &out, lend_space_free(v->c.mem, v->space[i], &out));
		v->mapped[i] = false;
	} else {
		client_end(&v->c, "read", &out,
			   lend_space_read(v->c.mem, v->space[i], at, &iov, 1, &out));
	}
}

static void release_object(struct victim *v, struct take *k)
{
	struct lend_op op = {.timeout = SECOND};
	struct lend_ref both[2] = {k->ref, k->ref};

	if (!k->len)
		return;
	client_end(&v->c, "release", &op,
		   lend_release(v->c.mem, both, 1 + (int)kill_below(&v->rng, 2), &op));
	k->len = 0;
}

static void pass_on(struct victim *v)
{
	struct take take = {.seed = lend_rng_next(&v->rng)};
	int rc = 0;

	take.terms = kill_below(&v->rng, 3);
	take.len = some_len(v);
	if (!atomic_load(&v->c.page->serving))
		return;
	if (!v->connected)
		rc = lend_connect(v->c.ep, v->c.page->server, &v->server);
	if (rc < 0) /* the process is dead already */
		return;
	if (take.len > sizeof(take) && kill_below(&v->rng, 2))
		v->connected = client_lend(&v->c, v->server, &take);
	else if (client_put(&v->c, &take))
		v->connected = client_pass(&v->c, v->server, &take);
}

static void open_all(struct victim *v)
{
	client_open(&v->c);
	memset(v->kept, 0, sizeof(v->kept));
	memset(v->mapped, 0, sizeof(v->mapped));
	v->connected = false;
}

static void run_step(struct victim *v)
{
	uint32_t what = kill_below(&v->rng, 32);
	struct take *k = pick_kept(v);

	if (what < 8)
		put_object(v);
	else if (what < 10)
		put_several(v);
	else if (what < 14 && k->len)
		get_object(v, &k->ref, k->seed, k->len);
	else if (what < 18)
		hold_object(v, k);
	else if (what < 24)
		use_spaces(v);
	else if (what < 26)
		release_object(v, k);
	else if (what < 31)
		pass_on(v);
	else {
		lend_mem_close(v->c.mem);
		lend_close(v->c.ep);
		open_all(v);
	}
}

pid_t victim_client(struct kill_page *page, uint64_t seed)
{
	struct victim v = {.c.page = page};
	pid_t pid = client_fork(page, ROLE_CLIENT);

	if (pid)
		return pid;
	lend_rng_seed(&v.rng, seed);
	v.c.bytes = malloc(LONG);
	open_all(&v);
	for (;;)
		run_step(&v);
}
