/* mem_admin - the parts of lend mem that speak to a node's admin socket.
 * Layer: apps. Threads: the main one. */
#ifndef APPS_TOOLS_MEM_ADMIN_H
#define APPS_TOOLS_MEM_ADMIN_H

/* argv[0] is ls, top or evict. An exit code. */
int app_mem_admin(int argc, char **argv);

#endif
