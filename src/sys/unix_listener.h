/* unix_listener - a listening unix socket with a file in the file system, for this user alone.
 *
 * Replaces a file that a killed process left. A file that is no socket, or that has a listener,
 * stays. Closing removes the file only if it is still the listener's own.
 *
 * Layer: sys. Threads: one at a time. The runtime folder's lock orders two processes that open one
 * path at once; outside that folder nothing does. */
#ifndef LEND_SYS_UNIX_LISTENER_H
#define LEND_SYS_UNIX_LISTENER_H

#include <sys/types.h>
#include <sys/un.h>

struct lend_unix_listener {
	int fd; /* -1: closed */
	struct sockaddr_un at;
	dev_t dev;
	ino_t ino;
};

/* Opens it and fills in at. type: of the socket, with its flags. A lend_why() text begins with the
 * last argument. Returns 0; -EADDRINUSE, -EMFILE or the error of bind(): the listener is closed. */
int lend_unix_listener_open(struct lend_unix_listener *listener, int type, const char *address);
/* Closes it; does nothing if it is closed. */
void lend_unix_listener_close(struct lend_unix_listener *listener);

#endif
