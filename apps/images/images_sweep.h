/* images_sweep - the image service by image size.
 * Layer: apps. Threads: the endpoint's. */
#ifndef LEND_APPS_IMAGES_IMAGES_SWEEP_H
#define LEND_APPS_IMAGES_IMAGES_SWEEP_H

#include "apps/common/report.h"
#include "apps/images/images_client.h"

/* Sends the loaded items of [0, end), cropped to squares of each power of two from 64 pixels to the
 * longest side, and whole. Adds a table to the report. The items are cropped afterwards. */
void images_sweep(struct images_client *client, struct images_list *list, unsigned end,
		  unsigned window, struct app_report *report);

#endif
