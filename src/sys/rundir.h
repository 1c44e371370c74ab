/* rundir - the private folder where processes of one user meet: sockets and locks, nothing that
 * outlives a boot. Layer: sys. Any thread. */
#ifndef LEND_SYS_RUNDIR_H
#define LEND_SYS_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the folder's path without a slash at its end; makes it (mode 0700) if it is not there. It
 * is $XDG_RUNTIME_DIR/lend, else /run/user/UID/lend, else /tmp/lend-UID. 0, or with lend_why_text()
 * set: -EPERM (another's, or open to others), -ENAMETOOLONG, -errno of making it. */
int lend_rundir(char *path, size_t cap);
/* The same without a look at the folder, which may not be there. */
int lend_rundir_path(char *path, size_t cap);
/* Looks for a server of that name in the folder of another user or another XDG_RUNTIME_DIR, of
 * those in this network namespace. True: path is its socket's. */
bool lend_rundir_elsewhere(const char *name, char *path, size_t cap);
/* Locks the folder, for about a second at most: between the test whether a name is free and the
 * call that takes it no other process may do the same. A descriptor, to be closed; or -errno with
 * lend_why_text() set. */
int lend_rundir_lock(void);

#endif
