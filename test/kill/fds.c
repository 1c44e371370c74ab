#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "kill/watch.h"

unsigned kill_open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

unsigned kill_ring_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, "memfd:lend ") != NULL; /* not pages or arena */
	if (maps)
		fclose(maps);
	return n;
}
