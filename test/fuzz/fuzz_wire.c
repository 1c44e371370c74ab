/* Goal: for bytes of any length no decoder reads past them, or accepts what its encoder would not
 * write. Method: each decoder of src/wire over the input, which is at the very end of its memory;
 * accepted inputs are encoded again and compared. Covers: src/wire/pkt.c, src/wire/memop.c,
 * src/wire/memref.c, src/wire/worker_address.c, src/wire/arg.h, src/wire/head.c */
#include <stdlib.h>
#include <string.h>

#include "fuzz/finding.h"
#include "wire/head.h"
#include "wire/memop.h"
#include "wire/pkt.h"

const char fuzz_name[] = "wire";

static void check_datagram(const uint8_t *data, size_t len)
{
	struct lend_pkt_view v;
	bool may_carry_call;

	if (lend_pkt_decode(&v, data, (uint32_t)len) != LEND_PKT_OK)
		return;
	FUZZ_CHECK(v.payload >= data + sizeof(v.head) && v.payload + v.payload_len <= data + len,
		   "a payload outside its datagram");
	/* A 0-RTT call is complete in its CONNECT; the offset field there has another
	 * meaning. */
	may_carry_call = v.head.kind == LEND_PKT_CONNECT || v.head.kind == LEND_PKT_ACCEPT;
	FUZZ_CHECK(v.payload_len == 0 ||
		       (uint64_t)(may_carry_call ? 0 : v.head.offset) + v.payload_len <=
			   v.head.length,
		   "a payload outside its message");
	FUZZ_CHECK(memcmp(&v.head, data, sizeof(v.head)) == 0, "another head");
}

static void check_operation(const uint8_t *data, size_t len)
{
	uint8_t again[LEND_MEMOP_FIXED_MAX];
	struct lend_memop op;
	size_t n = len < LEND_MEMOP_FIXED_MAX ? len : LEND_MEMOP_FIXED_MAX;
	bool shown;

	if (lend_memop_decode(data, n, len, &op) != LEND_MEM_OK)
		return;
	/* A PUT or WRITE with ONE_SIDED has a show in place of its bytes. */
	shown = op.flags & LEND_MEMOP_ONE_SIDED && op.kind != LEND_MEMOP_GET;
	FUZZ_CHECK(op.fixed <= n, "lengths disagree");
	FUZZ_CHECK(shown ? len > op.fixed && len - op.fixed <= LEND_MEMOP_SHOWN_MAX
			 : lend_memop_payload(&op) == len - op.fixed,
		   "lengths disagree");
	FUZZ_CHECK(lend_memop_encode(&op, again) == op.fixed, "another length");
	FUZZ_CHECK(memcmp(again, data, op.fixed) == 0, "an operation that no encoder writes");
}

static void check_reference(const uint8_t *data, size_t len)
{
	uint8_t again[LEND_MEMREF_LEN];
	struct lend_memref ref;
	uint64_t first, n;

	if (len < LEND_MEMREF_LEN || !lend_memref_decode(data, &ref))
		return;
	n = lend_memref_range(&ref, &first);
	FUZZ_CHECK(first <= ref.root_len && n <= ref.root_len - first, "a range outside its root");
	FUZZ_CHECK(n == lend_memref_len(&ref), "two lengths");
	lend_memref_encode(&ref, again);
	FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0, "a reference that no encoder writes");
}

static void check_text(const uint8_t *data, size_t len)
{
	uint8_t bytes[LEND_MEMREF_LEN];
	char again[LEND_MEMREF_TEXT];

	if (len < LEND_MEMREF_TEXT || !lend_memref_parse((const char *)data, bytes))
		return;
	lend_memref_text(bytes, again);
	FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0, "a text that no encoder writes");
}

static void check_replies(const uint8_t *data, size_t len)
{
	struct lend_memhello hello;
	struct lend_memspace space;
	struct lend_memstats stats;

	if (lend_memhello_decode(data, len, &hello))
		FUZZ_CHECK((const uint8_t *)hello.text + hello.text_len <= data + len,
			   "a text outside its reply");
	(void)lend_memspace_decode(data, len, &space);
	(void)lend_memstats_decode(data, len, &stats);
}

/* A head without entries of later releases is what the writer makes of its entries. */
static void check_head(const uint8_t *data, size_t len)
{
	uint32_t head_len = lend_head_length(data, (uint32_t)len, len), entries = 0;
	uint8_t again[LEND_HEAD_MAX];
	struct lend_head_writer w = lend_head_begin(again, sizeof(again));
	struct lend_head_entry e;

	FUZZ_CHECK(head_len <= len, "a head longer than its message");
	if (!head_len || !lend_head_valid(data, head_len))
		return;
	for (uint32_t at = 0; lend_head_next(data, &at, &e); entries++) {
		FUZZ_CHECK(strlen(e.key) == (size_t)((const char *)e.value - e.key - 1) &&
			       e.value + e.len < data + head_len,
			   "an entry outside its head");
		FUZZ_CHECK(e.kind >= LEND_HEAD_TEXTS ||
			       (strlen((const char *)e.value) == e.len &&
				lend_head_text(data, e.kind) == (const char *)e.value),
			   "a text that is no string");
		lend_head_add(&w, e.kind, e.key, e.value, e.len);
	}
	if (data[2] + 256u * data[3] == entries)
		FUZZ_CHECK(lend_head_end(&w) == head_len && memcmp(again, data, head_len) == 0,
			   "a head that no writer writes");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t *exact = malloc(len ? len : 1);

	fuzz_begin();
	fuzz_hostile++;
	if (len)
		memcpy(exact, data, len);
	check_datagram(exact, len);
	check_operation(exact, len);
	check_reference(exact, len);
	check_text(exact, len);
	check_replies(exact, len);
	check_head(exact, len);
	free(exact);
	return 0;
}
