/* Goal: calls of every length run over the raw carrier, with lost frames and a device with queues
 * that fail in between. Method: two endpoints of one thread over a device made of memory
 * (io/raw/fake.c). Covers: src/io/raw/carrier.c, src/io/raw/send.c, src/io/raw/rx.c */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "e2e/rpc_pair.h"
#include "io/raw/fake.h"

static struct raw_fake *set_up(void)
{
	void *module;

	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR "/test/raw", 1);
	module = dlopen(LEND_BUILD_DIR "/test/raw/lend_io_raw.so", RTLD_NOW | RTLD_LOCAL);
	cr_assert(module, "%s", dlerror());
	return dlsym(module, "raw_fake");
}

static void echo_len(struct pair *pair, uint32_t len)
{
	struct ask ask = {.done = false};

	ask_run(pair, &ask, ECHO, ask_bytes(pair->client, len, len));
	cr_assert_eq(ask.call.status, LEND_OK, "%u bytes: status %d", len, ask.call.status);
	cr_assert(ask_same(ask.call.reply, len, len), "%u bytes came back changed", len);
	ask_give(pair->client, &ask);
}

static const uint32_t lens[] = {0, 1, 64, 1000, 1400, 1472, 1473, 8192, 65536, 1 << 20};

Test(rpc_raw, lengths, .timeout = 60)
{
	struct pair pair;

	(void)set_up();
	pair_open(&pair, "raw");
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		echo_len(&pair, lens[i]);
	pair_close(&pair);
}

Test(rpc_raw, losses_and_failures, .timeout = 60)
{
	struct raw_fake *fake = set_up();
	struct pair pair;

	pair_open(&pair, "raw");
	echo_len(&pair, 1);
	fake->drop_every = 50;
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		fake->mangle[RAW_CQE_OP_OWNER] = (RAW_OP_RECEIVED ^ RAW_OP_FAILED) << 4;
		fake->send_broken = i % 2;
		echo_len(&pair, lens[i]);
	}
	cr_assert_gt(fake->revived[RAW_RECEIVING], 3);
	cr_assert_gt(fake->revived[RAW_SENDING], 1);
	pair_close(&pair);
	cr_assert_eq(fake->run_over + fake->misread, 0);
}
