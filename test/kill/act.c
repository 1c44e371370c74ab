#include "kill/act.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kill/victim.h"

enum { LONG = 9 << 20, PLACED = 100000 };

static bool end(struct actor *a, const char *what, struct lend_op *op, int rc)
{
	if (rc == 0)
		rc = lend_op_wait(a->mem, op);
	victim_check(a->page, what, rc, op->status);
	return rc == 0 && op->status == LEND_OK;
}

static bool put(struct actor *a, uint32_t len, enum lend_hold hold)
{
	struct lend_terms terms = {sizeof(terms), hold, 1, 5 * MS};
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {a->bytes, len};

	kill_fill(a->bytes, len, a->seed);
	if (!end(a, "put", &op, lend_put(a->mem, &iov, 1, &terms, &op)))
		return false;
	a->ref = op.ref;
	a->ref_len = len;
	return true;
}

static bool has_ref(struct actor *a)
{
	return put(a, 5000, LEND_OWNED);
}

static bool has_long_ref(struct actor *a)
{
	return put(a, PLACED, LEND_OWNED);
}

static bool has_space(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	return end(a, "map", &op, lend_space_map(a->mem, &a->page->public[0], &a -> space, &op));
}

static bool has_long_space(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	return end(a, "alloc", &op, lend_space_alloc(a->mem, LONG, &a->space, &op));
}

static void put_short(struct actor *a)
{
	put(a, 100, LEND_OWNED);
}

static void put_two_pages(struct actor *a)
{
	put(a, 5000, LEND_SHARED);
}

static void put_placed(struct actor *a)
{
	put(a, PLACED, LEND_TRANSFER);
}

static void put_long(struct actor *a)
{
	put(a, LONG, LEND_OWNED);
}

static void get(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	uint8_t *into = malloc(a->ref_len);
	struct iovec iov = {into, a->ref_len};

	if (end(a, "get", &op, lend_get(a->mem, &a->ref, 0, &iov, 1, &op)) &&
	    memcmp(into, a->bytes, a->ref_len))
		kill_bad(a->page, "get: others came");
	free(into);
}

static void alloc(struct actor *a)
{
	(void)has_long_space(a);
}

static void map(struct actor *a)
{
	(void)has_space(a);
}

static void write_some(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {a->bytes, 5000};

	(void)end(a, "write", &op, lend_space_write(a->mem, a->space, 100, &iov, 1, &op));
}

static void write_placed(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {a->bytes, 25 * 4096};

	(void)end(a, "write", &op, lend_space_write(a->mem, a->space, 4096, &iov, 1, &op));
}

static void read_some(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {a->bytes, 5000};

	(void)end(a, "read", &op, lend_space_read(a->mem, a->space, 100, &iov, 1, &op));
}

static void seal(struct actor *a)
{
	struct lend_terms terms = {sizeof(terms), LEND_SHARED, 2, 5 * MS};
	struct lend_op op = {.timeout = SECOND};

	(void)end(a, "seal", &op, lend_space_seal(a->mem, a->space, 4096, 5000, &terms, &op));
}

static void free_space(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	(void)end(a, "free", &op, lend_space_free(a->mem, a->space, &op));
}

static void adopt(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	(void)end(a, "adopt", &op, lend_adopt(a->mem, &a->page->public[1], &op));
}

static void grant(struct actor *a, enum lend_hold hold)
{
	struct lend_terms terms = {sizeof(terms), hold, 1, 5 * MS};
	struct lend_op op = {.timeout = SECOND};

	(void)end(a, "grant", &op, lend_grant(a->mem, &a->ref, &terms, &op));
}

static void grant_shared(struct actor *a)
{
	grant(a, LEND_SHARED);
}

static void grant_transfer(struct actor *a)
{
	grant(a, LEND_TRANSFER);
}

static void narrow(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	(void)end(a, "narrow", &op, lend_narrow(a->mem, &a->ref, 10, 100, LEND_READ, &op));
}

static void release(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	(void)end(a, "release", &op, lend_release(a->mem, &a->ref, 1, &op));
}

static void release_three(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct lend_ref ref[3] = {a->ref, a->page->public[0], a -> ref};

	(void)end(a, "release", &op, lend_release(a->mem, ref, 3, &op));
}

/* Cancelled when it has left: what it made is forgotten. */
static void forget(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {a->bytes, 5000};
	int rc = lend_put(a->mem, &iov, 1, NULL, &op);

	(void)lend_poll(a->ep);
	lend_op_cancel(a->mem, &op);
	(void)end(a, "cancelled put", &op, rc);
	narrow(a);
}

static void leave(struct actor *a)
{
	lend_mem_close(a->mem);
	lend_close(a->ep);
	a->ep = NULL;
}

static void pass(struct actor *a, enum lend_hold hold)
{
	struct take take = {.seed = a->seed, .terms = hold};
	struct lend_call call = {.method = TAKE_METHOD, .timeout = SECOND};
	struct lend_op op = {.timeout = SECOND};
	lend_session session;

	if (!put(a, 5000, hold) || lend_connect(a->ep, a->page->server, &session) < 0)
		return;
	take.ref = a->ref;
	take.len = a->ref_len;
	call.request = lend_buf_take(a->ep, sizeof(take));
	memcpy(call.request->data, &take, sizeof(take));
	call.request->len = sizeof(take);
	victim_check(a->page, "call", lend_call_sync(a->ep, session, &call), call.status);
	lend_buf_give(a->ep, call.request);
	lend_buf_give(a->ep, call.reply);
	if (hold != LEND_TRANSFER)
		(void)end(a, "release", &op, lend_release(a->mem, &a->ref, 1, &op));
}

static void pass_owned(struct actor *a)
{
	pass(a, LEND_OWNED);
}

static void pass_shared(struct actor *a)
{
	pass(a, LEND_SHARED);
}

static void pass_transfer(struct actor *a)
{
	pass(a, LEND_TRANSFER);
}

/* What a fresh client needs before any of these. */
static bool greet(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct lend_mem_stat stat;

	return end(a, "stat", &op, lend_mem_stat(a->mem, 0, &stat, &op));
}

static void open_all(struct actor *a)
{
	struct lend_config config = LEND_CONFIG_INIT;
	int rc;

	config.sessions = 16;
	config.probe = 20 * MS;
	config.dead = 100 * MS;
	rc = lend_open(&config, &a->ep);
	if (rc == 0)
		rc = lend_mem_open(a->ep, a->page->node, &a->mem);
	victim_check(a->page, "open", rc, LEND_OK);
	(void)greet(a);
}

const struct act acts[] = {
    {.name = "start"},
    {.name = "open", .run = open_all, .bare = true},
    {.name = "put of 100 B", .run = put_short},
    {.name = "put of 5000 B, SHARED", .run = put_two_pages},
    {.name = "put of 100 kB, TRANSFER", .run = put_placed},
    {.name = "put of 9 MiB", .run = put_long, .coarse = true},
    {.name = "get of 5000 B", .prepare = has_ref, .run = get},
    {.name = "get of 100 kB", .prepare = has_long_ref, .run = get},
    {.name = "alloc", .run = alloc},
    {.name = "map", .run = map},
    {.name = "write", .prepare = has_space, .run = write_some},
    {.name = "write of 100 kB", .prepare = has_long_space, .run = write_placed},
    {.name = "read", .prepare = has_space, .run = read_some},
    {.name = "seal", .prepare = has_space, .run = seal},
    {.name = "free", .prepare = has_space, .run = free_space},
    {.name = "adopt", .run = adopt},
    {.name = "grant, SHARED", .prepare = has_ref, .run = grant_shared},
    {.name = "grant, TRANSFER", .prepare = has_ref, .run = grant_transfer},
    {.name = "narrow", .prepare = has_ref, .run = narrow},
    {.name = "release", .prepare = has_ref, .run = release},
    {.name = "release of three", .prepare = has_ref, .run = release_three},
    {.name = "cancel and forget", .prepare = has_ref, .run = forget},
    {.name = "close", .prepare = has_ref, .run = leave},
    {.name = "pass on, OWNED", .run = pass_owned, .server = true},
    {.name = "pass on, SHARED", .run = pass_shared, .server = true},
    {.name = "pass on, TRANSFER", .run = pass_transfer, .server = true},
};
const uint32_t act_count = sizeof(acts) / sizeof(acts[0]);

pid_t act_start(struct kill_page *page, const struct act *act, enum kill_role role, int32_t fuse)
{
	struct actor a = {.page = page, .seed = (uint64_t)fuse};
	int32_t left;
	pid_t pid;

	page->stores_seen = 0;
	(void)fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	kill_be_alone();
	fuse_light(&page->fuse[ROLE_CLIENT]);
	a.bytes = malloc(LONG);
	if (!act->bare)
		open_all(&a);
	if (act->prepare && !act->prepare(&a))
		_exit(0);
	fuse_arm(&page->fuse[role], fuse);
	act->run(&a);
	if (a.ep && role != ROLE_CLIENT) /* what the answer sets off belongs to it */
		(void)greet(&a);
	left = fuse_stop(&page->fuse[role]);
	page->stores_seen = left > 0 ? fuse - left : 0;
	if (left == FUSE_BURNT) /* for the supervisor to see */
		fuse_arm(&page->fuse[role], FUSE_BURNT);
	_exit(0);
}
