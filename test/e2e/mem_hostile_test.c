/* Goal: a live memory node answers any bytes with a typed status, keeps none of them, and still
 * serves. Method: calls of the memory method with random bodies, truncated bodies, and valid
 * headers with false lengths, short and longer than a page frame; then an ordinary put and get, and
 * the node's own count. Covers: mn/node_server.c, mn/landing.c, mn/store/exec.c, src/wire/memop.c
 */
#include <stdlib.h>
#include <string.h>

#include "e2e/mem_node.h"
#include "util/rng.h"
#include "wire/memop.h"
#include "one_line_test.h"

static enum lend_status send_bytes(struct lend_ep *ep, lend_session session, const void *bytes,
				   uint32_t len)
{
	struct lend_call call = {.method = LEND_MEM_METHOD, .timeout = UINT64_C(5000000000)};

	call.request = lend_buf_take(ep, len);
	cr_assert(call.request);
	memcpy(call.request->data, bytes, len);
	call.request->len = len;
	cr_assert_eq(lend_call_sync(ep, session, &call), 0, "%s", lend_why());
	if (call.request)
		lend_buf_give(ep, call.request);
	if (call.reply)
		lend_buf_give(ep, call.reply);
	return call.status;
}

/* A valid header, then random fields; every third one has a false length. */
static uint32_t make_head(struct lend_rng *rng, uint8_t *bytes, uint32_t cap)
{
	struct lend_memop op = {.kind = (uint8_t)(1 + lend_rng_below(rng, LEND_MEMOP_KINDS - 1)),
				.client = (uint32_t)lend_rng_below(rng, 3),
				.id = lend_rng_below(rng, 2000),
				.low = lend_rng_below(rng, 4),
				.life = (uint32_t)lend_rng_below(rng, 3),
				.n = (uint32_t)lend_rng_below(rng, 3),
				.offset = lend_rng_next(rng),
				.len = lend_rng_below(rng, 20000)};
	uint32_t len;

	if (op.kind == LEND_MEMOP_BYE_CLIENT || lend_rng_below(rng, 3) == 0)
		op.len = lend_rng_next(rng);
	len = lend_memop_encode(&op, bytes);
	len += (uint32_t)(lend_memop_payload(&op) < cap - len ? lend_memop_payload(&op) : 5000);
	if (lend_rng_below(rng, 4) == 0)
		len = (uint32_t)lend_rng_below(rng, len + 1);
	if (lend_rng_below(rng, 4) == 0 && len)
		bytes[lend_rng_below(rng, len)] ^= (uint8_t)(1u << lend_rng_below(rng, 8));
	return len;
}

static void run_hostile(const char *carrier, uint64_t seed)
{
	enum { CAP = 64 << 10 };
	uint8_t *bytes = calloc(1, CAP);
	struct mem_node node;
	struct lend_rng rng;
	lend_session session;
	struct lend_ref ref;
	unsigned refused = 0;
	char out[4];

	mem_node_start(&node, carrier, "16M", "");
	cr_assert_eq(lend_connect(node.ep, node.address, &session), 0);
	lend_rng_seed(&rng, seed);
	for (int i = 0; i < 3000; i++) {
		uint32_t len = make_head(&rng, bytes, CAP);

		if (i % 8 == 0) {
			len = (uint32_t)lend_rng_below(&rng, 300);
			mem_fill(bytes, len, lend_rng_next(&rng));
		}
		refused += send_bytes(node.ep, session, bytes, len) != LEND_OK;
	}
	cr_assert_gt(refused, 1000, "seed %llu", (unsigned long long)seed);
	lend_disconnect(node.ep, session);
	ref = mem_put(node.mem, "abc", 4, NULL);
	cr_assert_eq(mem_get(node.mem, &ref, 0, out, 4), LEND_OK);
	cr_assert_str_eq(out, "abc");
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_client_close(node.ep, node.mem); /* forged clients' holds are this process's */
	mem_client_open(&node, &node.ep, &node.mem);
	if (!strcmp(carrier, "shm"))
		mem_node_stop(&node);
	else
		mem_node_kill(&node);
	free(bytes);
}

TestRuns(mem_hostile, shm, run_hostile("shm", 1));
TestRuns(mem_hostile, udp, run_hostile("udp", 2));

/* Longer than a part: refused before its bytes arrive, and nothing is kept for it. */
Test(mem_hostile, a_message_longer_than_a_part)
{
	enum { LEN = LEND_MEM_PART_MAX + 4096 };
	uint8_t *bytes = calloc(1, LEN);
	struct lend_memop op = {.kind = LEND_MEMOP_PUT, .client = 1, .id = 1, .len = LEN - 56};
	struct mem_node node;
	lend_session session;

	mem_node_start(&node, "shm", "16M", "");
	cr_assert_eq(lend_connect(node.ep, node.address, &session), 0);
	lend_memop_encode(&op, bytes);
	cr_assert_eq(send_bytes(node.ep, session, bytes, LEN), LEND_RESOURCE_EXHAUSTED);
	mem_node_stop(&node);
	free(bytes);
}
