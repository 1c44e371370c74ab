#include "mn/accept.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { REST_MS = 50 };

static void warn_once(const char *what, int err)
{
	static atomic_bool said;

	if (!atomic_exchange(&said, true))
		fprintf(stderr, "lend-mn: %s: cannot accept: %s; raise ulimit -n\n", what,
			strerror(err));
}

int mn_accept(int listener, int stop, const char *what)
{
	struct pollfd p[] = {{stop, POLLIN, 0}, {listener, POLLIN, 0}};

	for (;;) {
		int fd;

		if (poll(p, 2, -1) < 0)
			continue;
		if (p[0].revents)
			return -1;
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			return fd;
		if (errno == EMFILE || errno == ENFILE)
			warn_once(what, errno);
		if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
			(void)poll(p, 1, REST_MS);
	}
}
