/* Goal: for bytes of any length the decoder of messages takes what protobuf C++ takes, with the
 * same values, and reads nothing past them. Method: the input's first two bytes select the type and
 * cut the others into segments; a decoded message is encoded, and both are compared with protobuf
 * C++. Covers: src/pb/decoder.c, src/pb/encoder.c */
#include <stdlib.h>
#include <string.h>

#include "every.pb-c.h"
#include "every2.pb-c.h"
#include "fuzz/finding.h"
#include "pb/kit.h"
#include "pb/cxx_oracle.h"

enum { MEMORY = 1 << 22 };
const char fuzz_name[] = "message";

static void check_values(const struct lend_pb_table *table, const ProtobufCMessage *m,
			 const void *want, size_t want_len)
{
	struct kit_bytes again;
	size_t got_len;
	void *got;
	bool ignored;

	FUZZ_CHECK(kit_encode(table, m, 50, 1 << 16, false, &again) == LEND_PB_OK, "not encoded");
	FUZZ_CHECK(oracle_reparse(table->descriptor->name, again.data, again.len, &got, &got_len,
				  &ignored),
		   "bytes that C++ does not take");
	FUZZ_CHECK(got_len == want_len && !memcmp(got, want, got_len), "other values than C++");
	free(got);
	free(again.data);
}

static void check_message(const ProtobufCMessageDescriptor *type, bool checks_utf8,
			  const uint8_t *data, size_t len, struct lend_rng *rng)
{
	const struct lend_pb_table *table = kit_table(type);
	struct kit_blocks blocks;
	struct kit_input input;
	ProtobufCMessage *m;
	enum lend_pb_status status;
	size_t want_len;
	void *want = NULL;
	bool bad_utf8 = false, taken;

	kit_cut(&input, data, len, rng);
	kit_blocks_open(&blocks, MEMORY, 1 << 12);
	status = lend_pb_decode(table, input.segment, input.n, &blocks.base, &m);
	taken = oracle_reparse(type->name, data, len, &want, &want_len, &bad_utf8);
	if (status == LEND_PB_OK) {
		FUZZ_CHECK(taken && !bad_utf8, "bytes that C++ does not take");
		check_values(table, m, want, want_len);
	} else if (status != LEND_PB_NO_MEMORY && (status != LEND_PB_BAD_UTF8 || checks_utf8)) {
		FUZZ_CHECK(!taken, "C++ takes these bytes");
	}
	free(want);
	kit_blocks_close(&blocks);
	kit_free(&input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct lend_rng rng;

	fuzz_begin();
	if (len < 2)
		return 0;
	fuzz_hostile++;
	lend_rng_seed(&rng, data[1]);
	if (data[0] & 1)
		check_message(&lend_test2__every2__descriptor, false, data + 2, len - 2,
			      data[1] ? &rng : NULL);
	else
		check_message(&lend_test__every__descriptor, true, data + 2, len - 2,
			      data[1] ? &rng : NULL);
	return 0;
}
