/* Goal: a memory node with --checksum and a flipped bit in its memory returns DATA_LOSS for that
 * page and serves every other one, to gets, reads, pointers and the next start; it counts the loss
 * and prints one line. Method: the test flips bits of a running node's memory through the service
 * manager's descriptor of its file (manager.h). Covers: mn/store/page_checksum.c, mn/metrics.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "e2e/manager.h"
#include "e2e/mem_node.h"

enum { PAGE = 4096, PAGES = 64, LOST = 40, LEN = PAGES * PAGE, SIZE = 16 << 20 };

static const struct lend_terms owned = {sizeof(owned), LEND_OWNED, 0, 0, 0};

struct rig {
	struct manager m;
	struct lend_ep *ep;
	struct lend_mem *mem;
	char listen[64], said[64], args[256];
	struct lend_ref ref;
};
static char sent[LEN], got[LEN];

static void begin(struct rig *r, const char *carrier)
{
	struct lend_config config = LEND_CONFIG_INIT;

	manager_open(&r->m);
	snprintf(r->said, sizeof(r->said), "/tmp/lend-rot-%d", (int)getpid());
	snprintf(r->listen, sizeof(r->listen), "%s:rot%d", carrier, (int)getpid());
	snprintf(r->args, sizeof(r->args), "--listen %s --size %d --keep --checksum 2>>%s",
		 r->listen, SIZE, r->said);
	cr_assert(manager_start(&r->m, r->args));
	cr_assert_eq(lend_open(&config, &r->ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(r->ep, r->listen, &r->mem), 0, "%s", lend_why());
	mem_fill(sent, LEN, 3);
	r->ref = mem_put(r->mem, sent, LEN, &owned);
}

static void end(struct rig *r)
{
	mem_client_close(r->ep, r->mem);
	(void)manager_end(&r->m, SIGTERM);
	manager_close(&r->m);
	unlink(r->said);
}

/* Flips a bit of the page that holds these bytes. */
static void flip(struct rig *r, const char *bytes)
{
	int fd = manager_find(&r->m, "lend-pages-0");
	uint8_t *all = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *at;

	cr_assert_neq(all, MAP_FAILED);
	at = memmem(all, SIZE, bytes, PAGE);
	cr_assert_not_null(at, "the page is not in the node's memory");
	at[1234] ^= 32;
	munmap(all, SIZE);
}

static uint64_t damaged(struct rig *r)
{
	struct lend_mem_stat stat;

	mem_stat(r->mem, &stat);
	return stat.damaged;
}

static unsigned lines(struct rig *r, const char *with)
{
	FILE *file = fopen(r->said, "r");
	char line[512];
	unsigned n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, with) != NULL;
	if (file)
		fclose(file);
	return n;
}

static void expect_lost(struct rig *r)
{
	cr_assert_eq(mem_get(r->mem, &r->ref, 0, got, LEN), LEND_DATA_LOSS);
	cr_assert_eq(mem_get(r->mem, &r->ref, LOST * PAGE + 5, got, 1), LEND_DATA_LOSS);
	for (uint64_t i = 0; i < PAGES; i++) {
		if (i == LOST)
			continue;
		cr_assert_eq(mem_get(r->mem, &r->ref, i * PAGE, got, PAGE), LEND_OK, "page %lu", i);
		cr_assert_arr_eq(got, sent + i * PAGE, PAGE);
	}
}

static void gets(const char *carrier)
{
	struct rig r;

	begin(&r, carrier);
	cr_assert_eq(mem_get(r.mem, &r.ref, 0, got, LEN), LEND_OK);
	cr_assert_eq(damaged(&r), 0);
	flip(&r, sent + LOST * PAGE);
	expect_lost(&r);
	cr_assert_eq(damaged(&r), 2);
	cr_assert_eq(lines(&r, "a page is damaged"), 1, "one line, once");
	flip(&r, sent + 3 * PAGE);
	cr_assert_eq(mem_get(r.mem, &r.ref, 3 * PAGE, got, PAGE), LEND_DATA_LOSS);
	cr_assert_eq(lines(&r, "DATA_LOSS"), 1, "one line, once");
	end(&r);
}

Test(mem_checksum, gets_shm)
{
	gets("shm");
}

Test(mem_checksum, restart__reports_the_loss)
{
	struct rig r;

	begin(&r, "shm");
	cr_assert_eq(manager_end(&r.m, SIGKILL), -SIGKILL);
	flip(&r, sent + LOST * PAGE);
	cr_assert(manager_start(&r.m, r.args));
	cr_assert_eq(lines(&r, "1 pages of an earlier start"), 1);
	while (mem_get(r.mem, &r.ref, 0, got, PAGE) == LEND_UNAVAILABLE)
		continue;
	expect_lost(&r);
	cr_assert_eq(damaged(&r), 3);
	end(&r);
}

/* Readahead may include the corrupted page: the scan still gets all others. */
Test(mem_checksum, a_pointer_has_every_page_but_that_one)
{
	struct rig r;
	lend_space space;
	const char *p;

	begin(&r, "shm");
	flip(&r, sent + LOST * PAGE);
	space = mem_map(r.mem, &r.ref);
	p = lend_space_pointer(r.mem, space);
	cr_assert_not_null(p, "%s", lend_why());
	for (uint64_t i = 0; i < LOST; i++)
		cr_assert_eq(memcmp(p + i * PAGE, sent + i * PAGE, PAGE), 0, "page %lu", i);
	cr_assert_eq(memcmp(p + (PAGES - 1) * PAGE, sent + (PAGES - 1) * PAGE, PAGE), 0);
	cr_assert_eq(lend_space_intact(r.mem, space), 0, "before the corrupted page is touched");
	cr_assert_eq(((const volatile char *)p)[LOST * PAGE + 1], 0);
	cr_assert_eq(lend_space_intact(r.mem, space), -EIO);
	mem_free_space(r.mem, space);
	end(&r);
}
