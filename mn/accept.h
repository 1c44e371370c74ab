/* accept - connections at a listening socket, for a thread that serves them one after another.
 *
 * A connection that no file descriptor is free for stays in the backlog, where it keeps the socket
 * readable: the thread then rests instead of trying again at once.
 * Layer: mn. Threads: any; stateless. */
#ifndef MN_ACCEPT_H
#define MN_ACCEPT_H

/* Waits for a connection at listener and returns its descriptor; -1: the eventfd stop is readable.
 * Prints one line about what on stderr, once per process, when no descriptor is free. */
int mn_accept(int listener, int stop, const char *what);

#endif
