#include "kill/act.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACED = 100000 };

static bool act_put(struct actor *a, uint32_t len, enum lend_hold hold)
{
	a->own = (struct take){.seed = a->seed, .len = len, .terms = hold};
	return client_put(&a->c, &a->own);
}

static bool has_ref(struct actor *a)
{
	return act_put(a, 5000, LEND_OWNED);
}

static bool has_long_ref(struct actor *a)
{
	return act_put(a, PLACED, LEND_OWNED);
}

static bool has_space(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	return client_end(&a->c, "map", &op,
			  lend_space_map(a->c.mem, &a->c.page->public[0], &a -> space, &op));
}

static bool has_long_space(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	return client_end(&a->c, "alloc", &op, lend_space_alloc(a->c.mem, LONG, &a->space, &op));
}

static void put_short(struct actor *a)
{
	act_put(a, 100, LEND_OWNED);
}

static void put_two_pages(struct actor *a)
{
	act_put(a, 5000, LEND_SHARED);
}

static void put_placed(struct actor *a)
{
	act_put(a, PLACED, LEND_TRANSFER);
}

static void put_long(struct actor *a)
{
	act_put(a, LONG, LEND_OWNED);
}

static void act_get(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	uint8_t *into = malloc(a->own.len);
	struct iovec iov = {into, a->own.len};

	if (client_end(&a->c, "get", &op, lend_get(a->c.mem, &a->own.ref, 0, &iov, 1, &op)) &&
	    memcmp(into, a->c.bytes, a->own.len))
		kill_bad(a->c.page, "get: wrong bytes");
	free(into);
}

static void act_alloc(struct actor *a)
{
	(void)has_long_space(a);
}

static void act_map(struct actor *a)
{
	(void)has_space(a);
}

static void write_some(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {a->c.bytes, 5000};

	(void)client_end(&a->c, "write", &op,
			 lend_space_write(a->c.mem, a->space, 100, &iov, 1, &op));
}

static void write_placed(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {a->c.bytes, 25 * 4096};

	(void)client_end(&a->c, "write", &op,
			 lend_space_write(a->c.mem, a->space, 4096, &iov, 1, &op));
}

static void read_some(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {a->c.bytes, 5000};

	(void)client_end(&a->c, "read", &op,
			 lend_space_read(a->c.mem, a->space, 100, &iov, 1, &op));
}

static void act_seal(struct actor *a)
{
	struct lend_terms terms = {sizeof(terms), LEND_SHARED, 2, TTL_MS * MS, 0};
	struct lend_op op = {.timeout = SECOND};

	(void)client_end(&a->c, "seal", &op,
			 lend_space_seal(a->c.mem, a->space, 4096, 5000, &terms, &op));
}

/* Stores through a pointer, then seals all that was stored to. */
static void act_store(struct actor *a)
{
	char *p = a->c.page->pool ? lend_space_pointer(a->c.mem, a->space) : NULL;

	for (uint32_t i = 0; p && i < PUBLIC_LEN; i += 4096)
		memset(p + i, (int)i, 100);
	act_seal(a);
}

static void free_space(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	(void)client_end(&a->c, "free", &op, lend_space_free(a->c.mem, a->space, &op));
}

static void act_adopt(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	(void)client_end(&a->c, "adopt", &op, lend_adopt(a->c.mem, &a->c.page->public[1], &op));
}

static void act_grant(struct actor *a, enum lend_hold hold)
{
	struct lend_terms terms = {sizeof(terms), hold, 1, TTL_MS * MS, 0};
	struct lend_op op = {.timeout = SECOND};

	(void)client_end(&a->c, "grant", &op, lend_grant(a->c.mem, &a->own.ref, &terms, &op));
}

static void grant_shared(struct actor *a)
{
	act_grant(a, LEND_SHARED);
}

static void grant_transfer(struct actor *a)
{
	act_grant(a, LEND_TRANSFER);
}

static void act_narrow(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	(void)client_end(&a->c, "narrow", &op,
			 lend_ref_slice_remote(a->c.mem, &a->own.ref, 10, 100, LEND_READ, &op));
}

static void act_release(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};

	(void)client_end(&a->c, "release", &op, lend_release(a->c.mem, &a->own.ref, 1, &op));
}

static void release_three(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct lend_ref ref[3] = {a->own.ref, a->c.page->public[0], a -> own.ref};

	(void)client_end(&a->c, "release", &op, lend_release(a->c.mem, ref, 3, &op));
}

/* Cancels a put after it was sent: what it made is forgotten. */
static void act_forget(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct iovec iov = {a->c.bytes, 5000};
	int rc = lend_put(a->c.mem, &iov, 1, NULL, &op);

	(void)lend_poll(a->c.ep);
	lend_op_cancel(a->c.mem, &op);
	(void)client_end(&a->c, "cancelled put", &op, rc);
	act_narrow(a);
}

static void act_leave(struct actor *a)
{
	lend_mem_close(a->c.mem);
	lend_close(a->c.ep);
	a->c.ep = NULL;
}

static void act_pass(struct actor *a, enum lend_hold hold)
{
	lend_session server;

	if (act_put(a, 5000, hold) && lend_connect(a->c.ep, a->c.page->server, &server) == 0)
		(void)client_pass(&a->c, server, &a->own);
}

static void pass_owned(struct actor *a)
{
	act_pass(a, LEND_OWNED);
}

static void pass_shared(struct actor *a)
{
	act_pass(a, LEND_SHARED);
}

static void pass_transfer(struct actor *a)
{
	act_pass(a, LEND_TRANSFER);
}

static void lend_arguments(struct actor *a)
{
	lend_session server;

	a->own = (struct take){.seed = a->seed, .len = 5000};
	if (lend_connect(a->c.ep, a->c.page->server, &server) == 0)
		(void)client_lend(&a->c, server, &a->own);
}

/* State that a new client needs before any of these operations. */
static bool act_greet(struct actor *a)
{
	struct lend_op op = {.timeout = SECOND};
	struct lend_mem_stat stat;

	return client_end(&a->c, "stat", &op, lend_mem_stat_get(a->c.mem, 0, &stat, &op));
}

static void open_all(struct actor *a)
{
	client_open(&a->c);
	(void)act_greet(a);
}

const struct act acts[] = {
    {.name = "start"},
    {.name = "open", .run = open_all, .bare = true},
    {.name = "put of 100 B", .run = put_short},
    {.name = "put of 5000 B, SHARED", .run = put_two_pages},
    {.name = "put of 100 kB, TRANSFER", .run = put_placed},
    {.name = "put of 9 MiB", .run = put_long, .coarse = true},
    {.name = "get of 5000 B", .prepare = has_ref, .run = act_get},
    {.name = "get of 100 kB", .prepare = has_long_ref, .run = act_get},
    {.name = "alloc", .run = act_alloc},
    {.name = "map", .run = act_map},
    {.name = "write", .prepare = has_space, .run = write_some},
    {.name = "write of 100 kB", .prepare = has_long_space, .run = write_placed},
    {.name = "read", .prepare = has_space, .run = read_some},
    {.name = "seal", .prepare = has_space, .run = act_seal},
    {.name = "store and seal", .prepare = has_space, .run = act_store},
    {.name = "free", .prepare = has_space, .run = free_space},
    {.name = "adopt", .run = act_adopt},
    {.name = "grant, SHARED", .prepare = has_ref, .run = grant_shared},
    {.name = "grant, TRANSFER", .prepare = has_ref, .run = grant_transfer},
    {.name = "narrow", .prepare = has_ref, .run = act_narrow},
    {.name = "release", .prepare = has_ref, .run = act_release},
    {.name = "release of three", .prepare = has_ref, .run = release_three},
    {.name = "cancel and forget", .prepare = has_ref, .run = act_forget},
    {.name = "close", .prepare = has_ref, .run = act_leave},
    {.name = "pass on, OWNED", .run = pass_owned, .server = true},
    {.name = "pass on, SHARED", .run = pass_shared, .server = true},
    {.name = "pass on, TRANSFER", .run = pass_transfer, .server = true},
    {.name = "call with arguments", .run = lend_arguments, .server = true},
};
const uint32_t act_count = sizeof(acts) / sizeof(acts[0]);

pid_t act_start(struct kill_page *page, const struct act *act, enum kill_role role, int32_t fuse)
{
	struct actor a = {.c.page = page, .seed = (uint64_t)fuse};
	int32_t left;
	pid_t pid;

	page->stores_seen = 0;
	pid = client_fork(page, ROLE_CLIENT);
	if (pid)
		return pid;
	a.c.bytes = malloc(LONG);
	if (!act->bare)
		open_all(&a);
	if (act->prepare && !act->prepare(&a))
		_exit(0);
	fuse_arm(&page->fuse[role], fuse);
	act->run(&a);
	if (a.c.ep && role != ROLE_CLIENT) /* the work after its answer counts, too */
		(void)act_greet(&a);
	left = fuse_stop(&page->fuse[role]);
	page->stores_seen = left > 0 ? fuse - left : 0;
	if (left == FUSE_BURNT) /* for the supervisor to see */
		fuse_arm(&page->fuse[role], FUSE_BURNT);
	_exit(0);
}
