/* images - the messages and the configuration that the tiers of the image service share with their
 * client.
 *
 *	client -> firewall -> load balancer -> 2 image servers -> 2 workers      and back
 *
 * A message is two arguments: a head, and pixels in a request or the result in a reply. By
 *reference pixels stay in the client's memory or on a memory node meanwhile. Only the client and
 *the workers read the bytes. Layer: apps. */
#ifndef LEND_APPS_IMAGES_IMAGES_H
#define LEND_APPS_IMAGES_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/common/topology.h"
#include "apps/common/bench_server.h"
#include "apps/images/images_codec.h"
#include "lend/mem.h"
#include "lend/rpc.h"

enum {
	IMAGES_PROCESS =
	    APP_METHOD_IMAGES, /* a request to the service; an image server selects the operation */
	IMAGES_WORK,           /* a request to a worker: IMAGES_WORK + enum images_what */
};

enum {
	IMAGES_HEAD = 32,             /* bytes of a head */
	IMAGES_BYTES_MAX = 256 << 20, /* bytes of the pixels of one image */
	IMAGES_WINDOW_MAX = 64,       /* images in flight */
};
#define IMAGES_TIMEOUT                                                                             \
	UINT64_C(30000000000) /* timeout of calls, operations and unclaimed references */

struct images_head {
	uint32_t number; /* number of the image in the run */
	uint32_t what;   /* enum images_what. In a request: NEAREST; with any other value, the image
			    server chooses the operation */
	struct images_size size;
	uint32_t way;      /* enum lend_arg_way of the pixels */
	uint64_t codec_ns; /* in replies: duration of scaling and encoding */
};
/* Encodes the head of a message: IMAGES_HEAD bytes, little-endian, at any alignment. */
void images_head_store(void *at, const struct images_head *head);
/* Parses a message from the wire. Returns false when it is not such a message, or its head is
 * invalid. */
bool images_message_load(const struct lend_buf *message, struct images_head *head,
			 struct lend_arg *bytes);
/* Does the same with the arguments of a request; the pixels are args[1]. */
bool images_args_load(const struct lend_arg *args, int n, struct images_head *head);
/* Selects the operation of an image, as an image server does. */
enum images_what images_pick(const struct images_head *head);

enum images_role { IMAGES_FIREWALL, IMAGES_BALANCER, IMAGES_SERVER, IMAGES_WORKER, IMAGES_ROLES };
extern const char *const images_role_names[]; /* and NULL */

/* Sets the limits that long messages need, for a tier and for the client. */
void images_config(struct lend_config *config);

/* One tier on its endpoint: a process (lend tier) or a thread. Lives in its owner until the
 * endpoint is closed. */
struct images_tier;
struct images_service { /* argument of a worker's handler */
	struct images_tier *tier;
	enum images_what what;
};
struct images_tier {
	struct lend_ep *ep;
	enum images_role role;
	lend_session next[2]; /* sessions to the next tier; a worker has none */
	const char *next_address[2];
	unsigned nexts, turn;       /* round robin */
	struct lend_mem *mem;       /* memory client of a worker */
	struct images_codec *codec; /* codec of a worker */
	struct images_service service[IMAGES_WHATS];
};
/* Connects to the n addresses in next, which are borrowed until images_tier_close(), or, for a
 * worker, to the memory node; then serves. Returns 0 or -errno. */
int images_tier_open(struct images_tier *tier, struct lend_ep *ep, enum images_role role,
		     const char *const next[], unsigned n, const char *node);
/* Call images_tier_stop() before the endpoint closes, images_tier_close() after it. */
void images_tier_stop(struct images_tier *tier);
void images_tier_close(struct images_tier *tier);
/* Opens what only a worker needs, for images_tier_open(). */
int images_worker_open(struct images_tier *tier, const char *node);

#endif
