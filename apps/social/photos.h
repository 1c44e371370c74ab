/* photos - the photographs of a load. Layer: apps. Threads: any. */
#ifndef APPS_SOCIAL_PHOTOS_H
#define APPS_SOCIAL_PHOTOS_H

#include <stddef.h>

/* PHOTO_NEAR: a photograph differs by at most this part of the size that is asked for. */
enum { PHOTO_PATH_MAX = 256, PHOTO_NEAR = 20 };

/* Finds the photograph of Debian's mate-backgrounds with a file nearest to this size. If it is not
 * within 5 %, writes it to DIR/NAME, encoded again with the quality that brings it there. Without
 * the package, writes DIR/NAME of exactly this size, which begins as a JPEG does; app_die() if it
 * cannot be written. Returns path. */
const char *photo_find(const char *dir, const char *name, size_t size, char path[PHOTO_PATH_MAX]);

#endif
