/* Goal: a memory node sends its pages in place over carriers that do so with registered memory, and
 * each byte arrives. Method: a lend-mn process, which reports the number of datagrams that a device
 * or its driver read in place; objects around a page and a part; over memif, and over each carrier
 * that scripts/conform.py gives. Covers: mn/node_worker.c, mn/lend_mn.c, src/io/dpdk/tx_zerocopy.c,
 * src/io/verbs/send.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/mem_node.h"
#include "lend/carrier.h"

static void read_objects(const char *carrier)
{
	static const size_t size[] = {8191, 65536, 1 << 20, (8 << 20) + 1};
	struct mem_node node;
	uint64_t in_place;

	setenv("LEND_LEVEL", "none", 1); /* what is encrypted is a copy */
	if (strcmp(carrier, "given") == 0 &&
	    strncmp(getenv("LEND_TEST_LISTEN"), "verbs:", 6) == 0) {
		char address[100]; /* without RC queue pairs, which would read the pages */

		snprintf(address, sizeof(address), "%s?rc=0", getenv("LEND_TEST_LISTEN"));
		setenv("LEND_TEST_LISTEN", address, 1);
	}
	mem_node_start(&node, carrier, "64M", "--json");
	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		char *in = malloc(size[i]), *out = malloc(size[i]);
		struct lend_ref ref;

		mem_fill(in, size[i], i + 1);
		ref = mem_put(node.mem, in, size[i], NULL);
		for (int round = 0; round < 2; round++) {
			memset(out, 0, size[i]);
			cr_assert_eq(mem_get(node.mem, &ref, 0, out, size[i]), LEND_OK);
			cr_assert(!memcmp(in, out, size[i]), "%zu bytes came back others", size[i]);
		}
		cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
		free(in);
		free(out);
	}
	in_place = mem_node_report(&node, "tx_in_place");
	if (lend_carrier_traits(node.address) & LEND_CARRIER_REGISTERS)
		cr_assert_geq(in_place, 2 * ((8 << 20) + (1 << 20)) / 9216);
	else if (in_place == 0)
		cr_skip_test("it copies each datagram of its MTU");
}

Test(mem_in_place, read_objects_memif, .init = memif_begin, .fini = memif_end)
{
	if (memif_is_here())
		read_objects("dpdk");
}

Test(mem_in_place, read_objects_given, .timeout = 240)
{
	if (given_is_here())
		read_objects("given");
}
