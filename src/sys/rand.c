#include "sys/rand.h"

#include <errno.h>
#include <sys/random.h>

#include "util/check.h"

void lend_random(void *bytes, size_t len)
{
	unsigned char *at = bytes;

	while (len > 0) {
		ssize_t n = getrandom(at, len, 0);

		LEND_CHECK(n > 0 ||
			   errno == EINTR); /* fails only where the system call is missing */
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
}
