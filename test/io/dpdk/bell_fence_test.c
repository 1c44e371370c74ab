/* Goal: an end of a memif link that goes to sleep has a full fence between marking itself asleep
 * and its look at the other end; a sender has one between its frames and its look for a sleeper.
 * Without it a wake-up is lost (test/model/bell.pml shows how). Method: bell.c is compiled with
 * hooks that report each atomic access; the order of stores, fences and loads is compared. Covers:
 * src/io/dpdk/bell.c, src/io/dpdk/bell.h */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "io/dpdk/bell.h"

static char order[64]; /* S: asleep is stored, L: loaded, F: a full fence */
static size_t noted;

static void note_access(char what)
{
	if (noted + 1 < sizeof(order))
		order[noted++] = what;
}

void fence_note(char what, const char *operand, unsigned long long value)
{
	(void)value;
	if (strstr(operand, "asleep"))
		note_access(what);
}

void fence_note_full(bool full)
{
	if (full)
		note_access('F');
}

int dpdk_rendezvous_path(const struct lend_ip *ip, uint16_t udp, const char *tail, char *path)
{
	(void)ip, (void)udp, (void)tail, (void)path;
	return -ENOSYS; /* the page of this test is no file */
}

static struct dpdk_bell page;
static struct dpdk_port port = {.bell = &page};
static struct dpdk io = {.looks = 1, .look = {{.port = &port}}, .bell_fd = -1};

Test(dpdk_bell_fence, sleep__asleep_is_marked__fence_before_the_look)
{
	port.refused = port.drained = true;
	cr_assert(dpdk_bell_arm(&io));
	cr_assert_str_eq(order, "SFLL");
}

Test(dpdk_bell_fence, sent__fence_before_the_look)
{
	dpdk_bell_sent(&io, &port);
	cr_assert_str_eq(order, "FL");
}
