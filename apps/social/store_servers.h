/* store_servers - redis and memcached of a deployment, on Unix sockets in its folder.
 * Layer: apps. Threads: the main one; the kernel kills them when it ends. */
#ifndef APPS_SOCIAL_STORE_SERVERS_H
#define APPS_SOCIAL_STORE_SERVERS_H

/* Starts both, and writes their addresses. app_die() if one is not installed. */
void store_servers_start(const char *dir);
void store_servers_stop(void);

#endif
