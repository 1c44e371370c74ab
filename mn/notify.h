/* notify - what a service manager is told, by the datagrams that sd_notify(3) documents.
 *
 * Written here, for libsystemd would bring five libraries into a daemon that needs sixty lines.
 * Layer: mn. Threads: any. */
#ifndef MN_NOTIFY_H
#define MN_NOTIFY_H

#include <stdbool.h>

/* NOTIFY_SOCKET names somebody to tell. */
bool mn_notify_is_heard(void);
/* Lines like "READY=1\nSTATUS=..."; with an fd (not -1) that the manager gets a copy of. 0, also
 * when nobody is there; -errno with lend_why() when it cannot be sent. */
int mn_notify(const char *lines, int fd);

#endif
