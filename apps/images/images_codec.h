/* images_codec - JPEG to pixels, pixels to a smaller or more compressed JPEG.
 * Layer: apps. Threads: one codec each. The same calls run in a worker and, to verify its result,
 * in the client. */
#ifndef LEND_APPS_IMAGES_IMAGES_CODEC_H
#define LEND_APPS_IMAGES_IMAGES_CODEC_H

#include <stddef.h>
#include <stdint.h>

enum {
	IMAGES_SIDE_MAX = 65500,   /* pixels of each side of a JPEG, in either direction */
	IMAGES_THUMB_SIDE = 256,   /* a thumbnail fits into a square of this */
	IMAGES_THUMB_QUALITY = 85, /* JPEG qualities of the two operations */
	IMAGES_LEAN_QUALITY = 60,
	IMAGES_PIXEL = 3, /* bytes: R, G, B */
};

enum images_what {
	IMAGES_THUMBNAIL,  /* scale down, encode in good quality */
	IMAGES_RECOMPRESS, /* full size, encode in lower quality */
	IMAGES_NEAREST,    /* scale down to a tenth by nearest neighbour; raw pixels */
	IMAGES_WHATS,      /* how many there are */
};
const char *images_what_name(enum images_what what);

struct images_size {
	uint32_t width, height;
};
/* Returns the bytes of an image's pixels; 0 when a side is 0 or above IMAGES_SIDE_MAX. */
size_t images_size_bytes(struct images_size size);

struct images_codec;
/* Returns 0 or -ENOMEM. */
int images_codec_open(struct images_codec **codec);
void images_codec_close(struct images_codec *codec);
/* Returns libjpeg's text for the last failure; never NULL. */
const char *images_codec_why(struct images_codec *codec);

/* Reads only a JPEG's header: 0, or -EINVAL when the file cannot be decoded as RGB. */
int images_codec_size(struct images_codec *codec, const void *jpeg, size_t len,
		      struct images_size *size);
/* Decodes into images_size_bytes(size) bytes at rgb: 0, or -EINVAL when the file is damaged. */
int images_codec_decode(struct images_codec *codec, const void *jpeg, size_t len,
			struct images_size size, void *rgb);

/* An encoded result; give it to images_jpeg_free(). */
struct images_jpeg {
	unsigned char *data;
	unsigned long len;
};
void images_jpeg_free(void *data);
/* Encodes with a quality of 1 to 100. Returns 0 and *out; or -EINVAL, and *out is empty. */
int images_codec_encode(struct images_codec *codec, const void *rgb, struct images_size size,
			int quality, struct images_jpeg *out);
/* Scales if the operation asks for it, then encodes, except for NEAREST. Returns 0 and *out; or
 * -EINVAL, and *out is unchanged. */
int images_codec_apply(struct images_codec *codec, enum images_what what, const void *rgb,
		       struct images_size size, struct images_jpeg *out);

#endif
