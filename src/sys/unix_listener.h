/* unix_listener - a listening unix socket with a file in the file system, for this user alone.
 *
 * A file that a killed process left is replaced; one that is no socket, or that somebody listens
 * at, is not touched. Closing removes the file only if it is still ours.
 *
 * Layer: sys. Threads: one at a time. Two that open one path at once agree who is first by the
 * runtime folder's lock; outside of that folder nothing does.
 */
#ifndef LEND_SYS_UNIX_LISTENER_H
#define LEND_SYS_UNIX_LISTENER_H

#include <sys/types.h>
#include <sys/un.h>

struct lend_door {
	int fd; /* -1: shut */
	struct sockaddr_un at;
	dev_t dev;
	ino_t ino;
};

/* type: of the socket, with its flags; who begins the line of lend_why(). at is filled in. 0;
 * -EADDRINUSE, -EMFILE or what bind() says: the door is shut. */
int lend_door_open(struct lend_door *door, int type, const char *who);
/* A shut one is nothing. */
void lend_door_close(struct lend_door *door);

#endif
