/* Goal: a space's pointer shows the space: loads read the node's bytes, stores are private until a
 * seal sends them, and pages that cannot be fetched are reported. Method: each test over shm, udp
 * and a pool with a lend-mn process; sizes in pairs around a page, a readahead window and a part;
 * checked by the endpoint's bytes and the counters of node and cache. Covers: cn/space_pointer.c,
 * cn/space_view.c, cn/paging/paged_view.c, cn/paging/pager.c, cn/pool/pool_view.c,
 * cn/pool/pool_client.c, cn/pool/dirty_pages.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUITE mem_pointer
#include "e2e/mem_view.h"
#include "sys/uffd.h"

ON_DEVICES(sizes)
ALL(sizes)
{
	static const size_t size[] = {1,     4095,    4096,          4097,
				      65536, 1 << 20, (1 << 20) + 1, (8 << 20) + 1};

	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		char *in = malloc(size[i]), *p;
		struct lend_ref ref, changed;
		lend_space space;

		mem_fill(in, size[i], i + 1);
		ref = mem_put(node->mem, in, size[i], NULL);
		space = mem_map(node->mem, &ref);
		p = mem_pointer(node, space);
		cr_assert(!memcmp(p, in, size[i]), "%zu bytes came as others", size[i]);
		p[size[i] / 2] ^= 1;
		p[size[i] - 1] ^= 2;
		cr_assert_eq(mem_seal(node, space, 0, size[i], &changed), LEND_OK);
		mem_expect(node, &ref, in, size[i]);
		in[size[i] / 2] ^= 1;
		in[size[i] - 1] ^= 2;
		mem_expect(node, &changed, in, size[i]);
		cr_assert_eq(lend_space_intact(node->mem, space), 0);
		mem_free_space(node->mem, space);
		cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
		cr_assert_eq(mem_release(node->mem, &changed), LEND_OK);
		free(in);
	}
}

ALL(a_new_space_is_zeros_without_asking)
{
	lend_space space = mem_alloc(node->mem, 3 * PAGE + 5);
	struct lend_mem_cache_stat before = mem_cache();
	char want[3 * PAGE + 5] = {0}, *p = mem_pointer(node, space);
	struct lend_ref ref;

	cr_assert(!memcmp(p, want, sizeof(want)));
	p[PAGE] = want[PAGE] = 7;
	p[3 * PAGE + 4] = want[3 * PAGE + 4] = 9;
	cr_assert_eq(mem_seal(node, space, 0, sizeof(want), &ref), LEND_OK);
	mem_expect(node, &ref, want, sizeof(want));
	cr_assert_eq(mem_cache().misses, before.misses);
	cr_assert_eq(mem_cache().zeros, before.zeros);
	mem_free_space(node->mem, space);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

/* A space that was written to before has bytes that are in no snapshot. */
ON_DEVICES(written_before)
ALL(written_before)
{
	char in[5 * PAGE], part[100];
	struct iovec iov = {part, sizeof(part)};
	struct lend_op op = {.timeout = SECOND * 5};
	struct lend_ref ref;
	lend_space space, fresh;

	mem_fill(in, sizeof(in), 1);
	mem_fill(part, sizeof(part), 2);
	ref = mem_put(node->mem, in, sizeof(in), NULL);
	fresh = mem_map(node->mem, &ref);
	cr_assert(!memcmp(mem_pointer(node, fresh), in, sizeof(in)));
	space = mem_map(node->mem, &ref);
	cr_assert_eq(
	    mem_end(node->mem, &op, lend_space_write(node->mem, space, PAGE - 50, &iov, 1, &op)),
	    LEND_OK);
	memcpy(in + PAGE - 50, part, sizeof(part));
	cr_assert(!memcmp(mem_pointer(node, space), in, sizeof(in)));
	mem_free_space(node->mem, space);
	mem_free_space(node->mem, fresh);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

/* The kernel tracks a pool's dirty pages since Linux 6.7. */
static bool is_marked(const struct mem_node *node)
{
	int fd = strncmp(node->address, "pool:", 5) ? -2 : lend_uffd_marks();

	if (fd >= 0)
		close(fd);
	return fd != -EOPNOTSUPP;
}

ALL(a_seal_sends_the_stored_pages_alone)
{
	enum { LEN = 300 * PAGE };
	char *in = malloc(LEN), *p;
	struct lend_ref ref, a, b, c;
	lend_space space;
	uint64_t before;

	mem_fill(in, LEN, 3);
	ref = mem_put(node->mem, in, LEN, NULL);
	space = mem_map(node->mem, &ref);
	p = mem_pointer(node, space);
	cr_assert(!memcmp(p, in, LEN));
	p[10 * PAGE] = in[10 * PAGE] = 1;
	p[11 * PAGE + 1] = in[11 * PAGE + 1] = 1;
	p[200 * PAGE] = in[200 * PAGE] = 1;
	before = mem_sent(node);
	cr_assert_eq(mem_seal(node, space, 0, LEN, &a), LEND_OK);
	cr_assert_gt(mem_sent(node) - before, 3 * PAGE);
	cr_assert_lt(mem_sent(node) - before, 10 * PAGE, "a lost datagram is sent again");
	mem_expect(node, &a, in, LEN);
	before = mem_sent(node);
	cr_assert_eq(mem_seal(node, space, 0, LEN, &b), LEND_OK);
	cr_assert(!is_marked(node) || mem_sent(node) - before < PAGE, "nothing was stored since");
	p[11 * PAGE + 1] = in[11 * PAGE + 1] = 2; /* a page that was sent becomes dirty again */
	cr_assert_eq(mem_seal(node, space, 0, LEN, &c), LEND_OK);
	mem_expect(node, &c, in, LEN);
	mem_free_space(node->mem, space);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &a), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &b), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &c), LEND_OK);
	free(in);
}

/* The second seal finds no dirty page, and must not overtake what the first one sends. */
ON_DEVICES(seals_at_once)
ALL(seals_at_once)
{
	enum { LEN = 512 * PAGE, SEALS = 4 };
	static char want[LEN], *p;
	lend_space space = mem_alloc(node->mem, LEN);
	struct lend_op op[SEALS];

	p = mem_pointer(node, space);
	for (int round = 1; round < 8; round++) {
		for (size_t i = 0; i < LEN; i += PAGE)
			p[i] = want[i] = (char)round;
		for (int i = 0; i < SEALS; i++) {
			op[i] = (struct lend_op){.timeout = SECOND * 5};
			cr_assert_eq(lend_space_seal(node->mem, space, 0, LEN, NULL, &op[i]), 0);
		}
		for (int i = 0; i < SEALS; i++) {
			cr_assert_eq(mem_end(node->mem, &op[i], 0), LEND_OK);
			mem_expect(node, &op[i].ref, want, LEN);
			cr_assert_eq(mem_release(node->mem, &op[i].ref), LEND_OK);
		}
	}
	mem_free_space(node->mem, space);
}

struct busy {
	volatile char *p;
	atomic_bool *stop;
};

static void *store_on(void *arg)
{
	struct busy *b = arg;

	for (size_t i = 0; !atomic_load(b->stop); i++)
		b->p[i * PAGE % (16 * PAGE)]++;
	return NULL;
}

/* A seal goes over its range once: concurrent stores do not prolong it. */
ALL(a_seal_ends_while_others_store)
{
	lend_space space = mem_alloc(node->mem, 16 * PAGE);
	atomic_bool stop = false;
	struct busy busy = {mem_pointer(node, space), &stop};
	pthread_t thread;
	struct lend_ref ref;

	cr_assert_eq(pthread_create(&thread, NULL, store_on, &busy), 0);
	for (int i = 0; i < 100; i++) {
		struct lend_mem_stat before, after;

		mem_stat(node->mem, &before);
		cr_assert_eq(mem_seal(node, space, 0, 16 * PAGE, &ref), LEND_OK);
		mem_stat(node->mem, &after);
		cr_assert_leq(after.ops - before.ops, 16 + 3, "a page was sent twice"); /* RENEW */
		cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	mem_free_space(node->mem, space);
}

ALL(a_seal_of_a_part_leaves_the_rest_for_later)
{
	char in[8 * PAGE], *p;
	lend_space space = mem_alloc(node->mem, sizeof(in));
	struct lend_ref part, whole;

	p = mem_pointer(node, space);
	mem_fill(in, sizeof(in), 4);
	memcpy(p, in, sizeof(in));
	cr_assert_eq(mem_seal(node, space, PAGE + 1, 2 * PAGE, &part), LEND_OK);
	mem_expect(node, &part, in + PAGE + 1, 2 * PAGE);
	cr_assert_eq(mem_seal(node, space, 0, sizeof(in), &whole), LEND_OK);
	mem_expect(node, &whole, in, sizeof(in));
	cr_assert_eq(mem_release(node->mem, &part), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &whole), LEND_OK);
	cr_assert_eq(mem_seal(node, space, 1, sizeof(in), &part), LEND_OUT_OF_RANGE);
	mem_free_space(node->mem, space);
}

ALL(reads_and_writes_are_copies_in_their_place)
{
	char in[3 * PAGE], out[3 * PAGE] = {0}, *p;
	struct iovec put[] = {{in, 100}, {in + 100, sizeof(in) - 100}}, get = {out, sizeof(out)};
	struct lend_op w = {.timeout = SECOND}, s = {.timeout = SECOND}, r = {.timeout = SECOND};
	lend_space space = mem_alloc(node->mem, sizeof(in) + 1);

	p = mem_pointer(node, space);
	mem_fill(in, sizeof(in), 5);
	cr_assert_eq(lend_space_write(node->mem, space, 1, put, 2, &w), 0);
	cr_assert_eq(lend_space_seal(node->mem, space, 1, sizeof(in), NULL, &s), 0);
	cr_assert_eq(lend_space_read(node->mem, space, 1, &get, 1, &r), 0);
	cr_assert_eq(mem_end(node->mem, &w, 0), LEND_OK);
	cr_assert_eq(mem_end(node->mem, &r, 0), LEND_OK);
	cr_assert_eq(mem_end(node->mem, &s, 0), LEND_OK);
	cr_assert(!memcmp(in, out, sizeof(in)) && !memcmp(p + 1, in, sizeof(in)));
	mem_expect(node, &s.ref, in, sizeof(in));
	r = (struct lend_op){.timeout = SECOND};
	cr_assert_eq(mem_end(node->mem, &r, lend_space_read(node->mem, space, 2, &get, 1, &r)),
		     LEND_OUT_OF_RANGE);
	r = (struct lend_op){.timeout = SECOND};
	cr_assert_eq(
	    mem_end(node->mem, &r, lend_space_read(node->mem, space, UINT64_MAX, &get, 1, &r)),
	    LEND_OUT_OF_RANGE);
	mem_free_space(node->mem, space);
	cr_assert_eq(mem_release(node->mem, &s.ref), LEND_OK);
}

ALL(when_there_is_no_pointer)
{
	lend_space space = mem_alloc(node->mem, 0), full = mem_alloc(node->mem, PAGE);
	struct lend_op op = {.timeout = SECOND * 5};
	char byte = 1;
	struct iovec iov = {&byte, 1};

	cr_assert_null(lend_space_pointer(node->mem, space));
	cr_assert(strstr(lend_why(), "empty"), "%s", lend_why());
	mem_free_space(node->mem, space);
	cr_assert_null(lend_space_pointer(node->mem, space));
	cr_assert(strstr(lend_why(), "freed"), "%s", lend_why());
	cr_assert_eq(lend_space_prefetch(node->mem, space, 0, 0, &op), -ESTALE);
	cr_assert_eq(lend_space_intact(node->mem, space), -ESTALE);
	cr_assert_eq(lend_space_prefetch(node->mem, full, 0, 1, &op), -EINVAL);
	cr_assert_eq(lend_space_intact(node->mem, full), 0);
	cr_assert_eq(lend_space_write(node->mem, full, 0, &iov, 1, &op), 0);
	cr_assert_null(lend_space_pointer(node->mem, full));
	cr_assert(strstr(lend_why(), "wait"), "%s", lend_why());
	cr_assert_eq(mem_end(node->mem, &op, 0), LEND_OK);
	cr_assert_eq(mem_pointer(node, full)[0], 1);
	mem_free_space(node->mem, full);
}

/* Each space shows its own bytes, whichever spaces are next to it in the address space. */
ALL(many_spaces)
{
	enum { N = 100 };
	char in[2 * PAGE];
	lend_space space[N];
	struct lend_ref ref;
	char *p[N];

	mem_fill(in, sizeof(in), 13);
	ref = mem_put(node->mem, in, sizeof(in), NULL);
	for (int i = 0; i < N; i++) {
		space[i] = mem_map(node->mem, &ref);
		p[i] = mem_pointer(node, space[i]);
		p[i][PAGE] = (char)i;
	}
	for (int i = 0; i < N; i += 3)
		mem_free_space(node->mem, space[i]);
	for (int i = 0; i < N; i++) {
		if (i % 3 == 0) {
			space[i] = mem_map(node->mem, &ref);
			p[i] = mem_pointer(node, space[i]);
		}
		cr_assert(!memcmp(p[i], in, PAGE));
		cr_assert_eq(p[i][PAGE], i % 3 ? (char)i : in[PAGE]);
	}
	for (int i = 0; i < N; i++)
		mem_free_space(node->mem, space[i * 7 % N]);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

/* Clients of one process come and go in several threads; the last one ends the pager. */
ON_DEVICES(clients_share_the_pager)
ALL(clients_share_the_pager)
{
	char in[3 * PAGE];
	struct lend_ref ref;

	mem_fill(in, sizeof(in), 10);
	ref = mem_put(node->mem, in, sizeof(in), NULL);
	for (int i = 0; i < 3; i++) {
		struct mem_node other = *node;
		lend_space space, mine = mem_map(node->mem, &ref);

		mem_client_open(node, &other.ep, &other.mem);
		space = mem_map(other.mem, &ref);
		cr_assert(!memcmp(mem_pointer(&other, space), in, sizeof(in)));
		if (i)
			cr_assert(!memcmp(mem_pointer(node, mine), in, sizeof(in)));
		mem_client_close(other.ep, other.mem); /* its space goes with it */
		cr_assert(!memcmp(mem_pointer(node, mine), in, sizeof(in)));
		mem_free_space(node->mem, mine);
	}
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}
