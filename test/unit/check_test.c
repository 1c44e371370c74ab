/* Goal: LEND_CHECK stays active in the release build. Method: one check that fails, in whatever
 * preset this is (the release preset defines NDEBUG). Covers: src/util/check.h, src/sys/panic.c */
#include <criterion/criterion.h>
#include <signal.h>

#include "util/check.h"

Test(check, is_on_in_every_build, .signal = SIGABRT)
{
	volatile int one = 1;

	LEND_CHECK(one == 2);
}

Test(check, true_is_silent)
{
	volatile int one = 1;

	LEND_CHECK(one == 1);
}
