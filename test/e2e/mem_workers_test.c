/* Goal: a node of several workers is one node to its clients: all its memory is used, and each
 * reference finds its worker. Method: lend-mn with 3 workers over shm, pool and udp; clients that
 * know one address of it; restarts with other numbers of workers; the node's own count, summed over
 * workers. Covers: mn/node_worker.c, mn/worker_addresses.c, cn/node_workers.c,
 * cn/node.c, src/wire/worker_address.c */
#include <stdio.h>
#include <string.h>

#include "e2e/mem_node.h"
#include "wire/memop.h"
#include "wire/worker_address.h"
#include "one_line_test.h"

enum { OBJECTS = 12, LEN = 20000, PAGES = 5 };

static unsigned worker_of(const struct lend_ref *ref)
{
	struct lend_memref r;

	cr_assert(lend_memref_decode((const uint8_t *)ref, &r));
	return lend_memref_worker(&r);
}

/* Puts objects with distinct bytes; returns a bit for each worker that holds one. */
static unsigned put_all(struct lend_mem *mem, struct lend_ref ref[OBJECTS])
{
	unsigned seen = 0;
	char bytes[LEN];

	for (unsigned i = 0; i < OBJECTS; i++) {
		mem_fill(bytes, sizeof(bytes), i);
		ref[i] = mem_put(mem, bytes, sizeof(bytes), NULL);
		seen |= 1u << worker_of(&ref[i]);
	}
	return seen;
}

static void get_all(struct lend_mem *mem, const struct lend_ref ref[OBJECTS])
{
	char bytes[LEN], want[LEN];

	for (unsigned i = 0; i < OBJECTS; i++) {
		mem_fill(want, sizeof(want), i);
		cr_assert_eq(mem_get(mem, &ref[i], 0, bytes, sizeof(bytes)), LEND_OK);
		cr_assert_arr_eq(bytes, want, sizeof(want));
	}
}

/* Gets all by a client; from a pool, each is copied from pages of its worker. */
static void get_with(struct lend_mem *mem, const struct lend_ref ref[OBJECTS], bool pool)
{
	struct lend_mem_cache_stat before, after;

	lend_mem_cache_stat_get(&before);
	get_all(mem, ref);
	lend_mem_cache_stat_get(&after);
	cr_expect_eq(after.pool_gets - before.pool_gets, pool ? OBJECTS : 0);
	cr_expect_eq(after.pool_gets_sent, before.pool_gets_sent);
}

static void all_are_used(const char *carrier)
{
	bool pool = !strcmp(carrier, "pool");
	struct lend_op op = {.timeout = 5 * SECOND};
	struct lend_ref ref[OBJECTS];
	struct lend_mem_stat stat;
	struct mem_node node;
	struct lend_mem *mem;
	struct lend_ep *ep;

	mem_node_start(&node, carrier, "12M", "--workers 3");
	cr_expect_eq(put_all(node.mem, ref), 7, "objects lie on all workers");
	mem_stat(node.mem, &stat);
	cr_expect_eq(stat.pages_total, (12 << 20) / LEND_MEM_PAGE);
	cr_expect_eq(stat.pages_used, PAGES * OBJECTS);
	cr_expect_eq(stat.refs, OBJECTS);
	get_with(node.mem, ref, pool);
	mem_client_open(&node, &ep, &mem); /* knows the first address, and has put nothing */
	get_with(mem, ref, pool);
	mem_client_close(ep, mem);
	cr_assert_eq(mem_end(node.mem, &op, lend_release(node.mem, ref, OBJECTS, &op)), LEND_OK);
	mem_node_stop(&node);
}

TestRuns(mem_workers, all_are_used_shm, all_are_used("shm"));
TestRuns(mem_workers, all_are_used_pool, all_are_used("pool"));
TestRuns(mem_workers, all_are_used_udp, all_are_used("udp"));

/* Puts when the next worker has no room, and when none has. */
Test(mem_workers, one_that_is_full_is_passed_by)
{
	static char bytes[160 * LEND_MEM_PAGE];
	struct lend_op op;
	struct mem_node node;
	unsigned n = 0;

	mem_node_start(&node, "shm", "3M", "--workers 3"); /* 256 pages each */
	for (;; n++) {
		struct iovec iov = {bytes, n ? sizeof(bytes) / 4 : sizeof(bytes)};

		op = (struct lend_op){.timeout = 5 * SECOND};
		if (mem_end(node.mem, &op, lend_put(node.mem, &iov, 1, NULL, &op)) != LEND_OK)
			break;
	}
	cr_expect_eq(op.status, LEND_RESOURCE_EXHAUSTED);
	cr_expect_eq(n, 1 + (256 - 160) / 40 + 2 * (256 / 40), "%u puts", n);
	mem_node_kill(&node);
}

/* A client continues with the workers that exist now. */
static void started_anew(const char *carrier, const char *before, const char *after, unsigned want)
{
	struct lend_ref old[OBJECTS], ref[OBJECTS];
	enum lend_status status;
	struct lend_mem_stat stat;
	struct mem_node node;
	unsigned seen;
	char c;

	mem_node_start(&node, carrier, "12M", before);
	(void)put_all(node.mem, old);
	mem_node_restart(&node, after);
	for (unsigned i = 0; i < OBJECTS; i++) {
		do /* each session has to notice it first */
			status = mem_get(node.mem, &old[i], 0, &c, 1);
		while (status == LEND_UNAVAILABLE && lend_poll(node.ep) >= 0);
		/* Also for references whose worker no longer exists. */
		cr_expect_eq(status, LEND_NOT_FOUND);
	}
	(void)put_all(node.mem, ref);
	seen = put_all(node.mem, old);
	cr_expect_eq(seen, want, "%x", seen);
	get_with(node.mem, ref, !strcmp(carrier, "pool"));
	get_all(node.mem, old);
	mem_stat(node.mem, &stat);
	cr_expect_eq(stat.pages_used, 2 * PAGES * OBJECTS);
	mem_node_kill(&node);
}

TestRuns(mem_workers, restarted_with_more, started_anew("shm", "", "12M --workers 3", 7));
TestRuns(mem_workers, a_pool_restarted_with_more, started_anew("pool", "", "12M --workers 3", 7));
TestRuns(mem_workers, restarted_with_fewer, started_anew("shm", "--workers 3", "12M", 1));
TestRuns(mem_workers, restarted_with_fewer_under_one_number,
	 started_anew("shm", "--workers 3 --id 7", "12M --id 7", 1));

/* A reference with a worker that the node does not have is a forgery. */
static void no_such_worker(const char *more, unsigned workers)
{
	struct mem_node node;
	struct lend_ref ref, bad;
	char c;

	mem_node_start(&node, "shm", "12M", more);
	ref = mem_put(node.mem, "abc", 4, NULL);
	for (unsigned worker = 0; worker < 64; worker++) {
		struct lend_memref r;

		cr_assert(lend_memref_decode((const uint8_t *)&ref, &r));
		r.slot ^= worker << LEND_MEMREF_WORKER_SHIFT;
		lend_memref_encode(&r, (uint8_t *)&bad);
		cr_expect_eq(mem_get(node.mem, &bad, 0, &c, 1),
			     !worker                            ? LEND_OK
			     : lend_memref_worker(&r) < workers ? LEND_PERMISSION_DENIED
								: LEND_NOT_FOUND,
			     "%u", worker);
	}
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

TestRuns(mem_workers, no_such_worker_of_one, no_such_worker("", 1));
TestRuns(mem_workers, no_such_worker_of_three, no_such_worker("--workers 3", 3));
TestRuns(mem_workers, restarted_with_as_many,
	 started_anew("shm", "--workers 3", "12M --workers 3", 7));

/* The address of any worker leads to all, and so does a reference's text. */
Test(mem_workers, any_address_will_do)
{
	struct lend_ref ref[OBJECTS], back;
	struct mem_node node, last;
	char text[256], bytes[LEN];

	mem_node_start(&node, "shm", "12M", "--workers 3");
	last = node;
	cr_assert(lend_worker_address(node.address, 0, 2, last.address, sizeof(last.address)));
	mem_client_open(&last, &last.ep, &last.mem);
	cr_expect_eq(put_all(last.mem, ref), 7);
	get_all(node.mem, ref);
	for (unsigned i = 0; i < OBJECTS; i++) {
		struct lend_mem *mem;
		struct lend_ep *ep;

		cr_assert_eq(lend_ref_text(node.mem, &ref[i], text, sizeof(text)), 0, "%s",
			     lend_why());
		cr_assert_eq(lend_open(NULL, &ep), 0);
		cr_assert_eq(lend_mem_open(ep, NULL, &mem), 0);
		cr_assert_eq(lend_ref_parse(mem, text, &back), 0);
		cr_assert_eq(mem_get(mem, &back, 0, bytes, sizeof(bytes)), LEND_OK);
		mem_client_close(ep, mem);
	}
	mem_client_close(last.ep, last.mem);
	mem_node_stop(&node);
}

/* A client that knows all workers over shm names the pool later. */
Test(mem_workers, a_node_becomes_a_pool)
{
	struct lend_ref ref[OBJECTS];
	struct mem_node node;
	char address[sizeof(node.address)];

	mem_node_start(&node, "pool", "12M", "--workers 3");
	mem_client_close(node.ep, node.mem);
	memcpy(address, node.address, sizeof(address));
	snprintf(node.address, sizeof(node.address), "shm:%s", address + strlen("pool:"));
	mem_client_open(&node, &node.ep, &node.mem);
	cr_expect_eq(put_all(node.mem, ref), 7);
	get_with(node.mem, ref, false);
	cr_assert_geq(lend_mem_add(node.mem, address), 0, "%s", lend_why());
	get_with(node.mem, ref, true);
	mem_node_kill(&node);
}

/* All addresses follow from one, for any number of workers. */
Test(mem_workers, sixteen)
{
	struct lend_ref ref[24];
	struct lend_op op = {.timeout = 20 * SECOND};
	struct mem_node node;
	unsigned seen = 0;

	mem_node_start(&node, "udp", "16M", "--workers 16");
	for (int i = 0; i < 24; i++) {
		ref[i] = mem_put(node.mem, &i, sizeof(i), NULL);
		seen |= 1u << worker_of(&ref[i]);
	}
	cr_expect_eq(seen, 0xffff, "%x", seen);
	cr_expect_eq(mem_end(node.mem, &op, lend_release(node.mem, ref, 24, &op)), LEND_OK);
	mem_node_stop(&node);
}

/* A configuration that cannot be served is refused with a remedy, in one line. */
Test(mem_workers, errors_name_the_fix)
{
	static const struct {
		const char *options, *says;
	} row[] = {
	    {"--listen udp:127.0.0.1:65535 --workers 2", "fewer --workers"},
	    {"--listen shm:x --workers 65", "1 to 64"},
	    {"--listen shm:x --workers 0", "1 to 64"},
	    {"--listen shm:x --workers 2 --memory /proc/self/stat", "--workers 1"},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		char command[512], line[512] = "";
		FILE *out;

		snprintf(command, sizeof(command), "timeout 20 '%s/lend-mn' %s 2>&1",
			 LEND_BUILD_DIR, row[i].options);
		out = popen(command, "r");
		cr_assert(out && fgets(line, sizeof(line), out));
		cr_expect(strstr(line, row[i].says), "%s: \"%s\"", row[i].options, line);
		while (fgets(line, sizeof(line), out))
			;
		cr_expect_neq(pclose(out), 0);
	}
}
