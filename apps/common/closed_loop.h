/* closed_loop - a closed loop of requests on one endpoint. It has one slot per request in flight; a
 * slot starts its next request when the previous one ends. Counts, times and checks the requests.
 *
 * Layer: apps. Threads: the endpoint's. Slots and load are the caller's memory. */
#ifndef APPS_COMMON_CLOSED_LOOP_H
#define APPS_COMMON_CLOSED_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/common/report.h"
#include "lend/rpc.h"
#include "util/hist.h"

/* app_now() returns nanoseconds of CLOCK_MONOTONIC. app_ticks() returns the processor's
 * constant-rate counter where there is one, else the same clock. app_ticks_per_ns() returns its
 * ticks per nanosecond, measured once for 20 ms. */
lend_ns app_now(void);
uint64_t app_ticks(void);
double app_ticks_per_ns(void);

/* The timeout of a call: a fixed time, and APP_BYTE_NS more for each byte (50 MB/s, for a busy
 * machine). */
#define APP_CALL_NS UINT64_C(5000000000)
enum { APP_BYTE_NS = 20 };

struct app_load;
struct app_arrivals;

/* A slot has one request at a time. The caller embeds it in its own struct, which APP_OF() returns.
 */
#define APP_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
struct app_slot {
	struct app_load *load;
	unsigned index;  /* number of the slot, from 0 */
	bool waiting;    /* start returned -EAGAIN, or a request failed: retries later */
	bool began;      /* a request of this run */
	uint64_t number; /* number of the current request; unique over all slots */
	uint64_t began_ticks;
};

struct app_load {
	struct lend_ep *ep;
	/* Starts a request of that slot. Returns 0, and app_slot_end() follows exactly once; or a
	 * negative errno, which stops the load (except -EAGAIN: retried in a later turn). */
	int (*start)(struct app_slot *slot);
	int (*poll)(void *arg); /* NULL, or polled instead of ep, which is then unused */
	struct lend_ep *other;  /* NULL, or polled alternately with ep: both ends in one thread */
	void (*between)(void *arg); /* NULL, or the other end's work after each of its turns */
	void *arg;                  /* argument of poll and between */
	bool sleep;                 /* turns may sleep; else they poll */
	bool quiet;                 /* no progress line: another thread prints it */
	lend_ns time;               /* period in which requests start; 0: until max */
	uint64_t max;               /* number of requests; 0: until time */

	/* For an open loop, see open_loop.h. */
	void (*on_end)(struct app_slot *slot, enum lend_status status, uint64_t wrong_bytes);
	struct app_arrivals *arrivals;
	lend_ns left; /* timeout of the call that starts; 0: the usual one */

	/* Results, since app_load_run() began. */
	uint64_t ended;  /* ok or not */
	uint64_t errors; /* ended not ok */
	uint64_t wrong_bytes;
	uint64_t ticks; /* duration of the whole run, from the first start to the last end */
	double seconds, cpu_seconds; /* the latter of this thread */
	unsigned slots;              /* that began: kept in flight */
	struct lend_hist hist;       /* latency of successful requests, ns */
	enum lend_status last;       /* status of the last failed request */

	/* The loop's own. */
	uint64_t started, until_ticks;
	lend_ns began;
	double ticks_per_ns;
	bool stopping;
	int failure;
};

/* Runs slots[0..n), an array of pointers since slots are embedded, until time or max is reached and
 * all requests have ended. Returns 0, or the errno that start returned. To warm up, run the same
 * slots first with a short time. */
int app_load_run(struct app_load *load, struct app_slot *const *slots, unsigned n);
/* Runs one turn of each endpoint that the load polls. On an error sets failure and stops the load.
 */
void app_load_turn(struct app_load *load);
/* Ends the request of this slot with status; wrong_bytes is the number of wrong bytes in its reply.
 */
void app_slot_end(struct app_slot *slot, enum lend_status status, uint64_t wrong_bytes);

/* app_hist_us() returns a quantile in microseconds of a histogram of nanoseconds.
 * app_hist_is_ordered() checks p50 <= p99 <= max. */
double app_hist_us(const struct lend_hist *hist, double quantile);
bool app_hist_is_ordered(const struct lend_hist *hist);

/* Adds the results of another load that ran at the same time in another thread. */
void app_load_merge(struct app_load *load, const struct app_load *other);
/* Returns the CPU time of the calling thread in nanoseconds. */
lend_ns app_cpu_now(void);
/* Returns the successful calls per second. */
double app_load_rate(const struct app_load *load);
/* Reports p50_us, p99_us, mean_us, max_us, calls_per_s, in_flight, errors, wrong_bytes, ... and the
 * self checks: rate x mean latency = in flight within 3 %, p50 <= p99 <= max. */
void app_load_report(const struct app_load *load, struct app_report *report);

/* The payload of requests. Request number k of length len carries app_pattern(k, len), a range of a
 * seeded block; consecutive numbers start at different offsets. The bytes are read only. A pointer
 * stays valid, except that app_pattern_register() invalidates earlier ones. Lengths up to
 * APP_PATTERN_MAX. */
enum { APP_PATTERN_MAX = 256 << 20, APP_PATTERN_KINDS = 16 };
void app_pattern_init(uint64_t seed, uint64_t len_max); /* app_die() when there is no memory */
void app_pattern_register(struct lend_ep *ep);          /* registers it for zero-copy send */
const void *app_pattern(uint64_t number, uint64_t len);
/* Wraps len bytes that app_pattern() returned as a message, without a copy. NULL: no buffer is free
 * now. */
struct lend_buf *app_pattern_wrap(struct lend_ep *ep, const void *bytes, uint64_t len);
/* Returns the CRC32C of app_pattern(number, len). The sums of all patterns of the last len are
 * cached. */
uint32_t app_pattern_crc(uint64_t number, uint64_t len);
/* Returns how many bytes of a message differ from app_pattern(number, len), including missing and
 * surplus bytes. */
uint64_t app_pattern_wrong(const struct lend_buf *message, uint64_t number, uint64_t len);
/* Returns the CRC32C of a chain of buffers, and its length in *len. */
uint32_t app_message_crc(const struct lend_buf *message, uint64_t *len);

#endif
