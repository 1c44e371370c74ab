/* photos - see photos.h. */
#include "apps/social/photos.h"

#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/common/options.h"

static void make_photo(const char *path, size_t size)
{
	uint8_t *bytes = calloc(1, size);
	FILE *file = fopen(path, "we");

	if (!bytes || !file)
		app_die("cannot write %s", path);
	memcpy(bytes, "\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0", 20);
	for (size_t i = 20; i < size; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	if (fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
		app_die("cannot write %s", path);
	free(bytes);
}

const char *photo_find(const char *dir, const char *name, size_t size, char path[PHOTO_PATH_MAX])
{
	off_t least = INT64_MAX;
	glob_t found;
	struct stat st;

	(void)snprintf(path, PHOTO_PATH_MAX, "%s/%s", dir, name);
	if (glob("/usr/share/backgrounds/mate/*/*.jpg", 0, NULL, &found) != 0) {
		make_photo(path, size);
		return path;
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (stat(found.gl_pathv[i], &st) < 0 || llabs(st.st_size - (off_t)size) >= least)
			continue;
		least = llabs(st.st_size - (off_t)size);
		(void)snprintf(path, PHOTO_PATH_MAX, "%s", found.gl_pathv[i]);
	}
	globfree(&found);
	return path;
}
