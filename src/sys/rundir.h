/* rundir - the private folder where processes of one user find each other: sockets and locks,
 * nothing that outlives a boot. Layer: sys. Any thread. */
#ifndef LEND_SYS_RUNDIR_H
#define LEND_SYS_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the folder's path, without a slash at its end, and creates the folder (mode 0700) if
 * needed. It is $XDG_RUNTIME_DIR/lend, else /run/user/UID/lend, else /tmp/lend-UID. Returns 0, or
 * with lend_why_text() set: -EPERM (owned by another user, or open to others), -ENAMETOOLONG,
 * -errno of creating it. */
int lend_rundir(char *path, size_t cap);
/* Writes the same path without any check; the folder may not exist. */
int lend_rundir_path(char *path, size_t cap);
/* Searches for a server of that name in the folder of another user or another XDG_RUNTIME_DIR, in
 * this network namespace only. Returns true with the path of its socket in path. */
bool lend_rundir_find_other(const char *name, char *path, size_t cap);
/* Locks the folder; waits about a second at most. Between the test whether a name is free and the
 * call that binds it, no other process may do the same. Returns a descriptor to close, or -errno
 * with lend_why_text() set. */
int lend_rundir_lock(void);

#endif
