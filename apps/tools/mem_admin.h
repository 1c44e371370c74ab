/* mem_admin - the parts of lend mem that use a node's admin socket.
 * Layer: apps. Threads: the main one. */
#ifndef APPS_TOOLS_MEM_ADMIN_H
#define APPS_TOOLS_MEM_ADMIN_H

#include <stdbool.h>

/* Runs lend mem ls, top or evict, as argv[0] names. Returns an exit code. */
int app_mem_admin(int argc, char **argv);
/* Runs lend mem stat with the path of an admin socket: the counters of each worker. */
int app_mem_admin_stat(const char *path, bool json);

#endif
