/* Goal: the photographs of a load are JPEG, within 5 % of the size that is asked for, and the same
 * in each run.
 * Method: the sizes of the workload, twice. Covers: apps/social/photos.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/social/photos.h"
#include "teardown.h"

enum { FILE_MAX = 1 << 20 };

/* Reads the photograph of a size. Returns its bytes. */
static size_t read_photo(const char *dir, size_t size, char *bytes)
{
	char path[PHOTO_PATH_MAX];
	FILE *file = fopen(photo_find(dir, "x.jpg", size, path), "re");
	size_t len;

	cr_assert_not_null(file);
	len = fread(bytes, 1, FILE_MAX, file);
	fclose(file);
	return len;
}

Test(photos, sizes_of_the_workload__twice__near_and_same)
{
	const size_t want[] = {512 << 10, 64 << 10};
	char dir[] = "/tmp/social_photos_XXXXXX";
	char *first = malloc(FILE_MAX), *again = malloc(FILE_MAX);

	cr_assert(first && again && mkdtemp(dir));
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		size_t len = read_photo(dir, want[i], first);

		cr_assert(len >= want[i] - want[i] / 20 && len <= want[i] + want[i] / 20, "%zu",
			  len);
		cr_assert_arr_eq(first, "\xff\xd8\xff", 3);
		cr_assert_eq(read_photo(dir, want[i], again), len);
		cr_assert_arr_eq(first, again, len);
	}
	free(first);
	free(again);
	teardown_remove(dir);
}
