/* images_codec - JPEG to pixels, pixels to a smaller or leaner JPEG.
 * Layer: apps. Threads: one codec each.
 *
 * Encoding and decoding is libjpeg-turbo's. Its scaling is not used: it works on JPEG coefficients
 * while decoding, and a worker here gets pixels. So a box filter of our own averages the area under
 * each target pixel; exact in integers, hence byte-identical wherever it runs. */
#include "apps/images/images_codec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <turbojpeg.h>

#include "util/check.h"

struct images_codec {
	tjhandle reader, writer;
	tjhandle last; /* the one that failed last, or NULL */
	uint8_t thumb[IMAGES_THUMB_SIDE * IMAGES_THUMB_SIDE * IMAGES_PIXEL];
	uint16_t column[IMAGES_SIDE_MAX * IMAGES_PIXEL]; /* sums of a band of rows */
};

const char *images_what_name(enum images_what what)
{
	static const char *const names[IMAGES_WHATS] = {"thumbnail", "recompress", "nearest"};

	return names[what];
}

size_t images_size_bytes(struct images_size size)
{
	if (!size.width || !size.height)
		return 0;
	if (size.width > IMAGES_SIDE_MAX || size.height > IMAGES_SIDE_MAX)
		return 0;
	return (size_t)size.width * size.height * IMAGES_PIXEL;
}

int images_codec_open(struct images_codec **codec)
{
	struct images_codec *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->reader = tjInitDecompress();
	c->writer = tjInitCompress();
	if (!c->reader || !c->writer) {
		images_codec_close(c);
		return -ENOMEM;
	}
	*codec = c;
	return 0;
}

void images_codec_close(struct images_codec *codec)
{
	if (!codec)
		return;
	if (codec->reader)
		tjDestroy(codec->reader);
	if (codec->writer)
		tjDestroy(codec->writer);
	free(codec);
}

const char *images_codec_why(struct images_codec *codec)
{
	return codec->last ? tjGetErrorStr2(codec->last)
			   : "its header is cut short, or its size is not valid";
}

static int note_failure(struct images_codec *codec, tjhandle handle)
{
	codec->last = handle;
	return -EINVAL;
}

int images_codec_size(struct images_codec *codec, const void *jpeg, size_t len,
		      struct images_size *size)
{
	int width = 0, height = 0, subsampling, colours;

	if (tjDecompressHeader3(codec->reader, jpeg, len, &width, &height, &subsampling, &colours))
		return note_failure(codec, codec->reader);
	*size = (struct images_size){(uint32_t)width, (uint32_t)height};
	return images_size_bytes(*size) ? 0 : note_failure(codec, NULL);
}

int images_codec_decode(struct images_codec *codec, const void *jpeg, size_t len,
			struct images_size size, void *rgb)
{
	/* A warning counts as a failure: it is how a file cut short shows. */
	if (tjDecompress2(codec->reader, jpeg, len, rgb, (int)size.width, 0, (int)size.height,
			  TJPF_RGB, 0))
		return note_failure(codec, codec->reader);
	return 0;
}

void images_jpeg_free(void *data)
{
	tjFree(data);
}

/* Returns the largest size within the thumbnail's square that keeps the shape; never larger than
 * the original. */
static struct images_size thumb_size(struct images_size size)
{
	uint32_t longest = size.width > size.height ? size.width : size.height;
	struct images_size thumb = size;

	if (longest <= IMAGES_THUMB_SIDE)
		return size;
	thumb.width = (size.width * IMAGES_THUMB_SIDE + longest / 2) / longest;
	thumb.height = (size.height * IMAGES_THUMB_SIDE + longest / 2) / longest;
	thumb.width += !thumb.width;
	thumb.height += !thumb.height;
	return thumb;
}

/* Adds a row to the sums of a band of rows, byte by byte, in blocks that compilers vectorize. */
static void add_row(const uint8_t *restrict row, uint16_t *restrict column, size_t n)
{
	enum { BLOCK = 32 };

	for (; n >= BLOCK; n -= BLOCK, row += BLOCK, column += BLOCK)
		for (int i = 0; i < BLOCK; i++)
			column[i] = (uint16_t)(column[i] + row[i]);
	for (size_t i = 0; i < n; i++)
		column[i] = (uint16_t)(column[i] + row[i]);
}

/* Averages a band of `rows` rows of `from` pixels, rounded, into a row of `to` pixels: x is the
 * average of [x * from / to, (x + 1) * from / to). */
static void put_row(const uint16_t *column, uint32_t rows, uint32_t from, uint32_t to, uint8_t *out)
{
	uint32_t first = 0;

	for (uint32_t x = 0; x < to; x++) {
		uint32_t end = (uint32_t)((uint64_t)(x + 1) * from / to);
		uint32_t n = (end - first) * rows, sum[IMAGES_PIXEL] = {0};

		LEND_CHECK(n > 0); /* nothing is enlarged */
		for (; first < end; first++, column += IMAGES_PIXEL)
			for (int i = 0; i < IMAGES_PIXEL; i++)
				sum[i] += column[i];
		for (int i = 0; i < IMAGES_PIXEL; i++)
			*out++ = (uint8_t)((sum[i] + n / 2) / n);
	}
}

/* A band has at most 256 rows (65500 / 256 rounded up), so the sum of a column fits 16 bits. */
static void scale_down(const uint8_t *rgb, struct images_size from, uint16_t *column, uint8_t *out,
		       struct images_size to)
{
	size_t len = (size_t)from.width * IMAGES_PIXEL;

	for (uint32_t y = 0, row = 0; y < to.height; y++) {
		uint32_t first = row, end = (uint32_t)((uint64_t)(y + 1) * from.height / to.height);

		memset(column, 0, len * sizeof(*column));
		for (; row < end; row++)
			add_row(rgb + row * len, column, len);
		put_row(column, end - first, from.width, to.width,
			out + (size_t)y * to.width * IMAGES_PIXEL);
	}
}

/* Takes every tenth pixel of every tenth row; at least one. Returns 0 or -EINVAL. */
static int take_nearest(struct images_codec *codec, const uint8_t *rgb, struct images_size from,
			struct images_jpeg *out)
{
	struct images_size to = {(from.width + 9) / 10, (from.height + 9) / 10};
	uint8_t *at = tjAlloc((int)images_size_bytes(to));

	if (!at)
		return note_failure(codec, NULL);
	*out = (struct images_jpeg){at, images_size_bytes(to)};
	for (uint32_t y = 0; y < to.height; y++)
		for (uint32_t x = 0; x < to.width; x++, at += IMAGES_PIXEL)
			memcpy(at, rgb + ((size_t)y * 10 * from.width + x * 10) * IMAGES_PIXEL,
			       IMAGES_PIXEL);
	return 0;
}

int images_codec_encode(struct images_codec *codec, const void *rgb, struct images_size size,
			int quality, struct images_jpeg *out)
{
	*out = (struct images_jpeg){0};
	if (tjCompress2(codec->writer, rgb, (int)size.width, 0, (int)size.height, TJPF_RGB,
			&out->data, &out->len, TJSAMP_420, quality, 0) == 0)
		return 0;
	tjFree(out->data);
	*out = (struct images_jpeg){0};
	return note_failure(codec, codec->writer);
}

int images_codec_apply(struct images_codec *codec, enum images_what what, const void *rgb,
		       struct images_size size, struct images_jpeg *out)
{
	bool thumb = what == IMAGES_THUMBNAIL;
	const uint8_t *pixels = rgb;

	if (!images_size_bytes(size))
		return note_failure(codec, NULL);
	if (what == IMAGES_NEAREST)
		return take_nearest(codec, rgb, size, out);
	if (thumb) {
		struct images_size to = thumb_size(size);

		scale_down(rgb, size, codec->column, codec->thumb, to);
		pixels = codec->thumb;
		size = to;
	}
	return images_codec_encode(codec, pixels, size,
				   thumb ? IMAGES_THUMB_QUALITY : IMAGES_LEAN_QUALITY, out);
}
