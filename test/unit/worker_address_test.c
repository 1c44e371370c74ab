/* Goal: the address of any worker of a memory node yields those of all its workers, or is refused.
 * Method: a table; then there and back for all pairs. Covers: src/wire/worker_address.c */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "wire/worker_address.h"

Test(worker_address, table)
{
	static const struct {
		const char *address;
		uint32_t from, to;
		const char *want;
	} row[] = {
	    {"shm:mn0", 0, 0, "shm:mn0"},
	    {"shm:mn0", 0, 1, "shm:mn0.1"},
	    {"shm:mn0", 0, 63, "shm:mn0.63"},
	    {"shm:mn0.1", 1, 0, "shm:mn0"},
	    {"shm:mn0.1", 1, 12, "shm:mn0.12"},
	    {"shm:mn0.1", 0, 2, "shm:mn0.1.2"},
	    {"shm:mn0.11", 1, 0, NULL},
	    {"shm:mn0", 1, 0, NULL},
	    {"shm:a@/dev/dax0.0", 0, 3, "shm:a.3@/dev/dax0.0"},
	    {"shm:a.3@/dev/dax0.0", 3, 1, "shm:a.1@/dev/dax0.0"},
	    {"shm:7000", 0, 1, "shm:7000.1"},
	    {"pool:mn0", 0, 1, "pool:mn0.1"},
	    {"udp:10.0.0.7:7000", 0, 1, "udp:10.0.0.7:7001"},
	    {"udp:10.0.0.7:7003", 3, 0, "udp:10.0.0.7:7000"},
	    {"udp:[fd00::2]:9", 0, 1, "udp:[fd00::2]:10"},
	    {"udp:h:65472", 0, 63, "udp:h:65535"},
	    {"udp:h:65473", 0, 63, NULL},
	    {"udp:h:0", 0, 1, NULL},
	    {"udp:h:3", 3, 0, NULL},
	    {"udp:h", 0, 1, NULL},
	    {"udp:h:123456", 0, 1, NULL},
	    {"udp:h:", 0, 1, NULL},
	    {"", 0, 1, NULL},
	    {"77", 0, 1, NULL},
	    {"udp:h:7!", 0, 1, NULL},
	    {"shm:a", UINT32_MAX, 1, NULL},
	    {"dpdk:memif@127.0.0.1:7001?links=8", 0, 2, "dpdk:memif@127.0.0.1:7003?links=8"},
	    {"verbs:rxe0@10.0.0.1:18515?gid=1&pkey=0x7", 1, 0,
	     "verbs:rxe0@10.0.0.1:18514?gid=1&pkey=0x7"},
	    {"dpdk:d@1.2.3.4:80?via=1.2.3.9:5", 0, 1, "dpdk:d@1.2.3.4:81?via=1.2.3.9:5"},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		char out[64];
		bool got =
		    lend_worker_address(row[i].address, row[i].from, row[i].to, out, sizeof(out));

		cr_assert_eq(got, row[i].want != NULL, "row %zu: %s", i, got ? out : "none");
		if (got)
			cr_expect_str_eq(out, row[i].want, "row %zu", i);
	}
}

Test(worker_address, fits_and_one_more)
{
	char out[10];

	cr_expect(lend_worker_address("shm:mn0", 0, 1, out, 10));
	cr_expect_str_eq(out, "shm:mn0.1");
	cr_expect_not(lend_worker_address("shm:mn0", 0, 1, out, 9));
	cr_expect_not(lend_worker_address("shm:mn0", 0, 10, out, 10));
}

Test(worker_address, there_and_back)
{
	static const char *const address[] = {"shm:a", "shm:a.5@/dev/shm/x", "udp:127.0.0.1:40000",
					      "dpdk:memif@10.1.2.3:7?from=10.1.2.4"};

	for (size_t a = 0; a < sizeof(address) / sizeof(address[0]); a++)
		for (uint32_t i = 0; i < 64; i++)
			for (uint32_t j = 0; j < 64; j++) {
				char there[64], other[64], want[64];

				cr_assert(lend_worker_address(address[a], 0, i, there, 64));
				cr_assert(lend_worker_address(address[a], 0, j, want, 64));
				cr_assert(lend_worker_address(there, i, j, other, 64));
				cr_assert_str_eq(other, want);
			}
}

Test(worker_address, port_table)
{
	cr_expect_eq(lend_worker_address_port("udp:h:7000"), 7000);
	cr_expect_eq(lend_worker_address_port("udp:h:0"), 0);
	cr_expect_eq(lend_worker_address_port("shm:7000"), 0);
	cr_expect_eq(lend_worker_address_port("dpdk:memif@1.1.1.1:5?links=3"), 5);
	cr_expect_eq(lend_worker_address_port("nonsense"), 0);
}

Test(worker_address, parse__unterminated_text__refused)
{
	char *text = malloc(9000), out[64];

	memset(text, 'x', 9000);
	memcpy(text, "shm:", 4);
	cr_expect_not(lend_worker_address(text, 0, 1, out, sizeof(out)), "no address is as long");
	free(text);
}
