#include <dirent.h>
#include <stddef.h>

#include "kill/sight.h"

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
