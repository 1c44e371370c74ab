/* role_address - addresses of a deployment's roles, in files of its folder: a process may restart
 * at another address. Layer: apps. Threads: any. */
#ifndef APPS_SOCIAL_ROLE_ADDRESS_H
#define APPS_SOCIAL_ROLE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

enum { SOCIAL_ADDRESS_MAX = 128, SOCIAL_PATH_MAX = 512 };

/* Reads the address of a role, or of "node". Returns false: there is none. */
bool social_address_read(const char *dir, const char *role, char address[SOCIAL_ADDRESS_MAX]);
/* Writes it, in one step. Returns 0 or -errno. */
int social_address_write(const char *dir, const char *role, const char *address);
/* Prints the path of the times of a process: DIR/times-ROLE, of its first role. */
void social_times_path(char *path, size_t cap, const char *dir, const char *roles);

#endif
