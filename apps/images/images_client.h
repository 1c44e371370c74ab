/* images_client - sends images through the tiers, several at a time, and checks the results.
 * Layer: apps. Threads: the endpoint's. */
#ifndef LEND_APPS_IMAGES_IMAGES_CLIENT_H
#define LEND_APPS_IMAGES_IMAGES_CLIENT_H

#include "apps/images/images_list.h"
#include "util/hist.h"

enum images_by { IMAGES_BY_VALUE, IMAGES_BY_REF, IMAGES_BY_AUTO, IMAGES_BY_NODE, IMAGES_BYS };
extern const char *const images_by_names[]; /* and NULL */

/* Results add up over passes. */
struct images_client {
	struct lend_ep *ep;
	lend_session service; /* the firewall */
	struct lend_mem *mem;
	enum lend_arg_way way; /* way of the pixels */
	enum images_what what; /* operation that requests name */
	const char *out;       /* folder for results, or NULL */
	bool stored;           /* the items' pixels are stored: requests pass their references */

	uint64_t ended, failed;
	enum lend_status status;  /* status of the first request that failed */
	const char *culprit;      /* path of the image of that request */
	unsigned busy;            /* jobs in flight */
	bool timed;               /* whether results are recorded in the histograms from now on */
	struct lend_hist with_ns; /* from the file's bytes to the result in memory */
	struct lend_hist without_ns; /* the same, without decoding and the worker's codec */
};
void images_client_init(struct images_client *client, enum images_by by);
/* Sends an image of one pixel by value; returns the status. Opens another session with the service
 * at this address when the last one has ended. */
enum lend_status images_client_try(struct images_client *client, const char *service);
/* Sends the loaded items of [first, end), at most window at a time, and waits for all of them.
 * After a failure starts no more. Returns the duration. */
lend_ns images_client_pass(struct images_client *client, struct images_item *items, unsigned first,
			   unsigned end, unsigned window);

#endif
