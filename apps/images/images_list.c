/* images_list - see images_list.h. */
#include "apps/images/images_list.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "lend/alloc.h"
#include "util/bits.h"

enum { FILE_MAX_BYTES = 256 << 20, LIST_MAX = 1 << 20 };

/* Reads a whole file; the caller frees it. Returns NULL with errno on failure. */
static void *read_file(const char *path, size_t *len)
{
	int fd =
	    open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a named pipe must not block */
	struct stat st;
	uint8_t *bytes = NULL;
	ssize_t n = 0;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) < 0)
		goto out;
	errno = !S_ISREG(st.st_mode)          ? EINVAL
		: !st.st_size                 ? ENODATA
		: st.st_size > FILE_MAX_BYTES ? EFBIG
					      : 0;
	if (errno)
		goto out;
	bytes = malloc((size_t)st.st_size + 1);
	for (*len = 0; bytes && *len < (size_t)st.st_size; *len += (size_t)n) {
		n = read(fd, bytes + *len, (size_t)st.st_size - *len);
		if (n <= 0)
			break;
	}
	if (bytes && n < 0) {
		free(bytes);
		bytes = NULL;
	}
out:
	close(fd);
	return bytes;
}

static bool has_jpeg_name(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

/* Reads the JPEG header: true when the image is usable. */
static bool check_header(struct images_list *list, const char *path, struct images_size *size)
{
	size_t len = 0;
	void *bytes = read_file(path, &len);
	int rc = bytes ? images_codec_size(list->codec, bytes, len, size) : -errno;

	free(bytes);
	if (rc < 0) {
		app_note("%s: skipped: %s", path,
			 bytes ? images_codec_why(list->codec) : strerror(-rc));
		return false;
	}
	if (images_size_bytes(*size) > IMAGES_BYTES_MAX) {
		app_note("%s: skipped: %u x %u pixels are more than %u MiB; make it smaller", path,
			 size->width, size->height, IMAGES_BYTES_MAX >> 20);
		return false;
	}
	return true;
}

static void add_item(struct images_list *list, const char *path)
{
	struct images_item item = {0};

	if (!check_header(list, path, &item.size)) {
		list->skipped++;
		return;
	}
	if (list->n == LIST_MAX)
		app_bad("%s: more than %d images; give a smaller folder", path, LIST_MAX);
	if (!(list->n & (list->n - 1))) /* full at each power of two */
		list->item = realloc(list->item, (list->n ? 2 * list->n : 1) * sizeof(*list->item));
	item.path = strdup(path);
	if (!list->item || !item.path)
		app_die("no memory for the list of images");
	list->item[list->n++] = item;
}

static int by_path(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void walk_folder(struct images_list *list, const char *path)
{
	char *const roots[] = {(char *)(uintptr_t)path, NULL};
	FTS *fts = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_path);

	if (!fts)
		app_die("%s: %s", path, strerror(errno));
	for (FTSENT *e; (e = fts_read(fts));) {
		if (e->fts_info == FTS_DNR || e->fts_info == FTS_NS || e->fts_info == FTS_ERR)
			app_note("%s: skipped: %s", e->fts_path, strerror(e->fts_errno));
		if (e->fts_info == FTS_SLNONE && has_jpeg_name(e->fts_name))
			add_item(list, e->fts_path); /* prints that the link is dangling */
		if (e->fts_info == FTS_D && e->fts_level > 0 && e->fts_name[0] == '.')
			fts_set(fts, e, FTS_SKIP);
		if (e->fts_info == FTS_F && (has_jpeg_name(e->fts_name) || e->fts_level == 0))
			add_item(list, e->fts_path);
	}
	fts_close(fts);
}

void images_list_open(struct images_list *list, const char *path)
{
	struct stat st;

	*list = (struct images_list){0};
	if (stat(path, &st) < 0)
		app_bad("%s: %s; give a folder of JPEG files", path, strerror(errno));
	if (images_codec_open(&list->codec) < 0)
		app_die("no memory for libjpeg-turbo");
	walk_folder(list, path);
	if (!list->n && list->skipped)
		app_bad("%s: none of its %u files can be used; give a folder of JPEG files", path,
			list->skipped);
	if (!list->n)
		app_bad("%s: holds no *.jpg or *.jpeg; give a folder of JPEG files", path);
}

void images_list_close(struct images_list *list)
{
	for (unsigned i = 0; i < list->n; i++) {
		images_list_unload(list, i);
		free(list->item[i].path);
	}
	free(list->item);
	images_codec_close(list->codec);
}

static int decode_item(struct images_list *list, struct images_item *item, const void *bytes,
		       size_t len)
{
	lend_ns began = app_now();
	int rc = images_codec_decode(list->codec, bytes, len, item->size, item->rgb);

	item->decode_ns = app_now() - began;
	if (rc < 0)
		return rc;
	began = app_now();
	rc = images_codec_apply(list->codec, item->what, item->rgb, item->size, &item->want);
	item->local_ns = app_now() - began;
	return rc;
}

bool images_list_load(struct images_list *list, unsigned i)
{
	struct images_item *item = &list->item[i];
	const struct images_head head = {.number = i, .what = list->what};
	size_t len = 0;
	void *bytes = read_file(item->path, &len);
	int rc = bytes ? 0 : -errno;

	item->what = images_pick(&head);
	item->rgb = lend_malloc_shared(images_size_bytes(item->size));
	if (!item->rgb) /* shm peers then get a copy */
		item->rgb = lend_malloc(images_size_bytes(item->size));
	if (!item->rgb)
		app_die("no memory for the pixels of %s", item->path);
	if (rc == 0)
		rc = decode_item(list, item, bytes, len);
	if (rc < 0) {
		app_note("%s: skipped: %s", item->path,
			 bytes ? images_codec_why(list->codec) : strerror(-rc));
		images_list_unload(list, i);
		list->skipped++;
	}
	free(bytes);
	return rc == 0;
}

void images_list_crop(struct images_list *list, unsigned i, uint32_t side)
{
	struct images_item *item = &list->item[i];
	const struct images_size from = item->size;
	struct images_size to = {lend_min_u32(from.width, side), lend_min_u32(from.height, side)};
	unsigned char *rgb = item->rgb;

	if (!rgb || (to.width == from.width && to.height == from.height))
		return;
	for (size_t row = 0; row < to.height; row++)
		memmove(rgb + row * to.width * IMAGES_PIXEL, rgb + row * from.width * IMAGES_PIXEL,
			(size_t)to.width * IMAGES_PIXEL);
	item->size = to;
	images_jpeg_free(item->want.data);
	item->want = (struct images_jpeg){.data = NULL};
	if (images_codec_apply(list->codec, item->what, rgb, to, &item->want) < 0)
		app_die("%s: %s: leave out this file", item->path, images_codec_why(list->codec));
}

void images_list_unload(struct images_list *list, unsigned i)
{
	struct images_item *item = &list->item[i];

	lend_free(item->rgb);
	images_jpeg_free(item->want.data);
	item->rgb = NULL;
	item->want = (struct images_jpeg){0};
}

void images_out_open(const char *dir)
{
	if (mkdir(dir, 0777) < 0 && errno != EEXIST)
		app_bad("--out %s: %s; give a folder that can be made", dir, strerror(errno));
	if (access(dir, W_OK | X_OK) < 0)
		app_bad("--out %s: %s; give a folder that can be written", dir, strerror(errno));
}

/* Writes all bytes; -1 with errno on failure. */
static int write_all(int fd, const uint8_t *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, data + done, len - done);

		if (n < 0 && errno != EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

void images_out_save(const char *dir, const struct images_item *item, uint32_t number,
		     const void *data, size_t len)
{
	const char *slash = strrchr(item->path, '/');
	const char *name = slash ? slash + 1 : item->path;
	const char *dot = strrchr(name, '.');
	char path[4096], temp[4096 + 32];
	int fd, stem = dot ? (int)(dot - name) : (int)strlen(name);

	snprintf(path, sizeof(path), "%s/%04u-%.*s.%s.%s", dir, number, stem, name,
		 images_what_name(item->what), item->what == IMAGES_NEAREST ? "rgb" : "jpg");
	snprintf(temp, sizeof(temp), "%s.tmp-%d", path, (int)getpid());
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd >= 0 && write_all(fd, data, len) == 0 && close(fd) == 0 && rename(temp, path) == 0)
		return;
	fd = errno;
	unlink(temp);
	app_die("--out: %s: %s", path, strerror(fd));
}
