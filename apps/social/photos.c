/* photos - see photos.h. */
#include "apps/social/photos.h"

#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <turbojpeg.h>

#include "apps/common/options.h"

enum { QUALITY_MAX = 100, PIXEL = 3 };

/* Pixels of a photograph. */
struct image {
	uint8_t *rgb;
	int width, height;
};

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

static struct image read_image(const char *path, size_t size)
{
	uint8_t *bytes = malloc(size);
	FILE *file = fopen(path, "re");
	tjhandle reader = tjInitDecompress();
	struct image image = {NULL, 0, 0};
	int sampling, colours;

	if (!bytes || !file || !reader || fread(bytes, 1, size, file) != size ||
	    tjDecompressHeader3(reader, bytes, size, &image.width, &image.height, &sampling,
				&colours) != 0)
		app_die("%s cannot be read as JPEG", path);
	image.rgb = malloc((size_t)image.width * (size_t)image.height * PIXEL);
	if (!image.rgb || tjDecompress2(reader, bytes, size, image.rgb, image.width, 0,
					image.height, TJPF_RGB, 0) != 0)
		app_die("%s cannot be decoded", path);
	tjDestroy(reader);
	fclose(file);
	free(bytes);
	return image;
}

/* Returns the bytes of a JPEG of an image, for tjFree(). */
static uint8_t *encode_image(tjhandle writer, const struct image *image, int quality, size_t *size)
{
	uint8_t *jpeg = NULL;

	*size = 0;
	if (!writer || tjCompress2(writer, image->rgb, image->width, 0, image->height, TJPF_RGB,
				   &jpeg, size, TJSAMP_420, quality, TJFLAG_ACCURATEDCT) != 0)
		app_die("a photograph cannot be encoded");
	return jpeg;
}

/* Writes an image as the JPEG of highest quality with at most max bytes. */
static void shrink_image(const struct image *image, const char *path, size_t max)
{
	tjhandle writer = tjInitCompress();
	int low = 1, high = QUALITY_MAX;
	uint8_t *jpeg;
	size_t size;

	while (low < high) {
		int quality = (low + high + 1) / 2;

		tjFree(encode_image(writer, image, quality, &size));
		if (size <= max)
			low = quality;
		else
			high = quality - 1;
	}
	jpeg = encode_image(writer, image, low, &size);
	write_photo(path, jpeg, size);
	tjFree(jpeg);
	tjDestroy(writer);
}

const char *photo_find(const char *dir, const char *name, size_t size, char path[PHOTO_PATH_MAX])
{
	off_t least = INT64_MAX, len = 0;
	char nearest[PHOTO_PATH_MAX] = "";
	struct image image;
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
	image = read_image(nearest, (size_t)len);
	shrink_image(&image, path, size + size / PHOTO_NEAR);
	free(image.rgb);
	return path;
}
