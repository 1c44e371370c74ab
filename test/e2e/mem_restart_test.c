/* Goal: a memory node that keeps its memory loses nothing over a restart, by SIGTERM or by SIGKILL
 * at any moment: references, holds, grants, spaces and lives continue, the ledgers are exact, and
 * clients continue. A start with other parameters is refused. Method: a service manager made of a
 * socket (manager.h) and clients that live across; kills at random moments under load, by seeds.
 * Covers: mn/backing.c, mn/memory.c, mn/fdstore.c, mn/notify.c, mn/store/recover.c, mn/lend_mn.c */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "e2e/manager.h"
#include "e2e/mem_node.h"
#include "util/rng.h"
#include "one_line_test.h"

static const struct lend_terms owned = {sizeof(owned), LEND_OWNED, 0, 0, 0};
static const struct lend_terms given = {sizeof(given), LEND_TRANSFER, 0, 600 * SECOND, 0};

struct rig {
	struct manager m;
	struct mn_client {
		struct lend_ep *ep;
		struct lend_mem *mem;
	} a, b;
	char address[64], args[256];
};

static void open_client(struct rig *r, struct mn_client *c)
{
	struct lend_config config = LEND_CONFIG_INIT;

	cr_assert_eq(lend_open(&config, &c->ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(c->ep, r->address, &c->mem), 0, "%s", lend_why());
}

static void begin_at(struct rig *r, const char *carrier, const char *more)
{
	manager_open(&r->m);
	snprintf(r->address, sizeof(r->address), "%s:keep%d", carrier, (int)getpid());
	snprintf(r->args, sizeof(r->args), "--listen %s --size 64M --keep %s", r->address, more);
	cr_assert(manager_start(&r->m, r->args));
	open_client(r, &r->a);
	open_client(r, &r->b);
}

static void begin_rig(struct rig *r, const char *more)
{
	begin_at(r, "shm", more);
}

static void end_rig(struct rig *r)
{
	mem_client_close(r->a.ep, r->a.mem);
	mem_client_close(r->b.ep, r->b.mem);
	cr_assert_eq(manager_end(&r->m, SIGTERM), 0);
	cr_assert(r->m.stopping, "STOPPING=1 was not sent");
	manager_close(&r->m);
}

static void restart_node(struct rig *r, int sig)
{
	cr_assert_eq(manager_end(&r->m, sig), sig == SIGKILL ? -SIGKILL : 0);
	cr_assert(manager_start(&r->m, r->args));
}

/* The first operation after a restart may find that the session has ended. */
static enum lend_status get_again(struct mn_client *c, const struct lend_ref *ref, void *into,
				  size_t len)
{
	enum lend_status status = LEND_UNAVAILABLE;

	for (int i = 0; i < 5 && status == LEND_UNAVAILABLE; i++)
		status = mem_get(c->mem, ref, 0, into, len);
	return status;
}

static void stat_again(struct mn_client *c, struct lend_mem_stat *stat)
{
	enum lend_status status = LEND_UNAVAILABLE;
	struct lend_op op;

	for (int i = 0; i < 5 && status == LEND_UNAVAILABLE; i++) {
		op = (struct lend_op){.timeout = 5 * SECOND};
		status = mem_end(c->mem, &op, lend_mem_stat_get(c->mem, 0, stat, &op));
	}
	cr_assert_eq(status, LEND_OK);
}

static void over_a_restart(int sig, const char *carrier, const char *more)
{
	static char sent[100000], got[100000];
	struct lend_mem_stat before, after;
	struct lend_ref kept, offered, sealed;
	lend_space space;
	struct iovec iov = {sent, 5000};
	struct lend_op op;
	struct rig r;

	mem_fill(sent, sizeof(sent), 1);
	begin_at(&r, carrier, more);
	kept = mem_put(r.a.mem, sent, sizeof(sent), &owned);
	offered = mem_put(r.a.mem, sent, 4096, &given);
	op = (struct lend_op){.timeout = 5 * SECOND};
	cr_assert_eq(mem_end(r.a.mem, &op, lend_space_map(r.a.mem, &kept, &space, &op)), LEND_OK);
	mem_stat(r.b.mem, &before);
	restart_node(&r, sig);

	cr_assert_eq(get_again(&r.a, &kept, got, sizeof(got)), LEND_OK, "it is gone");
	cr_assert_arr_eq(got, sent, sizeof(got));
	stat_again(&r.b, &after);
	cr_assert_eq(after.refs, before.refs);
	cr_assert_eq(after.spaces, before.spaces);
	cr_assert_eq(after.holds, before.holds);
	cr_assert_eq(mem_adopt(r.b.mem, &offered), LEND_OK);
	op = (struct lend_op){.timeout = 5 * SECOND};
	cr_assert_eq(mem_end(r.a.mem, &op, lend_space_write(r.a.mem, space, 50, &iov, 1, &op)),
		     LEND_OK);
	op = (struct lend_op){.timeout = 5 * SECOND};
	cr_assert_eq(
	    mem_end(r.a.mem, &op, lend_space_seal(r.a.mem, space, 0, sizeof(sent), &owned, &op)),
	    LEND_OK);
	sealed = op.ref;
	cr_assert_eq(mem_get(r.b.mem, &sealed, 50, got, 5000), LEND_OK);
	cr_assert_arr_eq(got, sent, 5000);
	cr_assert_eq(mem_release(r.a.mem, &kept), LEND_OK);
	cr_assert_eq(mem_release(r.a.mem, &sealed), LEND_OK);
	cr_assert_eq(mem_release(r.b.mem, &offered), LEND_OK);
	op = (struct lend_op){.timeout = 5 * SECOND};
	cr_assert_eq(mem_end(r.a.mem, &op, lend_space_free(r.a.mem, space, &op)), LEND_OK);
	cr_assert(mem_pages_become(r.b.ep, r.b.mem, 0, 2000), "pages are left");
	end_rig(&r);
}

TestRuns(mem_restart, stopped_node__restarted__continues, over_a_restart(SIGTERM, "shm", ""));
TestRuns(mem_restart, killed_node__restarted__continues, over_a_restart(SIGKILL, "shm", ""));
TestRuns(mem_restart, workers_go_on, over_a_restart(SIGKILL, "shm", "--workers 2"));
TestRuns(mem_restart, pool__restarted__continues, over_a_restart(SIGKILL, "pool", ""));

/* Its pages are sealed, so each start continues with a copy, which the next start must find. */
Test(mem_restart, pool__restarted_often__continues)
{
	enum { STARTS = 4, LEN = 50000 };
	static char sent[STARTS][LEN], got[LEN];
	struct lend_ref ref[STARTS];
	lend_space space[STARTS];
	struct lend_op op;
	struct rig r;

	begin_at(&r, "pool", "");
	for (int i = 0; i < STARTS; i++) {
		if (i)
			restart_node(&r, i % 2 ? SIGKILL : SIGTERM);
		for (int k = 0; k < i; k++) {
			cr_assert_eq(get_again(&r.a, &ref[k], got, LEN), LEND_OK);
			cr_assert(!memcmp(got, sent[k], LEN), "start %d, of start %d", i, k);
			cr_assert(!memcmp(lend_space_pointer(r.a.mem, space[k]), sent[k], LEN));
		}
		mem_fill(sent[i], LEN, (uint64_t)i + 1);
		ref[i] = mem_put(r.a.mem, sent[i], LEN, &owned);
		op = (struct lend_op){.timeout = 5 * SECOND};
		cr_assert_eq(
		    mem_end(r.a.mem, &op, lend_space_map(r.a.mem, &ref[i], &space[i], &op)),
		    LEND_OK);
		if (i % 2) /* the others take their pointers at a later start */
			cr_assert(lend_space_pointer(r.a.mem, space[i]), "%s", lend_why());
	}
	for (int i = 0; i < STARTS; i++) {
		op = (struct lend_op){.timeout = 5 * SECOND};
		cr_assert_eq(mem_end(r.a.mem, &op, lend_space_free(r.a.mem, space[i], &op)),
			     LEND_OK);
		cr_assert_eq(mem_release(r.a.mem, &ref[i]), LEND_OK);
	}
	cr_assert(mem_pages_become(r.b.ep, r.b.mem, 0, 2000), "pages are left");
	end_rig(&r);
}

/* Another size, another number of workers or clients: refused, and the kept memory is unchanged. */
Test(mem_restart, start__other_parameters__refused)
{
	static const char *const other[] = {"--size 32M", "--clients 7", "--workers 2", "--id 99"};
	char sent[5000], got[5000], args[320];
	struct lend_ref ref;
	struct rig r;

	mem_fill(sent, sizeof(sent), 2);
	begin_rig(&r, "");
	ref = mem_put(r.a.mem, sent, sizeof(sent), &owned);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		unsigned kept = r.m.n;

		cr_assert_eq(manager_end(&r.m, SIGKILL), -SIGKILL);
		snprintf(args, sizeof(args), "%s %s", r.args, other[i]);
		cr_assert_not(manager_start(&r.m, args), "%s was taken", other[i]);
		cr_assert_eq(r.m.n, kept);
		cr_assert(manager_start(&r.m, r.args));
		cr_assert_eq(get_again(&r.a, &ref, got, sizeof(got)), LEND_OK);
		cr_assert_arr_eq(got, sent, sizeof(got));
	}
	cr_assert_eq(mem_release(r.a.mem, &ref), LEND_OK);
	end_rig(&r);
}

Test(mem_restart, start__without_a_manager__reported)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "env -u NOTIFY_SOCKET '%s/lend-mn' --listen shm:no%d --keep 2>&1 >/dev/null | "
		 "grep -q FileDescriptorStoreMax",
		 LEND_BUILD_DIR, (int)getpid());
	cr_assert_eq(system(command), 0);
}

enum { LOADS = 24, ROUNDS = 12, LOAD_MAX = 300000 };

/* A put, and its result. */
struct load {
	struct lend_op op;
	struct iovec iov;
	struct lend_ref ref;
	size_t len;
	uint64_t seed;
	bool busy, held;
};

static void load_ended(struct lend_op *op)
{
	struct load *l = (struct load *)op;

	l->busy = false;
	l->held = op->status == LEND_OK;
	l->ref = op->ref;
}

static void start_load(struct rig *r, struct lend_rng *rng, struct load *l)
{
	l->seed = lend_rng_next(rng);
	l->len = 1 + lend_rng_below(rng, LOAD_MAX - 1);
	mem_fill(l->iov.iov_base, l->len, l->seed);
	l->iov.iov_len = l->len;
	l->op = (struct lend_op){.timeout = 20 * SECOND, .done = load_ended};
	l->busy = lend_put(r->a.mem, &l->iov, 1, &owned, &l->op) == 0;
}

static void check_load(struct rig *r, struct load *l, uint64_t seed)
{
	static char got[LOAD_MAX], want[LOAD_MAX];

	if (!l->held)
		return;
	mem_fill(want, l->len, l->seed);
	cr_assert_eq(get_again(&r->a, &l->ref, got, l->len), LEND_OK, "seed %llu: lost",
		     (unsigned long long)seed);
	cr_assert_eq(memcmp(got, want, l->len), 0, "seed %llu: wrong bytes",
		     (unsigned long long)seed);
}

static void let_go(struct rig *r, struct load *l)
{
	if (l->held)
		cr_assert_eq(mem_release(r->a.mem, &l->ref), LEND_OK);
	l->held = false;
}

/* The node is killed with puts and releases in flight; answered ones must be there, others must
 * not. */
static void round_of(struct rig *r, struct lend_rng *rng, struct load *load, uint64_t seed)
{
	for (int i = 0; i < LOADS; i++)
		if (!load[i].held)
			start_load(r, rng, &load[i]);
	for (uint64_t n = lend_rng_below(rng, 40); n > 0; n--)
		cr_assert_geq(lend_poll(r->a.ep), 0);
	usleep((useconds_t)lend_rng_below(rng, 400)); /* anywhere in the node's turn */
	restart_node(r, SIGKILL);
	for (int i = 0; i < LOADS; i++)
		if (load[i].busy)
			cr_assert_eq(lend_op_wait(r->a.mem, &load[i].op), 0);
	for (int i = 0; i < LOADS; i++)
		check_load(r, &load[i], seed);
	for (int i = 0; i < LOADS; i++)
		if (lend_rng_below(rng, 2))
			let_go(r, &load[i]);
}

static void killed_at_random(const char *more)
{
	const char *text = getenv("LEND_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)getpid();
	struct load *load = calloc(LOADS, sizeof(*load));
	struct lend_rng rng;
	struct rig r;

	lend_rng_seed(&rng, seed);
	cr_log_info("seed %llu", (unsigned long long)seed);
	for (int i = 0; i < LOADS; i++)
		load[i].iov.iov_base = malloc(LOAD_MAX);
	begin_rig(&r, more);
	for (int i = 0; i < ROUNDS; i++)
		round_of(&r, &rng, load, seed);
	for (int i = 0; i < LOADS; i++) {
		let_go(&r, &load[i]);
		free(load[i].iov.iov_base);
	}
	free(load);
	cr_assert(mem_pages_become(r.a.ep, r.a.mem, 0, 3000), "seed %llu: pages are left",
		  (unsigned long long)seed);
	end_rig(&r);
}

TestRuns(mem_restart, killed_at_random_under_load, killed_at_random(""));

/* Each worker is killed at another point of its turn, and all of them must recover together. */
TestRuns(mem_restart, workers_killed_at_random_under_load, killed_at_random("--workers 3"));
