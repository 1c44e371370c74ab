/* load - lend load --target: a mix of a social network's requests in an open loop.
 *
 *   load_command.c   the command: options, ramp, report
 *   load_run.c       one run at one rate, over an open loop (common/open_loop.h)
 *   load_mix.c       draws the requests
 *   load_form.c      their bytes in HTTP
 *   load_http.c      target over HTTP: checks what the replies have
 *   http_client.c    HTTP/1.1 over kept connections
 *   load_native.c    target over Lend
 *   social_page.c    the measurements of scripts/social.sh as an HTML page
 *
 * Layer: apps. Threads: one. */
#ifndef APPS_LOAD_LOAD_H
#define APPS_LOAD_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/common/open_loop.h"
#include "util/rng.h"

enum load_kind { LOAD_HOME, LOAD_USER, LOAD_GET_MEDIA, LOAD_COMPOSE, LOAD_KINDS };

/* The requests of a load. */
struct load_shape {
	uint32_t share[LOAD_KINDS]; /* shares of the kinds, in any unit */
	uint32_t users;             /* user ids are 0 to users - 1 */
	uint32_t posts;             /* posts of a read, at most */
	uint32_t start;             /* first post of a read, at most */
	uint64_t text;              /* bytes of a post's text, without mentions and URLs */
	uint64_t media;             /* bytes of a post's medium, over Lend */
	bool by_ref;                /* media are put on the memory node, over Lend */
	const char *photo;          /* file of composed posts; NULL: media ids only */
	const char *get_photo;      /* file that get-media reads; NULL: none */
};

/* One request, as drawn. */
struct load_request {
	enum load_kind kind;
	uint32_t user, start, stop;
	uint64_t number; /* different in each request */
};

/* How a request ended. */
struct load_end {
	bool ok;
	bool late;            /* it had no reply in time */
	unsigned code;        /* its status, below LOAD_CODES */
	unsigned posts;       /* posts in the reply of a read */
	uint64_t wrong_bytes; /* wrong bytes in its reply */
	uint64_t bytes;       /* sent and received */
};
enum { LOAD_CODES = 600 };

/* The service that gets the requests. Its owner embeds it, and sets ended and arg after it was
 * opened. */
struct load_target {
	const struct load_target_ops *ops;
	/* Runs in poll(), once for each request that was started. */
	void (*ended)(void *arg, unsigned slot, const struct load_end *end);
	void *arg;
};
struct load_target_ops {
	/* Starts the request of a slot, which has no other. Returns 0 or -errno. */
	int (*start)(struct load_target *target, unsigned slot, const struct load_request *request);
	/* Ends requests that have replies; waits at most so long for the first. Returns 0 or
	 * -errno. */
	int (*poll)(struct load_target *target, lend_ns wait);
	/* Returns the name of a status. text has room for 16 bytes. */
	const char *(*code_name)(unsigned code, char *text);
	void (*close)(struct load_target *target);
};

/* Parses shares "HOME/USER/COMPOSE" or "HOME/USER/GET-MEDIA/COMPOSE". False: it is neither. */
bool load_mix_parse(const char *text, uint32_t share[LOAD_KINDS]);
/* Draws a request. */
void load_mix_draw(const struct load_shape *shape, struct lend_rng *rng, uint64_t number,
		   struct load_request *request);

/* Opens http://HOST:PORT with this many connections; app_die() if nothing answers there. */
struct load_target *load_http_open(const char *url, unsigned connections, lend_ns timeout,
				   const struct load_shape *shape, uint64_t seed);

/* Opens the network in a folder over Lend; app_die() if it has no balancer. */
struct load_target *load_native_open(const char *dir, unsigned connections, lend_ns timeout,
				     const struct load_shape *shape, uint64_t seed)
    __attribute__((weak)); /* needs lend/grpc.h's library */

/* One run. */
struct load_run {
	const struct load_shape *shape;
	struct load_target *target;
	unsigned slots; /* requests in flight, at most */

	/* Results. Those without "all" are of requests that were due after the first tenth. */
	struct app_arrivals arrivals;
	uint64_t by_code[LOAD_CODES]; /* all that failed */
	uint64_t reads, posts;        /* reads that ended well, and posts in their replies */
	uint64_t bytes, ended;
	uint64_t in_time;     /* requests that ended well before the last one started */
	uint64_t wrong_bytes; /* all */
	double in_flight;     /* all: mean number in flight */
	double rate_x_mean;   /* all: the same number, of rate and latency */
	double cpu_seconds;   /* all: of this thread */

	/* The run's own. */
	struct app_load load;
	struct load_slot *slot;
	struct lend_rng rng;
	unsigned busy;
	uint64_t looked; /* ticks when busy was last added up */
	double busy_ticks, latency_ticks;
};
/* Runs for a time at a rate; app_die() if the target fails as a whole. */
void load_run(struct load_run *run, double rate, lend_ns time, lend_ns deadline, uint64_t seed);

#endif
