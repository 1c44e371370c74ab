/* store_step - CPU time of one operation of a memory node's store: its request is decoded, it runs,
 * and its reply is written. perf_store_step [ROUNDS]: prints a Markdown table, the least of the
 * rounds, without and with checksums of pages. Threads: one. */
#include <stdio.h>
#include <time.h>

#include "unit/storekit.h"

enum { MIB = 1 << 20, PAGES = 160 * MIB / LEND_MEM_PAGE, SEALED = 128 * MIB, FEW = 1000 };
enum step {
	PUT_64,
	PUT_4K,
	PUT_1M,
	PUT_8M,
	COPY_8M,
	GET_4K,
	WRITE_4K,
	RELEASE_4K,
	SEAL_128M,
	STEPS,
};
static const char *const names[STEPS] = {
    [PUT_64] = "put 64 B",
    [PUT_4K] = "put 4 KiB",
    [PUT_1M] = "put 1 MiB",
    [PUT_8M] = "put 8 MiB",
    [COPY_8M] = "a bare copy of 8 MiB",
    [GET_4K] = "get 4 KiB, copied out",
    [WRITE_4K] = "write in place 4 KiB",
    [RELEASE_4K] = "release of 4 KiB, its page freed",
    [SEAL_128M] = "seal and release 128 MiB",
};

static struct kit *kit;
static struct client client;
static struct lend_memspace space;
static struct lend_memref ref[FEW];
static uint8_t bytes[8 * MIB], copy[8 * MIB];

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void note_least(double us[STEPS], enum step step, double since, uint32_t n)
{
	double each = (cpu_us() - since) / n;

	us[step] = us[step] > 0 && us[step] < each ? us[step] : each;
}

/* Frees the pages of released objects. */
static void free_pages(void)
{
	while (lend_store_deadline(kit->store) <= kit->now)
		lend_store_tick(kit->store, kit->now);
}

static void measure_puts(double us[STEPS], enum step step, uint64_t len, uint32_t n)
{
	double since = cpu_us();

	for (uint32_t i = 0; i < n; i++)
		cr_assert_eq(kit_put(kit, &client, bytes, len, kit_owned, &ref[i]), LEND_MEM_OK);
	note_least(us, step, since, n);
	since = cpu_us();
	for (uint32_t i = 0; step == PUT_4K && i < n; i++)
		cr_assert_eq(kit_get(kit, &client, &ref[i], 0, len, copy), LEND_MEM_OK);
	if (step == PUT_4K)
		note_least(us, GET_4K, since, n);
	since = cpu_us();
	for (uint32_t i = 0; i < n; i++)
		cr_assert_eq(kit_release(kit, &client, &ref[i]), LEND_MEM_OK);
	free_pages();
	if (step == PUT_4K)
		note_least(us, RELEASE_4K, since, n);
}

static void measure_space(double us[STEPS])
{
	double since = cpu_us();

	for (uint32_t i = 0; i < FEW; i++)
		cr_assert_eq(kit_space_op(kit, &client, LEND_MEMOP_WRITE, &space,
					  (uint64_t)i * LEND_MEM_PAGE, LEND_MEM_PAGE, bytes),
			     LEND_MEM_OK);
	note_least(us, WRITE_4K, since, FEW);
	since = cpu_us();
	cr_assert_eq(kit_seal(kit, &client, &space, 0, SEALED, kit_owned, &ref[0]), LEND_MEM_OK);
	cr_assert_eq(kit_release(kit, &client, &ref[0]), LEND_MEM_OK);
	note_least(us, SEAL_128M, since, 1);
	free_pages();
	since = cpu_us();
	memcpy(copy, bytes, sizeof(copy));
	note_least(us, COPY_8M, since, 1);
}

static void measure_store(double us[STEPS], uint32_t checksum, int rounds)
{
	kit = kit_open(PAGES, 1);
	kit->config.checksum = checksum;
	lend_store_init(kit->store, &kit->config, kit->pages, kit->now);
	memset(&client, 0, sizeof(client));
	cr_assert_eq(kit_hello(kit, &client, 1, 1), LEND_MEM_OK);
	cr_assert_eq(kit_alloc(kit, &client, SEALED, &space), LEND_MEM_OK);
	for (uint64_t at = 0; at < SEALED; at += sizeof(bytes))
		cr_assert_eq(
		    kit_space_op(kit, &client, LEND_MEMOP_WRITE, &space, at, sizeof(bytes), bytes),
		    LEND_MEM_OK);
	while (rounds--) {
		measure_puts(us, PUT_64, 64, FEW);
		measure_puts(us, PUT_4K, 4096, FEW);
		measure_puts(us, PUT_1M, MIB, 8);
		measure_puts(us, PUT_8M, 8 * MIB, 2);
		measure_space(us);
	}
	kit_close(kit);
}

int main(int argc, char **argv)
{
	double us[2][STEPS] = {{0}};

	memset(bytes, 0x5a, sizeof(bytes));
	for (uint32_t checksum = 0; checksum < 2; checksum++)
		measure_store(us[checksum], checksum, argc > 1 ? atoi(argv[1]) : 20);
	printf("| step (decode, run, reply) | us | us with `--checksum` |\n|---|---|---|\n");
	for (int i = 0; i < STEPS; i++)
		printf("| %s | %.2f | %.2f |\n", names[i], us[0][i], us[1][i]);
	return 0;
}
