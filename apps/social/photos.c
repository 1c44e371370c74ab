/* photos - see photos.h. */
#include "apps/social/photos.h"

#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/common/options.h"
#include "apps/images/images_codec.h"

enum { QUALITY_MAX = 100 };

static void write_photo(const char *path, const void *bytes, size_t size)
{
	FILE *file = fopen(path, "we");

	if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
		app_die("cannot write %s", path);
}

static void make_photo(const char *path, size_t size)
{
	uint8_t *bytes = calloc(1, size);

	if (!bytes)
		app_die("no memory; end some processes");
	memcpy(bytes, "\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0", 20);
	for (size_t i = 20; i < size; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	write_photo(path, bytes, size);
	free(bytes);
}

static void *read_file(const char *path, size_t size)
{
	void *bytes = malloc(size);
	FILE *file = fopen(path, "re");

	if (!bytes || !file || fread(bytes, 1, size, file) != size)
		app_die("%s cannot be read", path);
	fclose(file);
	return bytes;
}

/* Writes a JPEG again, with the highest quality that gives at most max bytes. */
static void shrink_photo(const void *jpeg, size_t len, const char *path, size_t max)
{
	struct images_codec *codec = NULL;
	struct images_size size = {0, 0};
	struct images_jpeg out = {0};
	int low = 1, high = QUALITY_MAX, quality;
	void *rgb;

	if (images_codec_open(&codec) < 0 || images_codec_size(codec, jpeg, len, &size) < 0 ||
	    !(rgb = malloc(images_size_bytes(size))) ||
	    images_codec_decode(codec, jpeg, len, size, rgb) < 0)
		app_die("a photograph cannot be decoded");
	do {
		quality = (low + high + 1) / 2;
		images_jpeg_free(out.data);
		if (images_codec_encode(codec, rgb, size, quality, &out) < 0)
			app_die("a photograph cannot be encoded");
		if (out.len <= max || low == high)
			low = quality;
		else
			high = quality - 1;
	} while (low < high || quality != low); /* the last one is that which fits */
	write_photo(path, out.data, out.len);
	images_jpeg_free(out.data);
	images_codec_close(codec);
	free(rgb);
}

const char *photo_find(const char *dir, const char *name, size_t size, char path[PHOTO_PATH_MAX])
{
	off_t least = INT64_MAX, len = 0;
	char nearest[PHOTO_PATH_MAX] = "";
	void *jpeg;
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
		len = st.st_size;
		least = llabs(len - (off_t)size);
		(void)snprintf(nearest, sizeof(nearest), "%s", found.gl_pathv[i]);
	}
	globfree(&found);
	if (least <= (off_t)(size / PHOTO_NEAR)) {
		memcpy(path, nearest, sizeof(nearest));
		return path;
	}
	jpeg = read_file(nearest, (size_t)len);
	shrink_photo(jpeg, (size_t)len, path, size + size / PHOTO_NEAR);
	free(jpeg);
	return path;
}
