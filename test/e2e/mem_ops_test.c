/* Goal: every operation on references follows lend/mem.h, over shm, udp and a pool, with a lend-mn
 * process, and nothing is left in the node. Method: each test runs on all three, some on devices,
 * too; sizes in pairs around a page and a part; checked by the node's counters and the client's
 * datagram counters.
 * Covers: cn/op_queue.c, cn/op_call.c, cn/op_encode.c, cn/op_order.c, cn/ref_ops.c,
 * cn/ref_values.c, cn/space_ops.c, cn/handles.c */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/mem_node.h"
#include "lend/stats.h"

#define SUITE mem_ops

ON_DEVICES(sizes)
ALL(sizes)
{
	static const size_t size[] = {0,     1,       4095,    4096,          4097,
				      65536, 1 << 20, 8 << 20, (8 << 20) + 1, 20 << 20};

	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		char *in = malloc(size[i] + 1), *out = malloc(size[i] + 1);
		struct lend_ref ref;

		mem_fill(in, size[i], i + 1);
		ref = mem_put(node->mem, in, size[i], NULL);
		cr_assert_eq(lend_ref_len(&ref), size[i]);
		cr_assert_eq(mem_get(node->mem, &ref, 0, out, size[i]), LEND_OK, "%zu", size[i]);
		cr_assert(!memcmp(in, out, size[i]), "%zu bytes came back others", size[i]);
		cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
		cr_assert_eq(mem_get(node->mem, &ref, 0, out, size[i]), LEND_NOT_FOUND);
		free(in);
		free(out);
	}
}

ALL(scattered)
{
	char in[10000], out[10000] = {0};
	struct iovec put[] = {{in, 1}, {in + 1, 0}, {in + 1, 4999}, {in + 5000, 5000}};
	struct iovec get[] = {{out, 3000}, {out + 3000, 1}, {out + 3001, 6999}};
	struct lend_op op = {.timeout = SECOND * 5};
	struct lend_ref ref;

	mem_fill(in, sizeof(in), 7);
	cr_assert_eq(mem_end(node->mem, &op, lend_put(node->mem, put, 4, NULL, &op)), LEND_OK);
	ref = op.ref;
	op = (struct lend_op){.timeout = SECOND * 5};
	cr_assert_eq(mem_end(node->mem, &op, lend_get(node->mem, &ref, 0, get, 3, &op)), LEND_OK);
	cr_assert(!memcmp(in, out, sizeof(in)));
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

static enum lend_status write_at(struct lend_mem *mem, lend_space s, uint64_t at, const void *p,
				 size_t n)
{
	struct iovec iov = {(void *)p, n};
	struct lend_op op = {.timeout = SECOND * 5};

	return mem_end(mem, &op, lend_space_write(mem, s, at, &iov, 1, &op));
}

static enum lend_status read_at(struct lend_mem *mem, lend_space s, uint64_t at, void *p, size_t n)
{
	struct iovec iov = {p, n};
	struct lend_op op = {.timeout = SECOND * 5};

	return mem_end(mem, &op, lend_space_read(mem, s, at, &iov, 1, &op));
}

ALL(copy_on_write_of_exactly_one_page)
{
	enum { LEN = 16 * 4096 };
	static char in[LEN], out[LEN];
	struct lend_mem_stat before, after;
	struct lend_op op = {.timeout = SECOND * 5};
	struct lend_ref ref, sealed;
	lend_space space;

	mem_fill(in, LEN, 3);
	ref = mem_put(node->mem, in, LEN, NULL);
	cr_assert_eq(mem_end(node->mem, &op, lend_space_map(node->mem, &ref, &space, &op)),
		     LEND_OK);
	mem_stat(node->mem, &before);
	cr_assert_eq(write_at(node->mem, space, 5 * 4096 + 100, "hello", 5), LEND_OK);
	cr_assert_eq(write_at(node->mem, space, 5 * 4096 + 200, "again", 5), LEND_OK);
	mem_stat(node->mem, &after);
	cr_assert_eq(after.cow_copies - before.cow_copies, 1);
	cr_assert_eq(mem_get(node->mem, &ref, 0, out, LEN), LEND_OK);
	cr_assert(!memcmp(in, out, LEN), "the snapshot changed");
	op = (struct lend_op){.timeout = SECOND * 5};
	cr_assert_eq(mem_end(node->mem, &op, lend_space_seal(node->mem, space, 0, LEN, NULL, &op)),
		     LEND_OK);
	sealed = op.ref;
	cr_assert_eq(write_at(node->mem, space, 5 * 4096 + 100, "HELLO", 5), LEND_OK);
	memcpy(in + 5 * 4096 + 100, "hello", 5);
	memcpy(in + 5 * 4096 + 200, "again", 5);
	cr_assert_eq(mem_get(node->mem, &sealed, 0, out, LEN), LEND_OK);
	cr_assert(!memcmp(in, out, LEN), "the rest of the page is lost, or the seal is torn");
	cr_assert_eq(read_at(node->mem, space, 5 * 4096 + 100, out, 5), LEND_OK);
	cr_assert(!memcmp(out, "HELLO", 5));
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &sealed), LEND_OK);
	op = (struct lend_op){.timeout = SECOND * 5};
	cr_assert_eq(mem_end(node->mem, &op, lend_space_free(node->mem, space, &op)), LEND_OK);
	op = (struct lend_op){.timeout = SECOND * 5};
	cr_assert_eq(lend_space_free(node->mem, space, &op), -ESTALE);
}

/* Started without waiting in between: the seal must see both writes, the read the second. */
ON_DEVICES(program_order)
ALL(program_order)
{
	static char page[3 * 4096], out[3 * 4096];
	struct iovec a = {page, sizeof(page)}, b = {page + 4096, 4096}, o = {out, sizeof(out)};
	struct lend_op op[5] = {{.timeout = SECOND * 5},
				{.timeout = SECOND * 5},
				{.timeout = SECOND * 5},
				{.timeout = SECOND * 5},
				{.timeout = SECOND * 5}};
	struct lend_op make = {.timeout = SECOND * 5};
	struct lend_mem *mem = node->mem;
	lend_space s;

	cr_assert_eq(mem_end(mem, &make, lend_space_alloc(mem, sizeof(page), &s, &make)), LEND_OK);
	mem_fill(page, sizeof(page), 11);
	cr_assert_eq(lend_space_write(mem, s, 0, &a, 1, &op[0]), 0);
	cr_assert_eq(lend_space_write(mem, s, 0, &b, 1, &op[1]), 0);
	cr_assert_eq(lend_space_seal(mem, s, 0, sizeof(page), NULL, &op[2]), 0);
	cr_assert_eq(lend_space_read(mem, s, 0, &o, 1, &op[3]), 0);
	cr_assert_eq(lend_space_free(mem, s, &op[4]), 0);
	for (int i = 4; i >= 0; i--)
		cr_assert_eq(mem_end(mem, &op[i], 0), LEND_OK, "%d", i);
	cr_assert(!memcmp(out, page + 4096, 4096));
	cr_assert(!memcmp(out + 4096, page + 4096, 8192));
	cr_assert_eq(mem_get(mem, &op[2].ref, 0, page, sizeof(page)), LEND_OK);
	cr_assert(!memcmp(page, out, sizeof(page)));
	cr_assert_eq(mem_release(mem, &op[2].ref), LEND_OK);
}

/* Operations of several parts, which a later one could overtake. */
ALL(a_seal_waits_for_a_long_write)
{
	enum { LEN = 20 << 20 };
	static char in[LEN], out[LEN];
	struct iovec i = {in, LEN}, o = {out, LEN};
	struct lend_op make = {.timeout = SECOND * 5}, write = {.timeout = SECOND * 10},
		       seal = write, read = write, end = write;
	struct lend_mem *mem = node->mem;
	lend_space s;

	mem_fill(in, LEN, 5);
	cr_assert_eq(mem_end(mem, &make, lend_space_alloc(mem, LEN, &s, &make)), LEND_OK);
	cr_assert_eq(lend_space_write(mem, s, 0, &i, 1, &write), 0);
	cr_assert_eq(lend_space_seal(mem, s, 0, LEN, NULL, &seal), 0);
	cr_assert_eq(lend_space_read(mem, s, 0, &o, 1, &read), 0);
	cr_assert_eq(lend_space_free(mem, s, &end), 0);
	cr_assert_eq(mem_end(mem, &end, 0), LEND_OK);
	cr_assert_eq(mem_end(mem, &read, 0), LEND_OK);
	cr_assert(!memcmp(in, out, LEN));
	memset(out, 0, LEN);
	cr_assert_eq(mem_end(mem, &seal, 0), LEND_OK);
	cr_assert_eq(mem_get(mem, &seal.ref, 0, out, LEN), LEND_OK);
	cr_assert(!memcmp(in, out, LEN));
	cr_assert_eq(mem_release(mem, &seal.ref), LEND_OK);
}

ALL(an_adopt_waits_for_an_earlier_release)
{
	const struct lend_terms terms = {
	    .size = sizeof(terms), .hold = LEND_SHARED, .n = 1, .ttl = SECOND / 2};
	struct lend_op rel = {.timeout = SECOND * 5}, adopt = rel;
	struct lend_ref ref = mem_put(node->mem, "abc", 4, &terms);
	struct lend_mem_stat stat;

	cr_assert_eq(lend_release(node->mem, &ref, 1, &rel), 0);
	cr_assert_eq(lend_adopt(node->mem, &ref, &adopt), 0);
	cr_assert_eq(mem_end(node->mem, &adopt, 0), LEND_OK);
	cr_assert_eq(mem_end(node->mem, &rel, 0), LEND_OK);
	mem_stat(node->mem, &stat);
	cr_assert_eq(stat.holds, 1);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

ON_DEVICES(transfer)
ALL(transfer)
{
	const struct lend_terms terms = {
	    .size = sizeof(terms), .hold = LEND_TRANSFER, .ttl = 10 * SECOND};
	const struct lend_terms brief = {
	    .size = sizeof(terms), .hold = LEND_TRANSFER, .ttl = SECOND / 50};
	struct lend_mem *other;
	struct lend_ep *ep;
	struct lend_ref ref;
	char out[4];

	mem_client_open(node, &ep, &other);
	ref = mem_put(node->mem, "abc", 4, &terms);
	cr_assert_eq(mem_get(node->mem, &ref, 0, out, 4), LEND_OK); /* the creator may read */
	cr_assert_eq(mem_adopt(other, &ref), LEND_OK);
	cr_assert_eq(mem_adopt(node->mem, &ref), LEND_FAILED_PRECONDITION); /* used up */
	cr_assert_eq(mem_get(other, &ref, 0, out, 4), LEND_OK);
	cr_assert_eq(mem_release(other, &ref), LEND_OK);
	cr_assert_eq(mem_get(other, &ref, 0, out, 4), LEND_NOT_FOUND);
	ref = mem_put(node->mem, "abc", 4, &terms); /* get + release without an adopt */
	cr_assert_eq(mem_get(other, &ref, 0, out, 4), LEND_OK);
	cr_assert_eq(mem_release(other, &ref), LEND_OK);
	ref = mem_put(node->mem, "abc", 4, &brief);
	cr_assert(mem_pages_become(ep, other, 0, 1000), "ttl");
	cr_assert_eq(mem_adopt(other, &ref), LEND_NOT_FOUND);
	mem_client_close(ep, other);
}

ALL(a_holder_counts_its_adopts)
{
	const struct lend_terms terms = {
	    .size = sizeof(terms), .hold = LEND_SHARED, .n = 2, .ttl = SECOND / 5};
	struct lend_ref ref = mem_put(node->mem, "abc", 4, &terms);
	char out[4];

	cr_assert_eq(mem_adopt(node->mem, &ref), LEND_OK); /* already held */
	cr_assert_eq(mem_adopt(node->mem, &ref), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
	cr_assert_eq(mem_get(node->mem, &ref, 0, out, 4), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

Test(mem_ops, more_than_255_holders)
{
	enum { N = 300 };
	const struct lend_terms terms = {
	    .size = sizeof(terms), .hold = LEND_SHARED, .n = N, .ttl = 5 * SECOND};
	static struct lend_mem *mem[N];
	struct lend_mem_stat stat;
	struct mem_node node;
	struct lend_ref ref;
	char out[4];

	mem_node_start(&node, "udp", "1M", "--clients 500");
	ref = mem_put(node.mem, "abc", 4, &terms);
	for (int i = 0; i < N; i++) {
		cr_assert_eq(lend_mem_open(node.ep, node.address, &mem[i]), 0, "%s", lend_why());
		cr_assert_eq(mem_adopt(mem[i], &ref), LEND_OK, "%d", i);
	}
	mem_stat(node.mem, &stat);
	cr_assert_eq(stat.holds, N + 1);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	for (int i = 0; i < N; i++) {
		cr_assert_eq(mem_get(mem[i], &ref, 0, out, 4), LEND_OK, "%d", i);
		cr_assert_eq(mem_release(mem[i], &ref), LEND_OK, "%d", i);
		lend_mem_close(mem[i]);
	}
	cr_assert(mem_pages_become(node.ep, node.mem, 0, 10000)); /* readable until the TTL */
	mem_node_stop(&node);
}

ALL(many_released_at_once)
{
	enum { N = 40 };
	struct lend_op op = {.timeout = SECOND * 5};
	struct lend_ref ref[N];

	for (int i = 0; i < N; i++)
		ref[i] = mem_put(node->mem, &i, sizeof(i), NULL);
	cr_assert_eq(mem_adopt(node->mem, &ref[3]), LEND_OK);
	cr_assert_eq(mem_end(node->mem, &op, lend_release(node->mem, ref, N, &op)), LEND_OK);
	cr_assert(mem_pages_become(node->ep, node->mem, 1, 1000));
	cr_assert_eq(mem_release(node->mem, &ref[3]), LEND_OK);
}

ALL(forged_stale_and_past_the_end)
{
	struct lend_ref ref = mem_put(node->mem, "abcdefgh", 8, NULL), bad = ref, part;
	struct lend_op op = {.timeout = SECOND * 5};
	char out[64];

	((uint8_t *)&bad)[63] ^= 1;
	cr_assert_eq(mem_get(node->mem, &bad, 0, out, 8), LEND_PERMISSION_DENIED);
	bad = ref;
	((uint8_t *)&bad)[16] ^= 1; /* serial */
	cr_assert_neq(mem_get(node->mem, &bad, 0, out, 8), LEND_OK);
	bad = ref;
	((uint8_t *)&bad)[4] ^= 1; /* epoch */
	cr_assert_eq(mem_get(node->mem, &bad, 0, out, 8), LEND_NOT_FOUND);
	memset(&bad, 0xff, sizeof(bad));
	cr_assert_eq(lend_adopt(node->mem, &bad, &op), -EINVAL);
	cr_assert_eq(mem_get(node->mem, &ref, 1, out, 8), LEND_OUT_OF_RANGE);
	cr_assert_eq(mem_get(node->mem, &ref, UINT64_MAX - 3, out, 8), LEND_OUT_OF_RANGE);
	cr_assert_eq(lend_ref_slice(&ref, 2, 7, LEND_READ, &part), -ERANGE);
	cr_assert_eq(lend_ref_slice(&ref, UINT64_MAX - 1, 4, LEND_READ, &part), -ERANGE);
	cr_assert_eq(lend_ref_slice(&ref, 2, 5, LEND_READ, &part), 0);
	cr_assert_eq(mem_get(node->mem, &part, 1, out, 4), LEND_OK);
	cr_assert(!memcmp(out, "defg", 4));
	cr_assert_eq(mem_get(node->mem, &part, 1, out, 5), LEND_OUT_OF_RANGE);
	cr_assert_eq(lend_ref_slice(&part, 0, 4, LEND_READ | LEND_MAP, &bad), -EPERM);
	cr_assert_eq(lend_ref_slice(&part, 1, 4, LEND_READ, &part), 0);
	cr_assert_eq(lend_ref_slice(&part, 1, 2, LEND_READ, &bad), -EMLINK);
	cr_assert_eq(
	    mem_end(node->mem, &op, lend_ref_slice_remote(node->mem, &part, 1, 2, LEND_READ, &op)),
	    LEND_OK);
	cr_assert_eq(mem_get(node->mem, &op.ref, 0, out, 2), LEND_OK);
	cr_assert(!memcmp(out, "ef", 2));
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

ALL(in_a_message)
{
	struct lend_ref ref = mem_put(node->mem, "abc", 4, NULL), back;
	char message[1 + sizeof(ref)], out[4];

	lend_ref_store(message + 1, &ref); /* unaligned */
	lend_ref_load(&back, message + 1);
	cr_assert_eq(mem_get(node->mem, &back, 0, out, 4), LEND_OK);
	cr_assert_str_eq(out, "abc");
	cr_assert_eq(mem_release(node->mem, &back), LEND_OK);
}

ALL(text)
{
	struct lend_ref ref = mem_put(node->mem, "abc", 4, NULL), back;
	char text[256], out[4];
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_mem *mem;
	struct lend_ep *ep;

	cr_assert_eq(lend_ref_text(node->mem, &ref, text, sizeof(text)), 0, "%s", lend_why());
	cr_assert_eq(lend_ref_text(node->mem, &ref, text + 200, 20), -ERANGE);
	cr_assert_eq(lend_open(&config, &ep), 0);
	cr_assert_eq(lend_mem_open(ep, "", &mem), 0);
	cr_assert_eq(lend_get(mem, &ref, 0, NULL, 0, &(struct lend_op){0}), -EHOSTUNREACH);
	cr_assert(strstr(lend_why(), "memory node"));
	cr_assert_eq(lend_ref_parse(mem, "lend1:nonsense", &back), -EINVAL);
	cr_assert_eq(lend_ref_parse(mem, text, &back), 0, "%s", lend_why());
	cr_assert_eq(mem_get(mem, &back, 0, out, 4), LEND_OK);
	mem_client_close(ep, mem);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

ALL(full)
{
	static char big[18 << 20]; /* the last one fails in its second part */
	struct lend_ref ref[8];
	struct iovec iov = {big, sizeof(big)};
	struct lend_op op = {.timeout = SECOND * 5};
	int n = 0;

	while (n < 8 &&
	       (op = (struct lend_op){.timeout = SECOND * 5},
		mem_end(node->mem, &op, lend_put(node->mem, &iov, 1, NULL, &op)) == LEND_OK))
		ref[n++] = op.ref;
	cr_assert_eq(n, 3, "64 MiB hold three of 18");
	cr_assert_eq(op.status, LEND_RESOURCE_EXHAUSTED);
	op = (struct lend_op){.timeout = SECOND * 5};
	cr_assert_eq(mem_end(node->mem, &op, lend_release(node->mem, ref, n, &op)), LEND_OK);
}

static uint64_t sent_bytes(struct lend_ep *ep, bool received)
{
	struct lend_stats stats;

	lend_stats_get(ep, &stats);
	return received ? stats.rx_datagrams : stats.tx_datagrams;
}

Test(mem_ops, four_kib_is_one_datagram_each_way)
{
	enum { N = 50 };
	static struct lend_ref ref[N];
	static char page[4096];
	struct mem_node node;
	uint64_t tx, rx;

	mem_node_start(&node, "shm", "16M", "");
	ref[0] = mem_put(node.mem, page, sizeof(page), NULL); /* sends HELLO, too */
	cr_assert_eq(mem_release(node.mem, &ref[0]), LEND_OK);
	tx = sent_bytes(node.ep, false);
	rx = sent_bytes(node.ep, true);
	for (int i = 0; i < N; i++)
		ref[i] = mem_put(node.mem, page, sizeof(page), NULL);
	for (int i = 0; i < N; i++)
		cr_assert_eq(mem_get(node.mem, &ref[i], 0, page, sizeof(page)), LEND_OK);
	tx = sent_bytes(node.ep, false) - tx;
	rx = sent_bytes(node.ep, true) - rx;
	cr_assert_leq(tx, 2 * N + 2, "%llu datagrams for %d calls", (unsigned long long)tx, 2 * N);
	cr_assert_leq(rx, 2 * N + 2, "%llu datagrams for %d calls", (unsigned long long)rx, 2 * N);
	for (int i = 0; i < N; i++)
		cr_assert_eq(mem_release(node.mem, &ref[i]), LEND_OK);
	mem_node_stop(&node);
}
