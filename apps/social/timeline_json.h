/* timeline_json - posts as the gateway sends them.
 * Layer: apps. Threads: any. */
#ifndef APPS_SOCIAL_TIMELINE_JSON_H
#define APPS_SOCIAL_TIMELINE_JSON_H

#include <stddef.h>

#include "social.pb-c.h"

/* Writes posts, whose texts are in place, as a JSON array. 64-bit numbers are texts; a text that is
 * lost is null. Returns memory of lend_malloc(), and its length; NULL: there is none. */
char *timeline_json(const Social__Posts *posts, size_t *len);

#endif
