/* shaped_link - two network namespaces of this process, joined by a link of a given rate.
 *
 * A token bucket (tc-tbf(8)) at each end limits the rate in its direction. Root is not needed where
 * the kernel permits user namespaces. Both namespaces end with the last process in them.
 * Layer: apps. Threads: before others are started; then the one that made the link. */
#ifndef APPS_COMMON_SHAPED_LINK_H
#define APPS_COMMON_SHAPED_LINK_H

#include <stdbool.h>

/* Addresses at the near and the far end. */
#define APP_LINK_NEAR "10.45.0.1"
#define APP_LINK_FAR  "10.45.0.2"

/* Makes the link and moves the calling thread to its near end. app_die() with the fix when the
 * kernel refuses, or ip and tc are missing. mbit: 10^6 bit/s. */
void app_link_make(unsigned mbit);
/* Moves the calling thread, and processes that it starts afterwards, to the far end (true) or the
 * near one. Sockets stay where they were opened. */
void app_link_enter(bool far);

#endif
