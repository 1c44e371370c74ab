/* mem_admin - the parts of lend mem that use a node's admin socket.
 * Layer: apps. Threads: the main one. */
#ifndef APPS_TOOLS_MEM_ADMIN_H
#define APPS_TOOLS_MEM_ADMIN_H

/* Runs lend mem ls, top or evict, as argv[0] names. Returns an exit code. */
int app_mem_admin(int argc, char **argv);

#endif
