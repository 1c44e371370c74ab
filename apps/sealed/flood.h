/* flood - forged CONNECTs for a server on this machine, and live calls next to them.
 * Layer: apps. Threads: see each part. */
#ifndef APPS_SEALED_FLOOD_H
#define APPS_SEALED_FLOOD_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "lend/rpc.h"

/* Kinds of forged CONNECTs. The first three need no key. */
enum flood_kind {
	FLOOD_NOISE,      /* as long, of another protocol: what the kernel's part costs */
	FLOOD_NO_MAC,     /* mac1 is zero: a scanner */
	FLOOD_WRONG_MAC,  /* mac1 is random */
	FLOOD_REPLAYED,   /* a copy of a valid one, from other addresses */
	FLOOD_NO_COOKIE,  /* valid up to mac1, another attempt each; without a cookie */
	FLOOD_BAD_COOKIE, /* valid up to mac1, with a random cookie */
	FLOOD_KINDS
};
extern const char *const flood_kind_names[FLOOD_KINDS];

union flood_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* The sender: one thread, which owns all of it between start and stop. */
struct flood {
	union flood_address to;
	uint64_t rate; /* datagrams per second */
	bool kind[FLOOD_KINDS];
	uint64_t seed;
	/* Results. */
	uint64_t sent[FLOOD_KINDS];
	uint64_t answers, answer_bytes; /* datagrams that came back */
	uint64_t refused;               /* not sent: the system had no room */
	uint32_t datagram_len;
	lend_ns cpu, time;
	struct flood_sender *sender;
};
/* Parses udp:HOST:PORT of this machine's loopback; app_bad() in one line for anything else. */
void flood_take_address(const char *text, union flood_address *to);
/* Starts to send; app_die() if that is not possible. */
void flood_start(struct flood *f);
void flood_stop(struct flood *f);

/* Live calls at a fixed rate, by the thread that calls these functions. */
struct flood_live {
	uint64_t rate;      /* calls per second */
	uint64_t due, good; /* calls that were due; answered OK within 100 ms */
	double p50_us, p99_us;
	lend_ns time;
	uint64_t sessions, rss; /* server's sessions and memory at the end; rss 0: not known */
	uint64_t drops;         /* datagrams that the server's socket had no room for */
	double server_cpu;      /* share of a processor that the server used; < 0: not known */
};
struct flood_watch;
struct flood_watch *flood_watch_open(const char *address);
/* Makes calls for a time, and fills in the results. */
void flood_watch_run(struct flood_watch *w, lend_ns time, struct flood_live *live);
void flood_watch_close(struct flood_watch *w);

#endif
