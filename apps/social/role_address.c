/* role_address - see role_address.h. */
#include "apps/social/role_address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool social_address_read(const char *dir, const char *role, char address[SOCIAL_ADDRESS_MAX])
{
	char path[SOCIAL_PATH_MAX];
	FILE *file;
	bool is_read;

	(void)snprintf(path, sizeof(path), "%s/addr/%s", dir, role);
	file = fopen(path, "re");
	if (!file)
		return false;
	is_read = fgets(address, SOCIAL_ADDRESS_MAX, file) != NULL;
	fclose(file);
	if (is_read)
		address[strcspn(address, "\n")] = 0;
	return is_read;
}

int social_address_write(const char *dir, const char *role, const char *address)
{
	char path[SOCIAL_PATH_MAX], made[SOCIAL_PATH_MAX + 8];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/addr", dir);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return -errno;
	(void)snprintf(path, sizeof(path), "%s/addr/%s", dir, role);
	(void)snprintf(made, sizeof(made), "%s.new", path);
	file = fopen(made, "we");
	if (!file)
		return -errno;
	if (fprintf(file, "%s\n", address) < 0 || fclose(file) != 0 || rename(made, path) < 0)
		return -errno;
	return 0;
}

void social_times_path(char *path, size_t cap, const char *dir, const char *roles)
{
	(void)snprintf(path, cap, "%s/times-%.*s", dir, (int)strcspn(roles, ","), roles);
}
