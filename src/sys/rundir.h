/* rundir - the private folder where processes of one user meet: sockets and locks, nothing that
 * outlives a boot. Layer: sys. Any thread. */
#ifndef LEND_SYS_RUNDIR_H
#define LEND_SYS_RUNDIR_H

#include <stddef.h>

/* Writes the folder's path without a slash at its end; makes it (mode 0700) if it is not there. It
 * is $XDG_RUNTIME_DIR/lend, else /run/user/UID/lend, else /tmp/lend-UID. 0, or with lend_why_text()
 * set: -EPERM (another's, or open to others), -ENAMETOOLONG, -errno of making it. */
int lend_rundir(char *path, size_t cap);

#endif
