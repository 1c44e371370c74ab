/* Goal: assertions about our own bugs stay in the build that ships.
 * Method: trip one, under whatever preset this is (the release preset defines NDEBUG). */
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
