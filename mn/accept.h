/* accept - connections at a listening socket, for a thread that serves them one after another.
 *
 * A connection for which no file descriptor is free stays in the backlog, where it keeps the socket
 * readable. The thread then pauses instead of retrying at once.
 * Layer: mn. Threads: any; stateless. */
#ifndef MN_ACCEPT_H
#define MN_ACCEPT_H

/* Waits for a connection at listener and returns its descriptor; -1: the eventfd stop is readable.
 * When no descriptor is free, prints one line that names `what` on stderr, once per process. */
int mn_accept(int listener, int stop, const char *what);

#endif
