/* notify - status messages to the service manager, by the datagrams of sd_notify(3).
 *
 * Implemented here because libsystemd would add five libraries to a daemon that needs sixty lines.
 * Layer: mn. Threads: any. */
#ifndef MN_NOTIFY_H
#define MN_NOTIFY_H

#include <stdbool.h>

/* Returns whether NOTIFY_SOCKET names a service manager's socket. */
bool mn_notify_is_heard(void);
/* Sends lines like "READY=1\nSTATUS=..."; with an fd (not -1), the manager gets a copy of it.
 * Returns 0, also without a NOTIFY_SOCKET; -errno with lend_why() when sending fails. */
int mn_notify(const char *lines, int fd);

#endif
