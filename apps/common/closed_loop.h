/* closed_loop - a closed loop of requests on one endpoint: as many lanes as should be in flight,
 * each starting its next request when one ends; counts, times and checks them.
 *
 * Layer: apps. Threads: the endpoint's. Lanes and load are the caller's memory.
 */
#ifndef APPS_COMMON_CLOSED_LOOP_H
#define APPS_COMMON_CLOSED_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/common/report.h"
#include "lend/rpc.h"
#include "util/hist.h"

/* Nanoseconds on CLOCK_MONOTONIC; the processor's steady counter where there is one, and how many
 * of its ticks make a nanosecond (measured once, 20 ms). */
lend_ns app_now(void);
uint64_t app_ticks(void);
double app_ticks_per_ns(void);

/* How long a call may take: a time for any, and more for each byte (50 MB/s, on a busy machine). */
#define APP_CALL_NS UINT64_C(5000000000)
enum { APP_BYTE_NS = 20 };

struct app_load;
struct app_arrivals;

/* One request at a time. The caller embeds it in its own struct, which APP_OF() gives. */
#define APP_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
struct app_lane {
	struct app_load *load;
	unsigned index;  /* from 0 */
	bool waiting;    /* start said -EAGAIN */
	uint64_t number; /* of its present request; unique over all lanes */
	uint64_t began_ticks;
};

struct app_load {
	struct lend_ep *ep;
	/* Begins a request of that lane: 0, and app_lane_end() follows exactly once; or a negative
	 * errno, which stops the load (-EAGAIN: tried again in the next turn). */
	int (*start)(struct app_lane *lane);
	int (*poll)(void *arg); /* NULL, or what is turned in place of ep, which is not looked at */
	struct lend_ep *other;  /* NULL, or turned alternately with ep: both ends in one thread */
	void (*between)(void *arg); /* NULL, or what the other end does between its turns */
	void *arg;                  /* of poll and between */
	bool sleep;                 /* turns may sleep; else they poll */
	bool quiet;                 /* no progress line: another thread's matter */
	lend_ns time;               /* how long requests are started; 0: until max */
	uint64_t max;               /* how many requests; 0: until time */

	/* Of an open loop, see open_loop.h. */
	void (*on_end)(struct app_lane *lane, enum lend_status status, uint64_t wrong_bytes);
	struct app_arrivals *arrivals;
	lend_ns left; /* timeout of the call that starts; 0: the usual one */

	/* Results, since app_load_run() began. */
	uint64_t ended;  /* ok or not */
	uint64_t errors; /* ended not ok */
	uint64_t wrong_bytes;
	uint64_t ticks;              /* of the whole run, first start to last end */
	double seconds, cpu_seconds; /* the latter of this thread */
	unsigned lanes;              /* kept in flight */
	struct lend_hist hist;       /* latency in ns of those that went well */
	enum lend_status last;       /* of the last failed one */

	/* The loop's own. */
	uint64_t started, until_ticks;
	lend_ns began;
	double ticks_per_ns;
	bool stopping;
	int failure;
};

/* Runs lanes[0..n) (pointers, for they are embedded) until time or max is reached and all have
 * ended. 0 or the errno that start gave. A first run of the same lanes with a short time warms up.
 */
int app_load_run(struct app_load *load, struct app_lane *const *lanes, unsigned n);
/* One turn of what the load polls; what went wrong is in failure. */
void app_load_turn(struct app_load *load);
/* The request of this lane ended: with that status and so many wrong bytes in what came back. */
void app_lane_end(struct app_lane *lane, enum lend_status status, uint64_t wrong_bytes);

/* Of a histogram of nanoseconds: a quantile in microseconds; p50 <= p99 <= max. */
double app_hist_us(const struct lend_hist *hist, double quantile);
bool app_hist_is_ordered(const struct lend_hist *hist);

/* Adds what another load did at the same time, in another thread. */
void app_load_merge(struct app_load *load, const struct app_load *other);
/* CPU time of the thread that asks, in nanoseconds. */
lend_ns app_cpu_now(void);
/* Calls that ended well, per second. */
double app_load_rate(const struct app_load *load);
/* p50_us, p99_us, mean_us, max_us, calls_per_s, in_flight, errors, wrong_bytes, ... and the self
 * checks: rate x mean latency = in flight within 3 %, p50 <= p99 <= max. */
void app_load_report(const struct app_load *load, struct app_report *report);

/* The bytes that requests carry: request number k of length len is app_pattern(k, len), a place in
 * a seeded block that differs from that of the next numbers. Read only; valid for good, but for
 * places asked for before app_pattern_register(). Lengths up to APP_PATTERN_MAX. */
enum { APP_PATTERN_MAX = 256 << 20, APP_PATTERN_KINDS = 16 };
void app_pattern_init(uint64_t seed, uint64_t len_max); /* app_die() when there is no memory */
void app_pattern_register(struct lend_ep *ep);          /* so that carriers send from it in place */
const void *app_pattern(uint64_t number, uint64_t len);
/* len bytes that app_pattern() gave as a message, sent from where they lie; NULL: no room now. */
struct lend_buf *app_pattern_wrap(struct lend_ep *ep, const void *bytes, uint64_t len);
/* CRC32C of app_pattern(number, len), computed once for each of the kinds of the last few lens. */
uint32_t app_pattern_crc(uint64_t number, uint64_t len);
/* How many bytes of a message differ from app_pattern(number, len); missing or surplus ones count.
 */
uint64_t app_pattern_wrong(const struct lend_buf *message, uint64_t number, uint64_t len);
/* CRC32C and length over a chain of buffers. */
uint32_t app_message_crc(const struct lend_buf *message, uint64_t *len);

#endif
