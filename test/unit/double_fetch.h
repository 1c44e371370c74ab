/* double_fetch - memory that another process changes between two reads, as a peer over shm can.
 * The bytes are on a page without access rights. An instruction that reads it faults and is
 * single-stepped (trap flag); after the k-th such read the bytes change. This covers, reproducibly,
 * each place where code reads twice. x86-64 only. Layer: test. Everything is static: a test
 * includes it and uses what it needs. */
#ifndef TEST_UNIT_DOUBLE_FETCH_H
#define TEST_UNIT_DOUBLE_FETCH_H

#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { FLIP_PAGE = 4096, FLIP_TRAP = 0x100 };

static struct {
	uint8_t *page, *bytes; /* the bytes end where the page ends */
	const void *after;
	size_t len;
	unsigned reads, k;
} flip;

#ifdef __x86_64__
static void flip_fault(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	size_t at = (size_t)((uint8_t *)info->si_addr - flip.page);

	if (at >= FLIP_PAGE) {
		(void)signal(number, SIG_DFL); /* not our page: a real fault */
		return;
	}
	flip.reads++;
	(void)mprotect(flip.page, FLIP_PAGE, PROT_READ | PROT_WRITE);
	uc->uc_mcontext.gregs[REG_EFL] |= FLIP_TRAP;
}

static void flip_step(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)number, (void)info;
	if (flip.reads == flip.k)
		memcpy(flip.bytes, flip.after, flip.len);
	(void)mprotect(flip.page, FLIP_PAGE, PROT_NONE);
	uc->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)FLIP_TRAP;
}
#endif

static void flip_open(void)
{
#ifdef __x86_64__
	struct sigaction fault = {.sa_sigaction = flip_fault, .sa_flags = SA_SIGINFO};
	struct sigaction step = {.sa_sigaction = flip_step, .sa_flags = SA_SIGINFO};

	flip.page =
	    mmap(NULL, (size_t)2 * FLIP_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(flip.page, MAP_FAILED);
	cr_assert_eq(sigaction(SIGSEGV, &fault, NULL), 0);
	cr_assert_eq(sigaction(SIGTRAP, &step, NULL), 0);
#else
	cr_skip("steps instructions of x86-64 only");
#endif
}

/* flip.bytes shows the len bytes of before, and those of after from the k-th read on. */
static void flip_arm(const void *before, const void *after, size_t len, unsigned k)
{
	cr_assert_eq(mprotect(flip.page, FLIP_PAGE, PROT_READ | PROT_WRITE), 0);
	flip.bytes = flip.page + FLIP_PAGE - len;
	memcpy(flip.bytes, before, len);
	flip.after = after;
	flip.len = len;
	flip.reads = 0;
	flip.k = k;
	cr_assert_eq(mprotect(flip.page, FLIP_PAGE, PROT_NONE), 0);
}

#endif
