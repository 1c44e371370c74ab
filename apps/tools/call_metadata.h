/* call_metadata - metadata on the command line of lend call, and in its output.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_TOOLS_CALL_METADATA_H
#define APPS_TOOLS_CALL_METADATA_H

#include "apps/common/report.h"
#include "lend/metadata.h"

/* Adds "NAME:VALUE" of an option to *metadata, which is made if it is NULL; app_bad() for one that
 * makes no sense. A value is base64 if NAME ends in "-bin". Changes text. */
void call_metadata_take(struct lend_metadata **metadata, const char *option, char *text);
/* Reports the metadata of a reply as an object: a text for each key, or an array of texts if it is
 * repeated. Binary values are base64. */
void call_metadata_report(struct app_report *report, struct lend_ep *ep,
			  const struct lend_call *call, bool trailing);
/* Prints them on standard error, a line for each pair. */
void call_metadata_print(struct lend_ep *ep, const struct lend_call *call, bool trailing);

#endif
