/* bench - what lat, rate and bw share: a server, sessions to it, and slots of checked calls.
 *
 * Layer: apps. Threads: one. One bench per process. It owns everything that it opened until
 * app_bench_close(). */
#ifndef APPS_COMMON_BENCH_H
#define APPS_COMMON_BENCH_H

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/endpoint_pair.h"

struct app_bench_slot;

struct app_bench {
	struct app_load_args args;
	uint32_t method; /* APP_METHOD_ECHO: replies are compared byte by byte; _SINK: by CRC32C */
	struct app_pair pair;
	lend_session *session;
	struct app_bench_slot *slot;
	struct app_slot **order; /* the slots as load wants them */
	unsigned slots;
	struct app_load load;
	uint64_t *good;       /* by session: calls of this run that ended well */
	double jain;          /* fairness between sessions, see app_bench_report() */
	uint64_t bytes_moved; /* by both ends during the measured run; 0 with --connect */
};

/* Starts the server process or opens it in this thread, connects, and makes one checked call per
 * session. app_die() if one fails. */
void app_bench_open(struct app_bench *bench, const struct app_load_args *args, uint32_t method);
/* Warms up for a tenth of the time, then measures. The results are in bench->load. */
void app_bench_run(struct app_bench *bench);
/* Reports bytes_moved_per_call, cycles_per_call and the fields of app_load_report(). */
void app_bench_report(const struct app_bench *bench, struct app_report *report);
void app_bench_close(struct app_bench *bench);

#endif
